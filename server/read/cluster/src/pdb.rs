//! PodDisruptionBudgets and `karpenter.sh/do-not-disrupt`: which pods cannot be evicted, and why.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::observation::{Key, Object, Observation};
use super::record::{PodBudgetRecord, PodRecord};
use super::state::ClusterState;
use model::removal::{PodBudget, RemovalPod};
use model::taints::first_untolerated;
use model::{NodeName, Taint, Text, Timestamp};

/// The taint of a drained node.
static DRAIN: LazyLock<[Taint; 1]> = LazyLock::new(|| [Taint::of_drain()]);

impl PodRecord {
    /// Whether a drain of its node evicts it, unless it is terminating: pods of DaemonSets are evicted too. Those that
    /// tolerate the taint of a drained node, and mirrors of static pods, are not (Karpenter: evictable pods).
    #[must_use]
    pub fn is_evicted_by_drains(&self) -> bool {
        !self.mirror && first_untolerated(&*DRAIN, &self.shape.tolerations).is_some()
    }
}

impl ClusterState {
    /// The PodDisruptionBudgets that select `pod`, by name.
    pub fn pod_budgets_of(&self, pod: &PodRecord) -> impl Iterator<Item = &PodBudgetRecord> {
        self.auxiliary().budgets_of(&pod.key.namespace).filter(|budget| budget.selects(&pod.labels))
    }

    /// Why a drain cannot evict `pod` from its node at `now`; `None` when it can, or leaves it there (Karpenter: PDB
    /// limits).
    #[must_use]
    pub fn eviction_blocker(&self, pod: &PodRecord, now: Timestamp) -> Option<String> {
        if pod.blocks_disruption(now) {
            return Some(format!("pod {} has karpenter.sh/do-not-disrupt", pod.key));
        }
        if pod.terminating || !pod.is_evicted_by_drains() {
            return None;
        }
        let selecting: Vec<&PodBudgetRecord> = self.pod_budgets_of(pod).collect();
        match selecting.as_slice() {
            [] => None,
            [one] if !pod_budget(one).blocks(pod.ready) => None,
            [one] => Some(format!(
                "PodDisruptionBudget {}/{} blocks the eviction of pod {} (disruptionsAllowed is 0)",
                one.namespace, one.name, pod.key
            )),
            [one, other, ..] => Some(format!(
                "pod {} has the PodDisruptionBudgets {}/{} and {}/{}, and pods with more than one are never evicted",
                pod.key, one.namespace, one.name, other.namespace, other.name
            )),
        }
    }

    /// Whether pods that could never be evicted may be evicted later once `observation` is applied, or the reverse.
    #[must_use]
    pub fn may_change_evictions(&self, observation: &Observation) -> bool {
        match observation {
            Observation::Upsert(object) => {
                let Object::PodBudget(budget) = &**object else { return false };
                let known = self.auxiliary().budgets_of(&budget.namespace).find(|known| known.name == budget.name);
                known.is_none_or(|known| known.never_allows != budget.never_allows || known.selector != budget.selector)
            }
            Observation::Delete(key) => matches!(key, Key::PodBudget(..)),
            Observation::Snapshot(_) => false,
        }
    }

    /// Whether the API server refuses every eviction of `pod` until a PodDisruptionBudget is changed.
    #[must_use]
    pub fn is_never_evicted(&self, pod: &PodRecord) -> bool {
        !pod.terminating && PodBudgetRecord::never_evict(self.pod_budgets_of(pod), pod.ready)
    }

    /// Why pods on `node` cannot be evicted at `now`: one sentence for each blocked pod, ordered by
    /// pod.
    #[must_use]
    pub fn drain_blockers(&self, node: &NodeName, now: Timestamp) -> Vec<String> {
        let evicted = self.pods_on(node).filter(|pod| !pod.terminating && pod.is_evicted_by_drains());
        evicted.filter_map(|pod| self.eviction_blocker(pod, now)).collect()
    }
}

/// What the eviction of `pod` is judged by. The PodDisruptionBudgets that select it are added to `budgets`.
pub fn removal_pod(state: &ClusterState, pod: &PodRecord, budgets: &mut BTreeMap<Text, PodBudget>) -> RemovalPod {
    let mut pod_budgets = Vec::new();
    for budget in state.pod_budgets_of(pod).filter(|_| !pod.mirror) {
        let name = Text::from(format!("{}/{}", budget.namespace, budget.name));
        budgets.insert(name.clone(), pod_budget(budget));
        pod_budgets.push(name);
    }
    RemovalPod {
        key: pod.key.clone(),
        workload: pod.workload.clone(),
        node_bound: pod.daemon.is_some() || pod.mirror,
        terminating: pod.terminating,
        ready: pod.ready,
        tolerates_drain: !pod.is_evicted_by_drains(),
        do_not_disrupt: pod.do_not_disrupt,
        started: pod.started,
        pod_budgets,
    }
}

fn pod_budget(record: &PodBudgetRecord) -> PodBudget {
    PodBudget {
        allowed: usize::try_from(record.allowed).unwrap_or(0),
        evicts_unhealthy_always: record.evicts_unhealthy_always,
    }
}
