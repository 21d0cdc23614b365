//! What one server process does about its clusters, without I/O: what happened goes in with the moment, what somebody has
//! to do comes out. The loop around it has tasks and sockets; a rehearsal has a virtual clock and many replicas.
//!
//! Deciding is the controller's, order and retries are the executor's. What is here: which lease covers which call, and
//! whether an agent is welcome.

use std::collections::{BTreeMap, VecDeque};

use cloud::provider::CloudEvent;
use engine::control::{ClusterId, Controller, Event, Instruction, InstructionId};
use engine::model::{Text, Timestamp};
use executor::{Command, CommandId, Executor, Outcome, Step};
use tracing::{debug, error, info, warn};

use crate::session::{Greeting, SessionEvent};
use crate::store::StoreError;
use crate::store::lease::{Lease, LeaseAnswer};

/// An instruction that no agent has taken up after this has failed, and the controller thinks again.
const INSTRUCTION_MS: i64 = 10 * 60_000;

/// Drains wait for pods, as long as their budgets make them.
const DRAIN_MS: i64 = 24 * 3_600_000;

/// Something that happened to this process.
#[derive(Debug)]
pub(crate) enum Input {
    /// A session tells.
    Heard(SessionEvent),
    /// The store answered [`Call::TakeLease`].
    Leased { cluster: ClusterId, answer: Result<LeaseAnswer, StoreError> },
    /// A command came to an end.
    Ran { id: CommandId, outcome: Outcome },
    /// The cloud answered [`Call::AskCloud`].
    CloudTold(Vec<CloudEvent>),
    /// The store answered [`Call::Renew`]: these are lost.
    Renewed { lost: Vec<Lease> },
    /// It is time to ask the cloud.
    CloudPoll,
    /// It is time to prolong every lease.
    RenewalDue,
    /// Time passed.
    Time,
}

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Output {
    /// Somebody outside has to answer.
    Call(Call),
    /// The agent that greeted is welcome under this epoch.
    Accept { cluster: ClusterId, epoch: u64 },
    /// The agent is not wanted.
    Refuse { cluster: ClusterId, reason: String },
    /// Have the agent do something.
    Instruct { cluster: ClusterId, id: InstructionId, instruction: Box<Instruction>, deadline: Timestamp },
    /// Have the agent of a cluster send a snapshot.
    Resync { cluster: ClusterId, reason: Text },
    /// What people see of this cluster has changed.
    Show(ClusterId),
}

/// A question to the store or the cloud, answered by an [`Input`].
#[derive(Debug)]
pub(crate) enum Call {
    /// Take the lease of a cluster above the epoch that its agent has `seen`.
    TakeLease { cluster: ClusterId, seen: u64 },
    /// Prolong leases, all at once.
    Renew(Vec<Lease>),
    /// Ask the cloud what has happened by itself.
    AskCloud,
    /// Carry a command out, under the lease of its cluster if this process holds it, and give it up at `answer_by`.
    Run { id: CommandId, command: Command, lease: Option<Lease>, answer_by: Timestamp },
}

impl Call {
    /// When the call is to be dropped, and what is known then; `None` for calls that may take as long as they need.
    pub(crate) fn limit(&self) -> Option<(Timestamp, Input)> {
        let Self::Run { id, answer_by, .. } = self else { return None };
        let outcome = Outcome::TryAgain { after_ms: None, why: "no answer in time".to_owned() };
        Some((*answer_by, Input::Ran { id: *id, outcome }))
    }
}

/// One server process, as far as its clusters are concerned.
#[derive(Debug)]
pub(crate) struct Replica {
    controller: Controller,
    executor: Executor,
    leases: BTreeMap<ClusterId, Lease>,
    /// The command that waits for an agent's answer to an instruction.
    instructed: BTreeMap<InstructionId, CommandId>,
    /// Whether the cloud is still thinking about the last question.
    asking: bool,
}

impl Replica {
    /// A process that has just started. `seed` spreads its retries.
    pub(crate) fn new(controller: Controller, seed: u64) -> Self {
        let executor = Executor::new(seed);
        Self { controller, executor, leases: BTreeMap::new(), instructed: BTreeMap::new(), asking: false }
    }

    /// Takes in what happened and says what is to be done, in order.
    pub(crate) fn handle(&mut self, input: Input, now: Timestamp) -> Vec<Output> {
        match input {
            Input::Heard(SessionEvent::Greeted(greeting)) => vec![Output::Call(Self::greeted(greeting))],
            Input::Heard(SessionEvent::Happened(event)) => self.happened(event, now),
            Input::Leased { cluster, answer } => vec![self.leased(cluster, answer)],
            Input::Ran { id, outcome } => self.ran(id, outcome, now),
            Input::CloudTold(events) => {
                self.asking = false;
                let events = events.into_iter().filter_map(|event| event_of(event, now));
                events.flat_map(|event| self.happened(event, now)).collect()
            }
            Input::Renewed { lost } => lost.iter().filter_map(|lease| self.lost(lease)).collect(),
            Input::CloudPoll => {
                let asked = std::mem::replace(&mut self.asking, true);
                (!asked).then_some(Output::Call(Call::AskCloud)).into_iter().collect()
            }
            Input::RenewalDue => {
                let leases: Vec<Lease> = self.leases.values().cloned().collect();
                (!leases.is_empty()).then_some(Output::Call(Call::Renew(leases))).into_iter().collect()
            }
            Input::Time => self.time_passed(now),
        }
    }

