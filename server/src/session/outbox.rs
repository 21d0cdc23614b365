//! Instructions that wait for their answer. They outlive streams: every new stream gets them again.

use std::collections::BTreeMap;

use engine::control::{ClusterId, Event, Instruction, InstructionId};
use engine::model::Timestamp;
use fleetwright_proto::v1;

use super::encode;

/// Instructions that may wait in one cluster. Each is at most a few KB (a NodeClaim with 60 launch options in its
/// requirements), so this is some 50 MB; a cluster that leaves that many unanswered is not doing anything any more.
const MOST_OPEN: usize = 10_000;

/// What an acknowledgement meant.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// News for the controller.
    Event(Event),
    /// No instruction waits for it: it was answered before, or belongs to an earlier process.
    Unknown,
}

#[derive(Debug)]
struct Open {
    instruction: Instruction,
    deadline: Timestamp,
    /// The id on the wire; given when it is first sent.
    wire_id: Option<String>,
}

/// The instructions of one cluster.
#[derive(Debug)]
pub struct Outbox {
    cluster: ClusterId,
    /// By number, which is the order in which they were decided and are sent.
    open: BTreeMap<InstructionId, Open>,
}

impl Outbox {
    /// An empty outbox.
    #[must_use]
    pub fn new(cluster: ClusterId) -> Self {
        Self { cluster, open: BTreeMap::new() }
    }

    /// Takes an instruction in. One that is here already stays as it is.
    ///
    /// # Errors
    /// The event that tells the controller that too many are waiting.
    pub fn add(&mut self, id: InstructionId, instruction: Instruction, deadline: Timestamp) -> Result<(), Event> {
        if self.open.len() >= MOST_OPEN && !self.open.contains_key(&id) {
            return Err(self.failed(id, format!("{MOST_OPEN} instructions wait for an answer already")));
        }
        self.open.entry(id).or_insert(Open { instruction, deadline, wire_id: None });
        Ok(())
    }

    /// The message for one instruction under `epoch`.
    pub fn message(&mut self, id: InstructionId, epoch: u64) -> Option<v1::Instruction> {
        let open = self.open.get_mut(&id)?;
        // The number is unique among this process's instructions only; the epoch is this process's alone.
        let wire_id = open.wire_id.get_or_insert_with(|| format!("{epoch}-{}", id.0));
        Some(encode::instruction(wire_id, id, epoch, open.deadline, &open.instruction))
    }

    /// The messages for all instructions, oldest first.
    pub fn open(&mut self, epoch: u64) -> Vec<v1::Instruction> {
        let ids: Vec<InstructionId> = self.open.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.message(id, epoch)).collect()
    }

    /// An answer has come.
    pub fn settle(&mut self, ack: &v1::Ack) -> Settled {
        let Some(id) = number(&ack.instruction_id) else { return Settled::Unknown };
        let known = self.open.get(&id).is_some_and(|open| open.wire_id.as_ref() == Some(&ack.instruction_id));
        if !known {
            return Settled::Unknown;
        }
        self.open.remove(&id);
        Settled::Event(match ack.outcome() {
            v1::Outcome::Done => Event::InstructionAcked { cluster: self.cluster.clone(), instruction: id },
            other => self.failed(id, format!("{}: {}", word(other), ack.detail)),
        })
    }

    /// Gives up what has waited past its deadline.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Event> {
        let late: Vec<InstructionId> =
            self.open.iter().filter(|(_, open)| open.deadline <= now).map(|(id, _)| *id).collect();
        let give_up = |id| {
            self.open.remove(&id);
            self.failed(id, "no answer came before its deadline".to_owned())
        };
        late.into_iter().map(give_up).collect()
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn failed(&self, instruction: InstructionId, reason: String) -> Event {
        Event::InstructionFailed { cluster: self.cluster.clone(), instruction, reason }
    }
}

/// The controller's number in an id on the wire.
fn number(wire_id: &str) -> Option<InstructionId> {
    let (_, number) = wire_id.split_once('-')?;
    number.parse().ok().map(InstructionId)
}

fn word(outcome: v1::Outcome) -> &'static str {
    match outcome {
        v1::Outcome::Done => "done",
        v1::Outcome::Stale => "refused as outdated",
        v1::Outcome::Unsupported => "not supported by the agent",
        v1::Outcome::NotFound => "the object is not there",
        v1::Outcome::Failed | v1::Outcome::Unspecified => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initialize(claim: &str) -> Instruction {
        Instruction::InitializeNode { claim: claim.into(), node: "n".into() }
    }

    fn outbox() -> Outbox {
        let mut outbox = Outbox::new("blue".into());
        outbox.add(InstructionId(7), initialize("a"), Timestamp(100)).unwrap();
        outbox
    }

    fn ack(id: &str, outcome: v1::Outcome) -> v1::Ack {
        v1::Ack { instruction_id: id.into(), epoch: 3, outcome: outcome.into(), detail: "why".into() }
    }

    #[test]
    fn an_instruction_keeps_its_id_under_a_later_epoch() {
        let mut outbox = outbox();
        assert_eq!(outbox.open(3)[0].id, "3-7");
        let again = &outbox.open(4)[0];
        assert_eq!((again.id.as_str(), again.epoch, again.generation), ("3-7", 4, 7));
    }

    #[test]
    fn an_answer_settles_once_and_only_what_was_sent() {
        let mut outbox = outbox();
        assert_eq!(outbox.settle(&ack("3-7", v1::Outcome::Done)), Settled::Unknown, "it was never sent");
        outbox.open(3);
        for strange in ["2-7", "3-8", "7", "x-y", ""] {
            assert_eq!(outbox.settle(&ack(strange, v1::Outcome::Done)), Settled::Unknown, "{strange}");
        }
        let acked = Event::InstructionAcked { cluster: "blue".into(), instruction: InstructionId(7) };
        assert_eq!(outbox.settle(&ack("3-7", v1::Outcome::Done)), Settled::Event(acked));
        assert_eq!(outbox.settle(&ack("3-7", v1::Outcome::Done)), Settled::Unknown);
    }

    #[test]
    fn a_refusal_carries_the_agents_reason() {
        let mut outbox = outbox();
        outbox.open(3);
        let Settled::Event(Event::InstructionFailed { reason, .. }) = outbox.settle(&ack("3-7", v1::Outcome::NotFound))
        else {
            panic!("no failure");
        };
        assert_eq!(reason, "the object is not there: why");
    }

    #[test]
    fn what_is_not_answered_by_its_deadline_has_failed() {
        let mut outbox = outbox();
        assert!(outbox.expire(Timestamp(99)).is_empty());
        assert_eq!(outbox.expire(Timestamp(100)).len(), 1);
        assert!(outbox.is_empty());
    }
}
