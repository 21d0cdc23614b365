//! The complete input of a plan, so that the plan can be replayed and compared.

use std::fmt;

use model::Timestamp;
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport};

/// A planning input with the planner's answer, before guardrails hold back any part of it.
#[derive(Clone, PartialEq, Eq)]
pub struct DecisionInput {
    /// When the batch window of its pods was opened; `None` for a plan without new pods.
    pub opened: Option<Timestamp>,
    /// The planner's input, without pods and pools that guardrails held back, with unavailable
    /// offerings marked.
    pub input: PlanningInput,
    /// The plan.
    pub plan: Plan,
    /// The report of the plan, with its reasons.
    pub report: PlanReport,
}

impl fmt::Debug for DecisionInput {
    /// Prints sizes only: the value is as large as the cluster.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecisionInput")
            .field("pods", &self.input.pods.len())
            .field("nodes", &self.input.nodes.len())
            .field("planned", &self.plan.nodes.len())
            .finish_non_exhaustive()
    }
}
