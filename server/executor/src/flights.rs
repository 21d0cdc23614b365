//! All commands on their way, and when each has to be looked at again.
//!
//! A server of a thousand clusters has tens of thousands of commands in flight while it takes them in; the next moment among
//! them is asked for with every event.

use std::collections::{BTreeMap, BTreeSet};

use engine::model::Timestamp;

use crate::command::CommandId;
use crate::flight::{Flight, Leg};

/// Commands by number.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    by_id: BTreeMap<CommandId, Flight>,
    /// Their next moments; follows `by_id`.
    moments: BTreeSet<(Timestamp, CommandId)>,
}

impl Flights {
    /// Takes a command on, which waits for its turn.
    pub fn add(&mut self, id: CommandId, flight: Flight) {
        self.moments.extend(flight.next_moment().map(|at| (at, id)));
        self.by_id.insert(id, flight);
    }

    pub fn get(&self, id: CommandId) -> Option<&Flight> {
        self.by_id.get(&id)
    }

    /// Changes a command.
    pub fn change(&mut self, id: CommandId, change: impl FnOnce(&mut Flight)) -> Option<&Flight> {
        let flight = self.by_id.get_mut(&id)?;
        let before = flight.next_moment();
        change(flight);
        let after = flight.next_moment();
        if before != after {
            before.map(|at| self.moments.remove(&(at, id)));
            self.moments.extend(after.map(|at| (at, id)));
        }
        Some(flight)
    }

    pub fn remove(&mut self, id: CommandId) -> Option<Flight> {
        let flight = self.by_id.remove(&id)?;
        flight.next_moment().map(|at| self.moments.remove(&(at, id)));
        Some(flight)
    }

    /// Lets go of commands that are not `kept`.
    pub fn retain(&mut self, kept: impl Fn(&Flight) -> bool) {
        self.by_id.retain(|_, flight| kept(flight));
        self.moments.retain(|(_, id)| self.by_id.contains_key(id));
    }

    /// Commands whose moment has come and that are on such a leg, by number.
    pub fn due(&self, now: Timestamp, on: impl Fn(Leg) -> bool) -> BTreeSet<CommandId> {
        let due = self.moments.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id);
        due.filter(|id| self.by_id.get(id).is_some_and(|flight| on(flight.leg))).collect()
    }

    /// When the next command has to be looked at.
    pub fn next_moment(&self) -> Option<Timestamp> {
        self.moments.first().map(|(at, _)| *at)
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}

#[cfg(test)]
mod tests {
    use engine::control::ClusterId;

    use super::*;
    use crate::command::Command;

    fn flight() -> Flight {
        let command = Command::Close { cluster: ClusterId::from("blue"), claim: "m0".into() };
        Flight { command, tries: 0, leg: Leg::Queued }
    }

    #[test]
    fn moments_follow_their_commands() {
        let mut flights = Flights::default();
        let (one, other) = (CommandId(1), CommandId(2));
        flights.add(one, flight());
        flights.add(other, flight());
        assert_eq!(flights.next_moment(), None, "both wait for their turn");
        flights.change(one, |flight| flight.leg = Leg::Running { answer_by: Timestamp(20) });
        flights.change(other, |flight| flight.leg = Leg::Waiting { until: Timestamp(10) });
        assert_eq!(flights.next_moment(), Some(Timestamp(10)));
        let waits = |leg: Leg| matches!(leg, Leg::Waiting { .. });
        assert!(flights.due(Timestamp(9), waits).is_empty());
        assert_eq!(flights.due(Timestamp(20), waits), BTreeSet::from([other]));
        flights.change(other, |flight| flight.leg = Leg::Running { answer_by: Timestamp(30) });
        assert_eq!(flights.next_moment(), Some(Timestamp(20)));
        flights.remove(one);
        assert_eq!(flights.next_moment(), Some(Timestamp(30)));
        flights.retain(|_| false);
        assert_eq!((flights.next_moment(), flights.len()), (None, 0));
    }
}
