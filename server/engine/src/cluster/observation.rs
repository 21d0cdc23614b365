//! How facts arrive: one whole snapshot, then one object at a time.

use super::record::{ClaimRecord, DaemonRecord, NamespaceRecord, NodeRecord, PodKey, PodRecord, PoolRecord};
use super::surroundings::{AttachRecord, AutoscalerRecord, ClassRecord, PodBudgetRecord, ProblemRecord};
use crate::model::Text;

/// A fact from a cluster's agent, already decoded.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// Everything there is. What is not in it does not exist.
    Snapshot(Box<ClusterSnapshot>),
    /// This object is so.
    Upsert(Box<Object>),
    /// This object is no more.
    Delete(Key),
}

impl Observation {
    /// This object is so.
    #[must_use]
    pub fn upsert(object: Object) -> Self {
        Self::Upsert(Box::new(object))
    }
}

/// Everything there is in a cluster, in any order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClusterSnapshot {
    /// Pods.
    pub pods: Vec<PodRecord>,
    /// Nodes.
    pub nodes: Vec<NodeRecord>,
    /// NodeClaims.
    pub claims: Vec<ClaimRecord>,
    /// NodePools, each with the catalogue of its NodeClass.
    pub pools: Vec<PoolRecord>,
    /// DaemonSets.
    pub daemons: Vec<DaemonRecord>,
    /// Namespaces.
    pub namespaces: Vec<NamespaceRecord>,
    /// PodDisruptionBudgets.
    pub budgets: Vec<PodBudgetRecord>,
    /// EC2NodeClasses.
    pub classes: Vec<ClassRecord>,
    /// Attach limits of nodes.
    pub attach: Vec<AttachRecord>,
    /// Other autoscalers.
    pub autoscalers: Vec<AutoscalerRecord>,
    /// What cannot be read or seen.
    pub problems: Vec<ProblemRecord>,
}

/// One object.
#[derive(Debug, Clone, PartialEq)]
pub enum Object {
    /// A pod.
    Pod(PodRecord),
    /// A Node.
    Node(NodeRecord),
    /// A NodeClaim.
    Claim(ClaimRecord),
    /// A NodePool.
    Pool(PoolRecord),
    /// A DaemonSet.
    Daemon(DaemonRecord),
    /// A namespace.
    Namespace(NamespaceRecord),
    /// A PodDisruptionBudget.
    PodBudget(PodBudgetRecord),
    /// An EC2NodeClass.
    Class(ClassRecord),
    /// The attach limits of a node.
    Attach(AttachRecord),
    /// Another autoscaler.
    Autoscaler(AutoscalerRecord),
    /// Something that cannot be read or seen.
    Problem(ProblemRecord),
}

/// The name of one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A pod.
    Pod(PodKey),
    /// A Node.
    Node(Text),
    /// A NodeClaim.
    Claim(Text),
    /// A NodePool.
    Pool(Text),
    /// A DaemonSet, by namespace and name.
    Daemon(Text, Text),
    /// A namespace.
    Namespace(Text),
    /// A PodDisruptionBudget, by namespace and name.
    PodBudget(Text, Text),
    /// An EC2NodeClass.
    Class(Text),
    /// The attach limits of a node.
    Attach(Text),
    /// Another autoscaler.
    Autoscaler(Text),
    /// Something that could not be read or seen, by what it is about.
    Problem(Text),
}
