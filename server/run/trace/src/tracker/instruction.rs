//! An instruction as a step of a decision.

use controller::{Instruction, InstructionId};
use model::{ClaimName, Timestamp};

use crate::context::SpanContext;

/// What an instruction is a step of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Create,
    MarkLaunched,
    Register,
    Initialize,
    Drain,
    Delete,
}

impl Step {
    /// The step of an instruction, and its NodeClaim.
    pub(super) fn of(instruction: &Instruction) -> Option<(Self, &ClaimName)> {
        Some(match instruction {
            Instruction::CreateClaim(order) => (Self::Create, &order.name),
            Instruction::MarkLaunched { claim, .. } => (Self::MarkLaunched, claim),
            Instruction::RegisterNode { claim, .. } => (Self::Register, claim),
            Instruction::InitializeNode { claim, .. } => (Self::Initialize, claim),
            Instruction::Drain { claim, .. } => (Self::Drain, claim),
            Instruction::DeleteClaim { claim, .. } => (Self::Delete, claim),
            Instruction::RemoveDisruptedTaint { .. }
            | Instruction::NominatePods { .. }
            | Instruction::WriteStatus(_)
            | Instruction::RecordEvent(_) => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::MarkLaunched => "mark_launched",
            Self::Register => "register",
            Self::Initialize => "initialize",
            Self::Drain => "drain",
            Self::Delete => "delete",
        }
    }
}

/// An instruction that the agent has not answered.
#[derive(Debug)]
pub(super) struct OpenInstruction {
    pub(super) claim: ClaimName,
    pub(super) step: Step,
    pub(super) root: SpanContext,
    pub(super) context: SpanContext,
    pub(super) begun: Timestamp,
}

impl OpenInstruction {
    pub(super) fn new(id: InstructionId, step: Step, claim: &ClaimName, root: &SpanContext, begun: Timestamp) -> Self {
        let context = root.child(step.name(), &format!("{claim}/{}", id.0));
        Self { claim: claim.clone(), step, root: *root, context, begun }
    }
}
