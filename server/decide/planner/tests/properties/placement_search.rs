//! Searches for pods left unschedulable although they fit: on an existing, in-flight or planned
//! node, or on a new node on top of the finished plan. The search tries all nodes and lets
//! [`check`] decide; it shares nothing with the planner.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, HOSTNAME, NODECLASS, NODEPOOL, ZONE};
use model::plan::{Plan, PlannedNode};
use model::{
    CapacityType, InstanceType, Labels, MicroUsd, NodeName, NodePool, NodeStage, Offering, Pod, PodShape, Text, Zone,
};
use verifier::{Rule, check};

use crate::fixture::text;

/// Maximum number of launch options of one node.
const MOST_OPTIONS: usize = 60;

/// For each kind of unschedulable pod of `plan`: the first one that fits on top of it, and its
/// node.
pub fn wrongly_unplaced(input: &PlanningInput, plan: &Plan) -> Vec<(u32, String)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for pod in &plan.unschedulable {
        let own = &input.pods[*pod as usize];
        let kind = (own.shape, own.labels, own.volumes, own.created, own.namespace.clone());
        if own.invalid.is_none() && seen.insert(kind) {
            found.extend(node_for(input, plan, *pod).map(|place| (*pod, place)));
        }
    }
    found
}

/// A node on which `pod` fits on top of `plan`.
pub fn node_for(input: &PlanningInput, plan: &Plan, pod: u32) -> Option<String> {
    let any = |_: &Plan| true;
    let place = on_a_node(input, plan, pod, any).or_else(|| on_a_planned_node(input, plan, pod, |_, _| true, any));
    place.map(|(_, place)| place).or_else(|| on_a_new_machine(input, plan, pod))
}

/// A node to launch whose pods would all fit, one after another, on the other nodes of `plan` without
/// making one of them dearer. Where a spread, or a preference between pods, may have launched it, they stay in their
/// zone, and a host without a pod counts in their spread. Keys other than the zone and the hostname are left out.
pub fn needless_node(input: &PlanningInput, plan: &Plan) -> Option<String> {
    (0..plan.nodes.len()).find_map(|at| {
        let mut trial = plan.clone();
        let node = trial.nodes.remove(at);
        let wide_keys =
            node.pods.iter().flat_map(|pod| wide_keys(&input.shapes[input.pods[*pod as usize].shape as usize]));
        if wide_keys.into_iter().any(|key| key.as_ref() != ZONE || node.zones.len() > 1) {
            return None;
        }
        let order: Vec<u32> = plan.order.iter().copied().filter(|pod| node.pods.contains(pod)).collect();
        trial.order.retain(|pod| !node.pods.contains(pod));
        trial.unschedulable.extend(&order);
        trial.unschedulable.sort_unstable();
        let mut places = Vec::new();
        for pod in order {
            let is_no_dearer = |before: &PlannedNode, after: &PlannedNode| after.cost() <= before.cost();
            let stays = |plan: &Plan| stays_spread(input, plan, pod, &node.zones[0]);
            let found = on_a_node(input, &trial, pod, stays)
                .or_else(|| on_a_planned_node(input, &trial, pod, is_no_dearer, stays));
            let (next, place) = found?;
            trial = next;
            places.push(format!("pod {pod} {place}"));
        }
        Some(format!("{}: {}", node.name, places.join(", ")))
    })
}

/// Whether `plan` has no violation other than the stated requests of its nodes, on which nothing
/// depends.
pub fn is_sound(input: &PlanningInput, plan: &Plan) -> bool {
    check(input, plan).iter().all(|violation| violation.rule == Rule::Requests)
}

/// `plan` with `pod` in the order and no longer unschedulable.
fn with(plan: &Plan, pod: u32) -> Plan {
    let mut plan = plan.clone();
    plan.unschedulable.retain(|other| *other != pod);
    plan.order.push(pod);
    plan
}

