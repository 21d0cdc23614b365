//! Commands for the store, the cloud and agents, and their outcomes.

use engine::control::guardrails::quarantine::ObjectCounts;
use engine::control::{
    ClusterId, DecidedLaunch, Decision, Event, Finding, Inspection, Instruction, InstructionId, LaunchFailure,
    LaunchOrder, Launched, PlanRequest,
};
use engine::model::{CapacityType, Text, Timestamp};

/// Id of a command; the same for every try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// A call that the executor's caller has to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Records the decision durably: [`Outcome::Done`].
    RecordDecision(Box<Decision>),
    /// Sends the instruction to the cluster's agent: [`Outcome::Done`] or [`Outcome::Refused`] by
    /// its answer.
    Instruct {
        /// Cluster of the agent.
        cluster: ClusterId,
        /// Id that the agent's answer refers to.
        id: InstructionId,
        /// Content of the instruction.
        instruction: Box<Instruction>,
    },
    /// Launches an instance: [`Outcome::Launched`] or [`Outcome::LaunchFailed`].
    Launch(Box<LaunchOrder>),
    /// Records a further attempt, then launches an instance: as [`Command::Launch`].
    Relaunch(Box<DecidedLaunch>),
    /// Describes an instance: [`Outcome::Launched`], [`Outcome::Done`] when it has ended, or
    /// [`Outcome::Found`] when the cloud does not know it.
    Describe {
        /// Owner of the instance.
        cluster: ClusterId,
        /// NodeClaim of the instance.
        claim: Text,
        /// Attempt that launched it.
        attempt: u32,
        /// Provider id of the instance.
        provider_id: Text,
    },
    /// Records that a launch produced an instance: [`Outcome::Done`].
    RecordLaunched {
        /// Owner of the launch row.
        cluster: ClusterId,
        /// NodeClaim of the launch row.
        claim: Text,
        /// Attempt that launched the instance.
        attempt: u32,
        /// Provider id of the instance.
        provider_id: Text,
    },
    /// Persists the object counts of a cluster: [`Outcome::Done`].
    PersistCounts {
        /// Cluster that the counts describe.
        cluster: ClusterId,
        /// Object counts of the accepted state.
        counts: ObjectCounts,
    },
    /// Closes the launch row of a NodeClaim: [`Outcome::Done`].
    CloseLaunch {
        /// Owner of the launch row.
        cluster: ClusterId,
        /// NodeClaim of the launch row.
        claim: Text,
    },
    /// Queries an instance by id: [`Outcome::Found`].
    Inspect {
        /// Expected owner of the instance.
        cluster: ClusterId,
        /// UID of the cluster; empty while unknown.
        cluster_uid: Text,
        /// Expected NodeClaim of the instance.
        claim: Text,
        /// Provider id of the instance.
        provider_id: Text,
    },
    /// Terminates an instance: [`Outcome::Begun`] when termination has begun, [`Outcome::Done`]
    /// when it has ended, [`Outcome::Found`] when the cloud does not know it, [`Outcome::Refused`]
    /// when another cluster owns it.
    Terminate {
        /// Expected owner of the instance.
        cluster: ClusterId,
        /// UID of the cluster; empty while unknown.
        cluster_uid: Text,
        /// NodeClaim of the instance.
        claim: Text,
        /// Provider id of the instance.
        provider_id: Text,
    },
}

impl Command {
    /// Marks the command as repeated: the effect of the earlier call is unknown.
    pub(crate) fn mark_repeated(&mut self) {
        match self {
            Self::Launch(order) => order.repeats = true,
            Self::Relaunch(decided) => decided.machine.launch.repeats = true,
            _ => {}
        }
    }

