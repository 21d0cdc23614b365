//! Loads the input of a decision and plans it again.

use std::collections::BTreeMap;

use controller::DisruptionRequest;
use controller::disruption::selection::{RemovalAnswer, RemovalRecord};
use model::Catalogue;
use model::input::{PlanningInput, Policy};
use model::plan::{Plan, PlanReport};
use planner::{CompileCache, PlannedDecision};

use super::catalogue_cache::CatalogueCache;
use super::codec::{Codec, DecodeError};
use super::delta::{self, Record};
use super::disruption_answer::DisruptionAnswer;
use super::writer::RecordedAnswer;
use super::{ENGINE, content, diff, records, writer};
use store::lease::Scope;
use store::log::{BlobHash, LogChunk, Replay, StoredDecision};
use store::{Archive, StoreError};

/// Why a decision cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log does not have what the decision was made from.
    #[error(
        "decision {number} of {scope} ({kind}) cannot be repeated: what it was made from was not recorded, as with \
         removals that earlier versions recorded; its reasons are in `fleetwright history {number}`"
    )]
    NotRecorded { number: u64, scope: String, kind: String },
    /// Part of the log is missing.
    #[error(
        "decision {number} cannot be replayed: {what} of the log of {scope} is not in the store; it was pruned or deleted"
    )]
    Missing { number: u64, scope: String, what: String },
    /// Part of the log was modified.
    #[error("decision {number} cannot be replayed: {what} was changed after it was written: {why}")]
    Changed { number: u64, what: String, why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A decision with its replay data.
#[derive(Debug)]
pub struct RecordedDecision {
    pub stored: StoredDecision,
    /// Planning input; empty for removals by a method, which are made without a plan.
    pub input: PlanningInput,
    pub planned: RecordedPlan,
    /// Version of the program that decided.
    pub engine: String,
    digests: Digests,
}

/// A recorded plan, with what it was made from besides the planning input.
#[derive(Debug)]
pub enum RecordedPlan {
    Pods {
        plan: Plan,
        report: PlanReport,
    },
    Disruption {
        request: DisruptionRequest,
        answer: Box<DisruptionAnswer>,
    },
    /// Removals by a method.
    Removals(Box<RemovalRecord>),
}

impl RecordedPlan {
    fn of(answer: RecordedAnswer, disruption: Option<DisruptionRequest>) -> Result<Self, DecodeError> {
        match (answer, disruption) {
            (RecordedAnswer::Pods(plan, report), None) => Ok(Self::Pods { plan, report }),
            (RecordedAnswer::Disruption(answer), Some(request)) => {
                Ok(Self::Disruption { request, answer: Box::new(answer) })
            }
            _ => Err(DecodeError("a plan of the kind of its input")),
        }
    }
}

#[derive(Debug)]
struct Digests {
    input_then: Vec<u8>,
    input_read: [u8; 32],
    plan_then: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// Why the input differs from the recorded digest; `None` when it does not.
    pub input: Option<String>,
    /// First difference between the plans; `None` when they are identical.
    pub plan: Option<String>,
    pub input_digest: String,
    pub plan_digest: String,
}

impl ReplayOutcome {
    /// Whether input and plan are identical.
    pub fn is_identical(&self) -> bool {
        self.input.is_none() && self.plan.is_none()
    }
}

/// Loads decisions. Decisions of one segment are cheapest in ascending order.
pub struct LogReader<'s> {
    store: &'s dyn Archive,
    position: Option<SegmentPosition>,
    catalogues: BTreeMap<BlobHash, Catalogue>,
}

/// Position in a segment, with its records.
struct SegmentPosition {
    scope: Scope,
    segment: u64,
    chunks: Vec<LogChunk>,
    sequence: u64,
    records: Vec<Record>,
}

impl<'s> LogReader<'s> {
    /// A reader of the log in `store`.
    pub fn new(store: &'s dyn Archive) -> Self {
        Self { store, position: None, catalogues: BTreeMap::new() }
    }

