//! The observed state of one cluster, and the controller's assignments on top of it.
//!
//! Facts arrive as [`Observation`]s and change a [`ClusterState`] only through
//! [`ClusterState::apply`]; the controller adds assignments (pods planned onto launching capacity).
//! Nothing here decides. The state yields one complete
//! [`PlanningInput`](model::input::PlanningInput) when a decision is due.
//!
//! Reading order: [`record`] (facts of single objects), [`observation`] (snapshots and changes),
//! `pod_table` (pods and their indices), [`state`] (observed state), `removal_opportunities` (which changes may make a removal
//! possible), `unannounced_deletion` (objects that do not disappear regularly), `auxiliary`, `pdb` and
//! [`external_autoscalers`] (budgets, node classes, other autoscalers), `target`, `assignments` and `assigned_pods`
//! (pods planned and not bound yet), `successors` (capacity that is kept for successors of evicted pods), `bookings` and `booked_room` (room that is booked for pods to come),
//! [`replacement`] and `replaced_machines` (machines whose pods are planned elsewhere while they run), [`recent_moves`]
//! and `moved_pods` (pods that consolidation has moved), `planning` (the state as planning input), `drift` (NodeClaims
//! beside their NodePools) with `listed_instances` and `class_lookups` (what the cloud says about instances and NodeClasses), [`blocks`] (what blocks a node from removal). The disruption settings of NodePools are [`DisruptionPolicy`](model::DisruptionPolicy).

mod assigned_pods;
pub mod assignments;
mod auxiliary;
pub mod blocks;
mod booked_room;
mod bookings;
mod class_lookups;
pub mod condition_digest;
mod distinct_values;
mod drift;
mod drift_evidence;
pub mod external_autoscalers;
mod listed_instances;
pub mod moved_pods;
mod node_room;
pub mod observation;
mod pdb;
pub mod planning;
mod pod_table;
pub mod recent_moves;
pub mod record;
mod recorded_drains;
mod removal_opportunities;
mod replaced_machines;
pub mod replacement;
mod running_cluster;
pub mod state;
mod successors;
mod target;
mod unannounced_deletion;

pub use assignments::{Assignment, Assignments, NOMINATION_WINDOW};
pub use booked_room::{admits, hold_of};
pub use bookings::{Booking, Bookings, HOLD, HoldId};
pub use condition_digest::ConditionDigest;
pub use distinct_values::DistinctValues;
pub use drift_evidence::ComparisonRules;
pub use model::removal::DoNotDisrupt;
pub use observation::{ClusterSnapshot, Key, Object, Observation};
pub use pdb::removal_pod;
pub use recent_moves::{DecidedMoves, MovedPart, PodOwner};
pub use record::{
    AttachRecord, AutoscalerRecord, ClaimDriftFacts, ClaimRecord, ClassRecord, DaemonRecord, LaunchedFacts,
    NamespaceRecord, NodeRecord, PodBudgetRecord, PodPhase, PodRecord, PoolDriftFacts, PoolMeta, PoolRecord,
    ProblemRecord, Scheduling, UnmetCondition, deployment_of,
};
pub use replacement::Replacement;
pub use running_cluster::{price, running_cluster};
pub use state::ClusterState;
pub use target::Target;

pub mod testing;
#[cfg(test)]
mod tests;
