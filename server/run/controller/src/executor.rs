//! Executor: effects in flight.
//!
//! [`Executor`] keeps each [`Operation`] on the store, the cloud or the agent of a cluster in order, hands it out as
//! a [`Command`], and repeats it until its outcome is known. It makes no decisions: the controller
//! made them, and operations and answering events pass unchanged. It has no runtime, no clock and no
//! randomness of its own, so that a simulation runs the production code.
//!
//! Guarantees:
//! - Commands about one NodeClaim are carried out one after the other, in the order in which they
//!   were decided. A drain does not wait for an earlier drain, which ends without an event: the cloud may have
//!   set an earlier end.
//! - A launch whose outcome is unknown is repeated with the same token until the cloud reports its
//!   outcome.
//! - Every operation that expects an answer gets exactly one event, however often it was tried.
//!
//! Reading order: [`command`] (commands and outcomes), [`backoff`] (delay before a retry),
//! `in_flight` (one command), `command_table` (all commands).

pub mod backoff;
pub mod command;
mod command_table;
mod in_flight;

use std::collections::{BTreeMap, VecDeque};

use crate::{ClusterCall, Event};
use model::{Millis, ProviderId, Text, Timestamp};

use backoff::Backoff;
pub use command::{Command, CommandId, Operation, Outcome, Retry};
use command_table::CommandTable;
use in_flight::{InFlight, State};

/// Delay between an accepted termination and the next query for its end. The cloud usually reports
/// the end earlier.
const TERMINATION_RECHECK_DELAY: Millis = Millis::from_secs(30);

#[derive(Debug)]
pub struct Executor {
    backoff: Backoff,
    in_flight: CommandTable,
    /// Commands about each subject; the first one is in flight.
    queues: BTreeMap<Text, VecDeque<CommandId>>,
    /// Accepted terminations: time of the next query, by provider id.
    terminating: BTreeMap<ProviderId, (Timestamp, Operation)>,
    next: u64,
}

impl Executor {
    /// An executor without commands. `seed` spreads its retries.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let backoff = Backoff::new(seed);
        Self {
            backoff,
            in_flight: CommandTable::default(),
            queues: BTreeMap::new(),
            terminating: BTreeMap::new(),
            next: 1,
        }
    }

    /// Starts an operation. `None` while an earlier command about the same subject is pending.
    pub fn start(&mut self, operation: Operation, now: Timestamp) -> Option<Command> {
        let id = CommandId(self.next);
        self.next += 1;
        let key = command::subject(&operation);
        let replaces_drains = command::is_drain(&operation);
        self.in_flight.add(id, InFlight { operation, tries: 0, state: State::Queued });
        let Some(key) = key else { return self.run(id, now) };
        if replaces_drains {
            self.drop_drains(&key);
        }
        let queue = self.queues.entry(key).or_default();
        queue.push_back(id);
        if queue.len() == 1 { self.run(id, now) } else { None }
    }

    /// Drops the drains of the subject, which a later one replaces.
    fn drop_drains(&mut self, key: &Text) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let in_flight = &mut self.in_flight;
        queue.retain(|id| {
            let replaced = in_flight.get(*id).is_some_and(|entry| command::is_drain(&entry.operation));
            if replaced {
                in_flight.remove(*id);
            }
            !replaced
        });
    }

    fn run(&mut self, id: CommandId, now: Timestamp) -> Option<Command> {
        let answer_timeout = command::answer_timeout(&self.in_flight.get(id)?.operation);
        let answer_by = now + answer_timeout;
        let entry = self.in_flight.change(id, |entry| {
            entry.tries += 1;
            if entry.tries > 1 {
                command::mark_repeated(&mut entry.operation);
            }
            entry.state = State::Running { answer_by };
        })?;
        Some(Command { id, operation: entry.operation.clone(), answer_by })
    }

    /// Processes the outcome of a command. Returns the event for the controller and the command
    /// that waited for this one. Outcomes of commands that are no longer pending are ignored.
    pub fn handle_outcome(
        &mut self,
        id: CommandId,
        outcome: Outcome,
        now: Timestamp,
    ) -> (Option<Event>, Option<Command>) {
        let event = match outcome {
            Ok(event) => event,
            Err(Retry { after, .. }) => {
                self.back_off(id, after, now);
                return (None, None);
            }
        };
        let Some((operation, next)) = self.finish(id, now) else { return (None, None) };
        if event.is_none()
            && let Operation::Call(ClusterCall::Terminate { provider_id, .. }) = &operation
        {
            let again = now + TERMINATION_RECHECK_DELAY;
            self.terminating.insert(provider_id.clone(), (again, operation));
        }
        (event, next)
    }

    /// Ends a command. Returns its operation and the command that waited for it.
    fn finish(&mut self, id: CommandId, now: Timestamp) -> Option<(Operation, Option<Command>)> {
        let InFlight { operation, .. } = self.in_flight.remove(id)?;
        let next = command::subject(&operation).and_then(|key| self.run_next(&key, id, now));
        Some((operation, next))
    }

    fn run_next(&mut self, key: &Text, id: CommandId, now: Timestamp) -> Option<Command> {
        let queue = self.queues.get_mut(key)?;
        queue.retain(|queued| *queued != id);
        let first = queue.front().copied();
        if first.is_none() {
            self.queues.remove(key);
        }
        self.run(first?, now)
    }

    fn back_off(&mut self, id: CommandId, after: Option<Millis>, now: Timestamp) {
        let Some(tries) = self.in_flight.get(id).map(|entry| entry.tries) else { return };
        let wait = self.backoff.wait(id.0, tries).max(after.unwrap_or_default());
        let until = now + wait;
        self.in_flight.change(id, |entry| entry.state = State::Waiting { until });
    }

    /// Observes an event that agent or cloud sent by itself: an answer to an instruction ends its
    /// command, and a terminated instance need not be queried again. Returns the command that
    /// waited for the instruction.
    pub fn observe(&mut self, event: &Event, now: Timestamp) -> Option<Command> {
        match event {
            Event::InstructionAcked(instruction) | Event::InstructionFailed { instruction, .. } => {
                let id = self.in_flight.id_of(*instruction)?;
                self.finish(id, now)?.1
            }
            Event::InstanceGone(provider_id) => {
                self.terminating.remove(provider_id);
                None
            }
            _ => None,
        }
    }

    /// Repeats commands whose backoff is over or whose answer is late.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Command> {
        for id in self.in_flight.due(now, |state| matches!(state, State::Running { .. })) {
            self.back_off(id, None, now);
        }
        let due = self.in_flight.due(now, |state| matches!(state, State::Waiting { .. }));
        let mut commands: Vec<Command> = due.into_iter().filter_map(|id| self.run(id, now)).collect();
        let due_queries: Vec<ProviderId> = self
            .terminating
            .iter()
            .filter(|(_, (at, _))| *at <= now)
            .map(|(provider_id, _)| provider_id.clone())
            .collect();
        for provider_id in due_queries {
            if let Some((_, operation)) = self.terminating.remove(&provider_id) {
                commands.extend(self.start(operation, now));
            }
        }
        commands
    }

    /// When [`Executor::tick`] is due at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let terminating = self.terminating.values().map(|(at, _)| *at);
        terminating.chain(self.in_flight.next_due()).min()
    }

    /// Number of commands without an outcome, including queued ones.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.in_flight.len()
    }
}

#[cfg(test)]
mod tests;
