//! What a plan was made from: enough for anybody to make it again and compare.

use std::fmt;

use crate::input::PlanningInput;
use crate::model::Timestamp;
use crate::plan::{Plan, PlanReport};

/// An input and the planner's answer to it, as it was before any rail held part of it back.
#[derive(Clone, PartialEq, Eq)]
pub struct DecisionInput {
    /// When the window was opened that its pods gathered in; `None` for a plan that nothing new asked for.
    pub opened: Option<Timestamp>,
    /// What the planner looked at: whatever the rails took out beforehand is not in it, sold-out offerings are marked.
    pub input: PlanningInput,
    /// What it answered.
    pub plan: Plan,
    /// Why.
    pub report: PlanReport,
}

impl fmt::Debug for DecisionInput {
    /// Sizes alone: the whole is as large as the cluster.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecisionInput")
            .field("pods", &self.input.pods.len())
            .field("nodes", &self.input.nodes.len())
            .field("planned", &self.plan.nodes.len())
            .finish_non_exhaustive()
    }
}