/// Keys other than the hostname of spreads and of preferences between pods.
fn wide_keys(shape: &PodShape) -> impl Iterator<Item = &Text> {
    let terms = shape.preferred_pod_affinity.iter().chain(&shape.preferred_pod_anti_affinity);
    let keys = shape.spread.iter().map(|spread| &spread.topology_key);
    keys.chain(terms.map(|term| &term.term.topology_key)).filter(|key| key.as_ref() != HOSTNAME)
}

/// Whether `pod` is in `zone` if it has a wide key, and its host has no more pods than its spreads over hostnames
/// allow beside an empty host.
fn stays_spread(input: &PlanningInput, plan: &Plan, pod: u32, zone: &Zone) -> bool {
    let own = &input.pods[pod as usize];
    let shape = &input.shapes[own.shape as usize];
    let machine = plan.nodes.iter().find(|node| node.pods.contains(&pod));
    let node = plan.placements.iter().find(|(other, _)| *other == pod).map(|(_, node)| *node);
    let zones = match (machine, node) {
        (Some(machine), _) => machine.zones.to_vec(),
        (None, Some(node)) => input.nodes[node as usize].labels.get(ZONE).map(Zone::from).into_iter().collect(),
        (None, None) => return false,
    };
    if wide_keys(shape).next().is_some() && zones != [zone.clone()] {
        return false;
    }
    let planned = machine.map(|machine| machine.pods.clone()).unwrap_or_default();
    let placed = plan.placements.iter().filter(|(_, other)| Some(*other) == node).map(|(pod, _)| *pod);
    let pods = planned.into_iter().chain(placed).filter(|other| *other != pod).map(|other| &input.pods[other as usize]);
    let mut labels: Vec<u32> = pods.filter(|pod| pod.namespace == own.namespace).map(|pod| pod.labels).collect();
    let bound = node.into_iter().flat_map(|node| &input.nodes[node as usize].pods);
    let bound = bound.filter(|pod| !pod.terminating && !pod.leaving && pod.namespace == own.namespace);
    labels.extend(bound.map(|pod| pod.labels));
    let spreads = shape.spread.iter().filter(|spread| spread.hard && spread.topology_key.as_ref() == HOSTNAME);
    spreads.into_iter().all(|spread| {
        let meant = |labels: u32| {
            spread.selector.as_ref().is_some_and(|selector| selector.matches(&input.label_sets[labels as usize]))
        };
        let others = labels.iter().filter(|labels| meant(**labels)).count() as i64;
        others + i64::from(meant(own.labels)) <= i64::from(spread.max_skew)
    })
}

fn on_a_node(input: &PlanningInput, plan: &Plan, pod: u32, accepts: impl Fn(&Plan) -> bool) -> Option<(Plan, String)> {
    let shape = &input.shapes[input.pods[pod as usize].shape as usize];
    let mut trial = with(plan, pod);
    for (at, node) in (0_u32..).zip(&input.nodes) {
        let large_enough = shape.requests.iter().all(|(name, amount)| amount <= node.allocatable.get(name));
        if node.stage == NodeStage::Deleting || !large_enough {
            continue;
        }
        trial.placements.push((pod, at));
        if is_sound(input, &trial) && accepts(&trial) {
            return Some((trial, format!("on {} ({:?})", node.name, node.stage)));
        }
        trial.placements.pop();
    }
    None
}

fn on_a_planned_node(
    input: &PlanningInput,
    plan: &Plan,
    pod: u32,
    is_wanted: impl Fn(&PlannedNode, &PlannedNode) -> bool,
    accepts: impl Fn(&Plan) -> bool,
) -> Option<(Plan, String)> {
    let mut trial = with(plan, pod);
    for (at, node) in plan.nodes.iter().enumerate() {
        let pool = &input.pools[node.pool as usize];
        let mut pods = node.pods.clone();
        pods.push(pod);
        pods.sort_unstable();
        let large_enough = large_enough(input, pool, &node.types, &pods);
        for (types, zones) in narrowed(pool, node, &large_enough) {
            let Some(narrower) = launch(pool, node, &types, &zones, &pods) else { continue };
            if !is_wanted(node, &narrower) {
                continue;
            }
            trial.nodes[at] = narrower;
            if is_sound(input, &trial) && accepts(&trial) {
                let place = format!("on {} with {} options in {zones:?}", node.name, types.len());
                return Some((trial, place));
            }
        }
        trial.nodes[at] = node.clone();
    }
    None
}

