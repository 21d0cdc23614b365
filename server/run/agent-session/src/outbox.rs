//! Unacknowledged instructions. They outlive streams: each new stream sends them again.

use std::collections::BTreeMap;

use controller::{Event, Instruction, InstructionId};
use fleetwright_proto::v1;
use model::Timestamp;

use super::encode;

/// Maximum unacknowledged instructions per cluster. Each takes at most a few KB (a NodeClaim with
/// 60 launch options in its requirements), about 50 MB in total; a cluster with that many has
/// stopped executing.
const MAX_PENDING: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AckResult {
    Event(Event),
    /// No matching instruction: acknowledged earlier, or issued by a previous process.
    Unknown,
}

#[derive(Debug)]
struct PendingInstruction {
    instruction: Instruction,
    deadline: Timestamp,
    /// Wire id; assigned when the instruction is first sent.
    wire_id: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// By instruction number, which is the order of decision and of sending.
    pending: BTreeMap<InstructionId, PendingInstruction>,
}

impl Outbox {
    /// Adds an instruction; one with a known id is left unchanged. Instructions that it supersedes
    /// are withdrawn: an agent that reconnects after hours must not first drain a Node whose
    /// instance is gone and whose name another Node may have by then. Returns the failure events of
    /// the withdrawn ones.
    ///
    /// # Errors
    /// The failure event of this instruction, when too many are pending.
    pub fn add(
        &mut self,
        id: InstructionId,
        instruction: Instruction,
        deadline: Timestamp,
    ) -> Result<Vec<Event>, Event> {
        if self.pending.len() >= MAX_PENDING && !self.pending.contains_key(&id) {
            return Err(failed(id, format!("{MAX_PENDING} instructions are already unacknowledged")));
        }
        let withdrawn = self.withdraw(id, &instruction);
        self.pending.entry(id).or_insert(PendingInstruction { instruction, deadline, wire_id: None });
        Ok(withdrawn)
    }

    fn withdraw(&mut self, id: InstructionId, newer: &Instruction) -> Vec<Event> {
        let superseded: Vec<InstructionId> = self
            .pending
            .range(..id)
            .filter(|(_, open)| supersedes(newer, &open.instruction))
            .map(|(id, _)| *id)
            .collect();
        let withdraw = |older| {
            self.pending.remove(&older);
            failed(older, format!("withdrawn: superseded by instruction {}", id.0))
        };
        superseded.into_iter().map(withdraw).collect()
    }

    /// Message for one instruction under `epoch`, sent at `now`.
    pub fn message(&mut self, id: InstructionId, epoch: u64, now: Timestamp) -> Option<v1::Instruction> {
        let open = self.pending.get_mut(&id)?;
        // The number is unique only within this process; the epoch belongs to this process alone.
        let wire_id = open.wire_id.get_or_insert_with(|| format!("{epoch}-{}", id.0));
        Some(encode::instruction(wire_id, id, epoch, open.deadline, &open.instruction, now))
    }

    /// Messages for all pending instructions, oldest first.
    pub(crate) fn pending_messages(&mut self, epoch: u64, now: Timestamp) -> Vec<v1::Instruction> {
        let ids: Vec<InstructionId> = self.pending.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.message(id, epoch, now)).collect()
    }

    pub fn acknowledge(&mut self, ack: &v1::Ack) -> AckResult {
        let Some(id) = number(&ack.instruction_id) else { return AckResult::Unknown };
        let known = self.pending.get(&id).is_some_and(|open| open.wire_id.as_ref() == Some(&ack.instruction_id));
        if !known {
            return AckResult::Unknown;
        }
        self.pending.remove(&id);
        AckResult::Event(match ack.outcome() {
            v1::Outcome::Done => Event::InstructionAcked(id),
            v1::Outcome::PreconditionFailed => {
                Event::InstructionFailed { instruction: id, reason: excerpt(&ack.detail), unmet: true }
            }
            other => failed(id, format!("{}: {}", describe_outcome(other), excerpt(&ack.detail))),
        })
    }

    /// Fails instructions whose deadline has passed.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Event> {
        let expired: Vec<InstructionId> =
            self.pending.iter().filter(|(_, open)| open.deadline <= now).map(|(id, _)| *id).collect();
        let fail = |id| {
            self.pending.remove(&id);
            failed(id, "not acknowledged before its deadline".to_owned())
        };
        expired.into_iter().map(fail).collect()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.len()
    }
}

fn failed(instruction: InstructionId, reason: String) -> Event {
    Event::InstructionFailed { instruction, reason, unmet: false }
}

/// Whether `newer` makes the pending instruction `older` pointless: both concern the same NodeClaim
/// and `newer` undoes the effect of `older`.
fn supersedes(newer: &Instruction, older: &Instruction) -> bool {
    let undone = match newer {
        Instruction::DeleteClaim { .. } => !matches!(older, Instruction::CreateClaim(_)),
        Instruction::Drain { .. } => matches!(
            older,
            Instruction::Drain { .. }
                | Instruction::RegisterNode { .. }
                | Instruction::InitializeNode { .. }
                | Instruction::RemoveDisruptedTaint { .. }
        ),
        _ => false,
    };
    undone && older.claim().is_some() && newer.claim() == older.claim()
}

/// Controller's number in a wire id.
fn number(wire_id: &str) -> Option<InstructionId> {
    let (_, number) = wire_id.split_once('-')?;
    number.parse().ok().map(InstructionId)
}

