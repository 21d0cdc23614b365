//! The controller: for each cluster a state machine that turns [`Event`]s into [`Effect`]s.
//!
//! [`ClusterController::handle`] is the only entry point. It updates the observed state
//! (the crate `cluster`), decides when a plan is due, requests it (`provisioning`) and turns the
//! answer into effects. The caller executes the effects and reports the results as further events.
//! The controller never calls the planner itself, so the plan of one cluster does not delay events
//! of another. The order of a launch is fixed: record the decision, create the
//! NodeClaim in the cluster, launch the instance. An event may trigger planning; it never restricts
//! what planning considers.
//!
//! The state of one cluster is divided into parts, each of which owns its fields and imports no
//! other part's steps. `cluster_controller` has the parts. What reads them gets a `step_view`, and what a step
//! reads and changes outside of its cluster is its `context`. What depends on a few parts is a function of these; the
//! steps that change several are methods of `ClusterController` beside the part that they belong to.
//!
//! Clusters share nothing but [`RegionState`] (unavailable offerings) and [`FleetState`] (guardrails of the fleet).
//! So each may be stepped on a thread of its own.
//!
//! Reading order: [`event`], [`effect`] and [`decision`] (the interface), `region_state` (what
//! clusters share), `cluster_controller` (a step), `route` (dispatch of events within a cluster),
//! `provisioning` (pending pods, plans), [`holds`] (room for pods to come) and [`order`] (from a plan to NodeClaims),
//! [`search_allowance`] (searches for cheaper plans), [`disruption_allowance`] (how often disruption is planned), [`decision_input`] (input of a plan, for replay), `nodeclaim` (lifecycle of NodeClaims,
//! recovery, garbage collection), `nomination` (pod nominations and the registration gate),
//! [`disruption`] (empty nodes, interruptions, the verifier's check of removals),
//! `external_autoscalers` (other autoscalers), [`guardrails`] (safety limits),
//! [`unavailable_offerings`] (insufficient capacity), [`status`], [`event_reason`], `origin` and `status_reporter` (conditions
//! and events), [`view`] with `node_view` and `pool_view` (read model for users), [`history`] (what was counted), [`node_report`] (why a node is there, or went),
//! [`executor`] (effects in flight).

mod catalogue_zones;
mod cluster_controller;
mod conditions;
mod context;
mod copy_on_write;
mod cost_observer;
mod cost_records;
mod cost_view;
pub mod decision;
pub mod decision_input;
pub mod disruption;
pub mod disruption_allowance;
pub mod durations;
pub mod effect;
pub mod event;
pub mod event_reason;
pub mod executor;
mod external_autoscalers;
mod finding;
mod fleet_state;
pub mod guardrails;
pub mod history;
pub mod holds;
mod instance_owners;
pub mod launch_evidence;
mod launch_template;
mod moved_shares;
mod node_class;
pub mod node_report;
mod node_view;
mod nodeclaim;
mod nomination;
pub mod order;
mod origin;
pub mod planning_facts;
pub mod pod_report;
mod pool_view;
mod provisioning;
mod region_state;
mod removal;
mod route;
pub mod search_allowance;
mod settings;
pub mod status;
mod status_reporter;
mod step_view;
pub mod unavailable_offerings;
pub mod view;

pub use cluster_controller::ClusterController;
pub use decision::{ClaimOrder, Decision, DecisionId, DecisionReason, OutgoingNode, PlannedMachine, UnplacedPod};
pub use decision_input::{DecisionAnswer, DecisionInput};
pub use disruption::settings::{DisruptionSettings, RebalanceRecommendations, RepairMode};
pub use effect::{ClusterCall, Effect, Instruction, InstructionId, PodNomination};
pub use event::{ClusterEvent, Event, Inspection, Launched, NoticeAnswer, RegionEvent};
pub use event_reason::EventReason;
pub use finding::Finding;
pub use fleet_state::FleetState;
pub use nodeclaim::{DecidedLaunch, LaunchState, LaunchedInstance, ListedInstance, Listing, OpenLaunch, StageKind};
pub use provisioning::{
    DisruptionOutcome, DisruptionPlanner, DisruptionRequest, NewPlanner, PlanAnswer, PlanError, PlanJob, PlanNumber,
    PlanOutcome, PlanRequest, PlanWorker, Planned, Planner, PodPlanner,
};
pub use region_state::RegionState;
pub use removal::Removal;
pub use settings::{ClassFacts, ConsolidationSettings, FeatureGates, Settings};
pub use status::{Condition, ConditionStatus, EventOrder, ObjectRef, StatusOrder, StatusPatch};
pub use step_view::StepView;
pub use view::{ClusterView, MachineView};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