/// The `types` large enough for `pods` on an empty node.
pub fn large_enough(input: &PlanningInput, pool: &NodePool, types: &[u32], pods: &[u32]) -> Vec<u32> {
    let mut asked = model::Resources::new();
    pods.iter().for_each(|pod| asked.add(&input.shapes[input.pods[*pod as usize].shape as usize].requests));
    let holds = |kind: &u32| {
        let machine = &pool.catalogue.types[*kind as usize];
        asked.iter().all(|(name, amount)| amount <= machine.allocatable.get(name))
    };
    types.iter().copied().filter(holds).collect()
}

/// Options and zones to which a node may be narrowed: everything, each zone, each option in each
/// zone.
pub fn narrowed(pool: &NodePool, node: &PlannedNode, large_enough: &[u32]) -> Vec<(Vec<u32>, Vec<Zone>)> {
    let mut ways = Vec::new();
    if large_enough.is_empty() {
        return ways;
    }
    ways.push((large_enough.to_vec(), node.zones.to_vec()));
    for zone in node.zones.iter() {
        let available = |kind: &u32| offered(pool, *kind, node, zone).is_some();
        let here: Vec<u32> = large_enough.iter().copied().filter(available).collect();
        ways.extend((1..=here.len()).rev().map(|count| (here[..count].to_vec(), vec![zone.clone()])));
        ways.extend(here.iter().map(|kind| (vec![*kind], vec![zone.clone()])));
    }
    ways
}

fn offered<'i>(pool: &'i NodePool, kind: u32, like: &PlannedNode, zone: &Zone) -> Option<&'i Offering> {
    let same = |offering: &&Offering| {
        let id = offering.reservation.as_ref().map(|reservation| &reservation.id);
        offering.available
            && offering.zone == *zone
            && offering.capacity_type == like.capacity_type
            && id == like.reservation.as_ref()
    };
    pool.catalogue.types[kind as usize].offerings.iter().filter(same).min_by_key(|offering| offering.price)
}

/// `node` with these options, cheapest first, in these zones, cheapest first, and these pods.
pub fn launch(pool: &NodePool, node: &PlannedNode, types: &[u32], zones: &[Zone], pods: &[u32]) -> Option<PlannedNode> {
    let cheapest = |kind: u32| {
        let prices = zones.iter().filter_map(|zone| Some((offered(pool, kind, node, zone)?.price, zone.clone())));
        prices.min()
    };
    let mut ranked: Vec<(MicroUsd, Zone, u32)> =
        types.iter().filter_map(|kind| cheapest(*kind).map(|(price, zone)| (price, zone, *kind))).collect();
    ranked.sort_by_key(|(price, _, kind)| (*price, *kind));
    ranked.truncate(MOST_OPTIONS);
    let (price, first, _) = ranked.first()?.clone();
    let available = |zone: &&Zone| ranked.iter().any(|(_, _, kind)| offered(pool, *kind, node, zone).is_some());
    let others = zones.iter().filter(|zone| **zone != first).filter(available).cloned();
    let zones: Vec<Zone> = [first.clone()].into_iter().chain(others).collect();
    let types: Vec<u32> = ranked.iter().map(|(_, _, kind)| *kind).collect();
    let mut labels = (*node.labels).clone();
    if let [only] = zones.as_slice() {
        labels.insert(text(ZONE), only.as_text().clone());
    }
    labels.extend(common(&types.iter().map(|kind| &pool.catalogue.types[*kind as usize]).collect::<Vec<_>>()));
    Some(PlannedNode {
        zones: zones.into(),
        types: types.into(),
        price,
        pods: pods.to_vec(),
        labels: Arc::new(labels),
        ..node.clone()
    })
}

