//! What only one pod of a node can have, and what a node can attach only so much of: host ports and volumes.

use std::collections::BTreeSet;

use super::launch::Launches;
use super::room::Daemons;
use super::roster::{Party, Roster};
use super::{Findings, Rule};
use crate::input::PlanningInput;
use crate::model::resources::ATTACHABLE_VOLUMES_PREFIX;
use crate::model::{HostPort, Text, VolumeAlternatives};

pub(super) fn check(
    input: &PlanningInput,
    roster: &Roster<'_>,
    launches: &Launches<'_>,
    daemons: &Daemons<'_>,
    found: &mut Findings<'_>,
) {
    let shapes_with_ports: Vec<bool> = input.shapes.iter().map(|shape| !shape.host_ports.is_empty()).collect();
    for party in &roster.parties {
        if party.pods.iter().any(|pod| shapes_with_ports[input.pods[*pod as usize].shape as usize]) {
            ports(input, roster, launches, daemons, party, found);
        }
        if party.pods.iter().any(|pod| input.pods[*pod as usize].volumes.is_some()) {
            attachments(input, roster, launches, party, found);
        }
    }
}

fn ports(
    input: &PlanningInput,
    roster: &Roster<'_>,
    launches: &Launches<'_>,
    daemons: &Daemons<'_>,
    party: &Party,
    found: &mut Findings<'_>,
) {
    let mut taken: Vec<&HostPort> = match input.nodes.get(party.host as usize) {
        Some(node) => {
            let there = node.pods.iter().filter(|pod| !pod.leaving);
            let bound = there.flat_map(|pod| &input.shapes[pod.shape as usize].host_ports);
            bound.chain(daemons.expected_ports(node)).collect()
        }
        None => match launches.number_of_host(input.nodes.len(), party.host) {
            Some(number) => daemons.ports(number as usize).collect(),
            None => Vec::new(),
        },
    };
    for pod in &party.pods {
        let own = &input.shapes[input.pods[*pod as usize].shape as usize].host_ports;
        if let Some(port) = own.iter().find(|port| taken.iter().any(|other| other.conflicts_with(port))) {
            let what = format!("wants host port {}/{}, which is taken", port.port, port.protocol);
            found.pod(Rule::HostPorts, *pod, Some(roster.name(party.host)), &what);
        }
        taken.extend(own);
    }
}

fn attachments(
    input: &PlanningInput,
    roster: &Roster<'_>,
    launches: &Launches<'_>,
    party: &Party,
    found: &mut Findings<'_>,
) {
    let set = |volumes: Option<u32>| volumes.map(|set| &input.volume_sets[set as usize]);
    let node = input.nodes.get(party.host as usize);
    let bound =
        node.into_iter().flat_map(|node| &node.pods).filter(|pod| !pod.leaving).filter_map(|pod| set(pod.volumes));
    let placed = || party.pods.iter().filter_map(|pod| set(input.pods[*pod as usize].volumes));
    let all: BTreeSet<&(Text, Text)> = bound.chain(placed()).flat_map(each).collect();
    let drivers: BTreeSet<&Text> = placed().flat_map(each).map(|(driver, _)| driver).collect();
    for driver in drivers {
        let limit = match node {
            Some(node) => node.attach_limits.iter().find(|(name, _)| name == driver).map(|(_, limit)| *limit),
            None => limit_of_launch(input, launches, party.host, driver),
        };
        let volumes = all.iter().filter(|(name, _)| name == driver).count();
        if limit.is_some_and(|limit| i64::try_from(volumes).unwrap_or(i64::MAX) > limit) {
            let message =
                format!("{volumes} volumes of {driver} are more than can be attached ({})", limit.unwrap_or(0));
            found.node(Rule::AttachLimits, roster.name(party.host), message);
        }
    }
}

fn each(volumes: &VolumeAlternatives) -> impl Iterator<Item = &(Text, Text)> {
    volumes.attachments.iter()
}

/// The least limit that an option names; options that name none have none.
fn limit_of_launch(input: &PlanningInput, launches: &Launches<'_>, host: u32, driver: &str) -> Option<i64> {
    let name = format!("{ATTACHABLE_VOLUMES_PREFIX}{driver}");
    let launch = launches.of_host(input.nodes.len(), host)?;
    let named = launch.machines().filter(|machine| machine.allocatable.contains(&name));
    named.map(|machine| machine.allocatable.get(&name)).min()
}
