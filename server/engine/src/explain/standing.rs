//! Whether a machine that stands already, or is planned already, could take one more pod.

use crate::model::labels::{CAPACITY_TYPE, HOSTNAME, ZONE};
use crate::model::requirements::label_satisfies;
use crate::model::resources::ATTACHABLE_VOLUMES_PREFIX;
use crate::model::taints::first_barring;
use crate::model::{
    Effect, HostPort, InstanceType, Node, NodeStage, Operator, Requirement, Requirements, Resources, Taint, Text,
};
use crate::plan::{PlannedNode, ReasonCode};

use super::ask::{Alternative, Ask};
use super::market::Market;
use super::topology::Topology;
use super::world::{Load, Place, World, node_label};

/// The first thing that bars `ask` from an existing node; room for resources is tried last but for topology, because a
/// node that misses only room is the one worth naming. `None` when the pod fits.
pub(super) fn node_refuses(world: &World<'_>, ask: &Ask<'_>, topology: &Topology, at: u32) -> Option<ReasonCode> {
    let node = &world.input.nodes[at as usize];
    if let Some(code) = bars_whatever_the_room(world, ask, topology, at) {
        return Some(code);
    }
    if !ask.shape.requests.fits(world.room(at)) {
        return Some(ReasonCode::Resources);
    }
    topology_refuses(topology, node)
}

/// Everything but room and topology.
pub(super) fn bars_whatever_the_room(
    world: &World<'_>,
    ask: &Ask<'_>,
    topology: &Topology,
    at: u32,
) -> Option<ReasonCode> {
    let node = &world.input.nodes[at as usize];
    if node.stage == NodeStage::Deleting || tainted(node, ask) {
        return Some(ReasonCode::Taints);
    }
    if !topology.ways.iter().any(|way| way_suits(way, node)) {
        return Some(ReasonCode::Requirements);
    }
    let load = &world.loads[at as usize];
    if ports_taken(&load.ports, ask) {
        return Some(ReasonCode::HostPorts);
    }
    let place = |volumes: &Requirements| volumes.iter().all(|r| label_satisfies(&node.labels, r));
    if !(ask.volumes.any_of.is_empty() || ask.volumes.any_of.iter().any(place)) || !attaches(node, load, ask) {
        return Some(ReasonCode::Volumes);
    }
    None
}

/// The code of the topology rule that bars the node.
pub(super) fn topology_refuses(topology: &Topology, node: &Node) -> Option<ReasonCode> {
    let site = topology.site(|key| node_label(node, key).cloned());
    topology.barrier(&site).map(super::reason::barrier_code)
}

fn tainted(node: &Node, ask: &Ask<'_>) -> bool {
    let cordon = Taint { key: "node.kubernetes.io/unschedulable".into(), value: "".into(), effect: Effect::NoSchedule };
    let cordoned = node.unschedulable && first_barring(std::slice::from_ref(&cordon), &ask.shape.tolerations).is_some();
    cordoned || first_barring(&node.taints, &ask.shape.tolerations).is_some()
}

fn way_suits(way: &Alternative, node: &Node) -> bool {
    way.contradiction.is_none()
        && way.requirements.iter().all(|r| label_satisfies(&node.labels, r))
        && way.names.iter().all(|names| names.has(&node.name))
}

fn ports_taken(taken: &[HostPort], ask: &Ask<'_>) -> bool {
    ask.shape.host_ports.iter().any(|own| taken.iter().any(|port| own.conflicts_with(port)))
}

fn attaches(node: &Node, load: &Load, ask: &Ask<'_>) -> bool {
    node.attach_limits.iter().all(|(driver, limit)| {
        let of_driver = |(of, _): &&(Text, Text)| of == driver;
        let there = load.attached.iter().filter(of_driver).count();
        let more = ask.volumes.attachments.iter().filter(of_driver).filter(|v| !load.attached.contains(v)).count();
        more == 0 || i64::try_from(there + more).unwrap_or(i64::MAX) <= *limit
    })
}

