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

    /// Takes an instruction in. One that is here already stays as it is. Those that it makes needless are withdrawn: an agent that
    /// comes back after hours must not drain a node first whose machine is gone, and whose name another node may have by then.
    /// Returns the events that tell the controller of those.
    ///
    /// # Errors
    /// The event that tells the controller that too many are waiting.
    pub fn add(
        &mut self,
        id: InstructionId,
        instruction: Instruction,
        deadline: Timestamp,
    ) -> Result<Vec<Event>, Event> {
        if self.open.len() >= MOST_OPEN && !self.open.contains_key(&id) {
            return Err(self.failed(id, format!("{MOST_OPEN} instructions wait for an answer already")));
        }
        let withdrawn = self.withdraw(id, &instruction);
        self.open.entry(id).or_insert(Open { instruction, deadline, wire_id: None });
        Ok(withdrawn)
    }

    fn withdraw(&mut self, id: InstructionId, newer: &Instruction) -> Vec<Event> {
        let needless: Vec<InstructionId> =
            self.open.range(..id).filter(|(_, open)| supersedes(newer, &open.instruction)).map(|(id, _)| *id).collect();
        let withdraw = |older| {
            self.open.remove(&older);
            self.failed(older, format!("withdrawn: instruction {} makes it needless", id.0))
        };
        needless.into_iter().map(withdraw).collect()
    }

    /// The message for one instruction under `epoch`, sent at `now`.
    pub fn message(&mut self, id: InstructionId, epoch: u64, now: Timestamp) -> Option<v1::Instruction> {
        let open = self.open.get_mut(&id)?;
        // The number is unique among this process's instructions only; the epoch is this process's alone.
        let wire_id = open.wire_id.get_or_insert_with(|| format!("{epoch}-{}", id.0));
        Some(encode::instruction(wire_id, id, epoch, open.deadline, &open.instruction, now))
    }

    /// The messages for all instructions, oldest first.
    pub fn open(&mut self, epoch: u64, now: Timestamp) -> Vec<v1::Instruction> {
        let ids: Vec<InstructionId> = self.open.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.message(id, epoch, now)).collect()
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
            v1::Outcome::PreconditionFailed => Event::InstructionFailed {
                cluster: self.cluster.clone(),
                instruction: id,
                reason: ack.detail.clone(),
                unmet: true,
            },
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
        Event::InstructionFailed { cluster: self.cluster.clone(), instruction, reason, unmet: false }
    }
}

/// Whether `older`, which is not answered, is needless once `newer` is to be done: both are about one NodeClaim, and what `older` was
/// to achieve is undone by `newer`.
fn supersedes(newer: &Instruction, older: &Instruction) -> bool {
    let undone = match newer {
        Instruction::DeleteClaim { .. } => !matches!(older, Instruction::CreateClaim(_)),
        Instruction::Drain { .. } => matches!(
            older,
            Instruction::Drain { .. } | Instruction::RegisterNode { .. } | Instruction::InitializeNode { .. }
        ),
        _ => false,
    };
    undone && older.claim().is_some() && newer.claim() == older.claim()
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
        v1::Outcome::PreconditionFailed => "not begun",
        v1::Outcome::Failed | v1::Outcome::Unspecified => "failed",
    }
}

#[cfg(test)]
mod tests {
    use engine::model::Text;

    use super::*;

    fn initialize(claim: &str) -> Instruction {
        Instruction::InitializeNode { claim: claim.into(), node: "n".into() }
    }

    const NOW: Timestamp = Timestamp(0);

    fn outbox() -> Outbox {
        let mut outbox = Outbox::new("blue".into());
        assert_eq!(outbox.add(InstructionId(7), initialize("a"), Timestamp(100)), Ok(Vec::new()));
        outbox
    }

    fn drain(claim: &str) -> Instruction {
        Instruction::Drain {
            claim: claim.into(),
            node: "n".into(),
            provider_id: Text::default(),
            deadline: None,
            interruption: false,
            only_if_empty: false,
            reason: Text::default(),
        }
    }

    fn delete(claim: &str) -> Instruction {
        let (claim, reason) = (Text::from(claim), Text::default());
        Instruction::DeleteClaim { claim, node: Some("n".into()), provider_id: Text::default(), reason }
    }

    #[test]
    fn an_agent_that_comes_back_does_not_drain_a_node_whose_machine_is_gone() {
        let mut outbox = outbox();
        let late = Timestamp(1_000_000);
        outbox.add(InstructionId(8), drain("b"), late).unwrap();
        let numbers = |events: Vec<Event>| -> Vec<u64> {
            let number = |event| match event {
                Event::InstructionFailed { instruction, .. } => instruction.0,
                other => panic!("{other:?}"),
            };
            events.into_iter().map(number).collect()
        };
        assert_eq!(numbers(outbox.add(InstructionId(9), drain("a"), late).unwrap()), [7]);
        assert_eq!(numbers(outbox.add(InstructionId(10), delete("a"), late).unwrap()), [9]);
        let sent: Vec<String> = outbox.open(3, NOW).into_iter().map(|message| message.id).collect();
        assert_eq!(sent, ["3-8", "3-10"]);
    }

    fn ack(id: &str, outcome: v1::Outcome) -> v1::Ack {
        v1::Ack { instruction_id: id.into(), epoch: 3, outcome: outcome.into(), detail: "why".into() }
    }

    #[test]
    fn an_instruction_keeps_its_id_under_a_later_epoch() {
        let mut outbox = outbox();
        assert_eq!(outbox.open(3, NOW)[0].id, "3-7");
        let again = &outbox.open(4, NOW)[0];
        assert_eq!((again.id.as_str(), again.epoch, again.generation), ("3-7", 4, 7));
    }

    #[test]
    fn an_answer_settles_once_and_only_what_was_sent() {
        let mut outbox = outbox();
        assert_eq!(outbox.settle(&ack("3-7", v1::Outcome::Done)), Settled::Unknown, "it was never sent");
        outbox.open(3, NOW);
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
        outbox.open(3, NOW);
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
