//! Fleet-wide counters: every replica publishes what it counted in time buckets, and adds the
//! published counters of all others to its own.
//!
//! Only the process that observed an event counts it: a launch is counted by the process that
//! received its outcome, whichever process owns the cluster later. So nothing is counted twice when
//! a cluster moves between replicas, and counts of a stopped process remain in effect. A published
//! bucket holds all counts of its interval, so that publishing is idempotent.

use std::collections::BTreeMap;

use model::{MicroUsd, Millis, Timestamp};

/// Length of a bucket: a sixtieth of the default window, so that remote counts leave a window
/// hardly later than local ones.
pub const BUCKET_LENGTH: Millis = Millis::from_secs(10);

/// Number of machines and their total price per hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachineTotals {
    pub count: usize,
    /// Total price per hour.
    pub cost: MicroUsd,
}

impl MachineTotals {
    /// Adds one machine at `cost` per hour.
    pub(super) fn add(&mut self, cost: MicroUsd) {
        self.count += 1;
        self.cost = MicroUsd(self.cost.0.saturating_add(cost.0));
    }
}

/// What one process counted in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LocalCounters {
    pub joined: usize,
    /// Launches that failed, and machines that did not join in time.
    pub failed: usize,
    pub launched: MachineTotals,
    /// Machines whose voluntary removal was decided.
    pub removed: MachineTotals,
}

/// What a process publishes to the others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CounterSnapshot {
    /// Machines of all its clusters that are not marked for removal.
    pub machines: usize,
    /// Counters by bucket number; a bucket starts at its number times [`BUCKET_LENGTH`].
    pub buckets: BTreeMap<i64, LocalCounters>,
    /// The longest window of any guardrail.
    pub window: Millis,
}

/// Number of the bucket that contains `at`.
#[must_use]
pub fn bucket_of(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(BUCKET_LENGTH.get())
}

/// The counters of the bucket that contains `at`.
pub(super) fn bucket(buckets: &mut BTreeMap<i64, LocalCounters>, at: Timestamp) -> &mut LocalCounters {
    buckets.entry(bucket_of(at)).or_default()
}
