//! What was decided, and everything that it takes to decide the same again.
//!
//! A cluster's log is cut into segments. A segment begins with a snapshot; the events since then follow in chunks. A
//! decision names the place in the log that it was made at, and by hash whatever is shared by many (catalogues, policies,
//! pools). A segment lasts a day at most: the log is thrown away by the day.

use std::fmt;
use std::time::Duration;

use super::lease::Scope;
use super::undertaking::{DisruptionRow, InstructionRow, Intent};

/// The hash of a content; which function made it is the log's affair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(pub [u8; 32]);

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A content that many decisions share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Its hash.
    pub hash: BlobHash,
    /// What it is: a catalogue, a policy.
    pub kind: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// A decision that changed something, with everything that follows from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The decision.
    pub decision: DecisionRow,
    /// Launches that it intends.
    pub intents: Vec<Intent>,
    /// Disruptions that it begins.
    pub disruptions: Vec<DisruptionRow>,
    /// Instructions that follow at once.
    pub instructions: Vec<InstructionRow>,
    /// Contents that it refers to and that may be new.
    pub blobs: Vec<Blob>,
    /// Events of the log up to it.
    pub chunks: Vec<LogChunk>,
}

/// A decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecisionRow {
    /// Its number: grows with time, unique in its cluster.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub decided_at_ms: i64,
    /// What it is about.
    pub kind: String,
    /// One sentence for people.
    pub summary: String,
    /// Its reasons as text.
    pub report: String,
    /// What it takes to decide the same again; `None` for decisions that no plan was made for.
    pub replay: Option<Replay>,
}

/// What it takes to decide the same again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// The segment of the log.
    pub segment: u64,
    /// The last event that was known.
    pub sequence: u64,
    /// What was believed beyond the log.
    pub stance: Vec<u8>,
    /// The plan.
    pub plan: Vec<u8>,
    /// The policy.
    pub policy: Option<BlobHash>,
    /// The catalogues.
    pub catalogues: Vec<BlobHash>,
    /// The engine that decided.
    pub engine_version: String,
    /// Digest of what the engine was given.
    pub input_digest: Vec<u8>,
    /// Digest of what it answered.
    pub plan_digest: Vec<u8>,
}

impl Replay {
    /// The contents that it refers to.
    pub fn hashes(&self) -> impl Iterator<Item = &BlobHash> {
        self.policy.iter().chain(&self.catalogues)
    }
}

/// A decision as it is read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDecision {
    /// For what.
    pub scope: Scope,
    /// The epoch it was made under.
    pub epoch: u64,
    /// What was decided.
    pub decision: DecisionRow,
}

/// Which decisions are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionFilter {
    /// Those for this scope; `None` for all.
    pub scope: Option<Scope>,
    /// So many at most.
    pub limit: u32,
    /// Those with a lower number.
    pub before: Option<u64>,
}

/// Events of a segment, packed unless they are small. The first chunk of a segment begins with its snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// The segment.
    pub segment: u64,
    /// Number of its first event.
    pub first_sequence: u64,
    /// Number of its last event.
    pub last_sequence: u64,
    /// When it was made, in milliseconds since 1970; the same when it is written again.
    pub at_ms: i64,
    /// The events.
    pub bytes: Vec<u8>,
}

/// A segment of a cluster's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSegment {
    /// The epoch that wrote it.
    pub epoch: u64,
    /// When it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// Its chunks, by sequence.
    pub chunks: Vec<LogChunk>,
}

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Decisions and the log that they are replayed from. Whole days go at a time, so some of it stays a day longer.
    pub log: Duration,
    /// Launches, instructions and disruptions after their end.
    pub ended: Duration,
    /// Leases of clusters that nobody has decided for since, and what was left open under them.
    pub clusters: Duration,
}

impl Default for Retention {
    /// Two weeks of log: long enough to ask why after a holiday. A day of what has ended: its only readers are people who
    /// look into an incident. Ninety days of a cluster without an agent: it may have been put away for a quarter.
    fn default() -> Self {
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        Self { log: days(14), ended: days(1), clusters: days(90) }
    }
}

/// What was let go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Rows of launches, instructions and disruptions.
    pub ended: u64,
    /// Days of decisions and of the log, and rows outside of any such day.
    pub log: u64,
    /// Contents that no decision refers to.
    pub blobs: u64,
    /// Clusters that are gone.
    pub clusters: u64,
}
