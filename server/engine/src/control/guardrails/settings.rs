//! What the rails go by. The defaults are wide enough for the bursts of a large cluster and narrow enough that a fault
//! costs minutes of one cluster, not a fleet.

use std::collections::BTreeSet;

use super::Mode;
use super::removal::RemovalRule;
use crate::control::ClusterId;
use crate::model::MicroUsd;

/// Everything that can be set about the rails. Durations are in milliseconds.
#[derive(Debug, Clone)]
pub struct GuardrailSettings {
    /// Whether anything is done in the fleet.
    pub mode: Mode,
    /// Clusters in which nothing is done, whatever `mode` says.
    pub shadow: BTreeSet<ClusterId>,
    /// Which snapshots are believed.
    pub quarantine: QuarantineRule,
    /// Bounds on launches.
    pub launches: RateLimitRule,
    /// Bounds on voluntary removals.
    pub removals: RateLimitRule,
    /// Launches for one pod.
    pub attempts: LaunchBackoffRule,
    /// When voluntary removals stop in the whole fleet.
    pub brake: CircuitBreakerRule,
    /// What has to speak for a removal.
    pub removal: RemovalRule,
    /// How long a drain waits at most for the plan that gives its pods room; 0 drains at once.
    pub replacement_wait_ms: i64,
    /// Whether the room of its pods is kept for as long as a drain takes. Off for tests that show what follows.
    pub keep_replacements: bool,
}

impl GuardrailSettings {
    /// Whether anything is done in `cluster`.
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
            attempts: LaunchBackoffRule::default(),
            brake: CircuitBreakerRule::default(),
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

/// Which losses are not believed at once ([`quarantine`](super::quarantine)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuarantineRule {
    /// What lacks more than this share of what was there is doubted, in percent; 0 believes everything.
    pub percent: usize,
    /// A second snapshot is asked for after this long; when it agrees with the first, and a second witness does, it is
    /// believed.
    pub confirm_ms: i64,
    /// So many nodes, NodeClaims or running machines may always be missing.
    pub free_machines: usize,
    /// So many pods may always be missing.
    pub free_pods: usize,
    /// Objects that are taken back one by one within this window are counted together; 0 believes each.
    pub window_ms: i64,
    /// What lacks more than this share of a kind is not believed because a second witness agrees, in percent.
    pub hold_percent: usize,
    /// It is believed after this long; 0 waits for a person.
    pub hold_ms: i64,
    /// Whether a second witness is asked for. Off for tests that show what follows.
    pub second_witness: bool,
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
            second_witness: true,
        }
    }
}

/// Bounds within a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitRule {
    /// Length of the window.
    pub window_ms: i64,
    /// For each cluster.
    pub cluster: Bound,
    /// For all clusters together.
    pub fleet: Bound,
}

/// How much may happen within a window. Zero is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Machines.
    pub machines: usize,
    /// What they cost per hour, together.
    pub usd_per_hour: MicroUsd,
    /// LocalCounters of the machines that were there, in percent, rounded up.
    pub percent: usize,
    /// The share never holds back fewer machines than these.
    pub free: usize,
}

/// How often machines are launched for a pod that is never bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchBackoffRule {
    /// Machines after which the pod waits; 0 lets it never wait.
    pub launches: u32,
    /// The first wait; each further machine doubles it.
    pub first_wait_ms: i64,
    /// The longest wait.
    pub most_wait_ms: i64,
}

impl Default for LaunchBackoffRule {
    fn default() -> Self {
        Self { launches: 3, first_wait_ms: 120_000, most_wait_ms: 3_600_000 }
    }
}

/// When launches fail so often that nothing is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitBreakerRule {
    /// How far back outcomes are looked at.
    pub window_ms: i64,
    /// Fewer outcomes than these say nothing.
    pub least: usize,
    /// Voluntary removals stop at this share of failures, in percent; 0 never stops them.
    pub engage_percent: usize,
    /// They go on at this share.
    pub release_percent: usize,
}

impl Default for CircuitBreakerRule {
    fn default() -> Self {
        Self { window_ms: TEN_MINUTES, least: 5, engage_percent: 50, release_percent: 20 }
    }
}
