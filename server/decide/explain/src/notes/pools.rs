//! Notes about pools that can never launch, and about DaemonSets without capacity.

use std::collections::BTreeSet;

use crate::snapshot::{PlanSnapshot, base};
use crate::unsatisfied::{class_not_ready, misspelt_value, pool_without_types, zones_without_offerings};
use crate::wording::{amount, count};
use model::input::PlanningInput;
use model::resources::NODES;
use model::{InstanceType, NodePool, NotReady};
use verifier::kernel::PoolNodes;

use super::placed_workloads::add_note;

/// Adds one note per pool that cannot launch anything for any pod, and one per requirement of the
/// others with a misspelt value.
pub(super) fn add_notes(input: &PlanningInput, notes: &mut BTreeSet<String>) {
    for pool in &input.pools {
        if let Some(why) = why_never(input, pool) {
            notes.insert(format!("NodePool {} can launch nothing: {why}", pool.name));
            continue;
        }
        for requirement in pool.requirements.iter() {
            if let Some((value, meant)) = misspelt_value(pool, requirement) {
                let (name, key) = (&pool.name, requirement.key());
                notes.insert(format!(
                    "NodePool {name} requires {key} {value}, which no machine has; did you mean {meant}?"
                ));
            }
        }
    }
}

fn why_never(input: &PlanningInput, pool: &NodePool) -> Option<String> {
    match &pool.not_ready {
        Some(NotReady::NodeClass(why)) => return Some(class_not_ready(pool, why)),
        Some(NotReady::NodePool(why)) => return Some(why.to_string()),
        None => {}
    }
    let base = base(pool);
    if let Some(message) = pool_without_types(pool, &base) {
        return Some(message);
    }
    if let Some(message) = base.get(model::labels::ZONE).and_then(|wanted| zones_without_offerings(pool, wanted)) {
        return Some(message);
    }
    let agreeing = || pool.catalogue.types.iter().filter(|t| t.labels.first_conflict(&base).is_none());
    let key_allows = |key: &str, value: &str| base.get(key).is_none_or(|r| r.has(value));
    let is_available = |t: &&InstanceType| {
        t.offerings.iter().any(|o| {
            o.available
                && key_allows(model::labels::ZONE, &o.zone)
                && key_allows(model::labels::CAPACITY_TYPE, o.capacity_type.as_str())
        })
    };
    if !agreeing().any(|t| is_available(&t)) {
        return Some(format!(
            "none of the {} that satisfy its requirements has an available offering in the allowed zones and capacity types",
            count(agreeing().count(), "instance type")
        ));
    }
    limits_reached(input, pool, agreeing().filter(is_available))
}

/// The reason why existing nodes leave no capacity for any type under the limits. Static pools are
/// limited by their replicas instead. Stops at the first type that fits.
fn limits_reached<'i>(
    input: &PlanningInput,
    pool: &NodePool,
    types: impl Iterator<Item = &'i InstanceType> + Clone,
) -> Option<String> {
    if pool.limits.is_empty() || pool.replicas.is_some() {
        return None;
    }
    // The node limit comes first: it does not depend on the instance type.
    let used = PoolNodes::existing(input, pool).used(&pool.limits);
    let nodes = used.get(NODES);
    if pool.limits.contains(NODES) && nodes >= pool.limits.get(NODES) {
        return Some(format!("its limit nodes {} is reached by the {nodes} that exist", pool.limits.get(NODES)));
    }
    let limited = || pool.limits.iter().filter(|(name, _)| name.as_ref() != NODES);
    let refused = |t: &InstanceType| limited().any(|(name, limit)| used.get(name) + t.capacity.get(name) > limit);
    if !types.clone().all(refused) {
        return None;
    }
    let (name, limit) =
        limited().max_by_key(|(name, limit)| i128::from(used.get(name)) * 1_000_000 / i128::from((*limit).max(1)))?;
    let smallest = types.map(|t| t.capacity.get(name)).min()?;
    Some(format!(
        "its limit {name} {} has {} left and no type that fits (the smallest has {})",
        amount(name, limit),
        amount(name, (limit - used.get(name)).max(0)),
        amount(name, smallest)
    ))
}

/// Adds a note about nodes whose DaemonSet pods do not fit beside the planned pods.
pub(super) fn add_daemon_notes(snapshot: &PlanSnapshot<'_>, notes: &mut BTreeSet<String>) {
    let mut without_capacity: BTreeSet<String> = BTreeSet::new();
    for &(_, at) in &snapshot.plan.placements {
        let node = &snapshot.input.nodes[at as usize];
        let lacks = snapshot.free_on_node(at).iter().any(|(_, left)| left < 0);
        if lacks && snapshot.daemons.lacks_any(node) {
            without_capacity.insert(format!("node {}", node.name));
        }
    }
    for node in &snapshot.plan.nodes {
        let pool = &snapshot.input.pools[node.pool as usize];
        let first = node.types.first().map(|&t| &pool.catalogue.types[t as usize]);
        if first.is_some_and(|t| !node.requests.fits(&t.allocatable)) {
            without_capacity.insert(format!("{} ({})", node.name, pool.name));
        }
    }
    let without_capacity: Vec<String> = without_capacity.into_iter().collect();
    add_note("DaemonSet pods do not fit beside the pods planned there", &without_capacity, "", notes);
}
