//! WHAT WE BELIEVE about one cluster: the last word of its API server, and what this server has promised on top of it.
//!
//! Facts arrive as [`Observation`]s and change a [`ClusterState`] only through [`ClusterState::apply`]; promises (pods
//! planned onto capacity that is on its way) are added by the controller. Nothing here decides. The state hands out one
//! complete [`PlanningInput`](crate::input::PlanningInput) whenever a decision is due.
//!
//! Reading order: [`record`] (the facts about single objects), [`observation`] (how facts arrive), [`state`] (the
//! belief), `unannounced` (what cannot vanish in good order), `surroundings` and [`around`] (budgets, classes, other autoscalers), `assignments` (what is on its way), `drain` (what is
//! kept for the pods of machines that go), `planning` (the belief as an input to planning), [`disruption_policy`] (what a NodePool says
//! about the end of its nodes) with [`cron`] (when it says so).

pub mod around;
pub mod assignments;
pub(crate) mod condition_digest;
pub mod cron;
pub mod disruption_policy;
mod drain;
pub mod observation;
pub mod planning;
pub mod record;
pub mod state;
mod surroundings;
mod unannounced;

pub use assignments::{Assignment, Assignments, NOMINATION_MS, Target};
pub use condition_digest::ConditionDigest;
pub use cron::Cron;
pub use disruption_policy::{
    Budget, BudgetLimit, BudgetWindow, ConsolidationPolicy, DisruptionPolicy, DisruptionReason,
};
pub use observation::{ClusterSnapshot, Key, Object, Observation};
pub use record::{
    ClaimRecord, DaemonRecord, DoNotDisrupt, LaunchedFacts, NamespaceRecord, NodeRecord, PodKey, PodPhase, PodRecord,
    PoolMeta, PoolRecord, Scheduling,
};
pub use state::ClusterState;
pub use surroundings::{AttachRecord, AutoscalerRecord, ClassRecord, PodBudgetRecord, ProblemRecord};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
