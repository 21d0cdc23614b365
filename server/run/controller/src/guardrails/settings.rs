//! Guardrail settings. The defaults are wide enough for the bursts of a large cluster and narrow
//! enough that a fault costs minutes of one cluster, not a fleet.

use std::collections::BTreeSet;

use super::Mode;
use model::{ClusterName, MicroUsd, Millis};

#[derive(Debug, Clone)]
pub struct GuardrailSettings {
    /// Mode of the fleet.
    pub mode: Mode,
    /// Clusters in shadow mode, whatever `mode` is.
    pub shadow: BTreeSet<ClusterName>,
    /// Which snapshots are accepted.
    pub quarantine: QuarantineRule,
    pub launches: RateLimitRule,
    /// Rate limits on voluntary removals.
    pub removals: RateLimitRule,
    /// Backoff of launches for one pod.
    pub launch_backoff: LaunchBackoffRule,
    /// When voluntary removals stop.
    pub circuit_breaker: CircuitBreakerRule,
    /// Removals at once of machines that were deleted by hand.
    pub removal: RemovalRule,
    /// How long a drain waits at most for a plan that places its pods; 0 drains at once.
    pub replacement_wait: Millis,
}

impl GuardrailSettings {
    /// Mode that applies to `cluster`.
    #[must_use]
    pub fn mode_of(&self, cluster: &ClusterName) -> Mode {
        if self.shadow.contains(cluster) { Mode::Shadow } else { self.mode }
    }
}

impl Default for GuardrailSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Act,
            shadow: BTreeSet::new(),
            quarantine: QuarantineRule::default(),
            launches: RateLimitRule {
                window: TEN_MINUTES,
                cluster: Bound { machines: 500, usd_per_hour: dollars(1_000), percent: 0, free: 0 },
                fleet: Bound { machines: 2_000, usd_per_hour: dollars(5_000), percent: 0, free: 0 },
            },
            removals: RateLimitRule {
                window: TEN_MINUTES,
                cluster: Bound { machines: 200, usd_per_hour: MicroUsd(0), percent: 50, free: 10 },
                fleet: Bound { machines: 1_000, usd_per_hour: MicroUsd(0), percent: 25, free: 50 },
            },
            launch_backoff: LaunchBackoffRule::default(),
            circuit_breaker: CircuitBreakerRule::default(),
            removal: RemovalRule::default(),
            replacement_wait: Millis::from_secs(15),
        }
    }
}

const TEN_MINUTES: Millis = Millis::from_mins(10);

const fn dollars(amount: i64) -> MicroUsd {
    MicroUsd(amount * 1_000_000)
}

/// Which losses are not accepted at once ([`quarantine`](super::quarantine)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuarantineRule {
    /// Loss above this percentage of the previous count is suspicious; 0 accepts every snapshot.
    pub percent: usize,
    /// Delay before a second snapshot is requested. The loss is accepted when that snapshot matches
    /// the first and a second source confirms it.
    pub confirm_after: Millis,
    /// Nodes, NodeClaims or running machines that may always be missing.
    pub free_machines: usize,
    /// Pods that may always be missing.
    pub free_pods: usize,
    /// Objects deleted one by one within this window are counted together; 0 accepts each deletion.
    pub window: Millis,
    /// Above this percentage of a kind, a second source does not suffice to accept the loss.
    pub block_percent: usize,
    /// Such a loss is accepted after this delay; 0 waits for the operator.
    pub block_for: Millis,
}

impl Default for QuarantineRule {
    fn default() -> Self {
        Self {
            percent: 50,
            confirm_after: Millis::from_mins(1),
            free_machines: 3,
            free_pods: 20,
            window: Millis::from_mins(1),
            block_percent: 90,
            block_for: Millis::ZERO,
        }
    }
}

/// Limits within a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitRule {
    /// Length of the window.
    pub window: Millis,
    /// Limit of each cluster.
    pub cluster: Bound,
    /// Limit of all clusters together.
    pub fleet: Bound,
}

/// Limit within a window. Zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Number of machines.
    pub machines: usize,
    /// Sum of their prices per hour.
    pub usd_per_hour: MicroUsd,
    /// Percentage of the machines at the start of the window, rounded up.
    pub percent: usize,
    /// Lower bound of that percentage, in machines.
    pub free: usize,
}

/// Backoff of launches for a pod that is never bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchBackoffRule {
    /// Launches after which the pod waits; 0 disables the backoff.
    pub launches: u32,
    /// First delay; each further launch doubles it.
    pub first_wait: Millis,
    /// Longest delay.
    pub most_wait: Millis,
}

impl Default for LaunchBackoffRule {
    fn default() -> Self {
        Self { launches: 3, first_wait: Millis::from_mins(2), most_wait: Millis::from_hours(1) }
    }
}

/// Thresholds of the circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitBreakerRule {
    /// Window in which outcomes count.
    pub window: Millis,
    /// Minimum number of outcomes for a decision.
    pub least: usize,
    /// Percentage of failures at which the breaker engages; 0 disables it.
    pub engage_percent: usize,
    /// Percentage of failures at which the breaker releases.
    pub release_percent: usize,
}

impl Default for CircuitBreakerRule {
    fn default() -> Self {
        Self { window: TEN_MINUTES, least: 5, engage_percent: 50, release_percent: 20 }
    }
}

/// How many machines deleted by hand are removed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalRule {
    /// Percentage of a cluster's machines, rounded up, that are removed at once when deleted by
    /// hand.
    pub by_hand_percent: usize,
    /// Lower bound of that percentage, in machines.
    pub by_hand_least: usize,
    /// Length of the sliding window for both.
    pub by_hand_window: Millis,
}

impl Default for RemovalRule {
    fn default() -> Self {
        Self { by_hand_percent: 10, by_hand_least: 3, by_hand_window: Millis::from_mins(10) }
    }
}

impl RemovalRule {
    /// How many of `machines` may be removed at once within the window when deleted by hand.
    #[must_use]
    pub fn by_hand(&self, machines: usize) -> usize {
        (machines * self.by_hand_percent).div_ceil(100).max(self.by_hand_least)
    }
}
