//! Guardrail settings. The defaults are wide enough for the bursts of a large cluster and narrow
//! enough that a fault costs minutes of one cluster, not a fleet.

use std::collections::BTreeSet;

use super::Mode;
use super::removal::RemovalRule;
use crate::control::ClusterId;
use crate::model::MicroUsd;

/// All guardrail settings. Durations are in milliseconds.
#[derive(Debug, Clone)]
pub struct GuardrailSettings {
    /// Mode of the fleet.
    pub mode: Mode,
    /// Clusters in shadow mode, whatever `mode` is.
    pub shadow: BTreeSet<ClusterId>,
    /// Which snapshots are accepted.
    pub quarantine: QuarantineRule,
    /// Rate limits on launches.
    pub launches: RateLimitRule,
    /// Rate limits on voluntary removals.
    pub removals: RateLimitRule,
    /// Backoff of launches for one pod.
    pub launch_backoff: LaunchBackoffRule,
    /// When voluntary removals stop.
    pub circuit_breaker: CircuitBreakerRule,
    /// Checks of the removal gate.
    pub removal: RemovalRule,
    /// How long a drain waits at most for a plan that places its pods; 0 drains at once.
    pub replacement_wait_ms: i64,
    /// Whether planned replacement capacity is reserved until the drain has ended. Off only in
    /// tests.
    pub keep_replacements: bool,
}

impl GuardrailSettings {
    /// Mode that applies to `cluster`.
    #[must_use]
    pub fn mode_of(&self, cluster: &ClusterId) -> Mode {
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
                window_ms: TEN_MINUTES,
                cluster: Bound { machines: 500, usd_per_hour: dollars(1_000), percent: 0, free: 0 },
                fleet: Bound { machines: 2_000, usd_per_hour: dollars(5_000), percent: 0, free: 0 },
            },
            removals: RateLimitRule {
                window_ms: TEN_MINUTES,
                cluster: Bound { machines: 200, usd_per_hour: MicroUsd(0), percent: 50, free: 10 },
                fleet: Bound { machines: 1_000, usd_per_hour: MicroUsd(0), percent: 25, free: 50 },
            },
            launch_backoff: LaunchBackoffRule::default(),
            circuit_breaker: CircuitBreakerRule::default(),
            removal: RemovalRule::default(),
            replacement_wait_ms: 15_000,
            keep_replacements: true,
        }
    }
}

const TEN_MINUTES: i64 = 600_000;

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
    pub confirm_ms: i64,
    /// Nodes, NodeClaims or running machines that may always be missing.
    pub free_machines: usize,
    /// Pods that may always be missing.
    pub free_pods: usize,
    /// Objects deleted one by one within this window are counted together; 0 accepts each deletion.
    pub window_ms: i64,
    /// Above this percentage of a kind, a second source does not suffice to accept the loss.
    pub hold_percent: usize,
    /// Such a loss is accepted after this delay; 0 waits for the operator.
    pub hold_ms: i64,
    /// Whether a second source is required. Off only in tests.
    pub second_source: bool,
}

impl Default for QuarantineRule {
    fn default() -> Self {
        Self {
            percent: 50,
            confirm_ms: 60_000,
            free_machines: 3,
            free_pods: 20,
            window_ms: 60_000,
            hold_percent: 90,
            hold_ms: 0,
            second_source: true,
        }
    }
}

/// Limits within a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitRule {
    /// Length of the window, in milliseconds.
    pub window_ms: i64,
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
    pub first_wait_ms: i64,
    /// Longest delay.
    pub most_wait_ms: i64,
}

impl Default for LaunchBackoffRule {
    fn default() -> Self {
        Self { launches: 3, first_wait_ms: 120_000, most_wait_ms: 3_600_000 }
    }
}

/// Thresholds of the circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitBreakerRule {
    /// Window in which outcomes count.
    pub window_ms: i64,
    /// Minimum number of outcomes for a decision.
    pub least: usize,
    /// Percentage of failures at which the breaker engages; 0 disables it.
    pub engage_percent: usize,
    /// Percentage of failures at which the breaker releases.
    pub release_percent: usize,
}

impl Default for CircuitBreakerRule {
    fn default() -> Self {
        Self { window_ms: TEN_MINUTES, least: 5, engage_percent: 50, release_percent: 20 }
    }
}
