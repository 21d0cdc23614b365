//! Host ports, of which each serves one pod per node, and volumes, of which a node attaches a
//! limited number.

use std::collections::{BTreeMap, BTreeSet};

use super::capacity::Daemons;
use super::launch::Launches;
use super::placements::{NodePods, Placements};
use super::violation::{Findings, Rule};
use model::input::PlanningInput;
use model::resources::ATTACHABLE_VOLUMES_PREFIX;
use model::{BoundPod, HostPort, InstanceType, Node, Text};

pub(super) fn check(
    input: &PlanningInput,
    placements: &Placements<'_>,
    launches: &Launches<'_>,
    daemons: &Daemons<'_>,
    findings: &mut Findings<'_>,
) {
    let shapes_with_ports: Vec<bool> = input.shapes.iter().map(|shape| !shape.host_ports.is_empty()).collect();
    for node_pods in &placements.by_host {
        if node_pods.pods.iter().any(|pod| shapes_with_ports[input.pods[*pod as usize].shape as usize]) {
            ports(input, placements, launches, daemons, node_pods, findings);
        }
        if node_pods.pods.iter().any(|pod| input.pods[*pod as usize].volumes.is_some()) {
            attachments(input, placements, launches, node_pods, findings);
        }
    }
    if input.volume_sets.iter().any(|set| !set.exclusive_claims.is_empty()) {
        exclusive_claims(input, placements, findings);
    }
}

/// The claims for one pod that pods on nodes of the input use, each with such a pod.
#[must_use]
pub fn exclusive_claims_in_use(input: &PlanningInput) -> BTreeMap<&Text, (&Node, &BoundPod)> {
    let mut users = BTreeMap::new();
    for node in &input.nodes {
        for pod in node.pods.iter().filter(|pod| !pod.leaving) {
            let set = pod.volumes.map(|set| &input.volume_sets[set as usize]);
            for claim in set.into_iter().flat_map(|set| &set.exclusive_claims) {
                users.entry(claim).or_insert((node, pod));
            }
        }
    }
    users
}

/// A ReadWriteOncePod claim has one user in the whole cluster (kube-scheduler: VolumeRestrictions).
fn exclusive_claims(input: &PlanningInput, placements: &Placements<'_>, findings: &mut Findings<'_>) {
    let mut used: BTreeSet<&Text> = exclusive_claims_in_use(input).into_keys().collect();
    for node_pods in &placements.by_host {
        for pod in &node_pods.pods {
            let set = input.pods[*pod as usize].volumes.map(|set| &input.volume_sets[set as usize]);
            for claim in set.into_iter().flat_map(|set| &set.exclusive_claims).filter(|claim| !used.insert(claim)) {
                let what = format!("uses PersistentVolumeClaim {claim} (ReadWriteOncePod), which another pod uses");
                findings.report_pod(Rule::Volumes, *pod, Some(placements.host_name(node_pods.host)), &what);
            }
        }
    }
}

/// The first of the ports `own` that another pod of the node uses.
pub fn conflicting_port<'p, 't>(
    own: &'p [HostPort],
    taken: impl Iterator<Item = &'t HostPort> + Clone,
) -> Option<&'p HostPort> {
    own.iter().find(|port| taken.clone().any(|other| other.conflicts_with(port)))
}

fn ports(
    input: &PlanningInput,
    placements: &Placements<'_>,
    launches: &Launches<'_>,
    daemons: &Daemons<'_>,
    node_pods: &NodePods,
    findings: &mut Findings<'_>,
) {
    let mut taken: Vec<&HostPort> = match input.nodes.get(node_pods.host as usize) {
        Some(node) => daemons.sets().ports_on_node(node).collect(),
        None => match launches.number_of_host(input.nodes.len(), node_pods.host) {
            Some(number) => daemons.ports(number as usize).collect(),
            None => Vec::new(),
        },
    };
    for pod in &node_pods.pods {
        let own = &input.shapes[input.pods[*pod as usize].shape as usize].host_ports;
        if let Some(port) = conflicting_port(own, taken.iter().copied()) {
            let what = format!("requires host port {}/{}, which is in use", port.port, port.protocol);
            findings.report_pod(Rule::HostPorts, *pod, Some(placements.host_name(node_pods.host)), &what);
        }
        taken.extend(own);
    }
}

