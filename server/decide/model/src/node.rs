//! Nodes, existing or in flight, and the pods on them.

use super::{Labels, NodeName, PoolName, Resources, Taint, Text, Timestamp};

/// Lifecycle stage of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeStage {
    /// A NodeClaim without a Node: launched capacity that will accept pods.
    InFlight,
    /// A Node that is registered but not initialized.
    Registered,
    /// An initialized Node.
    Initialized,
    /// A Node that is being deleted, or soon will be: accepts no pods, does not count against
    /// limits, its pods move.
    Deleting,
}

/// A node, or a NodeClaim that has no Node yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Name of the Node, or of the NodeClaim while there is no Node.
    pub name: NodeName,
    /// The NodePool that owns it; `None` for unmanaged nodes, which offer capacity and are never
    /// changed.
    pub pool: Option<PoolName>,
    /// Labels with canonical keys; `kubernetes.io/hostname` is always present. In-flight nodes
    /// carry the labels of their NodeClaim.
    pub labels: Labels,
    /// Effective taints: startup and ephemeral taints are excluded while the node is not
    /// initialized.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Resources available to pods.
    pub allocatable: Resources,
    /// Total resources; count against NodePool limits.
    pub capacity: Resources,
    /// Stage of the node's lifecycle.
    pub stage: NodeStage,
    /// Pods that use its resources: bound, and assigned by nomination.
    pub pods: Vec<BoundPod>,
    /// Attach limit per CSI driver; unlisted drivers have no limit.
    pub attach_limits: Vec<(Text, i64)>,
    /// `metadata.creationTimestamp`; `None` when unknown.
    pub created: Option<Timestamp>,
}

impl Node {
    /// The Node while it is drained, as kube-scheduler counts it: it takes no pod and uses nothing of a
    /// NodePool, but it is in its topology domains until it is gone.
    #[must_use]
    pub fn drained(&self) -> Self {
        let mut taints = self.taints.clone();
        taints.push(Taint::of_drain());
        Self {
            name: self.name.clone(),
            pool: None,
            labels: self.labels.clone(),
            taints,
            unschedulable: self.unschedulable,
            allocatable: Resources::new(),
            capacity: Resources::new(),
            stage: NodeStage::Initialized,
            pods: self.pods.iter().filter(|pod| !pod.leaving).cloned().collect(),
            attach_limits: Vec::new(),
            created: self.created,
        }
    }
}

/// A pod on a node. Shape and labels are indices into
/// [`PlanningInput`](crate::input::PlanningInput).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BoundPod {
    /// Namespace of the object.
    pub namespace: Text,
    /// Name, unique in the namespace.
    pub name: Text,
    /// Index into `PlanningInput::shapes`.
    pub shape: u32,
    /// Index into `PlanningInput::label_sets`.
    pub labels: u32,
    /// Index into `PlanningInput::volume_sets`.
    pub volumes: Option<u32>,
    /// The DaemonSet (`namespace/name`) that owns it, if one does.
    pub daemon: Option<Text>,
    /// Terminating pods use resources but do not count for topology rules.
    pub terminating: bool,
    /// The pod moves (its node is being deleted) and is planned again: it uses no resources and
    /// does not count for topology rules.
    pub leaving: bool,
}

/// A DaemonSet, represented by the pod that it creates on every matching node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DaemonSet {
    /// Namespace of the object.
    pub namespace: Text,
    /// Name, unique in the namespace.
    pub name: Text,
    /// Index into `PlanningInput::shapes`. Its tolerations include those that the DaemonSet
    /// controller adds.
    pub shape: u32,
    /// Index into `PlanningInput::label_sets`.
    pub labels: u32,
}
