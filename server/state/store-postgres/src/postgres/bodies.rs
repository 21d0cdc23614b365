//! Encoded columns: the part of a row that no statement reads.
//!
//! Encoded as Protocol Buffers: new fields get new numbers and are absent in older rows. Fields
//! that repeat from row to row come first, so that they form one match in the compression
//! dictionary.

use prost::Message;

use store::compression::MAX_WITH_DICTIONARY;
use store::log::{BlobHash, DecisionRow, LogChunk, Replay};
use store::{StoreError, StoreResult};

/// Request and claim order of a launch.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LaunchOrders {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) request: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) claim_order: String,
}

/// A decision, and the event that it appends to its segment.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DecisionBody {
    #[prost(string, tag = "1")]
    summary: String,
    #[prost(string, tag = "2")]
    report: String,
    #[prost(message, optional, tag = "3")]
    replay: Option<ReplayBody>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(super) event: Option<Vec<u8>>,
    #[prost(string, tag = "5")]
    pub(super) moves: String,
    #[prost(bytes = "vec", tag = "6")]
    effects: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ReplayBody {
    #[prost(string, tag = "1")]
    engine_version: String,
    #[prost(bytes = "vec", optional, tag = "2")]
    policy: Option<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    catalogues: Vec<Vec<u8>>,
    #[prost(uint64, tag = "4")]
    segment: u64,
    #[prost(uint64, tag = "5")]
    sequence: u64,
    #[prost(bytes = "vec", tag = "6")]
    stance: Vec<u8>,
    #[prost(bytes = "vec", tag = "7")]
    plan: Vec<u8>,
    #[prost(bytes = "vec", tag = "8")]
    input_digest: Vec<u8>,
    #[prost(bytes = "vec", tag = "9")]
    plan_digest: Vec<u8>,
}

impl LaunchOrders {
    pub(super) fn read(text: &[u8], what: &'static str) -> StoreResult<Self> {
        Self::decode(text).map_err(|_| unreadable(what, "a launch in an unknown encoding"))
    }
}

impl DecisionBody {
    /// Encodes `decision`, with its event if it is stored in the same row.
    pub(super) fn of(decision: &DecisionRow, event: Option<&LogChunk>) -> Self {
        Self {
            summary: decision.summary.clone(),
            report: decision.report.clone(),
            replay: decision.replay.as_ref().map(ReplayBody::of),
            event: event.map(|chunk| chunk.bytes.clone()),
            moves: decision.moves.clone(),
            effects: decision.effects.clone(),
        }
    }

    pub(super) fn read(text: &[u8], what: &'static str) -> StoreResult<Self> {
        Self::decode(text).map_err(|_| unreadable(what, "a decision in an unknown encoding"))
    }

    /// The decision without the values of its own columns.
    pub(super) fn decision(self, what: &'static str) -> StoreResult<DecisionRow> {
        let replay = self.replay.map(|replay| replay.read(what)).transpose()?;
        let Self { summary, report, moves, effects, .. } = self;
        Ok(DecisionRow { summary, report, replay, moves, effects, ..DecisionRow::default() })
    }

    /// Sequence of the event in its segment.
    pub(super) fn sequence(&self) -> u64 {
        self.replay.as_ref().map_or(0, |replay| replay.sequence)
    }
}

impl ReplayBody {
    fn of(replay: &Replay) -> Self {
        let bytes = |hash: &BlobHash| hash.0.to_vec();
        Self {
            engine_version: replay.engine_version.clone(),
            policy: replay.policy.as_ref().map(bytes),
            catalogues: replay.catalogues.iter().map(bytes).collect(),
            segment: replay.segment,
            sequence: replay.sequence,
            stance: replay.stance.clone(),
            plan: replay.plan.clone(),
            input_digest: replay.input_digest.clone(),
            plan_digest: replay.plan_digest.clone(),
        }
    }

    fn read(self, what: &'static str) -> StoreResult<Replay> {
        Ok(Replay {
            segment: self.segment,
            sequence: self.sequence,
            stance: self.stance,
            plan: self.plan,
            policy: self.policy.map(|bytes| hash(bytes, what)).transpose()?,
            catalogues: self.catalogues.into_iter().map(|bytes| hash(bytes, what)).collect::<Result<_, _>>()?,
            engine_version: self.engine_version,
            input_digest: self.input_digest,
            plan_digest: self.plan_digest,
        })
    }
}

pub(super) fn hash(bytes: Vec<u8>, what: &'static str) -> StoreResult<BlobHash> {
    let length = bytes.len();
    bytes.try_into().map(BlobHash).map_err(|_| unreadable(what, &format!("a hash of {length} bytes")))
}

fn unreadable(what: &'static str, found: &str) -> StoreError {
    StoreError::Unreadable { what, found: found.to_owned() }
}

/// The single event that is stored in the decision's row: small, of the same time, and not the
/// first of its segment, which is a complete input and compresses badly against other events.
pub(super) fn event_of<'e>(decision: &DecisionRow, chunks: &'e [LogChunk]) -> Option<&'e LogChunk> {
    let (replay, [chunk]) = (decision.replay.as_ref()?, chunks) else { return None };
    let last = (chunk.segment, chunk.first_sequence, chunk.last_sequence);
    let fits = last == (replay.segment, replay.sequence, replay.sequence)
        && chunk.first_sequence > 1
        && chunk.at_ms == decision.decided_at_ms
        && chunk.segment <= decision.number
        && chunk.bytes.len() <= MAX_WITH_DICTIONARY;
    fits.then_some(chunk)
}
