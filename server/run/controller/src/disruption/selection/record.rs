//! What is recorded of a decision to remove machines, and how it is made again.

use super::{Selection, SelectionInput};
use model::ClaimName;
use model::removal::{RemovalInput, RemovalPlan};

/// What a decision to remove machines was made from: the selection of its method, and the facts that the verifier
/// judged what guardrails left of it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalRecord {
    pub input: SelectionInput,
    /// What guardrails left of the selection, as the verifier judged it: they count the launches and removals of
    /// the whole fleet, so that their answer is recorded and not repeated.
    pub check: RemovalCheck,
    pub answer: RemovalAnswer,
}

/// What the verifier judges removals by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemovalCheck {
    pub input: RemovalInput,
    pub plan: RemovalPlan,
}

impl RemovalCheck {
    /// The removals that the verifier accepts.
    fn accepted(&self) -> impl Iterator<Item = &ClaimName> {
        let rejected: Vec<ClaimName> =
            verifier::check_removals(&self.input, &self.plan).into_iter().map(|violation| violation.claim).collect();
        self.plan.removals.iter().map(|removal| &removal.claim).filter(move |claim| !rejected.contains(claim))
    }
}

/// What a method selected, and the removals that were decided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemovalAnswer {
    pub selection: Selection,
    /// The NodeClaims of the removals that guardrails and the verifier left.
    pub removals: Vec<ClaimName>,
}

impl RemovalAnswer {
    /// Decides again. A removal that guardrails left and that is not selected now is left out.
    #[must_use]
    pub fn again(input: &SelectionInput, check: &RemovalCheck) -> Self {
        let selection = input.select();
        let is_selected = |claim: &&ClaimName| selection.removals.iter().any(|removal| removal.claim == **claim);
        let removals = check.accepted().filter(is_selected).cloned().collect();
        Self { selection, removals }
    }
}
