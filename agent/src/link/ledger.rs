//! Instructions in progress and results, by which an instruction that is received twice is executed
//! once.

use std::collections::{BTreeMap, BTreeSet};

use fleetwright_proto::v1;

use crate::port::Done;

/// Minimum retention of a result, in milliseconds, so that a server that restarted receives it
/// although the instruction's deadline has passed.
const RESULT_RETENTION_MS: i64 = 10 * 60_000;

/// Maximum number of results and subjects; the oldest are evicted first. A server that received no
/// result for an evicted one sends the instruction again, and executing it twice changes nothing.
/// At about 200 bytes each this is some 2 MB.
const MAX_ENTRIES: usize = 10_000;

/// The action for a received instruction.
#[derive(Debug, Clone, PartialEq)]
pub enum Dispatch {
    Execute,
    /// In progress; the result follows.
    InProgress,
    /// Send this acknowledgement; nothing is executed.
    Reply(v1::Ack),
}

#[derive(Debug)]
struct InProgress {
    epoch: u64,
    deadline: i64,
}

#[derive(Debug)]
struct StoredResult {
    ack: v1::Ack,
    keep_until: i64,
    /// Position in the order of completion.
    number: u64,
}

#[derive(Debug)]
struct LatestRank {
    rank: (u64, u64),
    keep_until: i64,
}

/// The instructions and results of one agent.
#[derive(Debug, Default)]
pub struct Ledger {
    in_progress: BTreeMap<String, InProgress>,
    results: BTreeMap<String, StoredResult>,
    /// Ids of `results`, oldest first.
    order: BTreeSet<(u64, String)>,
    next_number: u64,
    /// The newest instruction on each subject.
    latest: BTreeMap<String, LatestRank>,
}

impl Ledger {
    /// Determines the action for `instruction`. With [`Dispatch::Execute`] the instruction is
    /// registered as in progress.
    pub fn check_instruction(&mut self, instruction: &v1::Instruction, highest_epoch: u64, now: i64) -> Dispatch {
        if instruction.epoch < highest_epoch {
            let why = format!("epoch {} is older than the current epoch {highest_epoch}", instruction.epoch);
            return refuse_instruction(instruction, v1::Outcome::Stale, why);
        }
        if let Some(result) = self.results.get(&instruction.id) {
            return Dispatch::Reply(result.ack.clone());
        }
        if self.in_progress.contains_key(&instruction.id) {
            return Dispatch::InProgress;
        }
        if instruction.action.is_none() {
            let why = format!("agent {} does not support this kind of instruction", env!("CARGO_PKG_VERSION"));
            return refuse_instruction(instruction, v1::Outcome::Unsupported, why);
        }
        let rank = (instruction.epoch, instruction.generation);
        if let Some(newest) = self.latest.get(&instruction.subject).filter(|newest| newest.rank > rank) {
            let why = format!("generation {} of {} was received already", newest.rank.1, instruction.subject);
            return refuse_instruction(instruction, v1::Outcome::Stale, why);
        }
        if instruction.deadline_ms <= now {
            let why = format!("the instruction arrived {} ms after its deadline", now - instruction.deadline_ms);
            return refuse_instruction(instruction, v1::Outcome::Failed, why);
        }
        self.register_instruction(instruction, rank, now);
        Dispatch::Execute
    }

    /// Records the result of an instruction and returns the acknowledgement for the server; `None`
    /// when the instruction was not in progress.
    pub fn finish_instruction(&mut self, id: &str, done: Done, now: i64) -> Option<v1::Ack> {
        let InProgress { epoch, deadline } = self.in_progress.remove(id)?;
        let ack = v1::Ack { instruction_id: id.to_owned(), epoch, outcome: done.outcome.into(), detail: done.detail };
        let keep_until = deadline.max(now.saturating_add(RESULT_RETENTION_MS));
        self.next_number += 1;
        self.order.insert((self.next_number, id.to_owned()));
        self.results.insert(id.to_owned(), StoredResult { ack: ack.clone(), keep_until, number: self.next_number });
        if self.results.len() > MAX_ENTRIES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.results.remove(&oldest);
        }
        Some(ack)
    }

    /// Stored results, oldest first.
    #[must_use]
    pub fn results(&self) -> Vec<v1::Ack> {
        self.order.iter().filter_map(|(_, id)| self.results.get(id)).map(|result| result.ack.clone()).collect()
    }

    pub fn prune_expired(&mut self, now: i64) {
        self.results.retain(|id, result| {
            let keep = result.keep_until > now;
            if !keep {
                self.order.remove(&(result.number, id.clone()));
            }
            keep
        });
        self.latest.retain(|_, newest| newest.keep_until > now);
    }

    fn register_instruction(&mut self, instruction: &v1::Instruction, rank: (u64, u64), now: i64) {
        let deadline = instruction.deadline_ms;
        self.in_progress.insert(instruction.id.clone(), InProgress { epoch: instruction.epoch, deadline });
        if self.latest.len() >= MAX_ENTRIES {
            self.latest.retain(|_, newest| newest.keep_until > now);
        }
        let keep_until = deadline.max(self.latest.get(&instruction.subject).map_or(0, |newest| newest.keep_until));
        self.latest.insert(instruction.subject.clone(), LatestRank { rank, keep_until });
    }
}

