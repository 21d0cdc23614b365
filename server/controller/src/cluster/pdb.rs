//! PodDisruptionBudgets and `karpenter.sh/do-not-disrupt`: which pods cannot be evicted, and why.

use super::record::PodRecord;
use super::state::ClusterState;
use model::{LabelSelector, Labels, NodeName, Text, Timestamp};

/// A PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBudgetRecord {
    /// Its namespace, which is that of the pods that it selects.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `spec.selector`, as one selector; `None` selects no pod.
    pub selector: Option<LabelSelector>,
    /// `status.disruptionsAllowed`; 0 while `status.observedGeneration` is outdated, because the API server refuses evictions then.
    pub allowed: i32,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`: pods that are not ready can be evicted regardless of the budget.
    pub evicts_unhealthy_always: bool,
}

impl PodBudgetRecord {
    fn selects(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

impl ClusterState {
    /// The PodDisruptionBudgets that select `pod`, by name.
    pub fn pod_budgets_of(&self, pod: &PodRecord) -> impl Iterator<Item = &PodBudgetRecord> {
        let of_namespace = (pod.key.namespace.clone(), Text::default());
        let budgets = self.auxiliary.budgets.range(of_namespace..).map(|(_, budget)| budget);
        budgets.take_while(|budget| budget.namespace == pod.key.namespace).filter(|budget| budget.selects(&pod.labels))
    }

    /// Why `pod` cannot be evicted from its node at `now`; `None` when it can (Karpenter: PDB limits).
    #[must_use]
    pub fn eviction_blocker(&self, pod: &PodRecord, now: Timestamp) -> Option<String> {
        if pod.blocks_disruption(now) {
            return Some(format!("pod {} has karpenter.sh/do-not-disrupt", pod.key));
        }
        let selecting: Vec<&PodBudgetRecord> = self.pod_budgets_of(pod).collect();
        match selecting.as_slice() {
            [] => None,
            [one] if one.evicts_unhealthy_always && !pod.ready => None,
            [one] if one.allowed > 0 => None,
            [one] => Some(format!(
                "PodDisruptionBudget {}/{} blocks the eviction of pod {} (disruptionsAllowed is 0)",
                one.namespace, one.name, pod.key
            )),
            [one, other, ..] => Some(format!(
                "pod {} has the PodDisruptionBudgets {} and {}, and pods with more than one are never evicted",
                pod.key, one.name, other.name
            )),
        }
    }

    /// Why pods on `node` cannot be evicted at `now`: one sentence for each blocked pod, ordered by pod.
    #[must_use]
    pub fn drain_blockers(&self, node: &NodeName, now: Timestamp) -> Vec<String> {
        let leaving = self.pods_on(node).filter(|pod| !pod.terminating && pod.daemon.is_none() && !pod.mirror);
        leaving.filter_map(|pod| self.eviction_blocker(pod, now)).collect()
    }
}
