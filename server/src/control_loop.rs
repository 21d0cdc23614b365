//! The loop: one task owns the controller and the executor, chooses what to look at next, and does nothing else.
//!
//! Whatever waits for somebody (store, cloud) is a work of its own in [`works`]; its outcome comes back as one more thing to
//! look at. Deciding is the controller's, order and retries are the executor's; here is only the clock.
//!
//! Reading order: [`ControlLoop::run`], [`works`] (calls to store and cloud), [`records`] (decisions as rows).

mod records;
mod works;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cloud::provider::{CloudEvent, CloudProvider};
use engine::control::{ClusterId, Controller, Event, Instruction, InstructionId};
use engine::model::{Text, Timestamp};
use executor::{Command, CommandId, Executor, Outcome, Step};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::clock;
use crate::config::LeaseConfig;
use crate::session::{Greeting, SessionEvent, Sessions};
use crate::store::{Lease, LeaseAnswer, Store};
use crate::views::{FleetView, Publisher};
use works::{Done, Errand};

/// How often the cloud is asked what has happened by itself. A real one tells by a queue that is read as fast.
const CLOUD_POLL: Duration = Duration::from_millis(250);

/// An instruction that no agent has taken up after this has failed, and the controller thinks again.
const INSTRUCTION_MS: i64 = 10 * 60_000;

/// Drains wait for pods, as long as their budgets make them.
const DRAIN_MS: i64 = 24 * 3_600_000;

/// What the loop is made of.
pub(crate) struct ControlLoop<C> {
    /// Decides.
    pub(crate) controller: Controller,
    /// The way to agents.
    pub(crate) sessions: Sessions,
    /// What survives.
    pub(crate) store: Arc<dyn Store>,
    /// Where machines come from.
    pub(crate) cloud: Arc<C>,
    /// Ownership of clusters.
    pub(crate) lease: LeaseConfig,
    /// What people see.
    pub(crate) publisher: Publisher,
}

/// What to look at next.
enum Next {
    Stop,
    Heard(SessionEvent),
    Done(Done),
    CloudPoll,
    Renew,
    Time,
}

struct Running<C> {
    parts: ControlLoop<C>,
    executor: Executor,
    works: JoinSet<Done>,
    leases: BTreeMap<ClusterId, Lease>,
    /// The command that waits for an agent's answer to an instruction.
    instructed: BTreeMap<InstructionId, CommandId>,
    view: FleetView,
    polling: bool,
}

impl<C: CloudProvider + 'static> ControlLoop<C> {
    /// Runs until `stop`; gives every lease back then.
    ///
    /// # Errors
    /// When a work of the loop panicked: what it was about is not known any more.
    pub(crate) async fn run(
        self,
        mut heard: mpsc::Receiver<SessionEvent>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let renewal = (self.lease.duration / 3).max(Duration::from_millis(100));
        let mut running = Running::new(self);
        let mut polls = tokio::time::interval(CLOUD_POLL);
        let mut renewals = tokio::time::interval(renewal);
        loop {
            let wait = running.until_wakeup();
            let next = tokio::select! {
                () = stop.cancelled() => Next::Stop,
                Some(done) = running.works.join_next() => Next::Done(done?),
                Some(event) = heard.recv() => Next::Heard(event),
                _ = polls.tick() => Next::CloudPoll,
                _ = renewals.tick() => Next::Renew,
                () = tokio::time::sleep(wait) => Next::Time,
            };
            match next {
                Next::Stop => break,
                Next::Heard(SessionEvent::Greeted(greeting)) => running.greeted(greeting),
                Next::Heard(SessionEvent::Happened(event)) => running.happened(event).await,
                Next::Done(done) => running.done(done).await,
                Next::CloudPoll => running.poll_cloud(),
                Next::Renew => running.renew(),
                Next::Time => running.time_passed().await,
            }
        }
        running.release().await;
        Ok(())
    }
}

