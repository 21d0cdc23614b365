//! A launch carried out: nodes join, pods are bound, and what is left over is planned again.

use std::collections::{BTreeMap, BTreeSet};

use model::input::PlanningInput;
use model::plan::{Plan, PlannedNode};
use model::{MicroUsd, NodeName, NodeStage};

use crate::launched;
use crate::queue::{Order, bind_all};
use crate::steps::Steps;

/// How often the pods that are left over are planned again. Each launch has room for all of its
/// pods, so few are left over a second time.
const MAX_ROUNDS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Realised {
    /// Hourly cost of all nodes that were launched for pods.
    pub cost: MicroUsd,
    /// Nodes that were launched for pods that found their planned node taken.
    pub extra_nodes: usize,
    pub pods: usize,
    /// Pods bound where planned, with pods that differ in their names only interchangeable.
    pub where_planned: usize,
    /// Pods that remain pending: no plan places them any more, or the rounds were used up.
    pub pending: usize,
}

/// Carries `plan` out in `order`. `replan` plans the pods that are left over; it must not search for
/// long, since it is called up to three times. `None` when `steps` are used up.
pub fn realise(
    input: &PlanningInput,
    plan: &Plan,
    order: Order,
    replan: &mut dyn FnMut(&PlanningInput) -> Plan,
    steps: &mut Steps,
) -> Option<Realised> {
    let mut cluster = input.clone();
    cluster.policy.search_steps = 0;
    let mut realised = Realised { cost: MicroUsd(0), extra_nodes: 0, pods: 0, where_planned: 0, pending: 0 };
    let mut plan = plan.clone();
    for round in 0..MAX_ROUNDS {
        let planned = launch(&mut cluster, &plan);
        realised.cost.0 += plan.nodes.iter().map(|node| node.cost().0).sum::<i64>();
        let pods: Vec<u32> = planned.keys().copied().collect();
        let bound = bind_all(&cluster, &pods, Order { seed: order.seed.wrapping_add(round as u64), ..order }, steps)?;
        if round == 0 {
            realised.pods = pods.len();
            realised.where_planned = where_planned(&cluster, &planned, &bound);
        } else {
            realised.extra_nodes += plan.nodes.len();
        }
        let left = keep_bindings(&mut cluster, &pods, &bound);
        realised.pending += plan.unschedulable.len() * usize::from(round > 0);
        if left.is_empty() {
            return Some(realised);
        }
        cluster.pods = left.iter().map(|pod| cluster.pods[*pod as usize].clone()).collect();
        if round + 1 < MAX_ROUNDS {
            plan = replan(&cluster);
        }
    }
    realised.pending += cluster.pods.len();
    Some(realised)
}

/// Adds the nodes of `plan` to the cluster, in flight. Returns the planned node of each pod, both by
/// index.
fn launch(cluster: &mut PlanningInput, plan: &Plan) -> BTreeMap<u32, u32> {
    let mut names: BTreeSet<NodeName> = cluster.nodes.iter().map(|node| node.name.clone()).collect();
    let mut planned: BTreeMap<u32, NodeName> =
        plan.placements.iter().map(|(pod, node)| (*pod, cluster.nodes[*node as usize].name.clone())).collect();
    let for_pods = plan.nodes.iter().chain(&plan.static_nodes);
    for node in for_pods {
        let name = unused_name(&mut names, node);
        let Some(launched) = launched::node(cluster, node, name.clone()) else { continue };
        cluster.nodes.push(launched);
        planned.extend(node.pods.iter().map(|pod| (*pod, name.clone())));
    }
    launched::use_reservations(cluster, &plan.nodes);
    cluster.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let index_of = |name: &NodeName| cluster.nodes.binary_search_by(|node| node.name.cmp(name)).ok();
    let placed = planned.iter().filter_map(|(pod, name)| Some((*pod, u32::try_from(index_of(name)?).ok()?)));
    placed.collect()
}

/// The name of a planned node, made unique: later plans number their nodes from the beginning.
fn unused_name(names: &mut BTreeSet<NodeName>, node: &PlannedNode) -> NodeName {
    let mut name = node.name.clone();
    while !names.insert(name.clone()) {
        name = NodeName::from(format!("{name}-again"));
    }
    name
}

/// Puts the pods onto their nodes, which are initialized from now on. Returns those left over.
fn keep_bindings(cluster: &mut PlanningInput, pods: &[u32], bound: &[Option<u32>]) -> Vec<u32> {
    let mut left = Vec::new();
    for (pod, node) in pods.iter().zip(bound) {
        match node {
            Some(node) => {
                let there = launched::bound(&cluster.pods[*pod as usize]);
                cluster.nodes[*node as usize].pods.push(there);
            }
            None => left.push(*pod),
        }
    }
    for node in cluster.nodes.iter_mut().filter(|node| node.stage == NodeStage::InFlight) {
        node.stage = NodeStage::Initialized;
    }
    left
}

/// Number of pods on nodes that were planned for pods of their kind.
fn where_planned(cluster: &PlanningInput, planned: &BTreeMap<u32, u32>, bound: &[Option<u32>]) -> usize {
    let kind = |pod: u32| {
        let pod = &cluster.pods[pod as usize];
        (&pod.namespace, pod.shape, pod.labels, pod.volumes)
    };
    let mut expected: BTreeMap<_, usize> = BTreeMap::new();
    for (pod, node) in planned {
        *expected.entry((kind(*pod), *node)).or_insert(0) += 1;
    }
    let mut count = 0;
    for (pod, node) in planned.keys().zip(bound) {
        let Some(node) = node else { continue };
        if let Some(places) = expected.get_mut(&(kind(*pod), *node)).filter(|places| **places > 0) {
            *places -= 1;
            count += 1;
        }
    }
    count
}
