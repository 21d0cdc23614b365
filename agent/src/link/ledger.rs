//! Which instructions are under way and which have a result: what makes it harmless to receive one twice.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_proto::v1;

use crate::port::Done;

/// A result is kept at least this long, in milliseconds, so that a server that was away for a restart still hears of it
/// although the instruction's deadline passed in between.
const KEEP_RESULT_MS: i64 = 10 * 60_000;

/// Results and subjects that are remembered at most; the oldest go first. A server that hears nothing of a forgotten one sends
/// the instruction again, and carrying it out twice changes nothing. At about 200 bytes each this is some 2 MB.
const MOST_REMEMBERED: usize = 10_000;

/// What to do about an instruction that has arrived.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Begin it.
    CarryOut,
    /// It has begun; its result will come.
    UnderWay,
    /// Answer this; there is nothing to do.
    Answer(v1::Ack),
}

#[derive(Debug)]
struct UnderWay {
    epoch: u64,
    deadline: i64,
}

#[derive(Debug)]
struct Kept {
    ack: v1::Ack,
    keep_until: i64,
    /// Position in the order of results.
    number: u64,
}

#[derive(Debug)]
struct Newest {
    /// Epoch and generation.
    rank: (u64, u64),
    keep_until: i64,
}

/// The memory of instructions.
#[derive(Debug, Default)]
pub struct Ledger {
    under_way: BTreeMap<String, UnderWay>,
    results: BTreeMap<String, Kept>,
    /// Ids of `results`, oldest first.
    order: BTreeSet<(u64, String)>,
    next_number: u64,
    /// The newest instruction on each subject.
    newest: BTreeMap<String, Newest>,
}

impl Ledger {
    /// Judges `instruction` and, when the verdict is [`Verdict::CarryOut`], remembers that it is under way.
    pub fn judge(&mut self, instruction: &v1::Instruction, highest_epoch: u64, now: i64) -> Verdict {
        if instruction.epoch < highest_epoch {
            let why = format!("epoch {} is over, {highest_epoch} has begun", instruction.epoch);
            return refuse(instruction, v1::Outcome::Stale, why);
        }
        if let Some(result) = self.results.get(&instruction.id) {
            return Verdict::Answer(result.ack.clone());
        }
        if self.under_way.contains_key(&instruction.id) {
            return Verdict::UnderWay;
        }
        if instruction.action.is_none() {
            let why = format!("agent {} does not know this kind of instruction", env!("CARGO_PKG_VERSION"));
            return refuse(instruction, v1::Outcome::Unsupported, why);
        }
        let rank = (instruction.epoch, instruction.generation);
        if let Some(newest) = self.newest.get(&instruction.subject).filter(|newest| newest.rank > rank) {
            let why = format!("generation {} on {} has been seen", newest.rank.1, instruction.subject);
            return refuse(instruction, v1::Outcome::Stale, why);
        }
        if instruction.deadline_ms <= now {
            let why = format!("it arrived {} ms after its deadline", now - instruction.deadline_ms);
            return refuse(instruction, v1::Outcome::Failed, why);
        }
        self.begin(instruction, rank, now);
        Verdict::CarryOut
    }

    /// Keeps the result of an instruction and returns what to tell the server; `None` when it was not under way.
    pub fn finish(&mut self, id: &str, done: Done, now: i64) -> Option<v1::Ack> {
        let UnderWay { epoch, deadline } = self.under_way.remove(id)?;
        let ack = v1::Ack { instruction_id: id.to_owned(), epoch, outcome: done.outcome.into(), detail: done.detail };
        let keep_until = deadline.max(now.saturating_add(KEEP_RESULT_MS));
        self.next_number += 1;
        self.order.insert((self.next_number, id.to_owned()));
        self.results.insert(id.to_owned(), Kept { ack: ack.clone(), keep_until, number: self.next_number });
        if self.results.len() > MOST_REMEMBERED
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.results.remove(&oldest);
        }
        Some(ack)
    }

    /// Results that are remembered, oldest first.
    #[must_use]
    pub fn results(&self) -> Vec<v1::Ack> {
        self.order.iter().filter_map(|(_, id)| self.results.get(id)).map(|result| result.ack.clone()).collect()
    }

    /// Forgets what nobody can ask for any more.
    pub fn prune(&mut self, now: i64) {
        self.results.retain(|id, result| {
            let keep = result.keep_until > now;
            if !keep {
                self.order.remove(&(result.number, id.clone()));
            }
            keep
        });
        self.newest.retain(|_, newest| newest.keep_until > now);
    }

    fn begin(&mut self, instruction: &v1::Instruction, rank: (u64, u64), now: i64) {
        let deadline = instruction.deadline_ms;
        self.under_way.insert(instruction.id.clone(), UnderWay { epoch: instruction.epoch, deadline });
        if self.newest.len() >= MOST_REMEMBERED {
            self.newest.retain(|_, newest| newest.keep_until > now);
        }
        let keep_until = deadline.max(self.newest.get(&instruction.subject).map_or(0, |newest| newest.keep_until));
        self.newest.insert(instruction.subject.clone(), Newest { rank, keep_until });
    }
}

