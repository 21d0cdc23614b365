//! Effects to execute, their outcomes, and the order, timeout and repetition of each kind.

use crate::{Effect, Event, Instruction};
use model::{ClaimName, ClusterName, Millis, Text, Timestamp};

/// Id of a command; the same for every try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// An effect that the executor's caller has to execute now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Names the command in [`Executor::handle_outcome`](crate::executor::Executor::handle_outcome).
    pub id: CommandId,
    /// The effect, as the controller decided it; only a repeated launch is marked as repeated.
    pub effect: Effect,
    /// When the command is sent again without an answer.
    pub answer_by: Timestamp,
}

/// Outcome of a command: the event for the controller, or why the same command is sent again.
///
/// Records have no event. A termination without an event has only begun, and is queried later
/// unless the cloud reports its end.
pub type Outcome = Result<Option<Event>, Retry>;

/// The outcome is unknown, or nothing happened: the same command is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Minimum delay before the next try.
    pub after: Option<Millis>,
    /// Reason, for the log.
    pub why: String,
}

/// Marks the effect as repeated: whether the earlier call took effect is unknown.
pub(crate) fn mark_repeated(effect: &mut Effect) {
    match effect {
        Effect::Launch(order) => order.repeats = true,
        Effect::Relaunch(decided) => decided.machine.launch.repeats = true,
        _ => {}
    }
}

/// Cluster and subject that order effects; `None` for effects that may be executed concurrently.
pub(crate) fn subject_key(effect: &Effect) -> Option<(ClusterName, Text)> {
    let subject = match effect {
        // A read need not wait for commands in flight.
        Effect::RecordDecision(_)
        | Effect::Inspect { .. }
        | Effect::ConfirmNotices { .. }
        | Effect::ResolveNodeClass(_) => return None,
        // The caller of the executor executes these itself; see `Executor::start`.
        Effect::Plan(_)
        | Effect::Resync { .. }
        | Effect::ReportFinding { .. }
        | Effect::ClaimProbes { .. }
        | Effect::PublishView { .. } => {
            return None;
        }
        Effect::PersistCounts { .. } => Text::from("extent"),
        Effect::RecordCosts { .. } => Text::from("costs"),
        Effect::EndReplacements { .. } => Text::from("replacements"),
        Effect::WriteHold { hold, .. } => Text::from(format!("hold/{hold}")),
        Effect::Instruct { instruction, .. } => Text::from(instruction.subject()),
        Effect::Launch(order) => claim_subject(&order.claim),
        Effect::Relaunch(decided) => claim_subject(&decided.machine.launch.claim),
        Effect::Terminate { claim, .. }
        | Effect::Describe { claim, .. }
        | Effect::RecordLaunched { claim, .. }
        | Effect::CloseLaunch { claim, .. } => claim_subject(claim),
    };
    Some((effect.cluster().clone(), subject))
}

/// Whether the effect is the instruction to drain a Node.
pub(crate) fn is_drain(effect: &Effect) -> bool {
    matches!(effect, Effect::Instruct { instruction, .. } if matches!(**instruction, Instruction::Drain { .. }))
}

/// Timeout of an answer. A drain waits for pods, so its instruction is only repeated now and then,
/// for a restarted agent; a launch is one call that EC2 answers within seconds.
pub(crate) fn answer_timeout(effect: &Effect) -> Millis {
    match effect {
        Effect::RecordDecision(_)
        | Effect::RecordLaunched { .. }
        | Effect::CloseLaunch { .. }
        | Effect::EndReplacements { .. }
        | Effect::WriteHold { .. }
        | Effect::RecordCosts { .. }
        | Effect::PersistCounts { .. } => Millis::from_secs(10),
        effect if is_drain(effect) => Millis::from_mins(2),
        Effect::Instruct { .. }
        | Effect::Terminate { .. }
        | Effect::Describe { .. }
        | Effect::Inspect { .. }
        | Effect::ConfirmNotices { .. } => Millis::from_secs(30),
        // Several calls, each of which may wait for its turn.
        Effect::ResolveNodeClass(_) => Millis::from_mins(2),
        Effect::Launch(_) | Effect::Relaunch(_) => Millis::from_mins(1),
        // The caller of the executor executes these itself; see `Executor::start`.
        Effect::Plan(_)
        | Effect::Resync { .. }
        | Effect::ReportFinding { .. }
        | Effect::ClaimProbes { .. }
        | Effect::PublishView { .. } => Millis::from_secs(30),
    }
}

/// Subject of effects about a NodeClaim.
fn claim_subject(claim: &ClaimName) -> Text {
    Text::from(format!("nodeclaim/{claim}"))
}
