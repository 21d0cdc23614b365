//! Where a cluster's log goes on: the segment, the last event, and the marks of its records.

use engine::control::{Decision, DecisionInput};
use engine::input::Policy;
use engine::model::Timestamp;
use engine::model::offering::SharedCatalogue;
use engine::plan::{Plan, PlanReport};

use super::codec::{Coded, Corrupt, FORM, Reader};
use super::delta::{self, Mark, Record};
use super::records::{self, Ambiguous, Wares};
use super::shelf::Shelf;
use super::{ENGINE, content};
use crate::store::log::{Blob, BlobHash, LogChunk, Replay};

/// A segment that began so long ago is followed by another, in milliseconds. The store throws the log away by the day and
/// counts on segments that are shorter than one.
const LONGEST_MS: i64 = 12 * 3_600_000;

/// Events of a segment may take so many bytes before it is followed by another, whatever its first event took: whoever
/// replays the last of them reads them all.
const LARGEST: usize = 256 << 10;

/// Events may take so many times what the first event of their segment took: whole inputs are then a fifth of the log.
const SHARE: usize = 4;

/// Where a cluster's log goes on; as [`Default`] with a new segment.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    segment: Option<Segment>,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    epoch: u64,
    begun_ms: i64,
    /// The last event.
    sequence: u64,
    /// Bytes of the first event.
    first: usize,
    /// Bytes of those after it.
    rest: usize,
    marks: Vec<Mark>,
}

/// A content that decisions share.
#[derive(Debug)]
pub(crate) enum Content {
    Policy(BlobHash, Vec<u8>),
    /// Written out only when the store lacks it.
    Catalogue(BlobHash, SharedCatalogue),
}

impl Content {
    pub(crate) fn hash(&self) -> BlobHash {
        let (Self::Policy(hash, _) | Self::Catalogue(hash, _)) = self;
        *hash
    }

    pub(crate) fn blob(&self) -> Blob {
        match self {
            Self::Policy(_, bytes) => content::blob("policy", bytes),
            Self::Catalogue(_, catalogue) => content::blob("catalogue", &catalogue.to_bytes()),
        }
    }
}

/// What is written with a decision, and where the log goes on when it has been.
pub(crate) struct Next {
    pub(crate) replay: Replay,
    pub(crate) chunk: LogChunk,
    pub(crate) contents: Vec<Content>,
    pub(crate) tail: Tail,
}

impl Tail {
    /// The event of `decision`, made under `epoch` from `basis`.
    pub(super) fn next(
        mut self,
        epoch: u64,
        decision: &Decision,
        basis: &DecisionInput,
        shelf: &Shelf,
    ) -> Result<Next, Ambiguous> {
        let catalogues: Vec<&SharedCatalogue> = basis.input.pools.iter().map(|pool| &pool.catalogue).collect();
        let of_pools: Vec<Wares> = catalogues.iter().map(|catalogue| shelf.wares(catalogue)).collect();
        let records = records::write(&basis.input, &of_pools)?;
        let marks = delta::marks(&records);
        let policy = basis.input.policy.to_bytes();
        let policy_hash = BlobHash(content::hash(&policy));
        let input_digest = records::digest(basis.input.now, &policy_hash, &marks);
        let (mut segment, before) = self.segment_for(epoch, decision);
        let chunk = event(&segment, decision, &before, &marks, &records);
        match segment.sequence {
            1 => segment.first = chunk.bytes.len(),
            _ => segment.rest += chunk.bytes.len(),
        }
        let answer = answer(&basis.plan, &basis.report);
        let replay = Replay {
            segment: segment.number,
            sequence: segment.sequence,
            stance: stance(basis.input.now),
            plan: content::fold(&answer),
            policy: Some(policy_hash),
            catalogues: distinct(&of_pools),
            engine_version: ENGINE.to_owned(),
            input_digest: input_digest.to_vec(),
            plan_digest: content::hash(&answer).to_vec(),
        };
        let mut contents: Vec<Content> = (of_pools.iter().zip(catalogues))
            .map(|(wares, catalogue)| Content::Catalogue(wares.hash, SharedCatalogue::clone(catalogue)))
            .collect();
        contents.sort_by_key(Content::hash);
        contents.dedup_by_key(|content| content.hash());
        contents.push(Content::Policy(policy_hash, policy));
        segment.marks = marks;
        Ok(Next { replay, chunk, contents, tail: Self { segment: Some(segment) } })
    }

