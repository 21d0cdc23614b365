//! Machines that exist or are on their way, and the pods on them.

use super::{Labels, Resources, Taint, Text, Timestamp};

/// Where a node stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeStage {
    /// A NodeClaim without a Node: capacity that is promised and will take pods.
    InFlight,
    /// A Node that is registered but not initialised yet.
    Registered,
    /// A Node that is in service.
    Initialized,
    /// Being deleted, or about to be: takes no pods, does not count against limits; its pods move.
    Deleting,
}

/// A node, or a NodeClaim that has no Node yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name of the Node, or of the NodeClaim as long as there is no Node.
    pub name: Text,
    /// The NodePool that owns it; `None` for nodes that no pool of ours manages (they give room and are never touched).
    pub pool: Option<Text>,
    /// Labels, keys canonical, `kubernetes.io/hostname` always there. In-flight nodes carry what their NodeClaim promises.
    pub labels: Labels,
    /// Taints that bar pods now: startup and ephemeral taints are left out while the node is not initialised.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// What pods can use.
    pub allocatable: Resources,
    /// What the machine has; counts against NodePool limits.
    pub capacity: Resources,
    /// Where it stands in its life.
    pub stage: NodeStage,
    /// Pods that take room there: bound, and promised by nomination.
    pub pods: Vec<BoundPod>,
    /// Volumes that each CSI driver can attach there; drivers that are not named have no limit.
    pub attach_limits: Vec<(Text, i64)>,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// A pod on a node. Shape and labels are indices into [`PlanningInput`](crate::input::PlanningInput).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BoundPod {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Index into `PlanningInput::shapes`.
    pub shape: u32,
    /// Index into `PlanningInput::label_sets`.
    pub labels: u32,
    /// Index into `PlanningInput::volume_sets`.
    pub volumes: Option<u32>,
    /// The DaemonSet (`namespace/name`) that owns it, if one does.
    pub daemon: Option<Text>,
    /// Terminating pods take room but are not counted by topology rules.
    pub terminating: bool,
    /// The pod leaves (its node is deleted) and is planned again: it takes no room and is not counted.
    pub leaving: bool,
}

/// A DaemonSet, as the pod that it will put on every node that suits it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DaemonSet {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Index into `PlanningInput::shapes`. Its tolerations include those that the DaemonSet controller adds.
    pub shape: u32,
    /// Index into `PlanningInput::label_sets`.
    pub labels: u32,
}
