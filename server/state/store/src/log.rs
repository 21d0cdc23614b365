//! Rows of the decision log.
//!
//! A cluster's log consists of segments. A segment begins with a snapshot; the later events follow
//! in chunks. A decision references its position in the log, and by hash the blobs shared by many
//! decisions (catalogues, policies, pools). A segment spans at most a day, because the log is
//! pruned by day.

use std::fmt;
use std::time::Duration;

use super::holds::HoldStatusRow;
use super::lease::Scope;
use super::operations::Intent;
use super::replacements::ReplacementRow;

/// Hash of a blob; the log defines the hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(pub [u8; 32]);

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Content that many decisions reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Hash of the uncompressed content.
    pub hash: BlobHash,
    /// Content type: `catalogue`, `policy`.
    pub kind: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// A decision with everything that is written in its transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The decision.
    pub decision: DecisionRow,
    /// Intents of the decision.
    pub intents: Vec<Intent>,
    /// Replacements that the decision begins, or gives other places.
    pub replacements: Vec<ReplacementRow>,
    /// What becomes of the holds that the decision gives room to.
    pub holds: Vec<HoldStatusRow>,
    /// Referenced blobs that may be missing in the store.
    pub blobs: Vec<Blob>,
    /// Log events up to the decision.
    pub chunks: Vec<LogChunk>,
}

/// A decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecisionRow {
    /// Decision number: increases with time, unique per cluster.
    pub number: u64,
    /// Decision time, in milliseconds since 1970.
    pub decided_at_ms: i64,
    /// Decision kind.
    pub kind: String,
    /// One-sentence summary for operators.
    pub summary: String,
    /// Reasons as text.
    pub report: String,
    /// Replay data; `None` for decisions of which the log has no input.
    pub replay: Option<Replay>,
    /// What its removals move, as text that the next owner of the cluster reads; empty if they move nothing.
    pub moves: String,
    /// What it launches, replaces and removes, in the encoding of the API; empty in rows of earlier versions.
    pub effects: Vec<u8>,
}

/// Replay data of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Segment number.
    pub segment: u64,
    /// Last event of the segment that the decision is based on.
    pub sequence: u64,
    /// Encoded decision time.
    pub stance: Vec<u8>,
    /// Encoded answer: plan and report, or what a method selected.
    pub plan: Vec<u8>,
    /// Hash of the policy.
    pub policy: Option<BlobHash>,
    /// Hashes of the catalogues.
    pub catalogues: Vec<BlobHash>,
    /// Version of the program that decided.
    pub engine_version: String,
    /// Digest of the input.
    pub input_digest: Vec<u8>,
    /// Digest of the answer.
    pub plan_digest: Vec<u8>,
}

impl Replay {
    /// Hashes of the referenced blobs.
    pub fn hashes(&self) -> impl Iterator<Item = &BlobHash> {
        self.policy.iter().chain(&self.catalogues)
    }
}

/// A decision read from the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDecision {
    /// Scope of the decision.
    pub scope: Scope,
    /// Lease epoch of the decision.
    pub epoch: u64,
    /// The decision row.
    pub decision: DecisionRow,
}

/// Filter and page of a decision query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionFilter {
    /// Restricts to this scope; `None` for all.
    pub scope: Option<Scope>,
    /// Maximum number of rows.
    pub limit: u32,
    /// Restricts to lower decision numbers.
    pub before: Option<u64>,
}

/// Encoded events of a segment, compressed unless they are small. The first chunk of a segment
/// begins with its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// Segment number.
    pub segment: u64,
    /// Sequence of the first event.
    pub first_sequence: u64,
    /// Sequence of the last event.
    pub last_sequence: u64,
    /// Creation time, in milliseconds since 1970; unchanged by a repeated write.
    pub at_ms: i64,
    /// The events.
    pub bytes: Vec<u8>,
}

/// A segment of a cluster's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSegment {
    /// Lease epoch of the writer.
    pub epoch: u64,
    /// Start time, in milliseconds since 1970.
    pub started_ms: i64,
    /// Its chunks, by sequence.
    pub chunks: Vec<LogChunk>,
}

/// Retention periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Decisions and their log. Whole days are dropped, so rows may stay up to a day longer.
    pub log: Duration,
    /// Launches, after they are closed.
    pub ended: Duration,
    /// Leases of clusters without a holder, with their open operations.
    pub clusters: Duration,
    /// What machines have cost.
    pub costs: Duration,
}

impl Default for Retention {
    /// Two weeks of log for incident reviews. One day of closed launches, which only incident
    /// reviews read. Ninety days of a cluster without an agent, which may have been switched off
    /// for a quarter. Thirteen months of costs, so that a month can be compared with the same one a year ago.
    fn default() -> Self {
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        Self { log: days(14), ended: days(1), clusters: days(90), costs: days(400) }
    }
}

/// Number of pruned rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Closed launches.
    pub ended: u64,
    /// Days of decisions and log, and rows outside a day partition.
    pub log: u64,
    /// Unreferenced blobs.
    pub blobs: u64,
    /// Abandoned clusters.
    pub clusters: u64,
}