    /// The segment with the next event counted, and the marks of the one before it.
    fn segment_for(&mut self, epoch: u64, decision: &Decision) -> (Segment, Vec<Mark>) {
        let goes_on = |segment: &Segment| {
            segment.epoch == epoch
                && decision.at.0.saturating_sub(segment.begun_ms) < LONGEST_MS
                && segment.rest < LARGEST.max(segment.first * SHARE)
        };
        match self.segment.take().filter(goes_on) {
            Some(mut segment) => {
                segment.sequence += 1;
                let before = std::mem::take(&mut segment.marks);
                (segment, before)
            }
            None => {
                let (number, begun_ms) = (decision.id.0, decision.at.0);
                let marks = Vec::new();
                (Segment { number, epoch, begun_ms, sequence: 1, first: 0, rest: 0, marks }, Vec::new())
            }
        }
    }
}

fn distinct(wares: &[Wares]) -> Vec<BlobHash> {
    let mut hashes: Vec<BlobHash> = wares.iter().map(|wares| wares.hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Form, number of the decision, check of the list that results, delta.
fn event(segment: &Segment, decision: &Decision, before: &[Mark], marks: &[Mark], records: &[Record]) -> LogChunk {
    let mut bytes = vec![FORM];
    decision.id.0.put(&mut bytes);
    check(marks).put(&mut bytes);
    bytes.extend(delta::between(before, marks, records));
    LogChunk {
        segment: segment.number,
        first_sequence: segment.sequence,
        last_sequence: segment.sequence,
        at_ms: decision.at.0,
        bytes: if segment.sequence == 1 { content::pack(&bytes) } else { content::fold(&bytes) },
    }
}

fn check(marks: &[Mark]) -> [u8; 8] {
    let hash = content::hash_all(marks.iter().map(|mark| mark.as_slice()));
    std::array::from_fn(|place| hash[place])
}

/// The records after an event.
///
/// # Errors
/// When the event is not one that this program wrote after `before`.
pub(super) fn follow(before: &[Record], chunk: &LogChunk) -> Result<Vec<Record>, Corrupt> {
    let bytes = content::unpack(&chunk.bytes)?;
    let mut from = Reader::new(&bytes);
    form(&mut from)?;
    u64::get(&mut from)?;
    let expected = <[u8; 8]>::get(&mut from)?;
    let records = delta::apply(before, &mut from)?;
    if check(&delta::marks(&records)) == expected { Ok(records) } else { Err(Corrupt("the changes that were written")) }
}

fn form(from: &mut Reader<'_>) -> Result<(), Corrupt> {
    if from.take(1, "a form")?[0] == FORM { Ok(()) } else { Err(Corrupt("a form that this program knows")) }
}

/// What was believed beyond the records: the moment.
fn stance(now: Timestamp) -> Vec<u8> {
    let mut bytes = vec![FORM];
    now.put(&mut bytes);
    bytes
}

/// The moment that [`stance`] wrote.
pub(super) fn read_stance(bytes: &[u8]) -> Result<Timestamp, Corrupt> {
    let mut from = Reader::new(bytes);
    form(&mut from)?;
    let now = Timestamp::get(&mut from)?;
    from.end()?;
    Ok(now)
}

/// What the planner answered, as its digest is taken and as it is kept.
pub(super) fn answer(plan: &Plan, report: &PlanReport) -> Vec<u8> {
    let mut bytes = vec![FORM];
    plan.put(&mut bytes);
    report.put(&mut bytes);
    bytes
}

/// What [`answer`] wrote.
pub(super) fn read_answer(packed: &[u8]) -> Result<(Plan, PlanReport), Corrupt> {
    let bytes = content::unpack(packed)?;
    let mut from = Reader::new(&bytes);
    form(&mut from)?;
    let answer = (Plan::get(&mut from)?, PlanReport::get(&mut from)?);
    from.end()?;
    Ok(answer)
}

/// A policy that a blob holds.
pub(super) fn read_policy(bytes: &[u8]) -> Result<Policy, Corrupt> {
    Policy::from_bytes(bytes)
}
