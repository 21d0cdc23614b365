//! The data model: the types that a decision is computed from and consists of, independent of any
//! wire or file format. No algorithm.
//!
//! Reading order: [`resources`] (exact amounts), [`labels`] and [`requirements`] (matching),
//! [`taints`], [`time`], then the objects: [`pod`], [`node`], [`pool`], [`offering`];
//! then [`input`] (what a plan is computed from), [`plan`] (the result and its reasons), [`launch`]
//! (what is ordered from the cloud), and [`disruption_policy`] with [`cron`] (NodePool settings).

pub mod cron;
pub mod disruption_policy;
pub mod input;
pub mod labels;
pub mod launch;
pub mod node;
pub mod offering;
pub mod plan;
pub mod pod;
pub mod pool;
pub mod quantity;
pub mod requirements;
pub mod resources;
pub mod taints;
pub mod time;

pub use cron::Cron;
pub use disruption_policy::{
    Budget, BudgetLimit, BudgetWindow, ConsolidationPolicy, DisruptionPolicy, DisruptionReason,
};
pub use labels::{LabelSelector, Labels, SelectorOperator, SelectorTerm};
pub use launch::{ClusterId, LaunchFailure, LaunchOption, LaunchOrder};
pub use node::{BoundPod, DaemonSet, Node, NodeStage};
pub use offering::{CapacityType, Catalogue, InstanceType, MicroUsd, Offering, Reservation};
pub use pod::{
    HostPort, NodeSelectorTerm, Pod, PodAffinityTerm, PodShape, SpreadConstraint, VolumeAlternatives, Weighted,
};
pub use pool::{NodePool, NotReady, OptInRules};
pub use requirements::{Operator, Requirement, RequirementParts, Requirements};
pub use resources::{ResourceName, Resources};
pub use taints::{Effect, Taint, Toleration, TolerationOperator};
pub use time::{Millis, Timestamp};

use std::sync::Arc;

/// A shared, immutable string. Cloning increments a reference count and copies nothing.
pub type Text = Arc<str>;
