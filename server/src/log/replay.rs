//! From a decision's row back to its input, and through the engine again.

use std::collections::BTreeMap;

use engine::decide::{self, Decision as Planned};
use engine::input::{PlanningInput, Policy};
use engine::model::Catalogue;
use engine::plan::{Plan, PlanReport};

use super::codec::{Coded, Corrupt};
use super::delta::{self, Record};
use super::difference;
use super::{ENGINE, content, records, tail};
use crate::store::lease::Scope;
use crate::store::log::{BlobHash, LogChunk, Replay, StoredDecision};
use crate::store::{Archive, StoreError};

/// Why a decision cannot be made again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// It was no plan.
    #[error(
        "decision {number} of {scope} ({kind}) was made without a plan, so there is nothing to repeat; its reasons are in \
         `fleetwright history {number}`"
    )]
    NoPlan {
        /// The decision.
        number: u64,
        /// For what.
        scope: String,
        /// What it is about.
        kind: String,
    },
    /// Part of the log is gone.
    #[error(
        "decision {number} cannot be replayed: {what} of the log of {scope} is not in the store; it was let go or deleted"
    )]
    Missing {
        /// The decision.
        number: u64,
        /// For what.
        scope: String,
        /// What is gone.
        what: String,
    },
    /// Part of the log is not what was written.
    #[error("decision {number} cannot be replayed: {what} was changed after it was written: {why}")]
    Changed {
        /// The decision.
        number: u64,
        /// What.
        what: String,
        /// How that shows.
        why: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A decision with everything that it was made from.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Its row.
    pub(crate) stored: StoredDecision,
    /// What the planner looked at.
    pub(crate) input: PlanningInput,
    /// What it answered.
    pub(crate) plan: Plan,
    /// Why.
    pub(crate) report: PlanReport,
    /// The engine that answered.
    pub(crate) engine: String,
    digests: Digests,
}

#[derive(Debug)]
struct Digests {
    input_then: Vec<u8>,
    input_read: [u8; 32],
    plan_then: Vec<u8>,
}

/// How a replay ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Why the input is not the one that was decided on; `None` when it is.
    pub(crate) input: Option<String>,
    /// The first difference between the plans; `None` when there is none.
    pub(crate) plan: Option<String>,
    /// Digest of the input that was decided on.
    pub(crate) input_digest: String,
    /// Digest of the plan that was made.
    pub(crate) plan_digest: String,
}

impl Verdict {
    /// Whether nothing differs.
    pub(crate) fn is_identical(&self) -> bool {
        self.input.is_none() && self.plan.is_none()
    }
}

/// Reads decisions back. Decisions of one segment are cheapest in the order in which they were made.
pub(crate) struct LogReader<'s> {
    store: &'s dyn Archive,
    place: Option<Place>,
    catalogues: BTreeMap<BlobHash, Catalogue>,
}

/// How far a segment has been followed.
struct Place {
    scope: Scope,
    segment: u64,
    chunks: Vec<LogChunk>,
    sequence: u64,
    records: Vec<Record>,
}

impl<'s> LogReader<'s> {
    pub(crate) fn new(store: &'s dyn Archive) -> Self {
        Self { store, place: None, catalogues: BTreeMap::new() }
    }