    /// Loads the decision with its replay data.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub async fn load(&mut self, stored: StoredDecision) -> Result<RecordedDecision, ReplayError> {
        let Some(replay) = stored.decision.replay.clone() else { return Err(not_recorded(&stored)) };
        let position = self.seek(&stored, &replay).await?;
        let records = position.records;
        let row = || format!("the row of decision {} of {}", stored.decision.number, stored.scope.key());
        let changed = |error: DecodeError| changed(&stored, row(), &error);
        let now = writer::decode_moment(&replay.stance).map_err(changed)?;
        let answer = writer::decode_recorded(&replay.plan).map_err(changed)?;
        let digests = |input_read| Digests {
            input_then: replay.input_digest.clone(),
            input_read,
            plan_then: replay.plan_digest.clone(),
        };
        if let RecordedAnswer::Removals(answer) = answer {
            let (input, check) = records::removal::read(&records, now).map_err(changed)?;
            let digests = digests(records::removal::digest(now, &delta::hash_records(&records)));
            self.position = Some(SegmentPosition { records, ..position });
            let planned = RecordedPlan::Removals(Box::new(RemovalRecord { input, check, answer }));
            let (input, engine) = (PlanningInput::default(), replay.engine_version);
            return Ok(RecordedDecision { stored, input, planned, engine, digests });
        }
        let policy_hash = replay.policy.ok_or(DecodeError("a decision with its policy")).map_err(changed)?;
        let policy = self.policy(&stored, &policy_hash).await?;
        for hash in records::catalogues(&records).map_err(changed)? {
            self.fetch_catalogue(&stored, hash).await?;
        }
        let (input, disruption) = records::read(&records, now, policy, &self.catalogues).map_err(changed)?;
        let planned = RecordedPlan::of(answer, disruption).map_err(changed)?;
        let input_read = records::digest(now, &policy_hash, &delta::hash_records(&records));
        self.position = Some(SegmentPosition { records, ..position });
        let digests = digests(input_read);
        Ok(RecordedDecision { stored, input, planned, engine: replay.engine_version, digests })
    }

    /// Applies the events of the decision's segment up to the decision.
    async fn seek(&mut self, stored: &StoredDecision, replay: &Replay) -> Result<SegmentPosition, ReplayError> {
        let known = self.position.take().filter(|position| {
            let same = position.scope == stored.scope && position.segment == replay.segment;
            same && position.sequence <= replay.sequence && position.chunks.len() as u64 >= replay.sequence
        });
        let mut position = match known {
            Some(position) => position,
            None => self.open(stored, replay).await?,
        };
        while position.sequence < replay.sequence {
            let next = position.sequence + 1;
            let event = || format!("event {next} of segment {}", replay.segment);
            let chunk = position.chunks.iter().find(|chunk| chunk.first_sequence == next);
            let chunk = chunk.ok_or_else(|| missing(stored, event()))?;
            let what = || format!("{} of the log of {}", event(), stored.scope.key());
            position.records =
                writer::apply_event(&position.records, chunk).map_err(|error| changed(stored, what(), &error))?;
            position.sequence = next;
        }
        Ok(position)
    }

    async fn open(&self, stored: &StoredDecision, replay: &Replay) -> Result<SegmentPosition, ReplayError> {
        let segment = self.store.log_segment(&stored.scope, replay.segment).await?;
        let segment = segment.ok_or_else(|| missing(stored, format!("segment {}", replay.segment)))?;
        Ok(SegmentPosition {
            scope: stored.scope.clone(),
            segment: replay.segment,
            chunks: segment.chunks,
            sequence: 0,
            records: Vec::new(),
        })
    }

    async fn policy(&self, stored: &StoredDecision, hash: &BlobHash) -> Result<Policy, ReplayError> {
        let bytes = self.blob(stored, "policy", hash).await?;
        writer::decode_policy(&bytes).map_err(|error| changed(stored, format!("policy {hash}"), &error))
    }

    async fn fetch_catalogue(&mut self, stored: &StoredDecision, hash: BlobHash) -> Result<(), ReplayError> {
        if !self.catalogues.contains_key(&hash) {
            let bytes = self.blob(stored, "catalogue", &hash).await?;
            let read = Catalogue::from_bytes(&bytes);
            let read = read.map_err(|error| changed(stored, format!("catalogue {hash}"), &error))?;
            self.catalogues.insert(hash, read);
        }
        Ok(())
    }

    async fn blob(&self, stored: &StoredDecision, kind: &str, hash: &BlobHash) -> Result<Vec<u8>, ReplayError> {
        let what = || format!("{kind} {hash}");
        let blob = self.store.blob(hash).await?.ok_or_else(|| missing(stored, what()))?;
        let bytes = content::unpack(&blob.bytes).map_err(|error| changed(stored, what(), &error))?;
        if content::hash(&bytes) == hash.0 {
            Ok(bytes)
        } else {
            Err(changed(stored, what(), &DecodeError("the content of that hash")))
        }
    }
}

