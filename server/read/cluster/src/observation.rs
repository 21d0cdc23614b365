//! Observations of a cluster: one complete snapshot, then changes of single objects.

use super::record::{
    AttachRecord, AutoscalerRecord, ClaimRecord, ClassRecord, DaemonRecord, NamespaceRecord, NodeRecord,
    PodBudgetRecord, PodRecord, PoolRecord, ProblemRecord,
};
use model::{ClaimName, NodeName, PodKey, PoolName, Text};

/// A decoded fact from the cluster's agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// All objects. An object that is missing here does not exist.
    Snapshot(Box<ClusterSnapshot>),
    /// An object was created or changed.
    Upsert(Box<Object>),
    Delete(Key),
}

impl Observation {
    /// An observation of a created or changed object.
    #[must_use]
    pub fn upsert(object: Object) -> Self {
        Self::Upsert(Box::new(object))
    }
}

/// All objects of a cluster, in any order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClusterSnapshot {
    pub pods: Vec<PodRecord>,
    pub nodes: Vec<NodeRecord>,
    pub claims: Vec<ClaimRecord>,
    /// NodePools, each with the catalogue of its NodeClass.
    pub pools: Vec<PoolRecord>,
    pub daemons: Vec<DaemonRecord>,
    pub namespaces: Vec<NamespaceRecord>,
    pub budgets: Vec<PodBudgetRecord>,
    /// EC2NodeClasses.
    pub classes: Vec<ClassRecord>,
    pub attach: Vec<AttachRecord>,
    pub autoscalers: Vec<AutoscalerRecord>,
    /// Objects that cannot be read or watched.
    pub problems: Vec<ProblemRecord>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    Pod(PodRecord),
    Node(NodeRecord),
    Claim(ClaimRecord),
    Pool(PoolRecord),
    Daemon(DaemonRecord),
    Namespace(NamespaceRecord),
    PodBudget(PodBudgetRecord),
    /// An EC2NodeClass.
    Class(ClassRecord),
    /// The attach limits of a node.
    Attach(AttachRecord),
    Autoscaler(AutoscalerRecord),
    /// An object that cannot be read or watched.
    Problem(ProblemRecord),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Pod(PodKey),
    Node(NodeName),
    Claim(ClaimName),
    Pool(PoolName),
    /// A DaemonSet, by namespace and name.
    Daemon(Text, Text),
    Namespace(Text),
    /// A PodDisruptionBudget, by namespace and name.
    PodBudget(Text, Text),
    /// An EC2NodeClass.
    Class(Text),
    /// The attach limits of a node.
    Attach(NodeName),
    Autoscaler(Text),
    /// A problem, by its object.
    Problem(Text),
}