/// Most bytes of an agent's reason that are kept, logged and shown: any agent of one cluster may send four million.
const MAX_DETAIL_BYTES: usize = 1_000;

/// The begin of an agent's reason, if it is long.
fn excerpt(detail: &str) -> String {
    if detail.len() <= MAX_DETAIL_BYTES {
        return detail.to_owned();
    }
    let end = (0..=MAX_DETAIL_BYTES).rev().find(|at| detail.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} bytes)", &detail[..end], detail.len())
}

fn describe_outcome(outcome: v1::Outcome) -> &'static str {
    match outcome {
        v1::Outcome::Done => "done",
        v1::Outcome::Stale => "rejected as stale",
        v1::Outcome::Unsupported => "not supported by the agent",
        v1::Outcome::NotFound => "object not found",
        v1::Outcome::PreconditionFailed => "precondition failed",
        v1::Outcome::Failed | v1::Outcome::Unspecified => "failed",
    }
}

#[cfg(test)]
mod tests {
    use model::{ClaimName, ProviderId, Text};

    use super::*;

    fn initialize(claim: &str) -> Instruction {
        Instruction::InitializeNode { claim: claim.into(), node: "n".into() }
    }

    const NOW: Timestamp = Timestamp::from_millis(0);

    fn outbox() -> Outbox {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.add(InstructionId(7), initialize("a"), Timestamp::from_millis(100)), Ok(Vec::new()));
        outbox
    }

    fn drain(claim: &str) -> Instruction {
        Instruction::Drain {
            claim: claim.into(),
            node: "n".into(),
            provider_id: ProviderId::default(),
            deadline: None,
            interruption: false,
            only_if_empty: false,
            reason: Text::default(),
        }
    }

    fn delete(claim: &str) -> Instruction {
        let (claim, reason) = (ClaimName::from(claim), Text::default());
        Instruction::DeleteClaim { claim, node: Some("n".into()), provider_id: ProviderId::default(), reason }
    }

    #[test]
    fn a_reconnecting_agent_does_not_drain_a_node_whose_instance_is_gone() {
        let mut outbox = outbox();
        let late = Timestamp::from_millis(1_000_000);
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
        let sent: Vec<String> = outbox.pending_messages(3, NOW).into_iter().map(|message| message.id).collect();
        assert_eq!(sent, ["3-8", "3-10"]);
    }

    fn ack(id: &str, outcome: v1::Outcome) -> v1::Ack {
        v1::Ack { instruction_id: id.into(), epoch: 3, outcome: outcome.into(), detail: "why".into() }
    }

    #[test]
    fn an_instruction_keeps_its_id_under_a_later_epoch() {
        let mut outbox = outbox();
        assert_eq!(outbox.pending_messages(3, NOW)[0].id, "3-7");
        let again = &outbox.pending_messages(4, NOW)[0];
        assert_eq!((again.id.as_str(), again.epoch, again.generation), ("3-7", 4, 7));
    }

    #[test]
    fn a_reason_of_an_agent_is_cut_before_it_is_kept() {
        assert_eq!(excerpt("why"), "why");
        let whole = "x".repeat(1_000);
        assert_eq!(excerpt(&whole), whole);
        assert_eq!(excerpt(&format!("{whole}y")), format!("{whole}… (1001 bytes)"));
        // A character of two bytes is not cut in half.
        assert_eq!(excerpt(&"\u{e9}".repeat(501)), format!("{}… (1002 bytes)", "\u{e9}".repeat(500)));
        let mut outbox = outbox();
        outbox.pending_messages(3, NOW);
        let long = v1::Ack { detail: "x".repeat(100_000), ..ack("3-7", v1::Outcome::PreconditionFailed) };
        let AckResult::Event(Event::InstructionFailed { reason, .. }) = outbox.acknowledge(&long) else {
            panic!("it failed")
        };
        assert_eq!(reason, format!("{whole}… (100000 bytes)"));
    }

    #[test]
    fn an_ack_is_applied_once_and_only_to_a_sent_instruction() {
        let mut outbox = outbox();
        assert_eq!(outbox.acknowledge(&ack("3-7", v1::Outcome::Done)), AckResult::Unknown, "it was never sent");
        outbox.pending_messages(3, NOW);
        for strange in ["2-7", "3-8", "7", "x-y", ""] {
            assert_eq!(outbox.acknowledge(&ack(strange, v1::Outcome::Done)), AckResult::Unknown, "{strange}");
        }
        let acked = Event::InstructionAcked(InstructionId(7));
        assert_eq!(outbox.acknowledge(&ack("3-7", v1::Outcome::Done)), AckResult::Event(acked));
        assert_eq!(outbox.acknowledge(&ack("3-7", v1::Outcome::Done)), AckResult::Unknown);
    }

    #[test]
    fn a_failed_ack_carries_the_reason_of_the_agent() {
        let mut outbox = outbox();
        outbox.pending_messages(3, NOW);
        let AckResult::Event(Event::InstructionFailed { reason, .. }) =
            outbox.acknowledge(&ack("3-7", v1::Outcome::NotFound))
        else {
            panic!("no failure");
        };
        assert_eq!(reason, "object not found: why");
    }

    #[test]
    fn an_unacknowledged_instruction_fails_at_its_deadline() {
        let mut outbox = outbox();
        assert!(outbox.expire(Timestamp::from_millis(99)).is_empty());
        assert_eq!(outbox.expire(Timestamp::from_millis(100)).len(), 1);
        assert!(outbox.pending.is_empty());
    }
}
