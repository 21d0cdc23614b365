//! What runs in a cluster: machines with their prices, and the pods that other machines could run
//! instead.

use std::collections::BTreeMap;

use crate::removal::{DoNotDisrupt, PodBudget, RemovalPod};
use crate::{MicroUsd, Pod, Text};

/// The nodes with a known price, and what runs on them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunningCluster {
    /// Nodes with a known price, in the order of the planning input.
    pub nodes: Vec<RunningNode>,
    /// The PodDisruptionBudgets by `namespace/name`.
    pub pod_budgets: BTreeMap<Text, PodBudget>,
}

/// A Node whose price is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningNode {
    /// Index into [`PlanningInput::nodes`](crate::input::PlanningInput::nodes).
    pub node: u32,
    /// Price per hour.
    pub price: MicroUsd,
    /// `karpenter.sh/do-not-disrupt` on the Node.
    pub do_not_disrupt: Option<DoNotDisrupt>,
    /// Its pods that another node can run or that may prevent its removal, by namespace and name.
    pub pods: Vec<RunningPod>,
}

/// A pod on a node: it runs there, or is nominated for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningPod {
    /// The pod as it is planned when it leaves its node, without the host of its volumes; `None`
    /// for a pod that ends with its node.
    pub pod: Option<Pod>,
    /// What its eviction is judged by.
    pub facts: RemovalPod,
    /// The pod is nominated for the node and does not run yet.
    pub is_nominated: bool,
    /// `cluster-autoscaler.kubernetes.io/safe-to-evict` is `"false"`.
    pub unsafe_to_evict: bool,
    /// PersistentVolumes of the pod that are on the disk of the node.
    pub local_volumes: Vec<Text>,
    /// The scheduler of the pod when it is not the default one, which alone is planned for.
    pub other_scheduler: Option<Text>,
}
