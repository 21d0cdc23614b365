//! ACT: effects in flight.
//!
//! [`Executor`] turns each [`Effect`] into commands for whoever can reach the store, the cloud or an agent, keeps them in
//! order, sends them again when no answer came, and turns outcomes into [`Event`]s. It never decides: whatever may be
//! done at all was decided by the controller, and a command that is sent again is the same command. It has no runtime, no
//! clock and no randomness of its own, so that a simulation runs the real one.
//!
//! Assignments that it keeps:
//! - Commands about one NodeClaim are carried out one after the other, in the order in which they were decided.
//! - A launch whose outcome is unknown is repeated, with the same token, until the cloud has told what came of it.
//! - Every effect that somebody waits for is answered by exactly one event, however often it had to be tried.
//!
//! Reading order: [`command`] (what is asked and answered), [`backoff`] (how long to wait), `flight` (one command), `flights`
//! (all of them).

pub mod backoff;
pub mod command;
mod flight;
mod flights;

use std::collections::{BTreeMap, VecDeque};

use engine::control::{Effect, Event};
use engine::model::{Text, Timestamp};

use backoff::Backoff;
pub use command::{Command, CommandId, Outcome, Step};
use flight::{Flight, Leg};
use flights::Flights;

/// What instructions are about, by cluster and subject.
type Lane = (Text, Text);

/// Between accepting a termination and asking again whether it is over, in milliseconds. The cloud's own word usually
/// comes first.
const RECHECK_MS: i64 = 30_000;

/// Effects in flight.
#[derive(Debug)]
pub struct Executor {
    backoff: Backoff,
    flights: Flights,
    /// Commands about each NodeClaim; the first one is under way.
    lanes: BTreeMap<Lane, VecDeque<CommandId>>,
    /// Terminations that were accepted: when to ask again, by provider id.
    ending: BTreeMap<Text, (Timestamp, Command)>,
    next: u64,
}

