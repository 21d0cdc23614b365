//! The decision log: what every plan was made from, so that anybody can make it again.
//!
//! The engine is a pure function, so a decision can be repeated bit for bit from its input alone. A copy of the input for
//! each decision would be a copy of the cluster a minute; instead the log of a cluster is cut into segments, and a segment
//! holds one whole input, then for each decision what has changed since the one before ([`delta`]). What all decisions
//! share, catalogues and policies, is kept once under its hash ([`content`]).
//!
//! An event is written in the transaction of its decision, and the next one builds on it only when that transaction is
//! known to have ended well; otherwise a new segment begins. So there are no holes, whatever fails, and a segment is never
//! added to by two processes: its number is that of the decision that began it.
//!
//! ```text
//! DecisionInput ─► records ─► delta from the decision before ─► chunk ┐
//!   │        └──────► digest of the input                     ├─► Store::record, one transaction
//!   └─ catalogues, policy ─► blobs by hash; plan ─► digest ───┘
//!
//! decision row ─► its segment up to its sequence ─► records ─► input ─► decide::plan ─► the same digests?
//! ```
//!
//! Not in the log: why an empty or interrupted machine was chosen. No plan is made for those; their reasons stand in words
//! in the decision's row.
//!
//! Reading order: [`records`] (an input as a list), [`delta`], [`tail`] (where the next event goes), [`replay`] (back),
//! [`every`], [`difference`] and [`alternative`] (what people ask of it); [`codec`] and [`content`] are the form of the bytes.

pub(crate) mod alternative;
mod codec;
mod content;
mod delta;
pub(crate) mod difference;
pub(crate) mod every;
mod records;
pub(crate) mod replay;
mod shelf;
mod tail;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use engine::control::{ClusterId, Decision};
use tracing::warn;

use crate::store::lease::Lease;
use crate::store::log::{Blob, BlobHash, Entry};
use crate::store::{Store, StoreError};
use shelf::Shelf;
use tail::Tail;

/// The engine that decides here, as decisions name it.
pub(crate) const ENGINE: &str = env!("CARGO_PKG_VERSION");

/// A content that was written so long ago is written again, in milliseconds: twice a day, far more often than the store lets
/// go of what is not used.
const CONTENT_MS: i64 = 12 * 3_600_000;

/// The writing end, for all clusters of a process.
#[derive(Debug, Default)]
pub(crate) struct DecisionLog {
    /// Where the log of each cluster goes on. Held across a write, so that events of one cluster follow each other.
    tails: Mutex<BTreeMap<ClusterId, Arc<tokio::sync::Mutex<Tail>>>>,
    /// What is known of catalogues.
    shelf: Shelf,
    /// Contents that are known to be in the store, and when they were written last.
    kept: Mutex<BTreeMap<BlobHash, i64>>,
}

impl DecisionLog {
    /// Writes `entry` with everything that it takes to make `decision` again.
    ///
    /// # Errors
    /// As [`Store::record`].
    pub(crate) async fn record(
        &self,
        store: &dyn Store,
        lease: &Lease,
        decision: &Decision,
        mut entry: Entry,
    ) -> Result<(), StoreError> {
        let Some(basis) = &decision.basis else { return store.record(lease, &entry).await };
        let tail = self.tail(&decision.cluster);
        let mut tail = tail.lock().await;
        // Whether this write succeeds is not known before it has: until then the log does not go on from it.
        let before = std::mem::take(&mut *tail);
        let next = match before.next(lease.epoch, decision, basis, &self.shelf) {
            Ok(next) => next,
            Err(ambiguous) => {
                warn!(decision = decision.id.0, %ambiguous, "a decision is recorded without what it takes to replay it");
                return store.record(lease, &entry).await;
            }
        };
        entry.decision.replay = Some(next.replay);
        entry.chunks.push(next.chunk);
        entry.blobs.extend(self.missing(next.contents, decision.at.0));
        store.record(lease, &entry).await?;
        self.note(&entry.blobs, decision.at.0);
        *tail = next.tail;
        Ok(())
    }

    fn tail(&self, cluster: &ClusterId) -> Arc<tokio::sync::Mutex<Tail>> {
        let mut tails = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(tails.entry(cluster.clone()).or_default())
    }

    /// The contents that may not be in the store.
    fn missing(&self, contents: Vec<tail::Content>, now_ms: i64) -> Vec<Blob> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_kept = |hash: &BlobHash| kept.get(hash).is_some_and(|at| now_ms.saturating_sub(*at) < CONTENT_MS);
        contents.iter().filter(|content| !is_kept(&content.hash())).map(tail::Content::blob).collect()
    }

    fn note(&self, blobs: &[Blob], now_ms: i64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(blobs.iter().map(|blob| (blob.hash, now_ms)));
        kept.retain(|_, at| now_ms.saturating_sub(*at) < CONTENT_MS);
    }
}
