//! A plan carried out: launched nodes exist, placed pods are bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::input::PlanningInput;
use model::labels::{HOSTNAME, ZONE};
use model::plan::{Plan, PlannedNode};
use model::resources::ATTACHABLE_VOLUMES_PREFIX;
use model::{BoundPod, InstanceType, Node, NodeStage, Text};

use crate::fixture::text;

/// `input` after `plan`, each node for pods launched as its first option in its first zone, with
/// only `pending` to place. Limits and reservations retain the maximum usage of the plan. Nodes of
/// static pools, which carry no planned pods, are left out.
pub fn carried_out(input: &PlanningInput, plan: &Plan, pending: &[u32]) -> PlanningInput {
    let mut after = input.clone();
    for (pod, node) in &plan.placements {
        after.nodes[*node as usize].pods.push(bound(input, *pod));
    }
    for planned in &plan.nodes {
        keep_back(&mut after, input, planned);
        after.nodes.push(launched(input, planned));
    }
    after.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    after.pods = pending.iter().map(|pod| input.pods[*pod as usize].clone()).collect();
    after
}

fn bound(input: &PlanningInput, pod: u32) -> BoundPod {
    let pod = &input.pods[pod as usize];
    BoundPod {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        shape: pod.shape,
        labels: pod.labels,
        volumes: pod.volumes,
        daemon: None,
        terminating: false,
        leaving: false,
    }
}

fn first<'i>(input: &'i PlanningInput, planned: &PlannedNode) -> &'i InstanceType {
    &input.pools[planned.pool as usize].catalogue.types[planned.types[0] as usize]
}

fn launched(input: &PlanningInput, planned: &PlannedNode) -> Node {
    let kind = first(input, planned);
    let mut labels = (*planned.labels).clone();
    labels.insert(text(HOSTNAME), planned.name.as_text().clone());
    labels.insert(text(ZONE), planned.zones[0].as_text().clone());
    for requirement in kind.labels.iter() {
        let value = requirement.finite_values().and_then(|values| values.first());
        labels.extend(value.map(|value| (requirement.key().clone(), value.clone())));
    }
    let limit = |(name, amount): (&Text, i64)| Some((text(name.strip_prefix(ATTACHABLE_VOLUMES_PREFIX)?), amount));
    Node {
        name: planned.name.clone(),
        pool: Some(input.pools[planned.pool as usize].name.clone()),
        labels,
        taints: planned.taints.to_vec(),
        unschedulable: false,
        allocatable: kind.allocatable.clone(),
        capacity: kind.capacity.clone(),
        stage: NodeStage::Initialized,
        pods: planned.pods.iter().map(|pod| bound(input, *pod)).collect(),
        attach_limits: kind.allocatable.iter().filter_map(limit).collect(),
        created: None,
    }
}

/// Subtracts from the limits of the pool the excess of the largest option over the first, and one
/// instance from its reservation.
fn keep_back(after: &mut PlanningInput, input: &PlanningInput, planned: &PlannedNode) {
    let catalogue = &input.pools[planned.pool as usize].catalogue;
    let pool = &mut after.pools[planned.pool as usize];
    let names: Vec<Text> = pool.limits.iter().map(|(name, _)| name.clone()).collect();
    for name in names.iter().filter(|name| name.as_ref() != "nodes") {
        let amount = |kind: &u32| catalogue.types[*kind as usize].capacity.get(name);
        let largest = planned.types.iter().map(amount).max().unwrap_or(0);
        let left = pool.limits.get(name) - (largest - amount(&planned.types[0]));
        pool.limits.set(name.clone(), left);
    }
    let mut used: BTreeMap<&Text, i64> = BTreeMap::new();
    used.extend(planned.reservation.as_ref().map(|id| (id, 1)));
    for pool in after.pools.iter_mut().filter(|_| !used.is_empty()) {
        let offerings = Arc::make_mut(&mut pool.catalogue).types.iter_mut().flat_map(|kind| &mut kind.offerings);
        for reservation in offerings.filter_map(|offering| offering.reservation.as_mut()) {
            reservation.remaining -= used.get(&reservation.id).copied().unwrap_or(0);
        }
    }
}
