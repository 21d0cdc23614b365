//! What runs in a cluster: machines with their prices, and the pods that other machines could run
//! instead.

use std::collections::BTreeMap;

use crate::disruption_policy::DisruptionPolicy;
use crate::removal::{DoNotDisrupt, PodBudget, RemovalPod};
use crate::{ClaimName, MicroUsd, Millis, Pod, PodKey, PoolName, Text, Timestamp};

/// The nodes that a decision about running nodes looks at, and what runs on them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunningCluster {
    /// Nodes in the order of the planning input: for repacking those with a known price, for
    /// disruption all.
    pub nodes: Vec<RunningNode>,
    /// The PodDisruptionBudgets by `namespace/name`.
    pub pod_budgets: BTreeMap<Text, PodBudget>,
    /// The disruption settings of the NodePools; empty for repacking.
    pub policies: BTreeMap<PoolName, DisruptionPolicy>,
}

/// A Node, or for disruption a NodeClaim without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningNode {
    /// Index into [`PlanningInput::nodes`](crate::input::PlanningInput::nodes).
    pub node: u32,
    /// Price per hour; 0 if it is unknown.
    pub price: MicroUsd,
    /// `karpenter.sh/do-not-disrupt` on the Node.
    pub do_not_disrupt: Option<DoNotDisrupt>,
    /// What disruption reads from its NodeClaim; `None` for repacking, and for nodes without one.
    pub claim: Option<RunningClaim>,
    /// A pod of the node that consolidation has moved lately and does not move again yet; `None` for captures, which
    /// do not show moves.
    pub recent_move: Option<RecentMove>,
    /// Its pods that another node can run or that may prevent its removal, by namespace and name.
    pub pods: Vec<RunningPod>,
}

/// A pod that consolidation has moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentMove {
    /// The pod.
    pub pod: PodKey,
    /// When consolidation may move it again: `disruption.move-interval` after the move.
    pub until: Timestamp,
}

/// The NodeClaim of a running node, as disruption sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningClaim {
    /// Name.
    pub name: ClaimName,
    /// The condition `Ready` of its Node is True.
    pub ready: bool,
    /// When the node may be consolidated.
    pub consolidatable: Consolidatable,
    /// When it expires; `None` is never.
    pub expires: Option<Timestamp>,
    /// Why it is drifted, if it is.
    pub drift: Option<RunningDrift>,
    /// The conditions of its Node that a repair policy matches, and since when it is to be repaired;
    /// `None` for a healthy one.
    pub unhealthy: Option<UnhealthyNode>,
    /// `terminationGracePeriod`.
    pub termination_grace_period: Option<Millis>,
}

/// When a node may be consolidated (Karpenter: the condition Consolidatable).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consolidatable {
    /// From then on; in the past, if it may be consolidated now.
    From(Timestamp),
    /// `consolidateAfter` is `Never`.
    Never,
}

impl Consolidatable {
    /// Of a node under `policy` whose last pod event was at `since`.
    #[must_use]
    pub fn of(policy: &DisruptionPolicy, since: Timestamp) -> Self {
        policy.consolidatable_from(since).map_or(Self::Never, Self::From)
    }
}

/// A node that does not match its NodePool or NodeClass any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningDrift {
    /// What differs, as a code: `NodePoolDrifted`, `RequirementsDrifted`, `AMIDrift`, ….
    pub reason: Text,
    /// Since when; the condition's last transition, or the time of the plan.
    pub since: Timestamp,
}

/// A node with a condition that a repair policy matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnhealthyNode {
    /// The condition, its status and since when.
    pub condition: Text,
    /// When its toleration ends.
    pub repair_from: Timestamp,
    /// `karpenter.sh/do-not-repair` on the Node.
    pub do_not_repair: bool,
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
    /// `karpenter.sh/disruption-cost`, else `controller.kubernetes.io/pod-deletion-cost`; 0 if neither can be read.
    pub stated_cost: i32,
}
