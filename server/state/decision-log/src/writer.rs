//! Appends to a cluster's log: current segment, last event, and the hashes of its records.

use controller::disruption::selection::{RemovalAnswer, RemovalRecord};
use controller::{Decision, DecisionAnswer, DecisionInput};
use model::input::Policy;
use model::offering::SharedCatalogue;
use model::plan::{Plan, PlanReport};
use model::{MicroUsd, Millis, Timestamp};

use super::catalogue_cache::CatalogueCache;
use super::codec::model::{get_credits, put_credits};
use super::codec::{Codec, DecodeError, FORM, Reader};
use super::content;
use super::delta::{self, Record, RecordHash};
use super::disruption_answer::DisruptionAnswer;
use super::records::{self, CatalogueRef, NotRecordable};
use store::log::{Blob, BlobHash, LogChunk, Replay};

/// Version of this program, as decisions record it.
pub const ENGINE: &str = env!("CARGO_PKG_VERSION");

/// Maximum duration of a segment. The store prunes the log by day and relies on
/// segments shorter than a day.
const LONGEST: Millis = Millis::from_hours(12);

/// Maximum size of a segment's later events, in bytes, regardless of its first event: a replay of
/// the last one reads them all.
const LARGEST: usize = 256 << 10;

/// Maximum size of the later events relative to the first: complete inputs are then a fifth of the
/// log.
const SHARE: usize = 4;

/// Writer of a cluster's log; the default begins a new segment.
#[derive(Debug, Default)]
pub(crate) struct SegmentWriter {
    segment: Option<Segment>,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    epoch: u64,
    begun: Timestamp,
    /// Sequence of the last event.
    sequence: u64,
    /// Size of the first event, in bytes.
    first: usize,
    /// Size of the later events, in bytes.
    rest: usize,
    hashes: Vec<RecordHash>,
}

impl Segment {
    /// What a replay of the last event needs beside it, without policy and catalogues.
    fn replay(&self, now: Timestamp, answer: &[u8], input_digest: Vec<u8>) -> Replay {
        Replay {
            segment: self.number,
            sequence: self.sequence,
            stance: encode_moment(now),
            plan: content::pack_unless_small(answer),
            policy: None,
            catalogues: Vec::new(),
            engine_version: ENGINE.to_owned(),
            input_digest,
            plan_digest: content::hash(answer).to_vec(),
        }
    }
}

/// Content shared by decisions.
#[derive(Debug)]
pub(crate) enum SharedContent {
    Policy(BlobHash, Vec<u8>),
    /// Encoded only when the store lacks it.
    Catalogue(BlobHash, SharedCatalogue),
}

impl SharedContent {
    pub fn hash(&self) -> BlobHash {
        let (Self::Policy(hash, _) | Self::Catalogue(hash, _)) = self;
        *hash
    }

    pub fn blob(&self) -> Blob {
        match self {
            Self::Policy(_, bytes) => content::blob("policy", bytes),
            Self::Catalogue(_, catalogue) => content::blob("catalogue", &catalogue.to_bytes()),
        }
    }
}

/// What is written with a decision, and the writer after a successful write.
pub(crate) struct PreparedEvent {
    pub replay: Replay,
    pub chunk: LogChunk,
    pub contents: Vec<SharedContent>,
    pub(crate) writer: SegmentWriter,
}

