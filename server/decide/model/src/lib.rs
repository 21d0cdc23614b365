//! The data model: the types that a decision is computed from and consists of, independent of any
//! wire or file format. No algorithm.
//!
//! Reading order: [`names`] (one type for each kind of name), [`resources`] (exact amounts),
//! [`labels`], [`label_syntax`] and [`requirements`] (matching), [`taints`], [`time`], then the objects: [`pod`],
//! [`node`], [`pool`], [`offering`], [`attach_limits`] (of new nodes, by the CSINodes of their type); then [`input`] (what a plan is computed from), [`plan`] (the
//! result and its reasons), [`launch`] (what is ordered from the cloud) with [`priority_lane`], [`size_class`], [`launch_template`] (what its instances
//! are configured by) and [`cluster_facts`], [`disruption_policy`] with
//! [`cron`] and [`time_zone`] (NodePool settings), [`removal`] (which nodes are removed, and what that is judged by),
//! [`interruption`] (what the cloud announces), [`instance_details`] (what it lists of an instance), [`running`] (what runs on the nodes of a cluster), [`repair_policy`] (unhealthy nodes), [`eviction_cost`], [`disruption_plan`] (which of them are
//! removed or replaced), and [`node_class`] (what a NodeClass sets for its instances).

#![warn(missing_docs)]

pub mod attach_limits;
pub mod cluster_facts;
pub mod cron;
pub mod disruption_plan;
pub mod disruption_policy;
pub mod drain;
pub mod eviction_cost;
pub mod input;
pub mod instance_details;
pub mod interruption;
pub mod label_syntax;
pub mod labels;
pub mod launch;
pub mod launch_template;
pub mod names;
pub mod node;
pub mod node_class;
pub mod offering;
pub mod plan;
pub mod pod;
pub mod pool;
pub mod priority_lane;
pub mod quantity;
pub mod removal;
pub mod repair_policy;
pub mod requirements;
pub mod resources;
pub mod running;
pub mod schedulers;
pub mod size_class;
mod stop;
pub mod taints;
pub mod time;
pub mod time_zone;

pub use cluster_facts::ClusterFacts;
pub use cron::Cron;
pub use disruption_policy::{
    Budget, BudgetLimit, BudgetWindow, ConsolidationPolicy, DisruptionPolicy, DisruptionReason,
};
pub use instance_details::InstanceDetails;
pub use labels::{LabelSelector, Labels, SelectorOperator, SelectorTerm};
pub use launch::{LaunchFailure, LaunchOption, LaunchOrder, RefusalCause, RefusedOption};
pub use launch_template::{InstanceTypeInput, LaunchTemplateInput};
pub use names::{ClaimName, ClusterName, InstanceTypeName, NodeName, PodKey, PoolName, ProviderId, Zone};
pub use node::{BoundPod, DaemonSet, Node, NodeStage};
pub use offering::{Burstable, CapacityType, Catalogue, InstanceType, MicroUsd, Offering, Reservation};
pub use pod::{
    HostPort, NodeSelectorTerm, Pod, PodAffinityTerm, PodShape, SpreadConstraint, VolumeAlternatives, Weighted,
};
pub use pool::{NodePool, NotReady, OptInRules};
pub use priority_lane::PriorityLane;
pub use requirements::{Operator, Requirement, RequirementParts, Requirements};
pub use resources::{ResourceName, Resources};
pub use size_class::SizeClass;
pub use stop::Stop;
pub use taints::{Effect, Taint, Toleration, TolerationOperator};
pub use time::{Millis, Timestamp};
pub use time_zone::TimeZone;

use std::sync::Arc;

/// A shared, immutable string. Cloning increments a reference count and copies nothing.
pub type Text = Arc<str>;
