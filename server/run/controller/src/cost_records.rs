//! What the machines of a cluster have cost, when they are observed, and when it is written.

use std::collections::BTreeMap;

use cost::{CostInterval, CostLedger, MovedShare, ObservedMachine, SavingDecision};
use model::disruption_policy::DisruptionReason;
use model::removal::RemovalReason;
use model::{ClaimName, Millis, Timestamp};

use crate::{Decision, DecisionReason};

/// Machines are observed at most so often while pods come and go.
const OBSERVATION_INTERVAL: Millis = Millis::from_secs(30);

/// The same, after a machine was launched, or has changed its stage: what it costs begins and ends then.
const STAGE_INTERVAL: Millis = Millis::from_secs(1);

/// Costs are written so often: each write is a row for each machine. What machines were used for since the last write is an
/// estimate after a crash.
const WRITE_INTERVAL: Millis = Millis::from_mins(30);

/// What a machine has cost is written so soon after its end, with others that end meanwhile. Until then the next owner would charge it
/// until the takeover.
const END_WRITE_DELAY: Millis = Millis::from_secs(30);

/// What a machine was launched for is kept for this time until the machine is there.
const LAUNCH_WITHIN: Millis = Millis::from_hours(1);

/// The first write follows the first observation within this.
pub(crate) const FIRST_WRITE_WITHIN: Millis = Millis::from_mins(1);

/// What the machines of the cluster have cost under this controller.
#[derive(Debug, Default)]
pub(crate) struct CostRecords {
    ledger: CostLedger,
    observed: Option<Observed>,
    /// Until when an earlier owner has charged.
    restored_until: Option<Timestamp>,
    /// The decision that removes a machine to save its price.
    removed_by: BTreeMap<ClaimName, SavingDecision>,
    /// When a machine was decided whose pods an earlier decision has moved in part, and the shares.
    moved: BTreeMap<ClaimName, (Timestamp, Vec<MovedShare>)>,
    write_at: Timestamp,
    /// When the intervals of machines that are gone are written, if there is any.
    write_ends_at: Option<Timestamp>,
    /// The last write is not confirmed.
    is_writing: bool,
}

/// An observation, and the state at this time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed {
    pub at: Timestamp,
    /// Version of the state of the cluster.
    pub version: u64,
    /// Fingerprint of the stages of its machines.
    pub stages: u64,
}

impl CostRecords {
    /// Continues what an earlier owner wrote.
    pub(crate) fn restore(&mut self, last: Vec<CostInterval>) {
        self.restored_until = last.iter().map(|interval| interval.end).max();
        self.ledger.restore(last);
    }

    /// The last write is stored.
    pub(crate) fn confirm(&mut self) {
        self.is_writing = false;
    }

    /// Whether no machine was observed yet.
    pub(crate) fn is_new(&self) -> bool {
        self.observed.is_none()
    }

    /// The first write is due at `at`.
    pub(crate) fn begin(&mut self, at: Timestamp) {
        self.write_at = at;
    }

    /// Whether a NodeClaim of this time was created after the last write of an earlier owner.
    pub(crate) fn is_after_restored(&self, created: Timestamp) -> bool {
        self.restored_until.is_some_and(|until| created > until)
    }

    /// The decision that removes a machine to save its price.
    pub(crate) fn removed_by(&self, claim: &ClaimName) -> Option<SavingDecision> {
        self.removed_by.get(claim).copied()
    }

    /// When machines are observed next without an event, in this state.
    pub(crate) fn observation_due(&self, version: u64, stages: u64) -> Option<Timestamp> {
        let observed = self.observed?;
        if observed.stages != stages {
            return Some(observed.at + STAGE_INTERVAL);
        }
        if self.ledger.is_idle() {
            return None;
        }
        let change = (observed.version != version).then_some(observed.at + OBSERVATION_INTERVAL);
        [change, self.next_write()].into_iter().flatten().min()
    }

    fn next_write(&self) -> Option<Timestamp> {
        (!self.is_writing).then(|| self.write_ends_at.map_or(self.write_at, |at| at.min(self.write_at)))
    }

