//! Host ports, of which each serves one pod per node, and volumes, of which a node attaches a
//! limited number.

use std::collections::BTreeSet;

use super::capacity::Daemons;
use super::launch::Launches;
use super::placements::{NodePods, Placements};
use super::{Findings, Rule};
use model::input::PlanningInput;
use model::resources::ATTACHABLE_VOLUMES_PREFIX;
use model::{HostPort, Text, VolumeAlternatives};

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
        Some(node) => {
            let there = node.pods.iter().filter(|pod| !pod.leaving);
            let bound = there.flat_map(|pod| &input.shapes[pod.shape as usize].host_ports);
            bound.chain(daemons.missing_ports(node)).collect()
        }
        None => match launches.number_of_host(input.nodes.len(), node_pods.host) {
            Some(number) => daemons.ports(number as usize).collect(),
            None => Vec::new(),
        },
    };
    for pod in &node_pods.pods {
        let own = &input.shapes[input.pods[*pod as usize].shape as usize].host_ports;
        if let Some(port) = own.iter().find(|port| taken.iter().any(|other| other.conflicts_with(port))) {
            let what = format!("requires host port {}/{}, which is in use", port.port, port.protocol);
            findings.report_pod(Rule::HostPorts, *pod, Some(placements.host_name(node_pods.host)), &what);
        }
        taken.extend(own);
    }
}

fn attachments(
    input: &PlanningInput,
    placements: &Placements<'_>,
    launches: &Launches<'_>,
    node_pods: &NodePods,
    findings: &mut Findings<'_>,
) {
    let set = |volumes: Option<u32>| volumes.map(|set| &input.volume_sets[set as usize]);
    let node = input.nodes.get(node_pods.host as usize);
    let bound =
        node.into_iter().flat_map(|node| &node.pods).filter(|pod| !pod.leaving).filter_map(|pod| set(pod.volumes));
    let placed = || node_pods.pods.iter().filter_map(|pod| set(input.pods[*pod as usize].volumes));
    let all: BTreeSet<&(Text, Text)> = bound.chain(placed()).flat_map(each).collect();
    let drivers: BTreeSet<&Text> = placed().flat_map(each).map(|(driver, _)| driver).collect();
    for driver in drivers {
        let limit = match node {
            Some(node) => node.attach_limits.iter().find(|(name, _)| name == driver).map(|(_, limit)| *limit),
            None => limit_of_launch(input, launches, node_pods.host, driver),
        };
        let volumes = all.iter().filter(|(name, _)| name == driver).count();
        if limit.is_some_and(|limit| i64::try_from(volumes).unwrap_or(i64::MAX) > limit) {
            let message = format!("{volumes} volumes of {driver} exceed the attach limit of {}", limit.unwrap_or(0));
            findings.report_node(Rule::AttachLimits, placements.host_name(node_pods.host), message);
        }
    }
}

fn each(volumes: &VolumeAlternatives) -> impl Iterator<Item = &(Text, Text)> {
    volumes.attachments.iter()
}

/// The lowest limit among the options; options without one are unlimited.
fn limit_of_launch(input: &PlanningInput, launches: &Launches<'_>, host: u32, driver: &str) -> Option<i64> {
    let name = format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}");
    let launch = launches.of_host(input.nodes.len(), host)?;
    let named = launch.machines().filter(|machine| machine.allocatable.contains(&name));
    named.map(|machine| machine.allocatable.get(&name)).min()
}