    /// Cluster and subject that order commands; `None` for commands that may run concurrently.
    pub(crate) fn subject_key(&self) -> Option<(Text, Text)> {
        match self {
            // A read need not wait for commands in flight.
            Self::RecordDecision(_) | Self::Inspect { .. } => None,
            Self::PersistCounts { cluster, .. } => Some((cluster.clone(), Text::from("extent"))),
            Self::Instruct { cluster, instruction, .. } => Some((cluster.clone(), Text::from(instruction.subject()))),
            Self::Launch(order) => Some((order.cluster.clone(), claim_subject(&order.claim))),
            Self::Relaunch(decided) => {
                let order = &decided.machine.launch;
                Some((order.cluster.clone(), claim_subject(&order.claim)))
            }
            Self::Terminate { cluster, claim, .. }
            | Self::Describe { cluster, claim, .. }
            | Self::RecordLaunched { cluster, claim, .. }
            | Self::CloseLaunch { cluster, claim } => Some((cluster.clone(), claim_subject(claim))),
        }
    }

    /// The cluster that the command concerns.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        match self {
            Self::RecordDecision(decision) => &decision.cluster,
            Self::Launch(order) => &order.cluster,
            Self::Relaunch(decided) => &decided.machine.launch.cluster,
            Self::Instruct { cluster, .. }
            | Self::Terminate { cluster, .. }
            | Self::Inspect { cluster, .. }
            | Self::Describe { cluster, .. }
            | Self::RecordLaunched { cluster, .. }
            | Self::PersistCounts { cluster, .. }
            | Self::CloseLaunch { cluster, .. } => cluster,
        }
    }

    /// Timeout of an answer, in milliseconds. A drain waits for pods, so its instruction is only
    /// repeated now and then, for a restarted agent; a launch is one call that EC2 answers within
    /// seconds.
    #[must_use]
    pub fn answer_timeout_ms(&self) -> i64 {
        match self {
            Self::RecordDecision(_)
            | Self::RecordLaunched { .. }
            | Self::CloseLaunch { .. }
            | Self::PersistCounts { .. } => 10_000,
            Self::Instruct { instruction, .. } if matches!(**instruction, Instruction::Drain { .. }) => 120_000,
            Self::Instruct { .. } | Self::Terminate { .. } | Self::Describe { .. } | Self::Inspect { .. } => 30_000,
            Self::Launch(_) | Self::Relaunch(_) => 60_000,
        }
    }
}

/// Subject of commands about a NodeClaim.
fn claim_subject(claim: &Text) -> Text {
    Text::from(format!("nodeclaim/{claim}"))
}

/// Outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The command is carried out.
    Done,
    /// The cloud has begun to terminate the instance.
    Begun,
    /// An instance exists.
    Launched {
        /// Provider id of the instance.
        provider_id: Text,
        /// Instance type that was launched.
        instance_type: Text,
        /// Zone of the instance.
        zone: Text,
        /// Capacity type of the instance.
        capacity_type: CapacityType,
        /// Instance type and zone of options that were tried before and had insufficient capacity.
        unavailable: Vec<(Text, Text)>,
    },
    /// No instance was launched; final.
    LaunchFailed(LaunchFailure),
    /// What the cloud reports about an instance.
    Found(Inspection),
    /// The command was refused; final.
    Refused(String),
    /// The command was not begun: a precondition of the instruction does not hold.
    Unmet(String),
    /// The outcome is unknown, or nothing happened: the same command is sent again.
    TryAgain {
        /// Minimum delay before the next try, in milliseconds.
        after_ms: Option<i64>,
        /// Reason, for the log.
        why: String,
    },
}

/// What the executor's caller has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Carry out the command and report its outcome by `answer_by`; drop a call without an answer
    /// by then.
    Run {
        /// Id of the command, for its outcome.
        id: CommandId,
        /// Content of the command.
        command: Command,
        /// When the command is sent again without an answer.
        answer_by: Timestamp,
    },
    /// Make this plan and pass the answer to the controller. The planner runs in this process, so
    /// the request needs no retry.
    Plan(Box<PlanRequest>),
    /// Pass this event to the controller.
    Handle(Box<Event>),
    /// Request a snapshot from the agent.
    Resync {
        /// Cluster of the agent.
        cluster: ClusterId,
        /// Reason, for operators.
        reason: Text,
    },
    /// Report a problem that only an operator may resolve.
    Report {
        /// Cluster with the problem.
        cluster: ClusterId,
        /// Content of the report.
        finding: Finding,
    },
    /// Publish the view of this cluster.
    Publish {
        /// Cluster whose view changed.
        cluster: ClusterId,
    },
}

