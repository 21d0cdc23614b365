//! Planning apart from the controller: what is asked, what is answered, and what becomes of an answer.
//!
//! [`RegionController::handle`](super::RegionController::handle) never calls the planner, which may take seconds. It emits
//! [`Effect::Plan`](super::Effect::Plan) with everything that the planner looks at; the shell calls [`PlanWorker::answer`]
//! wherever it likes, and brings the answer back as [`Event::Planned`](super::Event::Planned). Events are taken in
//! meanwhile. There is at most one plan under way for a cluster ([`under_way`]), and a plan takes a bounded number of pods
//! ([`portion`]).

pub(super) mod portion;
pub(super) mod under_way;

use super::{ClusterId, Planner};
use crate::input::PlanningInput;
use crate::plan::{Plan, PlanReport};
use crate::schedule::CompileCache;

/// Number of a plan, unique within one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlanNumber(pub u64);

/// A plan to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRequest {
    /// Names it for its answer.
    pub number: PlanNumber,
    /// For which cluster.
    pub cluster: ClusterId,
    /// Everything that the planner looks at, the bounds of its work included.
    pub input: PlanningInput,
}

impl PlanRequest {
    /// How much work it may be, in pods that share everything: for queues that let small plans pass large ones. Pods with
    /// preferences are dearer, since each preference may be tried and given up.
    #[must_use]
    pub fn weight(&self) -> usize {
        let of_shape: Vec<usize> = self.input.shapes.iter().map(|shape| 1 + shape.preferences()).collect();
        let pods = self.input.pods.iter().map(|pod| of_shape.get(pod.shape as usize).copied().unwrap_or(1));
        pods.fold(self.input.nodes.len(), usize::saturating_add)
    }
}

/// A plan with its reasons, or why there is none.
pub type PlanOutcome = Result<(Plan, PlanReport), String>;

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanAnswer {
    /// The request, whose input the decision is recorded with.
    pub request: PlanRequest,
    /// The plan.
    pub outcome: PlanOutcome,
}

/// Makes plans, one after the other. What it keeps between them makes them quicker and changes none.
#[derive(Debug)]
pub struct PlanWorker {
    planner: Planner,
    memo: CompileCache,
}

impl PlanWorker {
    /// A worker that has made no plan yet.
    #[must_use]
    pub fn new(planner: Planner) -> Self {
        Self { planner, memo: CompileCache::default() }
    }

    /// The plan for `input`.
    ///
    /// # Errors
    /// Why the planner refuses the whole plan.
    pub fn plan(&mut self, input: &PlanningInput) -> PlanOutcome {
        (self.planner)(input, &mut self.memo)
    }

    /// Carries a request out.
    #[must_use]
    pub fn answer(&mut self, request: PlanRequest) -> PlanAnswer {
        let outcome = self.plan(&request.input);
        PlanAnswer { request, outcome }
    }
}

#[cfg(test)]
mod tests;