fn not_recorded(stored: &StoredDecision) -> ReplayError {
    let (number, scope, kind) = (stored.decision.number, stored.scope.key(), stored.decision.kind.clone());
    ReplayError::NotRecorded { number, scope, kind }
}

fn missing(stored: &StoredDecision, what: String) -> ReplayError {
    ReplayError::Missing { number: stored.decision.number, scope: stored.scope.key(), what }
}

fn changed(stored: &StoredDecision, what: String, error: &DecodeError) -> ReplayError {
    ReplayError::Changed { number: stored.decision.number, what, why: error.to_string() }
}

impl RecordedDecision {
    pub fn replay(&self) -> ReplayOutcome {
        let input = (self.digests.input_then != self.digests.input_read).then(|| {
            let (then, read) = (hex(&self.digests.input_then), hex(&self.digests.input_read));
            format!("the log holds an input with digest {read}, and the decision was made from one with {then}")
        });
        ReplayOutcome {
            input,
            plan: self.compare(),
            input_digest: hex(&self.digests.input_then),
            plan_digest: hex(&self.digests.plan_then),
        }
    }

    fn compare(&self) -> Option<String> {
        match &self.planned {
            RecordedPlan::Pods { plan, report } => self.compare_pods((plan, report)),
            RecordedPlan::Disruption { request, answer } => self.compare_disruption(request, answer),
            RecordedPlan::Removals(basis) => {
                let RemovalRecord { input, check, answer } = &**basis;
                let again = RemovalAnswer::again(input, check);
                self.difference(&writer::encode_removals(&again), || diff::removals(answer, &again))
            }
        }
    }

    fn compare_pods(&self, then: (&Plan, &PlanReport)) -> Option<String> {
        let again = match planner::plan(&self.input) {
            Ok(again) => again,
            Err(violations) => return Some(refused(&violations)),
        };
        let PlannedDecision { plan, report, failed_checks: _ } = again;
        self.difference(&writer::encode_answer(&plan, &report), || diff::first(&self.input, then, (&plan, &report)))
    }

    fn compare_disruption(&self, request: &DisruptionRequest, then: &DisruptionAnswer) -> Option<String> {
        let mut cache = CompileCache::default();
        let again = match disruption::plan(&self.input, &request.running, &request.settings, &mut cache) {
            Ok(again) => again,
            Err(violations) => return Some(refused(&violations)),
        };
        match DisruptionAnswer::of(&again, &CatalogueCache::default()) {
            Ok(again) => self.difference(&again.encode(), || diff::disruption(&self.input, then, &again)),
            Err(error) => Some(format!("this engine's plan cannot be compared: {error}")),
        }
    }

    /// The first difference that `find` finds, unless `again` has the recorded digest.
    fn difference(&self, again: &[u8], find: impl FnOnce() -> Option<String>) -> Option<String> {
        (content::hash(again).as_slice() != self.digests.plan_then).then(|| {
            find().unwrap_or_else(|| "the recorded plan does not match its digest: the row was modified".to_owned())
        })
    }

    /// Version of the program that decided, when it is not the present one.
    pub fn other_engine(&self) -> Option<&str> {
        Some(self.engine.as_str()).filter(|engine| *engine != ENGINE)
    }
}

fn refused(violations: &[verifier::Violation]) -> String {
    let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
    format!("this engine's plan failed its own check: {}", violations.join("; "))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What was recorded of the plan; `None` without a plan, or when the row is unreadable.
pub fn answer_of(stored: &StoredDecision) -> Option<RecordedAnswer> {
    writer::decode_recorded(&stored.decision.replay.as_ref()?.plan).ok()
}
