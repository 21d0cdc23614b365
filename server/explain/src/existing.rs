//! Whether an existing or planned node could run one more pod.

use model::labels::{CAPACITY_TYPE, HOSTNAME, ZONE};
use model::plan::{PlannedNode, ReasonCode};
use model::requirements::label_satisfies;
use model::resources::ATTACHABLE_VOLUMES_PREFIX;
use model::taints::first_untolerated;
use model::{
    Effect, HostPort, InstanceType, Node, NodeStage, Operator, Requirement, Requirements, Resources, Taint, Text, Zone,
};

use super::offering_filter::OfferingFilter;
use super::pod_requirements::{Alternative, PodRequirements};
use super::snapshot::{Load, NodeRef, PlanSnapshot, node_label};
use super::topology::Topology;

/// The first obstacle of the pod on an existing node; `None` if the pod fits. Resources are checked
/// after all other rules except topology, because a node that lacks only resources is the most
/// useful one to name.
pub(super) fn node_obstacle(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
    at: u32,
) -> Option<ReasonCode> {
    let node = &snapshot.input.nodes[at as usize];
    if let Some(code) = obstacle_besides_resources(snapshot, pod_reqs, topology, at) {
        return Some(code);
    }
    if !pod_reqs.shape.requests.fits(snapshot.free_on_node(at)) {
        return Some(ReasonCode::Resources);
    }
    topology_obstacle(topology, node)
}

/// The first obstacle other than resources and topology.
pub(super) fn obstacle_besides_resources(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
    at: u32,
) -> Option<ReasonCode> {
    let node = &snapshot.input.nodes[at as usize];
    if node.stage == NodeStage::Deleting || tainted(node, pod_reqs) {
        return Some(ReasonCode::Taints);
    }
    if !topology.alternatives.iter().any(|alternative| alternative_matches(alternative, node)) {
        return Some(ReasonCode::Requirements);
    }
    let load = &snapshot.loads[at as usize];
    if ports_taken(&load.ports, pod_reqs) {
        return Some(ReasonCode::HostPorts);
    }
    let volumes_match = |volumes: &Requirements| volumes.iter().all(|r| label_satisfies(&node.labels, r));
    if !(pod_reqs.volumes.any_of.is_empty() || pod_reqs.volumes.any_of.iter().any(volumes_match))
        || !attaches(node, load, pod_reqs)
    {
        return Some(ReasonCode::Volumes);
    }
    None
}

/// Reason code of the topology rule that excludes the node.
pub(super) fn topology_obstacle(topology: &Topology, node: &Node) -> Option<ReasonCode> {
    let location = topology.location(|key| node_label(node, key).cloned());
    topology.conflict(&location).map(super::reason::conflict_code)
}

fn tainted(node: &Node, pod_reqs: &PodRequirements<'_>) -> bool {
    let cordon = Taint { key: "node.kubernetes.io/unschedulable".into(), value: "".into(), effect: Effect::NoSchedule };
    let cordoned =
        node.unschedulable && first_untolerated(std::slice::from_ref(&cordon), &pod_reqs.shape.tolerations).is_some();
    cordoned || first_untolerated(&node.taints, &pod_reqs.shape.tolerations).is_some()
}

fn alternative_matches(alternative: &Alternative, node: &Node) -> bool {
    alternative.contradiction.is_none()
        && alternative.requirements.iter().all(|r| label_satisfies(&node.labels, r))
        && alternative.names.iter().all(|names| names.has(&node.name))
}

fn ports_taken(taken: &[HostPort], pod_reqs: &PodRequirements<'_>) -> bool {
    pod_reqs.shape.host_ports.iter().any(|own| taken.iter().any(|port| own.conflicts_with(port)))
}

fn attaches(node: &Node, load: &Load, pod_reqs: &PodRequirements<'_>) -> bool {
    node.attach_limits.iter().all(|(driver, limit)| {
        let of_driver = |(of, _): &&(Text, Text)| of == driver;
        let there = load.attached.iter().filter(of_driver).count();
        let more = pod_reqs.volumes.attachments.iter().filter(of_driver).filter(|v| !load.attached.contains(v)).count();
        more == 0 || i64::try_from(there + more).unwrap_or(i64::MAX) <= *limit
    })
}