impl SegmentWriter {
    /// Prepares the event of `decision`, made under `epoch` from `basis`.
    pub(super) fn next(
        mut self,
        epoch: u64,
        decision: &Decision,
        basis: &DecisionInput,
        cache: &CatalogueCache,
    ) -> Result<PreparedEvent, NotRecordable> {
        let catalogues: Vec<&SharedCatalogue> = basis.input.pools.iter().map(|pool| &pool.catalogue).collect();
        let of_pools: Vec<CatalogueRef> = catalogues.iter().map(|catalogue| cache.reference(catalogue)).collect();
        let (answer, disruption) = match &basis.answer {
            DecisionAnswer::Pods(planned) => (encode_answer(&planned.0, &planned.1), None),
            DecisionAnswer::Disruption { request, plan } => {
                (DisruptionAnswer::of(plan, cache)?.encode(), Some(&**request))
            }
        };
        let records = records::write(&basis.input, &of_pools, disruption)?;
        let hashes = delta::hash_records(&records);
        let policy = basis.input.policy.to_bytes();
        let policy_hash = BlobHash(content::hash(&policy));
        let input_digest = records::digest(basis.input.now, &policy_hash, &hashes);
        // The digest covers the complete record list; the segment decides how much of it is written.
        let (segment, chunk) = self.append(epoch, decision, &records, hashes);
        let replay = Replay {
            policy: Some(policy_hash),
            catalogues: distinct(&of_pools),
            ..segment.replay(basis.input.now, &answer, input_digest.to_vec())
        };
        let mut contents: Vec<SharedContent> = (of_pools.iter().zip(catalogues))
            .map(|(reference, catalogue)| SharedContent::Catalogue(reference.hash, SharedCatalogue::clone(catalogue)))
            .collect();
        contents.sort_by_key(SharedContent::hash);
        contents.dedup_by_key(|content| content.hash());
        contents.push(SharedContent::Policy(policy_hash, policy));
        Ok(PreparedEvent { replay, chunk, contents, writer: Self { segment: Some(segment) } })
    }

    /// Prepares the event of `decision`, whose removals were selected and checked as `basis` says, under `epoch`.
    pub(super) fn next_removals(mut self, epoch: u64, decision: &Decision, basis: &RemovalRecord) -> PreparedEvent {
        let RemovalRecord { input, check, answer } = basis;
        let records = records::removal::write(input, check);
        let hashes = delta::hash_records(&records);
        let answer = encode_removals(answer);
        let input_digest = records::removal::digest(input.now, &hashes).to_vec();
        let (segment, chunk) = self.append(epoch, decision, &records, hashes);
        let replay = segment.replay(input.now, &answer, input_digest);
        PreparedEvent { replay, chunk, contents: Vec::new(), writer: Self { segment: Some(segment) } }
    }

    /// The segment of `decision` with its event, which has these records, and the event.
    fn append(
        &mut self,
        epoch: u64,
        decision: &Decision,
        records: &[Record],
        hashes: Vec<RecordHash>,
    ) -> (Segment, LogChunk) {
        let (mut segment, before) = self.segment_for(epoch, decision);
        let chunk = event(&segment, decision, &before, &hashes, records);
        match segment.sequence {
            1 => segment.first = chunk.bytes.len(),
            _ => segment.rest += chunk.bytes.len(),
        }
        segment.hashes = hashes;
        (segment, chunk)
    }

    /// Selects the segment for the next event; returns it with the hashes of the previous one.
    fn segment_for(&mut self, epoch: u64, decision: &Decision) -> (Segment, Vec<RecordHash>) {
        let continues = |segment: &Segment| {
            segment.epoch == epoch
                && decision.at.duration_since(segment.begun) < LONGEST
                && segment.rest < LARGEST.max(segment.first * SHARE)
        };
        match self.segment.take().filter(continues) {
            Some(mut segment) => {
                segment.sequence += 1;
                let before = std::mem::take(&mut segment.hashes);
                (segment, before)
            }
            None => {
                let (number, begun) = (decision.id.0, decision.at);
                let hashes = Vec::new();
                (Segment { number, epoch, begun, sequence: 1, first: 0, rest: 0, hashes }, Vec::new())
            }
        }
    }
}

