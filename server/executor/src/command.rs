//! What is asked of store, cloud and agents, and what can come of it.

use engine::control::guardrails::quarantine::Extent;
use engine::control::{
    ClusterId, DecidedLaunch, Decision, Event, Finding, Inspection, Instruction, InstructionId, LaunchFailure,
    LaunchOrder, Launched, PlanRequest,
};
use engine::model::{CapacityType, Text, Timestamp};

/// Number of a command; the same for every try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// Something that somebody has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Make the decision durable: [`Outcome::Done`].
    Record(Box<Decision>),
    /// Send the instruction to the cluster's agent: [`Outcome::Done`] or [`Outcome::Refused`] by its answer.
    Instruct {
        /// Where.
        cluster: ClusterId,
        /// Names the instruction for its answer.
        id: InstructionId,
        /// What.
        instruction: Box<Instruction>,
    },
    /// Buy a machine: [`Outcome::Launched`] or [`Outcome::LaunchFailed`].
    Launch(Box<LaunchOrder>),
    /// Write a further attempt down, then buy a machine in it: as [`Command::Launch`].
    Relaunch(Box<DecidedLaunch>),
    /// Look at a machine: [`Outcome::Launched`], [`Outcome::Done`] when it has ended, or [`Outcome::Found`] when the cloud knows
    /// none.
    Describe {
        /// Where.
        cluster: ClusterId,
        /// NodeClaim.
        claim: Text,
        /// The attempt that it was launched in.
        attempt: u32,
        /// Provider id.
        provider_id: Text,
    },
    /// Write down that a launch has given a machine: [`Outcome::Done`].
    Settle {
        /// Where.
        cluster: ClusterId,
        /// NodeClaim.
        claim: Text,
        /// The attempt that it was launched in.
        attempt: u32,
        /// Provider id.
        provider_id: Text,
    },
    /// Write down how much there is in a cluster: [`Outcome::Done`].
    KeepExtent {
        /// Where.
        cluster: ClusterId,
        /// How much.
        extent: Extent,
    },
    /// Close what was written down about a NodeClaim: [`Outcome::Done`].
    Close {
        /// Where.
        cluster: ClusterId,
        /// NodeClaim.
        claim: Text,
    },
    /// Ask about a machine by its id: [`Outcome::Found`].
    Inspect {
        /// Where.
        cluster: ClusterId,
        /// UID of the cluster; empty when it is not known.
        cluster_uid: Text,
        /// NodeClaim.
        claim: Text,
        /// Provider id.
        provider_id: Text,
    },
    /// Give a machine back: [`Outcome::Begun`] when the cloud has begun, [`Outcome::Done`] when it has ended, [`Outcome::Found`] when
    /// the cloud knows none, [`Outcome::Refused`] when it is not the cluster's.
    Terminate {
        /// Where.
        cluster: ClusterId,
        /// UID of the cluster; empty when it is not known.
        cluster_uid: Text,
        /// NodeClaim.
        claim: Text,
        /// Provider id.
        provider_id: Text,
    },
}

impl Command {
    /// It is sent for another time: what an earlier call did is not known.
    pub(crate) fn repeats(&mut self) {
        match self {
            Self::Launch(order) => order.repeats = true,
            Self::Relaunch(decided) => decided.machine.launch.repeats = true,
            _ => {}
        }
    }

    /// What commands take turns about, by cluster and subject; `None` for commands that wait for nobody.
    pub(crate) fn lane(&self) -> Option<(Text, Text)> {
        match self {
            // A question waits for nothing that is under way.
            Self::Record(_) | Self::Inspect { .. } => None,
            Self::KeepExtent { cluster, .. } => Some((cluster.clone(), Text::from("extent"))),
            Self::Instruct { cluster, instruction, .. } => Some((cluster.clone(), Text::from(instruction.subject()))),
            Self::Launch(order) => Some((order.cluster.clone(), of_claim(&order.claim))),
            Self::Relaunch(decided) => {
                let order = &decided.machine.launch;
                Some((order.cluster.clone(), of_claim(&order.claim)))
            }
            Self::Terminate { cluster, claim, .. }
            | Self::Describe { cluster, claim, .. }
            | Self::Settle { cluster, claim, .. }
            | Self::Close { cluster, claim } => Some((cluster.clone(), of_claim(claim))),
        }
    }

    /// The cluster that it is about.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        match self {
            Self::Record(decision) => &decision.cluster,
            Self::Launch(order) => &order.cluster,
            Self::Relaunch(decided) => &decided.machine.launch.cluster,
            Self::Instruct { cluster, .. }
            | Self::Terminate { cluster, .. }
            | Self::Inspect { cluster, .. }
            | Self::Describe { cluster, .. }
            | Self::Settle { cluster, .. }
            | Self::KeepExtent { cluster, .. }
            | Self::Close { cluster, .. } => cluster,
        }
    }

    /// How long an answer may take, in milliseconds. A drain waits for pods, so its instruction is only repeated now and
    /// then, for an agent that was started anew; a launch is one call that EC2 answers within seconds.
    #[must_use]
    pub fn patience_ms(&self) -> i64 {
        match self {
            Self::Record(_) | Self::Settle { .. } | Self::Close { .. } | Self::KeepExtent { .. } => 10_000,
            Self::Instruct { instruction, .. } if matches!(**instruction, Instruction::Drain { .. }) => 120_000,
            Self::Instruct { .. } | Self::Terminate { .. } | Self::Describe { .. } | Self::Inspect { .. } => 30_000,
            Self::Launch(_) | Self::Relaunch(_) => 60_000,
        }
    }
}

