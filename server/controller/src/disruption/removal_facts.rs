//! What the eviction of a pod is judged by, from the observed state.

use std::collections::BTreeMap;

use crate::cluster::{ClusterState, PodBudgetRecord, PodRecord};
use crate::nodeclaim::recovery::DISRUPTED;
use model::removal::{PodBudget, RemovalPod};
use model::taints::first_untolerated;
use model::{Effect, Taint, Text};

/// What the eviction of `pod` is judged by. The PodDisruptionBudgets that select it are added to `budgets`.
pub(super) fn removal_pod(
    state: &ClusterState,
    pod: &PodRecord,
    budgets: &mut BTreeMap<Text, PodBudget>,
) -> RemovalPod {
    let drain = [Taint { key: Text::from(DISRUPTED), value: Text::default(), effect: Effect::NoSchedule }];
    let node_bound = is_node_bound(pod);
    let mut pod_budgets = Vec::new();
    for budget in state.pod_budgets_of(pod).filter(|_| !node_bound) {
        let name = Text::from(format!("{}/{}", budget.namespace, budget.name));
        budgets.insert(name.clone(), pod_budget(budget));
        pod_budgets.push(name);
    }
    RemovalPod {
        key: pod.key.clone(),
        workload: pod.workload.clone(),
        node_bound,
        terminating: pod.terminating,
        ready: pod.ready,
        tolerates_drain: first_untolerated(&drain, &pod.shape.tolerations).is_none(),
        do_not_disrupt: pod.do_not_disrupt,
        started: pod.started,
        pod_budgets,
    }
}

/// Whether the pod ends with its node.
fn is_node_bound(pod: &PodRecord) -> bool {
    pod.daemon.is_some() || pod.mirror
}

fn pod_budget(record: &PodBudgetRecord) -> PodBudget {
    PodBudget {
        allowed: usize::try_from(record.allowed).unwrap_or(0),
        evicts_unhealthy_always: record.evicts_unhealthy_always,
    }
}
