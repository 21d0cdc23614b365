//! Operations to execute, their outcomes, and the order, timeout and repetition of each kind.

use crate::{ClusterCall, Event, Instruction, InstructionId};
use model::{ClaimName, Millis, Text, Timestamp};

/// Id of a command; the same for every try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// What is done in order, and repeated until its outcome is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Instruct { id: InstructionId, instruction: Box<Instruction> },
    Call(ClusterCall),
}

/// An operation that the executor's caller has to carry out now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Names the command in [`Executor::handle_outcome`](crate::executor::Executor::handle_outcome).
    pub id: CommandId,
    /// The operation, as the controller decided it; only a repeated launch is marked as repeated.
    pub operation: Operation,
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

/// Marks the operation as repeated: whether the earlier call took effect is unknown.
pub(crate) fn mark_repeated(operation: &mut Operation) {
    match operation {
        Operation::Call(ClusterCall::Launch(order)) => order.repeats = true,
        Operation::Call(ClusterCall::Relaunch(decided)) => decided.machine.launch.repeats = true,
        _ => {}
    }
}

/// Subject that orders operations; `None` for those that may be executed concurrently.
pub(crate) fn subject(operation: &Operation) -> Option<Text> {
    let call = match operation {
        Operation::Instruct { instruction, .. } => return Some(Text::from(instruction.subject())),
        Operation::Call(call) => call,
    };
    Some(match call {
        // A read need not wait for commands in flight.
        ClusterCall::RecordDecision(_)
        | ClusterCall::Inspect { .. }
        | ClusterCall::ConfirmNotices(_)
        | ClusterCall::ResolveNodeClass(_) => return None,
        ClusterCall::PersistCounts(_) => Text::from("extent"),
        ClusterCall::RecordCosts(_) => Text::from("costs"),
        ClusterCall::EndReplacements { .. } => Text::from("replacements"),
        ClusterCall::WriteHold { hold, .. } => Text::from(format!("hold/{hold}")),
        ClusterCall::Launch(order) => claim_subject(&order.claim),
        ClusterCall::Relaunch(decided) => claim_subject(&decided.machine.launch.claim),
        ClusterCall::Terminate { claim, .. }
        | ClusterCall::Describe { claim, .. }
        | ClusterCall::RecordLaunched { claim, .. }
        | ClusterCall::CloseLaunch(claim) => claim_subject(claim),
    })
}

/// Whether the operation is the instruction to drain a Node.
pub(crate) fn is_drain(operation: &Operation) -> bool {
    matches!(operation, Operation::Instruct { instruction, .. } if matches!(**instruction, Instruction::Drain { .. }))
}

/// Timeout of an answer. A drain waits for pods, so its instruction is only repeated now and then,
/// for a restarted agent; a launch is one call that EC2 answers within seconds.
pub(crate) fn answer_timeout(operation: &Operation) -> Millis {
    let call = match operation {
        Operation::Instruct { .. } if is_drain(operation) => return Millis::from_mins(2),
        Operation::Instruct { .. } => return Millis::from_secs(30),
        Operation::Call(call) => call,
    };
    match call {
        ClusterCall::RecordDecision(_)
        | ClusterCall::RecordLaunched { .. }
        | ClusterCall::CloseLaunch(_)
        | ClusterCall::EndReplacements { .. }
        | ClusterCall::WriteHold { .. }
        | ClusterCall::RecordCosts(_)
        | ClusterCall::PersistCounts(_) => Millis::from_secs(10),
        ClusterCall::Terminate { .. }
        | ClusterCall::Describe { .. }
        | ClusterCall::Inspect { .. }
        | ClusterCall::ConfirmNotices(_) => Millis::from_secs(30),
        // Several calls, each of which may wait for its turn.
        ClusterCall::ResolveNodeClass(_) => Millis::from_mins(2),
        ClusterCall::Launch(_) | ClusterCall::Relaunch(_) => Millis::from_mins(1),
    }
}

/// Subject of calls about a NodeClaim.
fn claim_subject(claim: &ClaimName) -> Text {
    Text::from(format!("nodeclaim/{claim}"))
}