fn refuse(instruction: &v1::Instruction, outcome: v1::Outcome, detail: String) -> Verdict {
    Verdict::Answer(v1::Ack {
        instruction_id: instruction.id.clone(),
        epoch: instruction.epoch,
        outcome: outcome.into(),
        detail,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::Outcome;

    fn drain(id: &str, epoch: u64, generation: u64) -> v1::Instruction {
        v1::Instruction {
            id: id.into(),
            epoch,
            generation,
            deadline_ms: 1_000,
            remaining_ms: None,
            subject: "nodeclaim/a".into(),
            action: Some(v1::instruction::Action::DrainNode(v1::DrainNode::default())),
        }
    }

    fn outcome(verdict: Verdict) -> Outcome {
        match verdict {
            Verdict::Answer(ack) => ack.outcome(),
            other => panic!("{other:?} is no answer"),
        }
    }

    #[test]
    fn an_instruction_is_begun_once_and_its_result_is_repeated() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.judge(&drain("1", 3, 1), 3, 0), Verdict::CarryOut);
        assert_eq!(ledger.judge(&drain("1", 3, 1), 3, 0), Verdict::UnderWay);
        let ack = ledger.finish("1", Done::well(), 0).unwrap();
        // Also when a later owner of the cluster sends it, whose epoch is higher.
        assert_eq!(ledger.judge(&drain("1", 4, 1), 4, 0), Verdict::Answer(ack));
        assert_eq!(ledger.finish("1", Done::well(), 0), None);
    }

    #[test]
    fn older_epochs_and_generations_are_refused() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.judge(&drain("5", 3, 5), 3, 0), Verdict::CarryOut);
        assert_eq!(outcome(ledger.judge(&drain("4", 3, 4), 3, 0)), Outcome::Stale);
        assert_eq!(outcome(ledger.judge(&drain("9", 2, 9), 3, 0)), Outcome::Stale);
        // A higher epoch counts its generations anew.
        assert_eq!(ledger.judge(&drain("1", 4, 1), 3, 0), Verdict::CarryOut);
        // Another subject has generations of its own.
        let other = v1::Instruction { subject: "nodeclaim/b".into(), ..drain("2", 4, 0) };
        assert_eq!(ledger.judge(&other, 4, 0), Verdict::CarryOut);
    }

    #[test]
    fn what_is_late_or_unknown_is_not_begun() {
        let mut ledger = Ledger::default();
        assert_eq!(outcome(ledger.judge(&drain("1", 1, 1), 1, 1_000)), Outcome::Failed);
        let unknown = v1::Instruction { action: None, ..drain("1", 1, 1) };
        assert_eq!(outcome(ledger.judge(&unknown, 1, 0)), Outcome::Unsupported);
        assert_eq!(ledger.judge(&drain("1", 1, 1), 1, 999), Verdict::CarryOut);
    }

    #[test]
    fn results_are_kept_ten_minutes_and_up_to_the_deadline() {
        let mut ledger = Ledger::default();
        let far = v1::Instruction { deadline_ms: 3_600_000, ..drain("far", 1, 2) };
        assert_eq!(ledger.judge(&drain("near", 1, 1), 1, 0), Verdict::CarryOut);
        assert_eq!(ledger.judge(&far, 1, 0), Verdict::CarryOut);
        for id in ["near", "far"] {
            ledger.finish(id, Done::well(), 100).unwrap();
        }
        // near: 100 + 600,000 is later than its deadline of 1,000. far: its deadline of 3,600,000 is later.
        for (now, expected) in [(600_099, vec!["near", "far"]), (600_100, vec!["far"]), (3_600_000, vec![])] {
            ledger.prune(now);
            let ids: Vec<String> = ledger.results().into_iter().map(|ack| ack.instruction_id).collect();
            assert_eq!(ids, expected, "at {now}");
        }
    }
}
