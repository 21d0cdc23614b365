//! The decision log: the input of every plan, so that it can be replayed.
//!
//! Plans of pods, plans of disruption, the selection of removals by a disruption method and their check are pure
//! functions, so a decision can be repeated bit for bit from its input. A copy of the input per decision would be a copy of the cluster per minute; instead a cluster's log
//! consists of segments, and a segment holds one complete input, then per decision of its kind the difference
//! from the previous one ([`delta`]). Catalogues and policies, which decisions share, are stored
//! once by hash ([`content`]).
//!
//! An event is written in the transaction of its decision, and the next event builds on it only
//! after that transaction is known to have succeeded; otherwise a new segment begins. So the log
//! has no gaps, and no two processes append to one segment: its number is that of the decision that
//! began it.
//!
//! ```text
//! DecisionInput ─► records ─► delta from the decision before ─► chunk ┐
//!   │        └──────► digest of the input                     ├─► Store::record_decision, one transaction
//!   └─ catalogues, policy ─► blobs by hash; plan ─► digest ───┘
//!
//! decision row ─► its segment up to its sequence ─► records ─► input ─► planner::plan or disruption::plan ─► the
//! same digests?
//! ```
//!
//! A decision to remove machines by a method has no plan: its records are what the method selected from and what
//! the verifier judged ([`records::removal`]). Their replay selects and judges again.
//!
//! Not in the log, and so not repeated: why a machine counts as drifted, empty or unhealthy, or which pods have a
//! place, which are recorded as verdicts on the observed state; which of the selected removals rate limits, freezes
//! and circuit breakers admit, which depends on the whole fleet and is recorded as an answer; the second
//! selection before a drain begins; and the begin of a replacement, which is no decision.
//!
//! The pods of holds are stored in the same encoding ([`held_pods`]).
//!
//! Reading order: [`records`] (an input as a list), [`delta`], [`writer`] (the next event),
//! [`replay`] (back), [`replay_all`], [`diff`] and [`what_if`] (commands on top); [`codec`],
//! [`disruption_answer`] and [`content`] define the bytes.

mod catalogue_cache;
mod codec;
mod content;
mod delta;
pub mod diff;
mod disruption_answer;
pub mod held_pods;
mod records;
pub mod replay;
pub mod replay_all;
pub mod what_if;
mod writer;

pub use controller::disruption::selection::RemovalAnswer;
pub use disruption_answer::DisruptionAnswer;
pub use writer::{ENGINE, RecordedAnswer};

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use controller::disruption::selection::RemovalRecord;
use controller::{Decision, DecisionAnswer, DecisionInput};
use model::removal::RemovalReason;
use model::{ClusterName, Millis, Timestamp};
use tracing::warn;

use catalogue_cache::CatalogueCache;
use store::lease::Lease;
use store::log::{Blob, BlobHash, Entry};
use store::{Store, StoreError};
use writer::SegmentWriter;

/// A blob is rewritten after this time: twice a day, far more often than the store prunes unused
/// blobs.
const CONTENT_REWRITE_INTERVAL: Millis = Millis::from_hours(12);

/// The decisions of a kind have segments of their own: their inputs differ in what each pod of the cluster adds,
/// so that a delta from one kind to the other would be as large as the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PlanKind {
    Pods,
    Disruption,
    /// Removals by the method of this reason, for which no plan is made.
    Removals(RemovalReason),
}

/// What a decision was made from.
enum RecordedInput<'d> {
    Plan(&'d DecisionInput),
    Removals(&'d RemovalRecord),
}

impl<'d> RecordedInput<'d> {
    fn of(decision: &'d Decision) -> Option<Self> {
        let of_plan = decision.basis.as_deref().map(Self::Plan);
        of_plan.or_else(|| decision.removal_record.as_deref().map(Self::Removals))
    }

    fn kind(&self) -> PlanKind {
        match self {
            Self::Plan(basis) => match basis.answer {
                DecisionAnswer::Pods(_) => PlanKind::Pods,
                DecisionAnswer::Disruption { .. } => PlanKind::Disruption,
            },
            Self::Removals(basis) => PlanKind::Removals(basis.input.reason),
        }
    }
}

type SharedWriter = Arc<futures::lock::Mutex<SegmentWriter>>;

/// Writer of the decision log, for all clusters of a process.
#[derive(Debug, Default)]
pub struct DecisionLog {
    /// Segment writers of each cluster. Locked across a store write, so that an event builds on the
    /// one that was written last.
    writers: Mutex<BTreeMap<(ClusterName, PlanKind), SharedWriter>>,
    cache: CatalogueCache,
    /// Blobs known to be stored, with the time of their last write.
    kept: Mutex<BTreeMap<BlobHash, Timestamp>>,
}

impl DecisionLog {
    /// Writes `entry` with the replay data of `decision`.
    ///
    /// # Errors
    /// As [`Store::record_decision`].
    pub async fn record(
        &self,
        store: &dyn Store,
        lease: &Lease,
        decision: &Decision,
        mut entry: Entry,
    ) -> Result<(), StoreError> {
        let Some(basis) = RecordedInput::of(decision) else { return store.record_decision(lease, &entry).await };
        let writer = self.writer(&decision.cluster, basis.kind());
        let mut writer = writer.lock().await;
        // The writer stays reset until the store write is known to have succeeded: after a failure
        // the next decision begins a new segment.
        let before = std::mem::take(&mut *writer);
        let next = match basis {
            RecordedInput::Plan(basis) => before.next(lease.epoch, decision, basis, &self.cache),
            RecordedInput::Removals(basis) => Ok(before.next_removals(lease.epoch, decision, basis)),
        };
        let next = match next {
            Ok(next) => next,
            Err(error) => {
                warn!(decision = decision.id.0, %error, "recorded decision without replay data");
                return store.record_decision(lease, &entry).await;
            }
        };
        entry.decision.replay = Some(next.replay);
        entry.chunks.push(next.chunk);
        entry.blobs.extend(self.missing(next.contents, decision.at));
        store.record_decision(lease, &entry).await?;
        self.mark_stored(&entry.blobs, decision.at);
        *writer = next.writer;
        Ok(())
    }

    fn writer(&self, cluster: &ClusterName, kind: PlanKind) -> SharedWriter {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(writers.entry((cluster.clone(), kind)).or_default())
    }

    /// Blobs that may be missing in the store.
    fn missing(&self, contents: Vec<writer::SharedContent>, now: Timestamp) -> Vec<Blob> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_kept =
            |hash: &BlobHash| kept.get(hash).is_some_and(|at| now.duration_since(*at) < CONTENT_REWRITE_INTERVAL);
        contents.iter().filter(|content| !is_kept(&content.hash())).map(writer::SharedContent::blob).collect()
    }

    fn mark_stored(&self, blobs: &[Blob], now: Timestamp) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(blobs.iter().map(|blob| (blob.hash, now)));
        kept.retain(|_, at| now.duration_since(*at) < CONTENT_REWRITE_INTERVAL);
    }
}