/// Whether the planned node `at` could also run the pod, in one of its zones and as one of its
/// launch options.
pub(super) fn planned_node_fits(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    topology: &Topology,
    at: u32,
) -> bool {
    let node = &snapshot.plan.nodes[at as usize];
    let load = &snapshot.planned[at as usize];
    if first_untolerated(&node.taints, &pod_reqs.shape.tolerations).is_some() || ports_taken(&load.ports, pod_reqs) {
        return false;
    }
    let mut filter = OfferingFilter::new(snapshot, pod_reqs, node.pool);
    filter.already_launched = true;
    let volumes = pod_reqs.volume_alternatives();
    node.zones.iter().filter(|zone| zone_admitted(snapshot, topology, at, zone)).any(|zone| {
        topology.alternatives.iter().filter_map(|alternative| merge(snapshot, node, zone, alternative)).any(|merged| {
            let reachable = volumes.iter().filter_map(|required| with_volumes(&merged, required));
            let mut reachable = reachable.map(|merged| (snapshot.types(node.pool, &merged), merged));
            reachable.any(|(matching, merged)| {
                let matches = |t: &u32| matching.binary_search(t).is_ok();
                node.types.iter().copied().filter(matches).any(|t| option_fits(&filter, pod_reqs, at, t, &merged))
            })
        })
    })
}

/// Whether the planned node `at`, launched as its option `t`, has capacity for the pod beside its
/// pods and DaemonSets.
fn option_fits(
    filter: &OfferingFilter<'_>,
    pod_reqs: &PodRequirements<'_>,
    at: u32,
    t: u32,
    merged: &Requirements,
) -> bool {
    let snapshot = filter.snapshot;
    let (node, load) = (&snapshot.plan.nodes[at as usize], &snapshot.planned[at as usize]);
    let instance = &snapshot.input.pools[node.pool as usize].catalogue.types[t as usize];
    let capacity = &snapshot.type_capacities(node.pool)[t as usize];
    let enough =
        |(name, amount): (&Text, i64)| amount <= 0 || amount <= capacity.free.get(name) - load.requests.get(name);
    pod_reqs.shape.requests.iter().all(enough)
        && !pod_reqs.shape.host_ports.iter().any(|own| capacity.ports.iter().any(|(port, _)| own.conflicts_with(port)))
        && attaches_planned(&instance.allocatable, load, pod_reqs)
        && any_open(filter, instance, merged)
}

fn zone_admitted(snapshot: &PlanSnapshot<'_>, topology: &Topology, at: u32, zone: &Zone) -> bool {
    if topology.keys.is_empty() {
        return true;
    }
    let label = |key: &Text| snapshot.label(NodeRef::Planned(at), key).map(Text::from);
    let location =
        topology.location(|key| if key.as_ref() == ZONE { Some(zone.as_text().clone()) } else { label(key) });
    topology.conflict(&location).is_none()
}

/// The requirements of the planned node in `zone`, merged with one alternative of the pod.
fn merge(
    snapshot: &PlanSnapshot<'_>,
    node: &PlannedNode,
    zone: &Zone,
    alternative: &Alternative,
) -> Option<Requirements> {
    let pool = &snapshot.input.pools[node.pool as usize];
    if alternative.contradiction.is_some() || alternative.names.iter().any(|names| names.finite_values().is_some()) {
        return None;
    }
    let mut node_requirements = snapshot.pools[node.pool as usize].base.clone();
    node_requirements.add_all(&Requirements::from_labels(&node.labels));
    node_requirements.add(Requirement::equals(ZONE, zone.as_text().clone()));
    node_requirements.add(Requirement::new(CAPACITY_TYPE, Operator::In, [node.capacity_type.as_str().into()]));
    let known = |key: &str| key != HOSTNAME && super::catalogue::may_be_defined(pool, key);
    if node_requirements.first_incompatible(&alternative.requirements, known).is_some() {
        return None;
    }
    node_requirements.add_all(&alternative.requirements);
    node_requirements.remove(HOSTNAME);
    Some(node_requirements)
}

fn with_volumes(merged: &Requirements, volumes: &Requirements) -> Option<Requirements> {
    if merged.first_incompatible(volumes, |_| true).is_some() {
        return None;
    }
    let mut merged = merged.clone();
    merged.add_all(volumes);
    Some(merged)
}

fn attaches_planned(allocatable: &Resources, load: &Load, pod_reqs: &PodRequirements<'_>) -> bool {
    pod_reqs.drivers().into_iter().all(|driver| {
        let limit = format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}");
        let of_driver = |(of, _): &&(Text, Text)| of == driver;
        let all =
            load.attached.union(&pod_reqs.volumes.attachments.iter().cloned().collect()).filter(of_driver).count();
        !allocatable.contains(&limit) || i64::try_from(all).unwrap_or(i64::MAX) <= allocatable.get(&limit)
    })
}

fn any_open(filter: &OfferingFilter<'_>, instance: &InstanceType, merged: &Requirements) -> bool {
    let wanted = filter.wanted(merged);
    instance.offerings.iter().any(|offering| filter.rejection(instance, offering, &wanted).is_none())
}