/// Volumes attached to a node of the input: (CSI driver, volume).
pub fn volumes_on_node<'a>(input: &'a PlanningInput, node: &'a Node) -> impl Iterator<Item = &'a (Text, Text)> {
    let sets = node.pods.iter().filter(|pod| !pod.leaving).filter_map(|pod| pod.volumes);
    sets.flat_map(|set| &input.volume_sets[set as usize].attachments)
}

/// The attach limit of a node of the input for `driver`; `None` if it is unlimited.
#[must_use]
pub fn attach_limit_of_node(node: &Node, driver: &str) -> Option<i64> {
    node.attach_limits.iter().find(|(name, _)| name.as_ref() == driver).map(|(_, limit)| *limit)
}

/// The attach limit of an instance type for `driver`; `None` if it is unlimited.
#[must_use]
pub fn attach_limit_of_type(machine: &InstanceType, driver: &str) -> Option<i64> {
    let name = format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}");
    machine.allocatable.contains(&name).then(|| machine.allocatable.get(&name))
}

/// The number of different `volumes` of `driver` on one node, if it exceeds `limit`.
pub fn excess_volumes<'v>(
    volumes: &BTreeSet<&'v (Text, Text)>,
    more: &'v [(Text, Text)],
    driver: &str,
    limit: Option<i64>,
) -> Option<usize> {
    let of_driver = |(name, _): &&&(Text, Text)| name.as_ref() == driver;
    let added = more.iter().filter(|volume| volume.0.as_ref() == driver && !volumes.contains(volume));
    let count = volumes.iter().filter(of_driver).count() + added.count();
    (!within_attach_limit(count, limit)).then_some(count)
}

/// Whether a node with this attach limit attaches so many different volumes.
#[must_use]
pub fn within_attach_limit(volumes: usize, limit: Option<i64>) -> bool {
    limit.is_none_or(|limit| i64::try_from(volumes).unwrap_or(i64::MAX) <= limit)
}

fn attachments(
    input: &PlanningInput,
    placements: &Placements<'_>,
    launches: &Launches<'_>,
    node_pods: &NodePods,
    findings: &mut Findings<'_>,
) {
    let node = input.nodes.get(node_pods.host as usize);
    let bound = node.into_iter().flat_map(|node| volumes_on_node(input, node));
    let sets = || node_pods.pods.iter().filter_map(|pod| input.pods[*pod as usize].volumes);
    let placed = || sets().flat_map(|set| &input.volume_sets[set as usize].attachments);
    let all: BTreeSet<&(Text, Text)> = bound.chain(placed()).collect();
    let drivers: BTreeSet<&Text> = placed().map(|(driver, _)| driver).collect();
    for driver in drivers {
        let limit = match node {
            Some(node) => attach_limit_of_node(node, driver),
            None => limit_of_launch(input, launches, node_pods.host, driver),
        };
        if let Some(volumes) = excess_volumes(&all, &[], driver, limit) {
            let message = format!("{volumes} volumes of {driver} exceed the attach limit of {}", limit.unwrap_or(0));
            findings.report_node(Rule::AttachLimits, placements.host_name(node_pods.host), message);
        }
    }
}

/// The lowest limit among the options; options without one are unlimited.
fn limit_of_launch(input: &PlanningInput, launches: &Launches<'_>, host: u32, driver: &str) -> Option<i64> {
    let launch = launches.of_host(input.nodes.len(), host)?;
    launch.machines().filter_map(|machine| attach_limit_of_type(machine, driver)).min()
}
