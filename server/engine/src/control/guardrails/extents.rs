//! How much there is in a cluster, written down: the first snapshot after a restart has nothing else that it could be compared
//! with.
//!
//! It is written seldom. What would make the next process doubt a good snapshot is written within [`AT_ONCE_MS`]: a kind that has
//! lost a quarter. What would make it believe a bad one is written within [`SOON_MS`]: a kind that has doubled. Smaller growth is
//! written within [`LATE_MS`], and what a snapshot may always lack is not written at all. A kind cannot lose quarters for long
//! unless it grows in between, so the bounds on growth bound all of it.

use super::quarantine::Extent;
use super::settings::QuarantineRule;
use crate::model::Timestamp;

/// Between two writes for one cluster, in milliseconds, when a quarter has gone.
pub const AT_ONCE_MS: i64 = 2_000;
/// The same, when as much as there was has come.
pub const SOON_MS: i64 = 10_000;
/// The same, when a quarter has come.
pub const LATE_MS: i64 = 10 * 60_000;

/// What is known of what is written down about one cluster.
#[derive(Debug, Default)]
pub struct Extents {
    /// What a former process wrote; until the cluster has shown itself.
    recalled: Option<Extent>,
    /// What was written last, and when.
    written: Option<(Extent, Timestamp)>,
}

impl Extents {
    /// A former process wrote this.
    pub fn recall(&mut self, extent: Extent, now: Timestamp) {
        self.recalled = Some(extent);
        // It may be written anew at once.
        self.written = Some((extent, Timestamp(now.0.saturating_sub(LATE_MS))));
    }

    /// What a first snapshot is compared with.
    #[must_use]
    pub fn recalled(&self) -> Extent {
        self.recalled.unwrap_or_default()
    }

    /// Whether a former process knew more of the cluster than this one.
    #[must_use]
    pub fn is_recalled(&self) -> bool {
        self.recalled.is_some()
    }

    /// The cluster has shown itself.
    pub fn shown(&mut self) {
        self.recalled = None;
    }

    /// When `extent` is to be written; `None` when what is written will do.
    #[must_use]
    pub fn due(&self, rule: &QuarantineRule, extent: Extent, now: Timestamp) -> Option<Timestamp> {
        let Some((written, at)) = self.written else { return Some(now) };
        let kinds = [
            (written.nodes, extent.nodes, rule.free_machines),
            (written.claims, extent.claims, rule.free_machines),
            (written.pods, extent.pods, rule.free_pods),
            (written.pools, extent.pools, 0),
        ];
        let waits = kinds.map(|(before, after, free)| wait_ms(before, after, free)).into_iter().flatten();
        waits.min().map(|wait| Timestamp(at.0.saturating_add(wait)))
    }

    /// `extent` is written.
    pub fn note(&mut self, extent: Extent, now: Timestamp) {
        self.written = Some((extent, now));
    }
}

/// How far from the last write a change is written; `None` for one that is too small.
fn wait_ms(before: usize, after: usize, free: usize) -> Option<i64> {
    let change = before.abs_diff(after);
    if change * 2 <= free || change == 0 {
        return None;
    }
    let quarter = change * 4 >= before;
    if after < before {
        quarter.then_some(AT_ONCE_MS)
    } else if after >= before.saturating_mul(2) {
        Some(SOON_MS)
    } else {
        quarter.then_some(LATE_MS)
    }
}
