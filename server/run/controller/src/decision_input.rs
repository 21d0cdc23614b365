//! The complete input of a plan, so that the plan can be replayed and compared.

use std::fmt;

use model::Timestamp;
use model::disruption_plan::DisruptionPlan;
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport};

use super::provisioning::DisruptionRequest;

/// A planning input with the planner's answer, before guardrails hold back any part of it.
#[derive(Clone, PartialEq, Eq)]
pub struct DecisionInput {
    /// When the batch window of its pods was opened; `None` for a plan without new pods.
    pub opened: Option<Timestamp>,
    /// The planner's input, without pods and pools that guardrails held back, with unavailable
    /// offerings marked.
    pub input: PlanningInput,
    pub answer: DecisionAnswer,
}

/// What a decision was made by.
#[derive(Clone, PartialEq, Eq)]
pub enum DecisionAnswer {
    /// A plan of the pending pods, and its report with the reasons.
    Pods(Box<(Plan, PlanReport)>),
    Disruption {
        /// What it was made from besides the planning input.
        request: Box<DisruptionRequest>,
        plan: Box<DisruptionPlan>,
    },
}

impl DecisionAnswer {
    /// Number of machines that the plan launches, those of static NodePools left out.
    fn planned_machines(&self) -> usize {
        match self {
            Self::Pods(planned) => planned.0.nodes.len(),
            Self::Disruption { plan, .. } => plan.plan.nodes.len(),
        }
    }
}

impl fmt::Debug for DecisionInput {
    /// Prints sizes only: the value is as large as the cluster.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecisionInput")
            .field("pods", &self.input.pods.len())
            .field("nodes", &self.input.nodes.len())
            .field("planned", &self.answer.planned_machines())
            .finish_non_exhaustive()
    }
}