fn failed(cluster: &ClusterId, instruction: InstructionId, reason: String, unmet: bool) -> Event {
    Event::InstructionFailed { cluster: cluster.clone(), instruction, reason, unmet }
}

/// The event for the outcome of `command`; `None` when none is expected, or when the cloud sends
/// its own.
pub(crate) fn event_of(command: &Command, outcome: Outcome) -> Option<Event> {
    match command {
        Command::RecordDecision(decision) => Some(Event::Recorded { decision: decision.id }),
        Command::Instruct { cluster, id, .. } => Some(match outcome {
            Outcome::Refused(reason) => failed(cluster, *id, reason, false),
            Outcome::Unmet(reason) => failed(cluster, *id, reason, true),
            _ => Event::InstructionAcked { cluster: cluster.clone(), instruction: *id },
        }),
        Command::Launch(order) => Some(launch_event(order, outcome)),
        Command::Relaunch(decided) => Some(launch_event(&decided.machine.launch, outcome)),
        Command::Describe { cluster, claim, attempt, provider_id } => {
            let event = ended(cluster, provider_id, &outcome);
            Some(described(cluster, claim, *attempt, outcome).unwrap_or(event))
        }
        Command::RecordLaunched { .. } | Command::CloseLaunch { .. } | Command::PersistCounts { .. } => None,
        Command::Inspect { cluster, provider_id, .. } => {
            let Outcome::Found(found) = outcome else { return None };
            Some(Event::Inspected { cluster: cluster.clone(), provider_id: provider_id.clone(), found })
        }
        Command::Terminate { cluster, claim, provider_id, .. } => match outcome {
            Outcome::Begun => None,
            Outcome::Refused(_) => {
                let (cluster, claim, provider_id) = (cluster.clone(), claim.clone(), provider_id.clone());
                Some(Event::TerminateRefused { cluster, claim, provider_id })
            }
            other => Some(ended(cluster, provider_id, &other)),
        },
    }
}

/// The event for an instance that has ended according to the cloud, or that it does not know.
fn ended(cluster: &ClusterId, provider_id: &Text, outcome: &Outcome) -> Event {
    let (cluster, provider_id) = (cluster.clone(), provider_id.clone());
    match outcome {
        Outcome::Found(found) => Event::Inspected { cluster, provider_id, found: *found },
        _ => Event::InstanceGone { cluster, provider_id },
    }
}

/// The event with the facts of a described instance; `None` when there is none.
fn described(cluster: &ClusterId, claim: &Text, attempt: u32, outcome: Outcome) -> Option<Event> {
    let Outcome::Launched { provider_id, instance_type, zone, capacity_type, unavailable } = outcome else {
        return None;
    };
    let (cluster, claim) = (cluster.clone(), claim.clone());
    let launched = Launched { cluster, claim, attempt, provider_id, instance_type, zone, capacity_type, unavailable };
    Some(Event::Launched(Box::new(launched)))
}

fn launch_event(order: &LaunchOrder, outcome: Outcome) -> Event {
    let (cluster, claim, attempt) = (order.cluster.clone(), order.claim.clone(), order.attempt);
    let refused = |message: String| LaunchFailure::Refused { code: Text::from("Refused"), message, retryable: false };
    let failure = match outcome {
        Outcome::Launched { provider_id, instance_type, zone, capacity_type, unavailable } => {
            let launched =
                Launched { cluster, claim, attempt, provider_id, instance_type, zone, capacity_type, unavailable };
            return Event::Launched(Box::new(launched));
        }
        Outcome::LaunchFailed(failure) => failure,
        Outcome::Refused(message) => refused(message),
        other => refused(format!("a launch cannot end as {other:?}")),
    };
    Event::LaunchFailed { cluster, claim, attempt, failure }
}
