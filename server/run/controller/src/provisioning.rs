//! Provisioning: from pending pods to NodeClaims.
//!
//! [`Provisioner`] owns when a plan is due, which pods it takes, and the plan in progress. It reads
//! the observed state and a [`LaunchView`], writes only itself, and returns what follows: the draft
//! of a request ([`provisioner::PlanDraft`]), or a plan that arrived ([`ArrivedPlan`]). Steps of
//! other parts that displace pods call the method named after the reason.
//!
//! Reading order: [`batch`] (batch window of pending pods), [`planning`] (plan requests and
//! answers), [`plan_job`] (what is planned elsewhere), [`demand_cursor`] (pods per plan), [`pending_plan`] (what still holds when a plan
//! arrives), `launch_lane` (how urgent a launch is), [`window_search`] (searches for cheaper plans), [`provisioner`] (the part), `provision` (from a plan to a decision and its NodeClaims,
//! with the steps of the other parts), `search` (the same for searches).

mod batch;
mod demand_cursor;
mod launch_lane;
mod launch_view;
pub(crate) mod launches;
pub(crate) mod pending_plan;
pub(crate) mod plan_assignment;
mod plan_job;
mod planning;
pub(crate) mod probing;
mod provision;
mod provisioner;
pub(crate) mod search;
mod window_search;

pub(crate) use launch_lane::InterruptedOwners;
pub(crate) use launch_view::LaunchView;
pub(crate) use plan_job::{DisruptionFacts, PlannedPool};
pub use plan_job::{DisruptionJob, PlanJob};
pub use planning::{
    DisruptionOutcome, DisruptionPlanner, DisruptionRequest, NewPlanner, PlanAnswer, PlanError, PlanNumber,
    PlanOutcome, PlanRequest, PlanWorker, Planned, Planner, PodPlanner,
};
pub use provisioner::PlanningView;
pub(crate) use provisioner::{ArrivedPlan, Provisioner};

#[cfg(test)]
mod tests;
