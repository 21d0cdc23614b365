//! All pending commands, indexed by the time at which each is due and by instruction.
//!
//! A server of a thousand clusters has tens of thousands of pending commands while it adopts them,
//! and the earliest due time is needed after every event.

use std::collections::{BTreeMap, BTreeSet};

use crate::InstructionId;
use model::Timestamp;

use crate::executor::command::{CommandId, Operation};
use crate::executor::in_flight::{InFlight, State};

/// Commands by id.
#[derive(Debug, Default)]
pub(crate) struct CommandTable {
    by_id: BTreeMap<CommandId, InFlight>,
    /// Due times; derived from `by_id`.
    due_times: BTreeSet<(Timestamp, CommandId)>,
    /// The command of each instruction; derived from `by_id`.
    instructions: BTreeMap<InstructionId, CommandId>,
}

impl CommandTable {
    pub fn add(&mut self, id: CommandId, entry: InFlight) {
        self.due_times.extend(entry.next_due().map(|at| (at, id)));
        self.instructions.extend(instruction_of(&entry).map(|instruction| (instruction, id)));
        self.by_id.insert(id, entry);
    }

    pub fn get(&self, id: CommandId) -> Option<&InFlight> {
        self.by_id.get(&id)
    }

    /// The pending command of an instruction.
    pub fn id_of(&self, instruction: InstructionId) -> Option<CommandId> {
        self.instructions.get(&instruction).copied()
    }

    /// Changes a command and its due time.
    pub fn change(&mut self, id: CommandId, change: impl FnOnce(&mut InFlight)) -> Option<&InFlight> {
        let entry = self.by_id.get_mut(&id)?;
        let before = entry.next_due();
        change(entry);
        let after = entry.next_due();
        if before != after {
            before.map(|at| self.due_times.remove(&(at, id)));
            self.due_times.extend(after.map(|at| (at, id)));
        }
        Some(entry)
    }

    pub fn remove(&mut self, id: CommandId) -> Option<InFlight> {
        let entry = self.by_id.remove(&id)?;
        entry.next_due().map(|at| self.due_times.remove(&(at, id)));
        instruction_of(&entry).map(|instruction| self.instructions.remove(&instruction));
        Some(entry)
    }

    /// Ids of commands that are due and whose state matches `on`.
    pub fn due(&self, now: Timestamp, on: impl Fn(State) -> bool) -> BTreeSet<CommandId> {
        let due = self.due_times.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id);
        due.filter(|id| self.by_id.get(id).is_some_and(|entry| on(entry.state))).collect()
    }

    /// When the next command is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due_times.first().map(|(at, _)| *at)
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}

fn instruction_of(entry: &InFlight) -> Option<InstructionId> {
    match &entry.operation {
        Operation::Instruct { id, .. } => Some(*id),
        Operation::Call(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterCall;

    fn queued() -> InFlight {
        let operation = Operation::Call(ClusterCall::CloseLaunch("m0".into()));
        InFlight { operation, tries: 0, state: State::Queued }
    }

    #[test]
    fn due_times_follow_their_commands() {
        let mut in_flight = CommandTable::default();
        let (one, other) = (CommandId(1), CommandId(2));
        in_flight.add(one, queued());
        in_flight.add(other, queued());
        assert_eq!(in_flight.next_due(), None, "both wait for their turn");
        in_flight.change(one, |entry| entry.state = State::Running { answer_by: Timestamp::from_millis(20) });
        in_flight.change(other, |entry| entry.state = State::Waiting { until: Timestamp::from_millis(10) });
        assert_eq!(in_flight.next_due(), Some(Timestamp::from_millis(10)));
        let waits = |state: State| matches!(state, State::Waiting { .. });
        assert!(in_flight.due(Timestamp::from_millis(9), waits).is_empty());
        assert_eq!(in_flight.due(Timestamp::from_millis(20), waits), BTreeSet::from([other]));
        in_flight.change(other, |entry| entry.state = State::Running { answer_by: Timestamp::from_millis(30) });
        assert_eq!(in_flight.next_due(), Some(Timestamp::from_millis(20)));
        in_flight.remove(one);
        assert_eq!(in_flight.next_due(), Some(Timestamp::from_millis(30)));
        in_flight.remove(other);
        assert_eq!((in_flight.next_due(), in_flight.len()), (None, 0));
    }
}
