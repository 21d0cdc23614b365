//! PodDisruptionBudgets and `karpenter.sh/do-not-disrupt`: which pods cannot be evicted, and why.

use super::record::{PodBudgetRecord, PodRecord};
use super::state::ClusterState;
use model::{NodeName, Timestamp};

impl ClusterState {
    /// The PodDisruptionBudgets that select `pod`, by name.
    pub fn pod_budgets_of(&self, pod: &PodRecord) -> impl Iterator<Item = &PodBudgetRecord> {
        self.auxiliary().budgets_of(&pod.key.namespace).filter(|budget| budget.selects(&pod.labels))
    }

    /// Why `pod` cannot be evicted from its node at `now`; `None` when it can (Karpenter: PDB
    /// limits).
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

    /// Why pods on `node` cannot be evicted at `now`: one sentence for each blocked pod, ordered by
    /// pod.
    #[must_use]
    pub fn drain_blockers(&self, node: &NodeName, now: Timestamp) -> Vec<String> {
        let leaving = self.pods_on(node).filter(|pod| !pod.terminating && pod.daemon.is_none() && !pod.mirror);
        leaving.filter_map(|pod| self.eviction_blocker(pod, now)).collect()
    }
}