/// The subject of instructions about a NodeClaim.
fn of_claim(claim: &Text) -> Text {
    Text::from(format!("nodeclaim/{claim}"))
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The cloud has begun to give the machine back.
    Begun,
    /// A machine is there.
    Launched {
        /// Provider id.
        provider_id: Text,
        /// Instance type.
        instance_type: Text,
        /// Zone.
        zone: Text,
        /// How it is paid for.
        capacity_type: CapacityType,
        /// (Instance type, zone) of options that were tried before and were not to be had.
        sold_out: Vec<(Text, Text)>,
    },
    /// No machine came of it, for good.
    LaunchFailed(LaunchFailure),
    /// What the cloud says of a machine.
    Found(Inspection),
    /// It was refused, for good.
    Refused(String),
    /// It was not begun, since the precondition that the instruction names does not hold.
    Unmet(String),
    /// Nothing is known, or nothing was done: the same command is to be sent again.
    TryAgain {
        /// Not before this many milliseconds.
        after_ms: Option<i64>,
        /// Why, for the log.
        why: String,
    },
}

/// What an executor wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Carry this out and report its outcome by `answer_by`; a call that has not answered by then is to be dropped.
    Run {
        /// Names the command for its outcome.
        id: CommandId,
        /// What.
        command: Command,
        /// When it is sent again without an answer.
        answer_by: Timestamp,
    },
    /// Make this plan and hand the answer to the controller. It is made in this process, so nobody has to ask twice.
    Plan(Box<PlanRequest>),
    /// Hand this to the controller.
    Tell(Box<Event>),
    /// Have the agent send a snapshot.
    Resync {
        /// Which cluster's.
        cluster: ClusterId,
        /// Why, for people.
        reason: Text,
    },
    /// Tell people of something that nobody may put right unasked.
    Report {
        /// Where.
        cluster: ClusterId,
        /// What.
        finding: Finding,
    },
    /// Show what people see of this cluster.
    Publish {
        /// Which.
        cluster: ClusterId,
    },
}

fn failed(cluster: &ClusterId, instruction: InstructionId, reason: String, unmet: bool) -> Event {
    Event::InstructionFailed { cluster: cluster.clone(), instruction, reason, unmet }
}

/// The event that the outcome of `command` is; `None` when nobody waits for it, or when the cloud will tell.
pub(crate) fn event_of(command: &Command, outcome: Outcome) -> Option<Event> {
    match command {
        Command::Record(decision) => Some(Event::Recorded { decision: decision.id }),
        Command::Instruct { cluster, id, .. } => Some(match outcome {
            Outcome::Refused(reason) => failed(cluster, *id, reason, false),
            Outcome::Unmet(reason) => failed(cluster, *id, reason, true),
            _ => Event::InstructionAcked { cluster: cluster.clone(), instruction: *id },
        }),
        Command::Launch(order) => Some(launch_event(order, outcome)),
        Command::Relaunch(decided) => Some(launch_event(&decided.machine.launch, outcome)),
        Command::Describe { cluster, claim, attempt, provider_id } => {
            let told = ended(cluster, provider_id, &outcome);
            Some(described(cluster, claim, *attempt, outcome).unwrap_or(told))
        }
        Command::Settle { .. } | Command::Close { .. } | Command::KeepExtent { .. } => None,
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

/// A machine that the cloud states to have ended, or does not know.
fn ended(cluster: &ClusterId, provider_id: &Text, outcome: &Outcome) -> Event {
    let (cluster, provider_id) = (cluster.clone(), provider_id.clone());
    match outcome {
        Outcome::Found(found) => Event::Inspected { cluster, provider_id, found: *found },
        _ => Event::InstanceGone { cluster, provider_id },
    }
}

/// The facts of a machine that was looked at; `None` when there is none.
fn described(cluster: &ClusterId, claim: &Text, attempt: u32, outcome: Outcome) -> Option<Event> {
    let Outcome::Launched { provider_id, instance_type, zone, capacity_type, sold_out } = outcome else { return None };
    let (cluster, claim) = (cluster.clone(), claim.clone());
    let launched = Launched { cluster, claim, attempt, provider_id, instance_type, zone, capacity_type, sold_out };
    Some(Event::Launched(Box::new(launched)))
}

fn launch_event(order: &LaunchOrder, outcome: Outcome) -> Event {
    let (cluster, claim, attempt) = (order.cluster.clone(), order.claim.clone(), order.attempt);
    let refused = |message: String| LaunchFailure::Refused { code: Text::from("Refused"), message, retryable: false };
    let failure = match outcome {
        Outcome::Launched { provider_id, instance_type, zone, capacity_type, sold_out } => {
            let launched =
                Launched { cluster, claim, attempt, provider_id, instance_type, zone, capacity_type, sold_out };
            return Event::Launched(Box::new(launched));
        }
        Outcome::LaunchFailed(failure) => failure,
        Outcome::Refused(message) => refused(message),
        other => refused(format!("a launch cannot end as {other:?}")),
    };
    Event::LaunchFailed { cluster, claim, attempt, failure }
}
