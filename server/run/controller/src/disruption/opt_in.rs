//! Annotations of NodePools that removals keep as launches do: on-demand nodes and the share of spot, the number of nodes,
//! their balance over zones (plan contract §4).

use std::collections::BTreeSet;

use crate::Removal;
use crate::disruption::DecisionQueue;
use cluster::{ClaimRecord, ClusterState, PoolRecord};
use model::labels::{CAPACITY_TYPE, ZONE};
use model::removal::{OptInNode, OptInPool, RemovalReason};
use model::resources::CPU;
use model::{CapacityType, ClaimName, PoolName, Text, Zone};
use verifier::kernel::is_bound_to_zones;

/// Those of `removals` for `reason` after which the annotations of their NodePools hold, or as much as before. The
/// others are evaluated again later.
pub(crate) fn keep_annotations(
    mut removals: Vec<Removal>,
    reason: RemovalReason,
    state: &ClusterState,
    decisions: &DecisionQueue,
) -> Vec<Removal> {
    if reason.is_forceful() {
        return removals;
    }
    let claims: BTreeSet<&ClaimName> = removals.iter().map(|removal| &removal.claim).collect();
    let pools = opt_in_pools(&claims, state, decisions).into_iter().map(|pool| {
        let at_first: Vec<OptInNode> = pool.staying.iter().chain(pool.removed.values()).cloned().collect();
        (pool, at_first)
    });
    let mut pools: Vec<(OptInPool, Vec<OptInNode>)> = pools.collect();
    let is_kept = |removal: &Removal| {
        let pool = pools.iter_mut().find(|(pool, _)| pool.removed.contains_key(&removal.claim));
        pool.is_none_or(|(pool, at_first)| {
            let Some(node) = pool.removed.remove(&removal.claim) else { return true };
            let may_go = keeps(pool, at_first, &node);
            if !may_go {
                pool.staying.push(node);
            }
            may_go
        })
    };
    removals.retain(is_kept);
    removals
}

/// The managed NodePools of `removed` with annotations that removals keep. Nodes whose removal is decided are none.
pub(crate) fn opt_in_pools(
    removed: &BTreeSet<&ClaimName>,
    state: &ClusterState,
    decisions: &DecisionQueue,
) -> Vec<OptInPool> {
    let claims = removed.iter().filter_map(|claim| state.claim(claim));
    let pools: BTreeSet<&PoolName> = claims.map(|claim| &claim.pool).collect();
    let records = pools.into_iter().filter_map(|name| state.pool(name));
    let with_zones = records.filter_map(|PoolRecord { pool, .. }| Some((OptInPool::of(pool)?, pool.launch_zones())));
    let mut facts: Vec<(OptInPool, BTreeSet<&Zone>)> = with_zones.collect();
    if facts.is_empty() {
        return Vec::new();
    }
    let decided = decisions.claims_being_removed();
    let nodes = removed.iter().filter_map(|claim| state.node_of_claim(claim));
    let pods = nodes.flat_map(|node| state.pods_on(&node.name));
    let places = pods.filter_map(|pod| state.assignments().get(&pod.key)?.target.claim());
    let launched: BTreeSet<&ClaimName> = places.collect();
    for claim in state.claims().filter(|claim| claim.ours && !claim.deleting) {
        let is_removed = removed.contains(&claim.name);
        let leaves = state.is_marked_for_deletion(&claim.name) || decided.contains(&claim.name);
        let Some((pool, zones)) = facts.iter_mut().find(|(pool, _)| pool.name == claim.pool) else { continue };
        if is_removed {
            pool.removed.insert(claim.name.clone(), opt_in_node(claim, zones, state));
        } else if !leaves {
            let nodes = if launched.contains(&claim.name) { &mut pool.launched } else { &mut pool.staying };
            nodes.push(opt_in_node(claim, zones, state));
        }
    }
    facts.into_iter().map(|(pool, _)| pool).collect()
}

/// `zones` are those that its NodePool may launch in.
fn opt_in_node(claim: &ClaimRecord, zones: &BTreeSet<&Zone>, state: &ClusterState) -> OptInNode {
    let node = state.node_of_claim(&claim.name);
    let (labels, capacity) = match node {
        Some(node) => (&node.labels, &node.capacity),
        None => (&claim.labels, &claim.capacity),
    };
    let label = |key| labels.get(key).cloned().unwrap_or_default();
    let pods = || node.into_iter().flat_map(|node| state.pods_on(&node.name)).filter(|pod| pod.is_reschedulable());
    OptInNode {
        capacity_type: label(CAPACITY_TYPE),
        zone: label(ZONE),
        millicores: capacity.get(CPU),
        pods_apart: pods().filter(|pod| !pod.shape.requires_shared_host()).count(),
        is_bound_to_zones: pods().any(|pod| is_bound_to_zones(&pod.shape, pod.volumes.as_deref(), zones)),
    }
}

/// Whether the annotations of `pool` hold without `node`, or as much as for its nodes `at_first`.
fn keeps(pool: &OptInPool, at_first: &[OptInNode], node: &OptInNode) -> bool {
    let rest: Vec<&OptInNode> = pool.staying.iter().chain(&pool.launched).chain(pool.removed.values()).collect();
    let at_first: Vec<&OptInNode> = at_first.iter().collect();
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let of_type = |nodes: &[&OptInNode], kind: CapacityType| {
        number(nodes.iter().filter(|node| node.capacity_type.as_ref() == kind.as_str()).count())
    };
    let apart = number(at_first.iter().map(|other| other.pods_apart).sum());
    let is_used = of_type(&rest, CapacityType::Spot) > 0 || apart > 0;
    let on_demand = of_type(&rest, CapacityType::OnDemand);
    let has_less = |least: i64| on_demand < least.min(of_type(&at_first, CapacityType::OnDemand));
    if is_used && pool.on_demand_min_nodes.is_some_and(has_less) {
        return false;
    }
    let (spot, all) = spot_and_all(&rest);
    let (spot_at_first, all_at_first) = spot_and_all(&at_first);
    if pool.spot_max_percent.is_some_and(|percent| spot * 100 > i128::from(percent) * all)
        && spot * all_at_first > spot_at_first * all
    {
        return false;
    }
    let nodes = number(rest.len());
    if pool.min_nodes.is_some_and(|least| nodes < least.min(apart).min(number(at_first.len()))) {
        return false;
    }
    !pool.zone_balance || is_balanced(&rest, &at_first, &node.zone)
}

/// Millicores on spot, and of all nodes.
fn spot_and_all(nodes: &[&OptInNode]) -> (i128, i128) {
    let spot = nodes.iter().filter(|node| node.capacity_type.as_ref() == CapacityType::Spot.as_str());
    let millicores = |node: &&OptInNode| i128::from(node.millicores);
    (spot.map(millicores).sum(), nodes.iter().map(millicores).sum())
}

/// Whether no other zone with a node that could be in `zone`, which a node leaves, comes to have two nodes more than it.
fn is_balanced(rest: &[&OptInNode], at_first: &[&OptInNode], zone: &Text) -> bool {
    let count = |nodes: &[&OptInNode], zone: &Text| nodes.iter().filter(|other| other.zone == *zone).count();
    let (here, here_at_first) = (count(rest, zone), count(at_first, zone));
    let is_too_full = |other: &&&OptInNode| {
        !other.is_bound_to_zones
            && count(rest, &other.zone) >= here + 2
            && count(at_first, &other.zone) < here_at_first + 2
    };
    !rest.iter().any(|other| is_too_full(&other))
}