fn refuse_instruction(instruction: &v1::Instruction, outcome: v1::Outcome, detail: String) -> Dispatch {
    Dispatch::Reply(v1::Ack {
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
            ..v1::Instruction::default()
        }
    }

    fn outcome(verdict: Dispatch) -> Outcome {
        match verdict {
            Dispatch::Reply(ack) => ack.outcome(),
            other => panic!("{other:?} is no answer"),
        }
    }

    #[test]
    fn an_instruction_is_begun_once_and_its_result_is_repeated() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.check_instruction(&drain("1", 3, 1), 3, 0), Dispatch::Execute);
        assert_eq!(ledger.check_instruction(&drain("1", 3, 1), 3, 0), Dispatch::InProgress);
        let ack = ledger.finish_instruction("1", Done::ok(), 0).unwrap();
        // Also when a later owner of the cluster sends it, whose epoch is higher.
        assert_eq!(ledger.check_instruction(&drain("1", 4, 1), 4, 0), Dispatch::Reply(ack));
        assert_eq!(ledger.finish_instruction("1", Done::ok(), 0), None);
    }

    #[test]
    fn older_epochs_and_generations_are_refused() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.check_instruction(&drain("5", 3, 5), 3, 0), Dispatch::Execute);
        assert_eq!(outcome(ledger.check_instruction(&drain("4", 3, 4), 3, 0)), Outcome::Stale);
        assert_eq!(outcome(ledger.check_instruction(&drain("9", 2, 9), 3, 0)), Outcome::Stale);
        // A higher epoch counts its generations anew.
        assert_eq!(ledger.check_instruction(&drain("1", 4, 1), 3, 0), Dispatch::Execute);
        // Every subject has its own generations.
        let other = v1::Instruction { subject: "nodeclaim/b".into(), ..drain("2", 4, 0) };
        assert_eq!(ledger.check_instruction(&other, 4, 0), Dispatch::Execute);
    }

    #[test]
    fn what_is_late_or_unknown_is_not_begun() {
        let mut ledger = Ledger::default();
        assert_eq!(outcome(ledger.check_instruction(&drain("1", 1, 1), 1, 1_000)), Outcome::Failed);
        let unknown = v1::Instruction { action: None, ..drain("1", 1, 1) };
        assert_eq!(outcome(ledger.check_instruction(&unknown, 1, 0)), Outcome::Unsupported);
        assert_eq!(ledger.check_instruction(&drain("1", 1, 1), 1, 999), Dispatch::Execute);
    }

    #[test]
    fn results_are_kept_ten_minutes_and_up_to_the_deadline() {
        let mut ledger = Ledger::default();
        let far = v1::Instruction { deadline_ms: 3_600_000, ..drain("far", 1, 2) };
        assert_eq!(ledger.check_instruction(&drain("near", 1, 1), 1, 0), Dispatch::Execute);
        assert_eq!(ledger.check_instruction(&far, 1, 0), Dispatch::Execute);
        for id in ["near", "far"] {
            ledger.finish_instruction(id, Done::ok(), 100).unwrap();
        }
        // near: 100 + 600,000 is later than its deadline of 1,000. far: its deadline of 3,600,000
        // is later.
        for (now, expected) in [(600_099, vec!["near", "far"]), (600_100, vec!["far"]), (3_600_000, vec![])] {
            ledger.prune_expired(now);
            let ids: Vec<String> = ledger.results().into_iter().map(|ack| ack.instruction_id).collect();
            assert_eq!(ids, expected, "at {now}");
        }
    }
}