fn distinct(reference: &[CatalogueRef]) -> Vec<BlobHash> {
    let mut hashes: Vec<BlobHash> = reference.iter().map(|reference| reference.hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Encodes an event: format version, decision number, checksum of the resulting list, delta.
fn event(
    segment: &Segment,
    decision: &Decision,
    before: &[RecordHash],
    hashes: &[RecordHash],
    records: &[Record],
) -> LogChunk {
    let mut bytes = vec![FORM];
    decision.id.0.put(&mut bytes);
    list_checksum(hashes).put(&mut bytes);
    bytes.extend(delta::between(before, hashes, records));
    LogChunk {
        segment: segment.number,
        first_sequence: segment.sequence,
        last_sequence: segment.sequence,
        at_ms: decision.at.as_millis(),
        bytes: if segment.sequence == 1 { content::pack(&bytes) } else { content::pack_unless_small(&bytes) },
    }
}

fn list_checksum(hashes: &[RecordHash]) -> [u8; 8] {
    let hash = content::hash_all(hashes.iter().map(|hash| hash.as_slice()));
    std::array::from_fn(|place| hash[place])
}

/// Applies an event to `before`.
///
/// # Errors
/// When the event was not written by this program after `before`.
pub(super) fn apply_event(before: &[Record], chunk: &LogChunk) -> Result<Vec<Record>, DecodeError> {
    let bytes = content::unpack(&chunk.bytes)?;
    let mut from = Reader::new(&bytes);
    check_form(&mut from)?;
    u64::get(&mut from)?;
    let expected = <[u8; 8]>::get(&mut from)?;
    let records = delta::apply(before, &mut from)?;
    if list_checksum(&delta::hash_records(&records)) == expected {
        Ok(records)
    } else {
        Err(DecodeError("the changes that were written"))
    }
}

fn check_form(from: &mut Reader<'_>) -> Result<(), DecodeError> {
    if from.take(1, "a format version")?[0] == FORM { Ok(()) } else { Err(DecodeError("a known format version")) }
}

fn encode_moment(now: Timestamp) -> Vec<u8> {
    let mut bytes = vec![FORM];
    now.put(&mut bytes);
    bytes
}

pub(super) fn decode_moment(bytes: &[u8]) -> Result<Timestamp, DecodeError> {
    let mut from = Reader::new(bytes);
    check_form(&mut from)?;
    let now = Timestamp::get(&mut from)?;
    from.end()?;
    Ok(now)
}

/// Encodes plan and report, for their digest and for storage. At the end are the realised cost, the
/// credits of the nodes, and the cost of the first packing of a search, which older answers do not have,
/// and answers without any of them leave out.
pub(super) fn encode_answer(plan: &Plan, report: &PlanReport) -> Vec<u8> {
    let mut bytes = vec![FORM];
    plan.put(&mut bytes);
    report.put(&mut bytes);
    let has_credits = plan.nodes.iter().chain(&plan.static_nodes).any(|node| node.credits != MicroUsd(0));
    if has_credits || report.realised_cost.is_some() || report.first_cost.is_some() {
        report.realised_cost.put(&mut bytes);
        put_credits(plan, &mut bytes);
    }
    if let Some(first) = report.first_cost {
        first.put(&mut bytes);
    }
    bytes
}

/// The first byte of encoded removals by a method; that of a plan of pods is [`FORM`].
const FORM_OF_REMOVALS: u8 = b'R';

/// Encodes what a method selected and what was decided, for their digest and for storage.
pub(super) fn encode_removals(answer: &RemovalAnswer) -> Vec<u8> {
    let mut bytes = vec![FORM_OF_REMOVALS];
    answer.put(&mut bytes);
    bytes
}

/// An answer as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedAnswer {
    Pods(Plan, PlanReport),
    Disruption(DisruptionAnswer),
    /// Removals by a method.
    Removals(RemovalAnswer),
}

pub(super) fn decode_recorded(packed: &[u8]) -> Result<RecordedAnswer, DecodeError> {
    let bytes = content::unpack(packed)?;
    if let Some((&FORM_OF_REMOVALS, answer)) = bytes.split_first() {
        return RemovalAnswer::from_bytes(answer).map(RecordedAnswer::Removals);
    }
    match DisruptionAnswer::decode(&bytes) {
        Some(answer) => answer.map(RecordedAnswer::Disruption),
        None => decode_answer(&bytes).map(|(plan, report)| RecordedAnswer::Pods(plan, report)),
    }
}

/// Decodes a plan with its report.
pub(super) fn decode_answer(bytes: &[u8]) -> Result<(Plan, PlanReport), DecodeError> {
    let mut from = Reader::new(bytes);
    check_form(&mut from)?;
    let (mut plan, mut report) = (Plan::get(&mut from)?, PlanReport::get(&mut from)?);
    if !from.is_empty() {
        report.realised_cost = Codec::get(&mut from)?;
        get_credits(&mut plan, &mut from)?;
    }
    if !from.is_empty() {
        report.first_cost = Some(Codec::get(&mut from)?);
    }
    from.end()?;
    Ok((plan, report))
}

pub(super) fn decode_policy(bytes: &[u8]) -> Result<Policy, DecodeError> {
    Policy::from_bytes(bytes)
}