impl Executor {
    /// An executor with nothing to do. `seed` spreads its retries.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let backoff = Backoff::new(seed);
        Self { backoff, flights: Flights::default(), lanes: BTreeMap::new(), ending: BTreeMap::new(), next: 1 }
    }

    /// Takes an effect on.
    pub fn start(&mut self, effect: Effect, now: Timestamp) -> Vec<Step> {
        let command = match effect {
            Effect::Plan(request) => return vec![Step::Plan(request)],
            Effect::PublishView { cluster } => return vec![Step::Publish { cluster }],
            Effect::Resync { cluster, reason } => return vec![Step::Resync { cluster, reason }],
            Effect::Record(decision) => Command::Record(decision),
            Effect::Report { cluster, finding } => return vec![Step::Report { cluster, finding }],
            Effect::Launch(order) => Command::Launch(order),
            Effect::Relaunch(planned) => Command::Relaunch(planned),
            Effect::Describe { cluster, claim, attempt, provider_id } => {
                Command::Describe { cluster, claim, attempt, provider_id }
            }
            Effect::Inspect { cluster, cluster_uid, claim, provider_id } => {
                Command::Inspect { cluster, cluster_uid, claim, provider_id }
            }
            Effect::Settle { cluster, claim, attempt, provider_id } => {
                Command::Settle { cluster, claim, attempt, provider_id }
            }
            Effect::Close { cluster, claim } => Command::Close { cluster, claim },
            Effect::KeepExtent { cluster, extent } => Command::KeepExtent { cluster, extent },
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
        let lane = command.lane();
        self.flights.add(id, Flight { command, tries: 0, leg: Leg::Queued });
        match lane {
            None => self.run(id, now),
            Some(lane) => {
                let queue = self.lanes.entry(lane).or_default();
                queue.push_back(id);
                if queue.len() == 1 { self.run(id, now) } else { None }
            }
        }
    }

    fn run(&mut self, id: CommandId, now: Timestamp) -> Option<Step> {
        let patience_ms = self.flights.get(id)?.command.patience_ms();
        let answer_by = Timestamp(now.0.saturating_add(patience_ms));
        let flight = self.flights.change(id, |flight| {
            flight.tries += 1;
            if flight.tries > 1 {
                flight.command.repeats();
            }
            flight.leg = Leg::Running { answer_by };
        })?;
        Some(Step::Run { id, command: flight.command.clone(), answer_by })
    }

    /// Takes in what came of a command. Outcomes of commands that are not in flight any more are old news and ignored.
    pub fn outcome(&mut self, id: CommandId, outcome: Outcome, now: Timestamp) -> Vec<Step> {
        let Some(flight) = self.flights.get(id) else { return Vec::new() };
        if let Outcome::TryAgain { after_ms, .. } = outcome {
            let wait = self.backoff.wait_ms(id.0, flight.tries).max(after_ms.unwrap_or(0));
            let until = Timestamp(now.0.saturating_add(wait));
            self.flights.change(id, |flight| flight.leg = Leg::Waiting { until });
            return Vec::new();
        }
        let Some(flight) = self.flights.remove(id) else { return Vec::new() };
        if let (Outcome::Begun, Command::Terminate { provider_id, .. }) = (&outcome, &flight.command) {
            let again = Timestamp(now.0.saturating_add(RECHECK_MS));
            self.ending.insert(provider_id.clone(), (again, flight.command.clone()));
        }
        let told = command::event_of(&flight.command, outcome).map(|event| Step::Tell(Box::new(event)));
        let next = flight.command.lane().and_then(|lane| self.leave(&lane, id, now));
        told.into_iter().chain(next).collect()
    }

    fn leave(&mut self, lane: &Lane, id: CommandId, now: Timestamp) -> Option<Step> {
        let queue = self.lanes.get_mut(lane)?;
        queue.retain(|queued| *queued != id);
        let first = queue.front().copied();
        if first.is_none() {
            self.lanes.remove(lane);
        }
        self.run(first?, now)
    }

    /// Drops everything about `cluster`: another process decides for it. What is under way outside ends unheard.
    pub fn forget(&mut self, cluster: &str) {
        self.flights.retain(|flight| flight.command.cluster().as_ref() != cluster);
        self.lanes.retain(|(of, _), _| of.as_ref() != cluster);
        self.ending.retain(|_, (_, command)| command.cluster().as_ref() != cluster);
    }

    /// Listens to what happens anyway: a machine that is gone need not be asked after.
    pub fn heard(&mut self, event: &Event) {
        if let Event::InstanceGone { provider_id, .. } = event {
            self.ending.remove(provider_id);
        }
    }

    /// Sends again what has waited long enough and what was not answered in time.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Step> {
        let mut steps = Vec::new();
        for id in self.flights.due(now, |leg| matches!(leg, Leg::Running { .. })) {
            let why = String::from("no answer in time");
            steps.extend(self.outcome(id, Outcome::TryAgain { after_ms: None, why }, now));
        }
        let due = self.flights.due(now, |leg| matches!(leg, Leg::Waiting { .. }));
        steps.extend(due.into_iter().filter_map(|id| self.run(id, now)));
        let asked: Vec<Text> =
            self.ending.iter().filter(|(_, (at, _))| *at <= now).map(|(provider_id, _)| provider_id.clone()).collect();
        for provider_id in asked {
            if let Some((_, command)) = self.ending.remove(&provider_id) {
                steps.extend(self.enqueue(command, now));
            }
        }
        steps
    }

    /// When [`Executor::tick`] is due at the latest.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let ending = self.ending.values().map(|(at, _)| *at);
        ending.chain(self.flights.next_moment()).min()
    }

    /// Whether this command is not answered yet.
    #[must_use]
    pub fn awaits(&self, id: CommandId) -> bool {
        self.flights.get(id).is_some()
    }

    /// How many commands are not answered yet, those that wait for their turn included.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }
}

#[cfg(test)]
mod tests;