/// Whether the planned node `at` could take `ask` too: in one of its zones, as one of its launch options.
pub(super) fn planned_takes(world: &World<'_>, ask: &Ask<'_>, topology: &Topology, at: u32) -> bool {
    let node = &world.plan.nodes[at as usize];
    let load = &world.planned[at as usize];
    if first_barring(&node.taints, &ask.shape.tolerations).is_some() || ports_taken(&load.ports, ask) {
        return false;
    }
    let mut market = Market::new(world, ask, node.pool);
    market.joins = true;
    let volumes = ask.volume_alternatives();
    node.zones.iter().filter(|zone| zone_admitted(world, topology, at, zone)).any(|zone| {
        topology.ways.iter().filter_map(|way| merge(world, node, zone, way)).any(|merged| {
            let placed = volumes.iter().filter_map(|place| with_volumes(&merged, place));
            let mut placed = placed.map(|merged| (world.types(node.pool, &merged), merged));
            placed.any(|(matching, merged)| {
                let matches = |t: &u32| matching.binary_search(t).is_ok();
                node.types.iter().copied().filter(matches).any(|t| option_takes(&market, ask, at, t, &merged))
            })
        })
    })
}

/// Whether the planned node `at`, launched as its option `t`, has room for `ask` beside its pods and daemons.
fn option_takes(market: &Market<'_>, ask: &Ask<'_>, at: u32, t: u32, merged: &Requirements) -> bool {
    let world = market.world;
    let (node, load) = (&world.plan.nodes[at as usize], &world.planned[at as usize]);
    let instance = &world.input.pools[node.pool as usize].catalogue.types[t as usize];
    let freed = &world.freed(node.pool)[t as usize];
    let enough = |(name, amount): (&Text, i64)| amount <= 0 || amount <= freed.room.get(name) - load.requests.get(name);
    ask.shape.requests.iter().all(enough)
        && !ask.shape.host_ports.iter().any(|own| freed.ports.iter().any(|(port, _)| own.conflicts_with(port)))
        && attaches_planned(&instance.allocatable, load, ask)
        && any_open(market, instance, merged)
}

fn zone_admitted(world: &World<'_>, topology: &Topology, at: u32, zone: &Text) -> bool {
    if topology.keys.is_empty() {
        return true;
    }
    let label = |key: &Text| world.label(Place::Planned(at), key).map(Text::from);
    let site = topology.site(|key| if key.as_ref() == ZONE { Some(zone.clone()) } else { label(key) });
    topology.barrier(&site).is_none()
}

/// What the planned node promises, in `zone`, together with one way of the pod.
fn merge(world: &World<'_>, node: &PlannedNode, zone: &Text, way: &Alternative) -> Option<Requirements> {
    let pool = &world.input.pools[node.pool as usize];
    if way.contradiction.is_some() || way.names.iter().any(|names| names.finite_values().is_some()) {
        return None;
    }
    let mut promised = world.pools[node.pool as usize].base.clone();
    promised.add_all(&Requirements::from_labels(&node.labels));
    promised.add(Requirement::equals(ZONE, zone.clone()));
    promised.add(Requirement::new(CAPACITY_TYPE, Operator::In, [node.capacity_type.as_str().into()]));
    let known = |key: &str| key != HOSTNAME && super::catalogue::may_be_defined(pool, key);
    if promised.first_incompatible(&way.requirements, known).is_some() {
        return None;
    }
    promised.add_all(&way.requirements);
    promised.remove(HOSTNAME);
    Some(promised)
}

fn with_volumes(merged: &Requirements, volumes: &Requirements) -> Option<Requirements> {
    if merged.first_incompatible(volumes, |_| true).is_some() {
        return None;
    }
    let mut merged = merged.clone();
    merged.add_all(volumes);
    Some(merged)
}

fn attaches_planned(allocatable: &Resources, load: &Load, ask: &Ask<'_>) -> bool {
    ask.drivers().into_iter().all(|driver| {
        let limit = format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}");
        let of_driver = |(of, _): &&(Text, Text)| of == driver;
        let all = load.attached.union(&ask.volumes.attachments.iter().cloned().collect()).filter(of_driver).count();
        !allocatable.contains(&limit) || i64::try_from(all).unwrap_or(i64::MAX) <= allocatable.get(&limit)
    })
}

fn any_open(market: &Market<'_>, instance: &InstanceType, merged: &Requirements) -> bool {
    let wanted = market.wanted(merged);
    instance.offerings.iter().any(|offering| market.closed(instance, offering, &wanted).is_none())
}
