//! The data model: the types that a decision is computed from, independent of any wire or file
//! format.
//!
//! Reading order: [`resources`] (exact amounts), [`labels`] and [`requirements`] (matching),
//! [`taints`], [`time`], then the objects: [`pod`], [`node`], [`pool`], [`offering`].

pub mod labels;
pub mod node;
pub mod offering;
pub mod pod;
pub mod pool;
pub mod quantity;
pub mod requirements;
pub mod resources;
pub mod taints;
pub mod time;

pub use labels::{LabelSelector, Labels, SelectorOperator, SelectorTerm};
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
