//! Reads what runs in a captured cluster, for repacking ([`Options::repack`](crate::Options::repack)).

use std::collections::BTreeMap;

use manifests::cluster::Cluster;
use manifests::cluster::pods::PodObject;
use manifests::cluster::policy::DisruptionBudget;
use manifests::notes::Notes;
use model::labels::HOSTNAME;
use model::removal::{DoNotDisrupt, PodBudget, RemovalPod};
use model::running::RunningNode;
use model::{Node, NodeStage, Text, VolumeAlternatives};

use crate::drains::{BudgetedPods, tolerates_drains};
use crate::prices::NodePrices;

/// The [`RunningNode`] of each of `nodes`, without pods; `None` for nodes without a known price and
/// for NodeClaims without a Node, which are noted.
pub fn nodes_with_price(
    cluster: &Cluster,
    nodes: &[Node],
    prices: &NodePrices<'_>,
    notes: &mut Notes,
) -> Vec<Option<RunningNode>> {
    let protection: BTreeMap<&Text, Option<DoNotDisrupt>> =
        cluster.nodes.iter().map(|node| (&node.meta.name, node.do_not_disrupt)).collect();
    let with_price = |(at, node): (u32, &Node)| {
        if node.stage == NodeStage::InFlight {
            notes.add("NodeClaims without a Node stay, provide capacity, and are in none of the costs", &node.name);
            return None;
        }
        let Some(price) = prices.price(node, notes) else {
            notes.add(
                "the price of nodes is unknown: they stay, provide capacity, and are in none of the costs",
                &node.name,
            );
            return None;
        };
        let do_not_disrupt = protection.get(node.name.as_text()).copied().flatten();
        Some(RunningNode { node: at, price, do_not_disrupt, claim: None, recent_move: None, pods: Vec::new() })
    };
    (0..).zip(nodes).map(with_price).collect()
}

/// What the eviction of `pod` of `workload` (`Kind/name`) is judged by.
pub fn removal_facts(pod: &PodObject, workload: Text, cluster: &Cluster) -> RemovalPod {
    let selecting = |budget: &&DisruptionBudget| {
        !pod.mirror && budget.namespace == pod.meta.namespace && budget.guards(&pod.meta.labels)
    };
    RemovalPod {
        key: model::PodKey { namespace: pod.meta.namespace.clone(), name: pod.meta.name.clone() },
        workload,
        node_bound: !pod.is_movable(),
        terminating: pod.meta.deleting,
        ready: pod.ready,
        tolerates_drain: pod.mirror || tolerates_drains(pod),
        do_not_disrupt: pod.do_not_disrupt,
        started: pod.started,
        pod_budgets: cluster.budgets.iter().filter(selecting).map(title).collect(),
    }
}

/// The evictions that each budget allows now: what its status says. Without a status, one if its
/// threshold lets one of the pods that it selects go.
pub fn pod_budgets(budgets: &[DisruptionBudget], budgeted_pods: &BudgetedPods) -> BTreeMap<Text, PodBudget> {
    let allowed = |budget: &DisruptionBudget| match (budget.disruptions_allowed, budget.threshold) {
        (Some(allowed), _) => usize::try_from(allowed).unwrap_or(0),
        (None, Some(threshold)) => usize::from(!threshold.blocks_all(budgeted_pods.count(budget))),
        (None, None) => 1,
    };
    let read = |budget| PodBudget { allowed: allowed(budget), evicts_unhealthy_always: budget.evicts_unhealthy };
    budgets.iter().map(|budget| (title(budget), read(budget))).collect()
}

fn title(budget: &DisruptionBudget) -> Text {
    format!("{}/{}", budget.namespace, budget.name).into()
}

/// `volumes` of a pod that leaves the node where they are: the data on its disk is lost with it.
pub fn without_host(mut volumes: VolumeAlternatives) -> VolumeAlternatives {
    for alternative in &mut volumes.any_of {
        alternative.remove(HOSTNAME);
    }
    if volumes.any_of.iter().all(model::Requirements::is_empty) {
        volumes.any_of.clear();
    }
    volumes
}