    /// When [`Input::Time`] is due at the latest.
    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        [self.controller.next_wakeup(), self.executor.next_wakeup()].into_iter().flatten().min()
    }

    /// What is believed and decided.
    pub(crate) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// The leases that this process takes itself to hold.
    pub(crate) fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// An agent wants to speak: whoever decides for its cluster must hold its lease.
    fn greeted(greeting: Greeting) -> Call {
        Call::TakeLease { cluster: greeting.cluster, seen: greeting.highest_epoch }
    }

    fn leased(&mut self, cluster: ClusterId, answer: Result<LeaseAnswer, StoreError>) -> Output {
        match answer {
            Ok(LeaseAnswer::Granted { lease, open }) => {
                info!(%cluster, epoch = lease.epoch, open_launches = open.intents.len(), "deciding for this cluster");
                let epoch = lease.epoch;
                self.leases.insert(cluster.clone(), lease);
                Output::Accept { cluster, epoch }
            }
            Ok(LeaseAnswer::Held { owner, .. }) => {
                Output::Refuse { cluster, reason: format!("the replica {owner} decides for it") }
            }
            Err(error) => {
                error!(%cluster, %error, "the lease of a cluster could not be taken");
                Output::Refuse { cluster, reason: error.to_string() }
            }
        }
    }

    /// `None` when the lease has been taken again since.
    fn lost(&mut self, lease: &Lease) -> Option<Output> {
        let cluster = Text::from(lease.scope.cluster_name()?);
        self.leases.get(&cluster).filter(|held| *held == lease)?;
        warn!(%cluster, epoch = lease.epoch, "this replica decides for the cluster no more");
        self.leases.remove(&cluster);
        Some(Output::Refuse { cluster, reason: "another replica decides for it".to_owned() })
    }

    /// Takes in what a session or the cloud tells. The answer to an instruction ends its command first.
    fn happened(&mut self, event: Event, now: Timestamp) -> Vec<Output> {
        let steps = match &event {
            Event::InstructionAcked { instruction, .. } => self.answered(*instruction, Outcome::Done, now),
            Event::InstructionFailed { instruction, reason, .. } => {
                self.answered(*instruction, Outcome::Refused(reason.clone()), now)
            }
            _ => None,
        };
        let steps = steps.unwrap_or_else(|| {
            self.executor.heard(&event);
            self.decide(event, now)
        });
        self.follow(steps, now)
    }

    /// `None` when no command waits for that answer.
    fn answered(&mut self, instruction: InstructionId, outcome: Outcome, now: Timestamp) -> Option<Vec<Step>> {
        let command = self.instructed.remove(&instruction)?;
        Some(self.executor.outcome(command, outcome, now))
    }

    fn decide(&mut self, event: Event, now: Timestamp) -> Vec<Step> {
        let effects = self.controller.handle(event, now);
        effects.into_iter().flat_map(|effect| self.executor.start(effect, now)).collect()
    }

    fn ran(&mut self, id: CommandId, outcome: Outcome, now: Timestamp) -> Vec<Output> {
        if let Outcome::TryAgain { why, .. } = &outcome {
            debug!(command = id.0, why, "a command will be sent again");
        }
        let steps = self.executor.outcome(id, outcome, now);
        self.follow(steps, now)
    }

    fn time_passed(&mut self, now: Timestamp) -> Vec<Output> {
        let mut steps = self.executor.tick(now);
        steps.extend(self.decide(Event::Tick, now));
        self.follow(steps, now)
    }

    fn follow(&mut self, steps: Vec<Step>, now: Timestamp) -> Vec<Output> {
        let mut queue = VecDeque::from(steps);
        let mut outputs = Vec::new();
        while let Some(step) = queue.pop_front() {
            match step {
                Step::Run { id, command: Command::Instruct { cluster, id: number, instruction }, .. } => {
                    self.instructed.insert(number, id);
                    let deadline = deadline(&instruction, now);
                    outputs.push(Output::Instruct { cluster, id: number, instruction, deadline });
                }
                Step::Run { id, command, answer_by } => {
                    let lease = self.lease_for(&command);
                    outputs.push(Output::Call(Call::Run { id, command, lease, answer_by }));
                }
                Step::Tell(event) => queue.extend(self.decide(*event, now)),
                Step::Resync { cluster, reason } => outputs.push(Output::Resync { cluster, reason }),
                Step::Publish { cluster } => outputs.push(Output::Show(cluster)),
            }
        }
        outputs
    }

    fn lease_for(&self, command: &Command) -> Option<Lease> {
        let cluster = match command {
            Command::Record(decision) => &decision.cluster,
            Command::Launch(order) => &order.cluster,
            Command::Instruct { cluster, .. } | Command::Terminate { cluster, .. } => cluster,
        };
        self.leases.get(cluster).cloned()
    }
}

fn deadline(instruction: &Instruction, now: Timestamp) -> Timestamp {
    let wait = if matches!(instruction, Instruction::Drain { .. }) { DRAIN_MS } else { INSTRUCTION_MS };
    Timestamp(now.0.saturating_add(wait))
}

/// What the cloud told, as the controller hears it; a machine that is up speaks for itself by joining.
fn event_of(event: CloudEvent, now: Timestamp) -> Option<Event> {
    match event {
        CloudEvent::Running(_) => None,
        CloudEvent::Interrupted { instance, at } => Some(Event::Interrupted {
            cluster: instance.cluster,
            provider_id: instance.provider_id,
            reason: Text::from(format!("the cloud takes the machine back in {} s", at.millis_since(now) / 1000)),
        }),
        CloudEvent::Terminated(instance) => {
            Some(Event::InstanceGone { cluster: instance.cluster, provider_id: instance.provider_id })
        }
    }
}
