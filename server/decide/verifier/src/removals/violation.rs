//! The rules of removals, and what breaks them.

use std::fmt;

use model::removal::RemovalNode;
use model::{ClaimName, NodeName, PodKey};

/// The rules that removals must satisfy, one variant per invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RemovalRule {
    /// The NodeClaim exists and is of this server; for a voluntary reason its NodePool is managed
    /// (Karpenter: disruption candidates).
    Unmanaged,
    /// A node is removed once, and not voluntarily while it is being deleted (Karpenter: disruption
    /// candidates).
    Terminating,
    /// A voluntary reason removes initialized nodes only (Karpenter: disruption candidates).
    NotInitialized,
    /// No more nodes of a NodePool are unavailable than its budgets allow for the reason
    /// (Karpenter: disruption budgets), and one of its disruption windows is open (plan contract §4).
    Budget,
    /// No more nodes of the cluster are unavailable than its own budget allows, over all managed
    /// NodePools (`disruption.max-unavailable-nodes`).
    ClusterBudget,
    /// Neither the Node nor one of its pods has an active `karpenter.sh/do-not-disrupt` (Karpenter:
    /// disruption candidates).
    DoNotDisrupt,
    /// Every evicted pod has at most one PodDisruptionBudget, and it allows an eviction. One node
    /// needs one allowed eviction, several nodes the sum (plan contract §3).
    PodDisruptionBudget,
    /// Every evicted pod that must run again has a place on a node that stays or is launched; an
    /// empty node has no such pod (plan contract §3).
    Room,
    /// A workload with more than one replica keeps a ready pod: its only one is not evicted, and
    /// several nodes do not take its last ones together. A workload that has a PodDisruptionBudget
    /// is judged by that one. The number of replicas is that of its pods, because the agent does
    /// not report workloads.
    LastReadyPod,
    /// `fleetwright.dev/on-demand-min-nodes`, `spot-max-percent`, `min-nodes` and `zone-balance` of the NodePool hold
    /// after the removal, or as much as before it (plan contract §4).
    OptIn,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemovalViolation {
    pub rule: RemovalRule,
    pub claim: ClaimName,
    /// Its Node; empty when there is none.
    pub node: NodeName,
    /// The pod that the removal must not evict, if one pod breaks the rule.
    pub pod: Option<PodKey>,
    pub message: String,
}

impl fmt::Display for RemovalViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on NodeClaim {}: {}", self.rule, self.claim, self.message)
    }
}

/// The violations that the rules have found.
#[derive(Default)]
pub(super) struct RemovalFindings {
    pub(super) violations: Vec<RemovalViolation>,
}

impl RemovalFindings {
    /// Records a violation by the removal of an unknown node.
    pub(super) fn report_unknown(&mut self, claim: &ClaimName) {
        let (rule, message) = (RemovalRule::Unmanaged, "the cluster has no such NodeClaim".to_owned());
        let (claim, node) = (claim.clone(), NodeName::default());
        self.violations.push(RemovalViolation { rule, claim, node, pod: None, message });
    }

    /// Records a violation by the removal of `node`.
    pub(super) fn report(&mut self, rule: RemovalRule, node: &RemovalNode, message: String) {
        let (claim, node) = (node.claim.clone(), node.node.clone());
        self.violations.push(RemovalViolation { rule, claim, node, pod: None, message });
    }

    /// Records a violation by the eviction of `pod`. `what` continues a sentence that begins with
    /// the name of the pod.
    pub(super) fn report_pod(&mut self, rule: RemovalRule, node: &RemovalNode, pod: &PodKey, what: &str) {
        let (claim, node, message) = (node.claim.clone(), node.node.clone(), format!("pod {pod} {what}"));
        self.violations.push(RemovalViolation { rule, claim, node, pod: Some(pod.clone()), message });
    }
}
