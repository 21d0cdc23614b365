//! What the eviction of a pod is judged by, from the observed state.

use std::collections::BTreeMap;

use crate::{ClusterState, PodBudgetRecord, PodRecord};
use model::Text;
use model::removal::{PodBudget, RemovalPod};

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

pub(super) fn pod_budget(record: &PodBudgetRecord) -> PodBudget {
    PodBudget {
        allowed: usize::try_from(record.allowed).unwrap_or(0),
        evicts_unhealthy_always: record.evicts_unhealthy_always,
    }
}
