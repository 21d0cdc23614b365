//! Notes about pools that can never launch, and about DaemonSets that find no room.

use std::collections::BTreeSet;

use crate::explain::daemons::still_to_come;
use crate::explain::wording::{amount, count};
use crate::explain::world::{World, base, living};
use crate::input::PlanningInput;
use crate::model::resources::NODES;
use crate::model::{InstanceType, NodePool, NotReady, Resources};

use super::tell_about;

/// One note for each pool that cannot launch anything, whoever asks.
pub(super) fn tell(input: &PlanningInput, notes: &mut BTreeSet<String>) {
    for pool in &input.pools {
        if let Some(why) = why_never(input, pool) {
            notes.insert(format!("NodePool {} can launch nothing: {why}", pool.name));
        }
    }
}

fn why_never(input: &PlanningInput, pool: &NodePool) -> Option<String> {
    match &pool.not_ready {
        Some(NotReady::NodeClass(why)) => return Some(format!("EC2NodeClass {}: {why}", pool.node_class)),
        Some(NotReady::NodePool(why)) => return Some(why.to_string()),
        None => {}
    }
    let base = base(pool);
    let agreeing = || pool.catalogue.types.iter().filter(|t| t.labels.first_conflict(&base).is_none());
    if agreeing().next().is_none() {
        let all = count(pool.catalogue.types.len(), "instance type");
        return Some(format!("none of its {all} satisfies its requirements"));
    }
    let key_allows = |key: &str, value: &str| base.get(key).is_none_or(|r| r.has(value));
    let is_sold = |t: &&InstanceType| {
        t.offerings.iter().any(|o| {
            o.available
                && key_allows(crate::model::labels::ZONE, &o.zone)
                && key_allows(crate::model::labels::CAPACITY_TYPE, o.capacity_type.as_str())
        })
    };
    if !agreeing().any(|t| is_sold(&t)) {
        return Some(format!(
            "none of the {} that satisfy its requirements is for sale in the zones and capacity types allowed",
            count(agreeing().count(), "instance type")
        ));
    }
    limits_reached(input, pool, agreeing().filter(is_sold))
}

/// Whether the nodes that exist leave no room for any type. Static pools are bounded by their number of replicas. Looks at
/// no more types than it takes to find one with room.
fn limits_reached<'i>(
    input: &PlanningInput,
    pool: &NodePool,
    types: impl Iterator<Item = &'i InstanceType> + Clone,
) -> Option<String> {
    if pool.limits.is_empty() || pool.replicas.is_some() {
        return None;
    }
    let mut used = Resources::new();
    let mut nodes = 0;
    for node in living(input, pool) {
        used.add(&node.capacity);
        nodes += 1;
    }
    used.set(NODES, nodes);
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

/// Machines whose DaemonSet pods have no room beside the pods that are planned there.
pub(super) fn tell_daemons(world: &World<'_>, notes: &mut BTreeSet<String>) {
    let mut crowded: BTreeSet<String> = BTreeSet::new();
    for &(_, at) in &world.plan.placements {
        let node = &world.input.nodes[at as usize];
        let lacks = world.room(at).iter().any(|(_, left)| left < 0);
        if lacks && still_to_come(world.input, node).next().is_some() {
            crowded.insert(format!("node {}", node.name));
        }
    }
    for node in &world.plan.nodes {
        let pool = &world.input.pools[node.pool as usize];
        let first = node.types.first().map(|&t| &pool.catalogue.types[t as usize]);
        if first.is_some_and(|t| !node.requests.fits(&t.allocatable)) {
            crowded.insert(format!("{} ({})", node.name, pool.name));
        }
    }
    let crowded: Vec<String> = crowded.into_iter().collect();
    tell_about("DaemonSet pods find no room beside the pods planned there", &crowded, "", notes);
}