    /// Notes which machines a decision removes to save their price. A machine that is replaced first is removed by the decision
    /// that launches for it.
    pub(crate) fn note_decision(&mut self, decision: &Decision) {
        let saving = SavingDecision { number: decision.id.0, at: decision.at };
        if !saves(decision) {
            // What is removed for another reason saves nothing by the decision before.
            for removal in &decision.removals {
                self.removed_by.remove(&removal.claim);
            }
        }
        for claim in saved_machines(decision) {
            self.removed_by.entry(claim.clone()).or_insert(saving);
        }
    }

    /// Notes for whose moved pods a decision launches a machine. All of a machine counts for the decision if that saves.
    pub(crate) fn note_launch(&mut self, claim: ClaimName, moved: Vec<MovedShare>, decision: &Decision) {
        if !moved.is_empty() && saved_machines(decision).next().is_none() {
            self.moved.insert(claim, (decision.at, moved));
        }
    }

    /// For whose moved pods a machine was launched.
    pub(crate) fn moved(&self, claim: &ClaimName) -> &[MovedShare] {
        self.moved.get(claim).map(|(_, moved)| moved.as_slice()).unwrap_or_default()
    }

    /// Forgets the decisions about machines that are gone.
    pub(crate) fn forget_removed(&mut self, is_there: impl Fn(&ClaimName) -> bool, now: Timestamp) {
        self.removed_by.retain(|claim, _| is_there(claim));
        self.moved.retain(|claim, (at, _)| is_there(claim) || now.duration_since(*at) < LAUNCH_WITHIN);
    }

    /// Charges until an observation of all machines. Returns the intervals to write, if it is time for it.
    pub(crate) fn observe(&mut self, observed: Observed, machines: Vec<ObservedMachine>) -> Vec<CostInterval> {
        let now = observed.at;
        self.ledger.observe(now, machines);
        self.observed = Some(observed);
        if self.write_ends_at.is_none() && self.ledger.has_gone_machines() {
            self.write_ends_at = Some(now + END_WRITE_DELAY);
        }
        if self.next_write().is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.write_ends_at = None;
        let mut intervals = self.ledger.take_ended();
        if self.write_at <= now {
            self.write_at = now + WRITE_INTERVAL;
            intervals.extend(self.ledger.running().cloned());
        }
        self.is_writing = !intervals.is_empty();
        intervals
    }
}

/// Whether a decision removes its machines to save their price.
fn saves(decision: &Decision) -> bool {
    matches!(decision.reason, DecisionReason::Disruption(RemovalReason::Empty | RemovalReason::Underutilized))
}

/// The machines that a decision removes to save their price, at once or when they are replaced.
fn saved_machines(decision: &Decision) -> impl Iterator<Item = &ClaimName> {
    let is_removed = saves(decision) && !decision.shadow;
    let removed = decision.removals.iter().filter(move |_| is_removed).map(|removal| &removal.claim);
    let replaced = decision.replacements.iter().filter(|one| one.begun.reason == DisruptionReason::Underutilized);
    removed.chain(replaced.map(|one| &one.claim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecisionId, Removal};
    use cluster::testing::text;

    fn removing(id: u64, claim: &str, reason: RemovalReason) -> Decision {
        let removal = Removal { claim: text(claim), node: text("n"), reason: text("") };
        let at = Timestamp::from_millis(i64::try_from(id).unwrap_or_default());
        let decision = Decision::new(DecisionId(id), text("c"), DecisionReason::Disruption(reason), 0, at);
        Decision { removals: vec![removal], ..decision }
    }

    #[test]
    fn the_decision_counts_by_which_a_machine_goes() {
        let mut records = CostRecords::default();
        let number = |records: &CostRecords, claim: &str| records.removed_by(&text(claim)).map(|saving| saving.number);
        records.note_decision(&removing(1, "a", RemovalReason::Empty));
        records.note_decision(&removing(2, "b", RemovalReason::Empty));
        assert_eq!((number(&records, "a"), number(&records, "b")), (Some(1), Some(2)));
        // Both were not carried out. One is decided again, and the other expires.
        records.note_decision(&removing(3, "a", RemovalReason::Empty));
        records.note_decision(&removing(4, "b", RemovalReason::Expired));
        assert_eq!((number(&records, "a"), number(&records, "b")), (Some(1), None));
        // A shadow decision removes nothing.
        records.note_decision(&Decision { shadow: true, ..removing(5, "c", RemovalReason::Empty) });
        assert_eq!(number(&records, "c"), None);
    }
}