/// Labels for which all these types have the same single value.
fn common(types: &[&InstanceType]) -> Labels {
    let single = |kind: &InstanceType, key: &Text| {
        let values = kind.labels.get(key)?.finite_values()?;
        if values.len() == 1 { values.first().cloned() } else { None }
    };
    let Some(first) = types.first() else { return Labels::new() };
    let known = first.labels.iter().filter_map(|own| Some((own.key().clone(), single(first, own.key())?)));
    known.filter(|(key, value)| types.iter().all(|kind| single(kind, key).as_ref() == Some(value))).collect()
}

fn on_a_new_machine(input: &PlanningInput, plan: &Plan, pod: u32) -> Option<String> {
    let mut trial = with(plan, pod);
    for (at, pool) in (0_u32..).zip(&input.pools).filter(|(_, pool)| pool.replicas.is_none()) {
        let all: Vec<u32> = (0..pool.catalogue.types.len() as u32).collect();
        let large_enough = large_enough(input, pool, &all, &[pod]);
        for fresh in fresh_nodes(at, pool, &input.pods[pod as usize], input) {
            for (types, zones) in narrowed(pool, &fresh, &by_size(pool, large_enough.clone())) {
                let Some(node) = launch(pool, &fresh, &types, &zones, &[pod]) else { continue };
                trial.nodes.push(node);
                if is_sound(input, &trial) {
                    let what = fresh.capacity_type.as_str();
                    return Some(format!("new node of {}, {what}, options {types:?} in {zones:?}", pool.name));
                }
                trial.nodes.pop();
            }
        }
    }
    None
}

fn by_size(pool: &NodePool, mut types: Vec<u32>) -> Vec<u32> {
    types.sort_by_key(|kind| pool.catalogue.types[*kind as usize].capacity.get("cpu"));
    types
}

/// One node of `pool` per capacity type, without options.
fn fresh_nodes(at: u32, pool: &NodePool, pod: &Pod, input: &PlanningInput) -> Vec<PlannedNode> {
    let offerings = || pool.catalogue.types.iter().flat_map(|kind| &kind.offerings);
    let ways: BTreeSet<(CapacityType, Option<Text>)> = offerings()
        .map(|offering| (offering.capacity_type, offering.reservation.as_ref().map(|own| own.id.clone())))
        .collect();
    let zones: BTreeSet<Zone> = offerings().map(|offering| offering.zone.clone()).collect();
    let node = |(capacity_type, reservation): (CapacityType, Option<Text>)| PlannedNode {
        name: NodeName::from("fresh"),
        pool: at,
        capacity_type,
        zones: zones.iter().cloned().collect(),
        types: Arc::default(),
        price: MicroUsd(0),
        credits: MicroUsd(0),
        reservation,
        pods: Vec::new(),
        labels: Arc::new(labels_for(pool, pod, input, capacity_type)),
        taints: pool.taints.clone().into(),
        requests: model::Resources::new(),
    };
    ways.into_iter().map(node).collect()
}

/// Labels of every node of `pool`, and undecided labels as `pod` requires them.
fn labels_for(pool: &NodePool, pod: &Pod, input: &PlanningInput, capacity_type: CapacityType) -> Labels {
    let mut labels = pool.labels.clone();
    labels.insert(text(NODEPOOL), pool.name.as_text().clone());
    labels.insert(text(NODECLASS), pool.node_class.clone());
    labels.insert(text(CAPACITY_TYPE), text(capacity_type.as_str()));
    let shape = &input.shapes[pod.shape as usize];
    let wished = shape.node_affinity.iter().flat_map(|term| &term.expressions);
    let wished = wished
        .filter_map(|label_requirement| Some((label_requirement.key().clone(), label_requirement.representative()?)));
    let selected = shape.node_selector.iter().map(|(key, value)| (key.clone(), value.clone()));
    let own = pool.requirements.iter().filter_map(|own| Some((own.key().clone(), own.representative()?)));
    for (key, value) in selected.chain(wished).chain(own) {
        let open = pool.requirements.get(&key).is_some_and(|open| !open.allows_absence() && open.has(&value));
        let of_types = pool.catalogue.types.iter().any(|kind| kind.labels.get(&key).is_some());
        if open && !of_types && key.as_ref() != ZONE {
            labels.entry(key).or_insert(value);
        }
    }
    labels
}
