//! Planning outside the controller: requests, answers, and the worker.
//!
//! [`RegionController::handle`](crate::RegionController::handle) never calls the planner, which may
//! take seconds. It emits [`Effect::Plan`](crate::Effect::Plan) with the complete input; the caller
//! runs [`PlanWorker::answer`] on any thread and returns the answer as
//! [`Event::Planned`](crate::Event::Planned). Events are handled meanwhile. At most one plan is in
//! progress for a cluster ([`pending_plan`](super::pending_plan)), and a plan takes a bounded
//! number of pods ([`demand_cursor`](super::demand_cursor)).

use core::time::Duration;

use model::ClusterName;
use model::disruption_plan::{DisruptionPlan, DisruptionPlanSettings, SEARCHES};
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport};
use model::running::RunningCluster;
use verifier::Violation;

/// Number of a plan, unique within one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlanNumber(pub u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRequest {
    pub number: PlanNumber,
    pub cluster: ClusterName,
    /// The complete input, including the limits on the planner's work.
    pub input: PlanningInput,
    /// What runs, for a plan of disruption; `None` for a plan of the pods alone.
    pub disruption: Option<Box<DisruptionRequest>>,
}

/// What a plan of disruption is made from besides the planning input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisruptionRequest {
    /// The nodes of the input, and what runs on them.
    pub running: RunningCluster,
    pub settings: DisruptionPlanSettings,
}

impl PlanRequest {
    /// Whether it searches for a plan that is cheaper than the first packing.
    #[must_use]
    pub fn is_search(&self) -> bool {
        self.input.policy.search_steps > 0
    }

    #[must_use]
    pub fn granted_steps(&self) -> u64 {
        let searches = if self.disruption.is_some() { SEARCHES } else { 1 };
        self.input.policy.search_steps.saturating_mul(searches)
    }

    /// Whether no pending pod waits for it: it is planned with what plans leave of the processors.
    #[must_use]
    pub fn is_background(&self) -> bool {
        self.is_search() || self.disruption.is_some()
    }

    /// Estimated work, in identical pods: queues let small plans overtake large ones. Each
    /// preference of a pod adds to it, because the planner may try and relax each.
    #[must_use]
    pub fn weight(&self) -> usize {
        let of_shape: Vec<usize> = self.input.shapes.iter().map(|shape| 1 + shape.preferences()).collect();
        let pods = self.input.pods.iter().map(|pod| of_shape.get(pod.shape as usize).copied().unwrap_or(1));
        pods.fold(self.input.nodes.len(), usize::saturating_add)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Every plan that the planner found breaks these rules.
    #[error("the plan failed the plan verifier: {}", joined(.0))]
    Rejected(Vec<Violation>),
    /// The plan was due before its search began.
    #[error("the search was dropped: its plan was due before it began")]
    NotReached,
    #[error("the planner panicked: this is a bug in fleetwright; report it with the server's log")]
    Panicked,
}

fn joined(violations: &[Violation]) -> String {
    let sentences: Vec<String> = violations.iter().map(ToString::to_string).collect();
    sentences.join("; ")
}

/// A plan with its report, or why there is none.
pub type PlanOutcome = Result<(Plan, PlanReport), PlanError>;

/// A plan of disruption, or why there is none.
pub type DisruptionOutcome = Result<DisruptionPlan, PlanError>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planned {
    Pods(Box<(Plan, PlanReport)>),
    Disruption(Box<DisruptionPlan>),
}

/// The answer to a plan request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanAnswer {
    /// The request, whose input is recorded with the decision.
    pub request: PlanRequest,
    /// The plan, or the planner's error.
    pub outcome: Result<Planned, PlanError>,
    /// Processor time that it took, with its input; zero if it was not measured.
    pub used: Duration,
}

pub type PodPlanner = Box<dyn FnMut(&PlanningInput) -> PlanOutcome + Send>;

pub type DisruptionPlanner = Box<dyn FnMut(&PlanningInput, &DisruptionRequest) -> DisruptionOutcome + Send>;

/// Computes plans, one after another. It may cache what it compiled for the next input, which
/// changes the running time and never the result. An error rejects the whole plan with a reason.
pub struct Planner {
    pub pods: PodPlanner,
    pub disruption: DisruptionPlanner,
}

/// Makes a planner, one for each planning thread.
pub type NewPlanner = fn() -> Planner;

/// Answers plan requests one after another.
pub struct PlanWorker {
    planner: Planner,
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planner").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for PlanWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanWorker").finish_non_exhaustive()
    }
}

impl PlanWorker {
    /// A worker with a new planner.
    #[must_use]
    pub fn new(planner: Planner) -> Self {
        Self { planner }
    }

    /// The plan for `request`.
    ///
    /// # Errors
    /// Why the planner rejects the input.
    pub fn plan(&mut self, request: &PlanRequest) -> Result<Planned, PlanError> {
        match &request.disruption {
            None => (self.planner.pods)(&request.input).map(|planned| Planned::Pods(Box::new(planned))),
            Some(disruption) => (self.planner.disruption)(&request.input, disruption)
                .map(|planned| Planned::Disruption(Box::new(planned))),
        }
    }

    #[must_use]
    pub fn answer(&mut self, request: PlanRequest) -> PlanAnswer {
        let outcome = self.plan(&request);
        PlanAnswer { request, outcome, used: Duration::ZERO }
    }
}
