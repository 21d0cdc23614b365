//! Executor: effects in flight.
//!
//! [`Executor`] turns each [`Effect`] into commands for the store, the cloud or an agent, keeps
//! them in order, repeats them when no answer arrives, and turns outcomes into [`Event`]s. It makes
//! no decisions: the controller made them, and a repeated command is the same command. It has no
//! runtime, no clock and no randomness of its own, so that a simulation runs the production code.
//!
//! Guarantees:
//! - Commands about one NodeClaim are carried out one after the other, in the order in which they
//!   were decided.
//! - A launch whose outcome is unknown is repeated with the same token until the cloud reports its
//!   outcome.
//! - Every effect that expects an answer gets exactly one event, however often it was tried.
//!
//! Reading order: [`command`] (commands and outcomes), [`backoff`] (delay before a retry),
//! `in_flight` (one command), `command_table` (all commands).

pub mod backoff;
pub mod command;
mod command_table;
mod in_flight;

use std::collections::{BTreeMap, VecDeque};

use engine::control::{Effect, Event};
use engine::model::{Text, Timestamp};

use backoff::Backoff;
pub use command::{Command, CommandId, Outcome, Step};
use command_table::CommandTable;
use in_flight::{InFlight, State};

/// Cluster and subject of a command.
type SubjectKey = (Text, Text);

/// Delay between an accepted termination and the next query for its end, in milliseconds. The cloud
/// usually reports the end earlier.
const TERMINATION_RECHECK_MS: i64 = 30_000;

/// Effects in flight.
#[derive(Debug)]
pub struct Executor {
    backoff: Backoff,
    in_flight: CommandTable,
    /// Commands about each subject; the first one is in flight.
    queues: BTreeMap<SubjectKey, VecDeque<CommandId>>,
    /// Accepted terminations: time of the next query, by provider id.
    terminating: BTreeMap<Text, (Timestamp, Command)>,
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

    /// Starts an effect.
    pub fn start(&mut self, effect: Effect, now: Timestamp) -> Vec<Step> {
        let command = match effect {
            Effect::Plan(request) => return vec![Step::Plan(request)],
            Effect::PublishView { cluster } => return vec![Step::Publish { cluster }],
            Effect::Resync { cluster, reason } => return vec![Step::Resync { cluster, reason }],
            Effect::RecordDecision(decision) => Command::RecordDecision(decision),
            Effect::ReportFinding { cluster, finding } => return vec![Step::Report { cluster, finding }],
            Effect::Launch(order) => Command::Launch(order),
            Effect::Relaunch(planned) => Command::Relaunch(planned),
            Effect::Describe { cluster, claim, attempt, provider_id } => {
                Command::Describe { cluster, claim, attempt, provider_id }
            }
            Effect::Inspect { cluster, cluster_uid, claim, provider_id } => {
                Command::Inspect { cluster, cluster_uid, claim, provider_id }
            }
            Effect::RecordLaunched { cluster, claim, attempt, provider_id } => {
                Command::RecordLaunched { cluster, claim, attempt, provider_id }
            }
            Effect::CloseLaunch { cluster, claim } => Command::CloseLaunch { cluster, claim },
            Effect::PersistCounts { cluster, counts } => Command::PersistCounts { cluster, counts },
            Effect::Instruct { cluster, id, instruction } => Command::Instruct { cluster, id, instruction },
            Effect::Terminate { cluster, cluster_uid, claim, provider_id } => {
                Command::Terminate { cluster, cluster_uid, claim, provider_id }
            }
        };
        self.enqueue(command, now).into_iter().collect()
    }

    fn enqueue(&mut self, command: Command, now: Timestamp) -> Option<Step> {
        let id = CommandId(self.next);
        self.next += 1;
        let key = command.subject_key();
        self.in_flight.add(id, InFlight { command, tries: 0, state: State::Queued });
        match key {
            None => self.run(id, now),
            Some(key) => {
                let queue = self.queues.entry(key).or_default();
                queue.push_back(id);
                if queue.len() == 1 { self.run(id, now) } else { None }
            }
        }
    }