    /// What the decision was made from.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub(crate) async fn recall(&mut self, stored: StoredDecision) -> Result<Recorded, ReplayError> {
        let Some(replay) = stored.decision.replay.clone() else { return Err(no_plan(&stored)) };
        let place = self.follow(&stored, &replay).await?;
        let records = place.records;
        let row = || format!("the row of decision {} of {}", stored.decision.number, stored.scope.key());
        let changed = |corrupt: Corrupt| changed(&stored, row(), &corrupt);
        let now = tail::read_stance(&replay.stance).map_err(changed)?;
        let (plan, report) = tail::read_answer(&replay.plan).map_err(changed)?;
        let policy_hash = replay.policy.ok_or(Corrupt("a decision with its policy")).map_err(changed)?;
        let policy = self.policy(&stored, &policy_hash).await?;
        for hash in records::catalogues(&records).map_err(changed)? {
            self.fetch_catalogue(&stored, hash).await?;
        }
        let input = records::read(&records, now, policy, &self.catalogues).map_err(changed)?;
        let input_read = records::digest(now, &policy_hash, &delta::marks(&records));
        self.place = Some(Place { records, ..place });
        let digests = Digests { input_then: replay.input_digest, input_read, plan_then: replay.plan_digest };
        Ok(Recorded { stored, input, plan, report, engine: replay.engine_version, digests })
    }

    /// Follows the decision's segment up to it.
    async fn follow(&mut self, stored: &StoredDecision, replay: &Replay) -> Result<Place, ReplayError> {
        let known = self.place.take().filter(|place| {
            let same = place.scope == stored.scope && place.segment == replay.segment;
            same && place.sequence <= replay.sequence && place.chunks.len() as u64 >= replay.sequence
        });
        let mut place = match known {
            Some(place) => place,
            None => self.open(stored, replay).await?,
        };
        while place.sequence < replay.sequence {
            let next = place.sequence + 1;
            let event = || format!("event {next} of segment {}", replay.segment);
            let chunk = place.chunks.iter().find(|chunk| chunk.first_sequence == next);
            let chunk = chunk.ok_or_else(|| missing(stored, event()))?;
            let what = || format!("{} of the log of {}", event(), stored.scope.key());
            place.records = tail::follow(&place.records, chunk).map_err(|corrupt| changed(stored, what(), &corrupt))?;
            place.sequence = next;
        }
        Ok(place)
    }

    async fn open(&self, stored: &StoredDecision, replay: &Replay) -> Result<Place, ReplayError> {
        let segment = self.store.log_of(&stored.scope, replay.segment).await?;
        let segment = segment.ok_or_else(|| missing(stored, format!("segment {}", replay.segment)))?;
        Ok(Place {
            scope: stored.scope.clone(),
            segment: replay.segment,
            chunks: segment.chunks,
            sequence: 0,
            records: Vec::new(),
        })
    }

    async fn policy(&self, stored: &StoredDecision, hash: &BlobHash) -> Result<Policy, ReplayError> {
        let bytes = self.blob(stored, "policy", hash).await?;
        tail::read_policy(&bytes).map_err(|corrupt| changed(stored, format!("policy {hash}"), &corrupt))
    }

    async fn fetch_catalogue(&mut self, stored: &StoredDecision, hash: BlobHash) -> Result<(), ReplayError> {
        if !self.catalogues.contains_key(&hash) {
            let bytes = self.blob(stored, "catalogue", &hash).await?;
            let read = Catalogue::from_bytes(&bytes);
            let read = read.map_err(|corrupt| changed(stored, format!("catalogue {hash}"), &corrupt))?;
            self.catalogues.insert(hash, read);
        }
        Ok(())
    }

    async fn blob(&self, stored: &StoredDecision, kind: &str, hash: &BlobHash) -> Result<Vec<u8>, ReplayError> {
        let what = || format!("{kind} {hash}");
        let blob = self.store.blob(hash).await?.ok_or_else(|| missing(stored, what()))?;
        let bytes = content::unpack(&blob.bytes).map_err(|corrupt| changed(stored, what(), &corrupt))?;
        if content::hash(&bytes) == hash.0 {
            Ok(bytes)
        } else {
            Err(changed(stored, what(), &Corrupt("the content of that hash")))
        }
    }
}

fn no_plan(stored: &StoredDecision) -> ReplayError {
    let (number, scope, kind) = (stored.decision.number, stored.scope.key(), stored.decision.kind.clone());
    ReplayError::NoPlan { number, scope, kind }
}

fn missing(stored: &StoredDecision, what: String) -> ReplayError {
    ReplayError::Missing { number: stored.decision.number, scope: stored.scope.key(), what }
}

fn changed(stored: &StoredDecision, what: String, corrupt: &Corrupt) -> ReplayError {
    ReplayError::Changed { number: stored.decision.number, what, why: corrupt.to_string() }
}

impl Recorded {
    /// Decides again and compares.
    pub(crate) fn replay(&self) -> Verdict {
        let input = (self.digests.input_then != self.digests.input_read).then(|| {
            let (then, read) = (hex(&self.digests.input_then), hex(&self.digests.input_read));
            format!("the log holds an input with digest {read}, and the decision was made from one with {then}")
        });
        Verdict {
            input,
            plan: self.compare(),
            input_digest: hex(&self.digests.input_then),
            plan_digest: hex(&self.digests.plan_then),
        }
    }

    fn compare(&self) -> Option<String> {
        let again = match decide::plan(&self.input) {
            Ok(again) => again,
            Err(violations) => return Some(refused(&violations)),
        };
        let Planned { plan, report, failed_checks: _ } = again;
        if content::hash(&tail::answer(&plan, &report)).as_slice() == self.digests.plan_then {
            return None;
        }
        let found = difference::first(&self.input, (&self.plan, &self.report), (&plan, &report));
        Some(found.unwrap_or_else(|| {
            "the plan that was written down is not the one of its digest: the row was changed".to_owned()
        }))
    }

    /// The engine that decided, when it is not the one that replays.
    pub(crate) fn other_engine(&self) -> Option<&str> {
        Some(self.engine.as_str()).filter(|engine| *engine != ENGINE)
    }
}

fn refused(violations: &[engine::check::Violation]) -> String {
    let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
    format!("this engine's plan failed its own check: {}", violations.join("; "))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the planner answered when the decision was made; `None` without a plan, or when the row cannot be read.
pub(crate) fn answer_of(stored: &StoredDecision) -> Option<(Plan, PlanReport)> {
    tail::read_answer(&stored.decision.replay.as_ref()?.plan).ok()
}
