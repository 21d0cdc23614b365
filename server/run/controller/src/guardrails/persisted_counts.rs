//! Object counts of a cluster, persisted because the first snapshot after a restart has nothing
//! else to be compared with.
//!
//! Writes are rare. A loss that would make the next process distrust a correct snapshot (a quarter
//! of a kind) is written within [`LOSS_WRITE_DELAY`]. Growth that would make it accept a wrong one
//! (a kind doubled) is written within [`GROWTH_WRITE_DELAY`]. Smaller growth is written within
//! [`DRIFT_WRITE_DELAY`], and changes within the tolerance of a snapshot are not written. A kind
//! cannot keep losing quarters unless it grows in between, so the limits on growth limit all
//! writes.

use super::ObjectCounts;
use super::quarantine::QuarantineRule;
use model::{Millis, Timestamp};

/// Minimum time between two writes for one cluster, after the loss of a quarter.
pub const LOSS_WRITE_DELAY: Millis = Millis::from_secs(2);
/// The same, after a kind has doubled.
pub const GROWTH_WRITE_DELAY: Millis = Millis::from_secs(10);
/// The same, after growth by a quarter.
pub const DRIFT_WRITE_DELAY: Millis = Millis::from_mins(10);

/// What the store holds about the object counts of one cluster.
#[derive(Debug, Default)]
pub struct PersistedCounts {
    /// Counts that a previous process wrote; present until the first accepted snapshot.
    restored: Option<ObjectCounts>,
    /// The last write and its time.
    written: Option<(ObjectCounts, Timestamp)>,
}

impl PersistedCounts {
    /// Restores the counts that a previous process wrote.
    pub fn restore(&mut self, counts: ObjectCounts, now: Timestamp) {
        self.restored = Some(counts);
        // Backdated so that the next change may be written at once.
        self.written = Some((counts, now - DRIFT_WRITE_DELAY));
    }

    /// Counts that a first snapshot is compared with.
    #[must_use]
    pub fn restored(&self) -> ObjectCounts {
        self.restored.unwrap_or_default()
    }

    /// Whether restored counts are still in use.
    #[must_use]
    pub fn is_restored(&self) -> bool {
        self.restored.is_some()
    }

    /// Drops the restored counts: a snapshot was accepted.
    pub fn discard_restored(&mut self) {
        self.restored = None;
    }

    /// When `counts` is to be written; `None` when the persisted value is close enough.
    #[must_use]
    pub fn due(&self, rule: &QuarantineRule, counts: ObjectCounts, now: Timestamp) -> Option<Timestamp> {
        let Some((written, at)) = self.written else { return Some(now) };
        let kinds = [
            (written.nodes, counts.nodes, rule.free_machines),
            (written.claims, counts.claims, rule.free_machines),
            (written.pods, counts.pods, rule.free_pods),
            (written.pools, counts.pools, 0),
        ];
        let waits = kinds.map(|(before, after, free)| write_delay(before, after, free)).into_iter().flatten();
        waits.min().map(|wait| at + wait)
    }

    /// Records that `counts` is being written.
    pub fn record_write(&mut self, counts: ObjectCounts, now: Timestamp) {
        self.written = Some((counts, now));
    }
}

/// Delay of a write after the last one; `None` when the change is too small.
fn write_delay(before: usize, after: usize, free: usize) -> Option<Millis> {
    let change = before.abs_diff(after);
    if change * 2 <= free || change == 0 {
        return None;
    }
    let quarter = change * 4 >= before;
    if after < before {
        quarter.then_some(LOSS_WRITE_DELAY)
    } else if after >= before.saturating_mul(2) {
        Some(GROWTH_WRITE_DELAY)
    } else {
        quarter.then_some(DRIFT_WRITE_DELAY)
    }
}