    fn run(&mut self, id: CommandId, now: Timestamp) -> Option<Step> {
        let answer_timeout_ms = self.in_flight.get(id)?.command.answer_timeout_ms();
        let answer_by = Timestamp(now.0.saturating_add(answer_timeout_ms));
        let entry = self.in_flight.change(id, |entry| {
            entry.tries += 1;
            if entry.tries > 1 {
                entry.command.mark_repeated();
            }
            entry.state = State::Running { answer_by };
        })?;
        Some(Step::Run { id, command: entry.command.clone(), answer_by })
    }

    /// Processes the outcome of a command. Outcomes of commands that are no longer pending are
    /// ignored.
    pub fn outcome(&mut self, id: CommandId, outcome: Outcome, now: Timestamp) -> Vec<Step> {
        let Some(entry) = self.in_flight.get(id) else { return Vec::new() };
        if let Outcome::TryAgain { after_ms, .. } = outcome {
            let wait = self.backoff.wait_ms(id.0, entry.tries).max(after_ms.unwrap_or(0));
            let until = Timestamp(now.0.saturating_add(wait));
            self.in_flight.change(id, |entry| entry.state = State::Waiting { until });
            return Vec::new();
        }
        let Some(entry) = self.in_flight.remove(id) else { return Vec::new() };
        if let (Outcome::Begun, Command::Terminate { provider_id, .. }) = (&outcome, &entry.command) {
            let again = Timestamp(now.0.saturating_add(TERMINATION_RECHECK_MS));
            self.terminating.insert(provider_id.clone(), (again, entry.command.clone()));
        }
        let event = command::event_of(&entry.command, outcome).map(|event| Step::Handle(Box::new(event)));
        let next = entry.command.subject_key().and_then(|key| self.run_next(&key, id, now));
        event.into_iter().chain(next).collect()
    }

    fn run_next(&mut self, key: &SubjectKey, id: CommandId, now: Timestamp) -> Option<Step> {
        let queue = self.queues.get_mut(key)?;
        queue.retain(|queued| *queued != id);
        let first = queue.front().copied();
        if first.is_none() {
            self.queues.remove(key);
        }
        self.run(first?, now)
    }

    /// Drops all commands of `cluster`: another process owns it. Outcomes of calls in flight are
    /// ignored.
    pub fn forget_cluster(&mut self, cluster: &str) {
        self.in_flight.retain(|entry| entry.command.cluster().as_ref() != cluster);
        self.queues.retain(|(of, _), _| of.as_ref() != cluster);
        self.terminating.retain(|_, (_, command)| command.cluster().as_ref() != cluster);
    }

    /// Observes an event from elsewhere: a terminated instance need not be queried again.
    pub fn observe(&mut self, event: &Event) {
        if let Event::InstanceGone { provider_id, .. } = event {
            self.terminating.remove(provider_id);
        }
    }

    /// Repeats commands whose backoff is over or whose answer is late.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Step> {
        let mut steps = Vec::new();
        for id in self.in_flight.due(now, |state| matches!(state, State::Running { .. })) {
            let why = String::from("no answer in time");
            steps.extend(self.outcome(id, Outcome::TryAgain { after_ms: None, why }, now));
        }
        let due = self.in_flight.due(now, |state| matches!(state, State::Waiting { .. }));
        steps.extend(due.into_iter().filter_map(|id| self.run(id, now)));
        let due_queries: Vec<Text> = self
            .terminating
            .iter()
            .filter(|(_, (at, _))| *at <= now)
            .map(|(provider_id, _)| provider_id.clone())
            .collect();
        for provider_id in due_queries {
            if let Some((_, command)) = self.terminating.remove(&provider_id) {
                steps.extend(self.enqueue(command, now));
            }
        }
        steps
    }

    /// When [`Executor::tick`] is due at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let terminating = self.terminating.values().map(|(at, _)| *at);
        terminating.chain(self.in_flight.next_due()).min()
    }

    /// Whether this command has no outcome yet.
    #[must_use]
    pub fn is_pending(&self, id: CommandId) -> bool {
        self.in_flight.get(id).is_some()
    }

    /// Number of commands without an outcome, including queued ones.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.in_flight.len()
    }
}

#[cfg(test)]
mod tests;