impl<C: CloudProvider + 'static> Running<C> {
    fn new(parts: ControlLoop<C>) -> Self {
        Self {
            executor: Executor::new(clock::now().0.unsigned_abs()),
            works: JoinSet::new(),
            leases: BTreeMap::new(),
            instructed: BTreeMap::new(),
            view: FleetView::default(),
            polling: false,
            parts,
        }
    }

    fn until_wakeup(&self) -> Duration {
        let due = [self.parts.controller.next_wakeup(), self.executor.next_wakeup()].into_iter().flatten().min();
        let wait = due.map_or(i64::MAX, |due| due.millis_since(clock::now()));
        // A longer sleep would not notice a clock that was set; a shorter one gains nothing that anybody sees.
        Duration::from_millis(wait.unsigned_abs()).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }

    /// An agent wants to speak: whoever decides for its cluster must hold its lease.
    fn greeted(&mut self, greeting: Greeting) {
        let (store, owner, duration) =
            (Arc::clone(&self.parts.store), self.parts.lease.owner.clone(), self.parts.lease.duration);
        self.works.spawn(async move {
            let answer = store.take_lease(&greeting.cluster, &owner, greeting.highest_epoch, duration).await;
            Done::Leased { cluster: greeting.cluster, answer }
        });
    }

    async fn leased(&mut self, cluster: ClusterId, answer: Result<LeaseAnswer, crate::store::StoreError>) {
        match answer {
            Ok(LeaseAnswer::Granted { lease, open }) => {
                info!(%cluster, epoch = lease.epoch, open_launches = open.len(), "deciding for this cluster");
                self.parts.sessions.accept(&cluster, lease.epoch).await;
                self.leases.insert(cluster, lease);
            }
            Ok(LeaseAnswer::Held { owner }) => {
                self.parts.sessions.refuse(&cluster, format!("the replica {owner} decides for it")).await;
            }
            Err(error) => {
                error!(%cluster, %error, "the lease of a cluster could not be taken");
                self.parts.sessions.refuse(&cluster, error.to_string()).await;
            }
        }
    }

    /// Takes in what a session or the cloud tells. The answer to an instruction ends its command first.
    async fn happened(&mut self, event: Event) {
        let now = clock::now();
        let steps = match &event {
            Event::InstructionAcked { instruction, .. } => self.answered(*instruction, Outcome::Done, now),
            Event::InstructionFailed { instruction, reason, .. } => {
                self.answered(*instruction, Outcome::Refused(reason.clone()), now)
            }
            _ => None,
        };
        match steps {
            Some(steps) => self.carry_out(steps, now).await,
            None => {
                self.executor.heard(&event);
                let steps = self.decide(event, now);
                self.carry_out(steps, now).await;
            }
        }
    }

    /// `None` when no command waits for that answer.
    fn answered(&mut self, instruction: InstructionId, outcome: Outcome, now: Timestamp) -> Option<Vec<Step>> {
        let command = self.instructed.remove(&instruction)?;
        Some(self.executor.outcome(command, outcome, now))
    }

    fn decide(&mut self, event: Event, now: Timestamp) -> Vec<Step> {
        let effects = self.parts.controller.handle(event, now);
        effects.into_iter().flat_map(|effect| self.executor.start(effect, now)).collect()
    }

    async fn time_passed(&mut self) {
        let now = clock::now();
        let mut steps = self.executor.tick(now);
        steps.extend(self.decide(Event::Tick, now));
        self.carry_out(steps, now).await;
    }

    async fn carry_out(&mut self, steps: Vec<Step>, now: Timestamp) {
        let mut queue = VecDeque::from(steps);
        let mut changed = false;
        while let Some(step) = queue.pop_front() {
            match step {
                Step::Run {
                    id, command: Command::Instruct { cluster, id: instruction, instruction: what }, ..
                } => {
                    self.instructed.insert(instruction, id);
                    let deadline = deadline(&what, now);
                    self.parts.sessions.instruct(&cluster, instruction, *what, deadline).await;
                }
                Step::Run { id, command, answer_by } => self.run(id, command, answer_by, now),
                Step::Tell(event) => queue.extend(self.decide(*event, now)),
                Step::Publish { cluster } => changed |= self.look_at(cluster),
            }
        }
        if changed {
            self.view.taken_at = now;
            self.parts.publisher.send_replace(Arc::new(self.view.clone()));
        }
    }

    /// Takes the cluster's view; says whether there is one.
    fn look_at(&mut self, cluster: ClusterId) -> bool {
        let view = self.parts.controller.view(&cluster);
        let found = view.is_some();
        self.view.clusters.extend(view.map(|view| (cluster, Arc::new(view))));
        found
    }

    fn run(&mut self, id: CommandId, command: Command, answer_by: Timestamp, now: Timestamp) {
        let errand = Errand {
            store: Arc::clone(&self.parts.store),
            cloud: Arc::clone(&self.parts.cloud),
            lease: self.lease_for(&command),
        };
        let patience = Duration::from_millis(answer_by.millis_since(now).unsigned_abs());
        self.works.spawn(async move { Done::Ran { id, outcome: errand.run_within(command, patience).await } });
    }

    fn lease_for(&self, command: &Command) -> Option<Lease> {
        let cluster = match command {
            Command::Record(decision) => &decision.cluster,
            Command::Launch(order) => &order.cluster,
            Command::Instruct { cluster, .. } | Command::Terminate { cluster, .. } => cluster,
        };
        self.leases.get(cluster).cloned()
    }

    async fn done(&mut self, done: Done) {
        match done {
            Done::Leased { cluster, answer } => self.leased(cluster, answer).await,
            Done::Ran { id, outcome } => {
                if let Outcome::TryAgain { why, .. } = &outcome {
                    debug!(command = id.0, why, "a command will be sent again");
                }
                let now = clock::now();
                let steps = self.executor.outcome(id, outcome, now);
                self.carry_out(steps, now).await;
            }
            Done::CloudTold(events) => {
                self.polling = false;
                for event in events.into_iter().filter_map(event_of) {
                    self.happened(event).await;
                }
            }
            Done::Renewed { cluster, lost: Some(reason) } => {
                warn!(%cluster, reason, "this replica decides for the cluster no more");
                self.leases.remove(&cluster);
                self.parts.sessions.refuse(&cluster, reason).await;
            }
            Done::Renewed { lost: None, .. } => {}
        }
    }

    /// Asks the cloud what has happened, unless it is still thinking about the last time.
    fn poll_cloud(&mut self) {
        if !std::mem::replace(&mut self.polling, true) {
            let cloud = Arc::clone(&self.parts.cloud);
            self.works.spawn(async move { Done::CloudTold(works::cloud_events(&*cloud).await) });
        }
    }

    fn renew(&mut self) {
        for lease in self.leases.values().cloned() {
            let (store, duration) = (Arc::clone(&self.parts.store), self.parts.lease.duration);
            self.works.spawn(async move {
                let lost = works::renew(&*store, &lease, duration).await;
                Done::Renewed { cluster: Text::from(lease.cluster), lost }
            });
        }
    }

    async fn release(self) {
        for lease in self.leases.values() {
            if let Err(error) = self.parts.store.release_lease(lease).await {
                warn!(cluster = lease.cluster, %error, "a lease could not be given back; it runs out by itself");
            }
        }
    }
}

fn deadline(instruction: &Instruction, now: Timestamp) -> Timestamp {
    let wait = if matches!(instruction, Instruction::Drain { .. }) { DRAIN_MS } else { INSTRUCTION_MS };
    Timestamp(now.0.saturating_add(wait))
}

/// What the cloud told, as the controller hears it; a machine that is up speaks for itself by joining.
fn event_of(event: CloudEvent) -> Option<Event> {
    match event {
        CloudEvent::Running(_) => None,
        CloudEvent::Interrupted { instance, at } => Some(Event::Interrupted {
            cluster: instance.cluster,
            provider_id: instance.provider_id,
            reason: Text::from(format!(
                "the cloud takes the machine back in {} s",
                at.millis_since(clock::now()) / 1000
            )),
        }),
        CloudEvent::Terminated(instance) => {
            Some(Event::InstanceGone { cluster: instance.cluster, provider_id: instance.provider_id })
        }
    }
}
