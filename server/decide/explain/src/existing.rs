//! Whether an existing or planned node could run one more pod, by the verifier's judgement of one
//! pod on one node.

use std::collections::BTreeSet;

use model::labels::ZONE;
use model::plan::ReasonCode;
use model::{PodShape, Text, Zone};
use verifier::kernel::{
    NodeConflict, NodeConflicts, Outcome, RequiredNodeAffinity, attach_limit_of_node, attach_limit_of_type,
    conflicting_port, conflicts_on_node, conflicts_on_outcome, excess_volumes,
};

use super::placed_pods::NodeRef;
use super::pod_requirements::PodRequirements;
use super::snapshot::{Load, PlanSnapshot, node_label};
use super::topology::Topology;

/// The trial of one pod on the nodes of the finished plan.
#[derive(Debug)]
pub(super) struct NodeTrial<'t, 'i> {
    snapshot: &'t PlanSnapshot<'i>,
    pod_reqs: &'t PodRequirements<'t>,
    topology: &'t Topology,
    node_affinity: RequiredNodeAffinity<'t>,
    drivers: BTreeSet<&'t Text>,
}

impl<'t, 'i> NodeTrial<'t, 'i> {
    pub(super) fn new(
        snapshot: &'t PlanSnapshot<'i>,
        pod_reqs: &'t PodRequirements<'t>,
        topology: &'t Topology,
    ) -> Self {
        let node_affinity = RequiredNodeAffinity::of(&pod_reqs.shape);
        Self { snapshot, pod_reqs, topology, node_affinity, drivers: pod_reqs.drivers() }
    }

    /// The first obstacle of the pod on an existing node; `None` if the pod fits. Resources are
    /// checked after all other rules except topology, because a node that lacks only resources is
    /// the most useful one to name.
    pub(super) fn obstacle(&self, at: u32) -> Option<ReasonCode> {
        let enough = || self.pod_reqs.shape.requests.fits(self.snapshot.free_on_node(at));
        self.obstacle_besides_resources(at)
            .or_else(|| (!enough()).then_some(ReasonCode::Resources))
            .or_else(|| self.topology_obstacle(at))
    }

    /// The first obstacle other than resources and topology.
    pub(super) fn obstacle_besides_resources(&self, at: u32) -> Option<ReasonCode> {
        let (node, load) = (&self.snapshot.input.nodes[at as usize], &self.snapshot.loads[at as usize]);
        let conflicts =
            conflicts_on_node(node, &self.pod_reqs.shape, &self.node_affinity, Some(&self.pod_reqs.volumes));
        let first = code(conflicts);
        if matches!(first, Some(ReasonCode::Taints | ReasonCode::Requirements)) {
            return first;
        }
        if self.takes_port(load) {
            return Some(ReasonCode::HostPorts);
        }
        let attached = |driver: &&Text| self.attaches(load, driver, attach_limit_of_node(node, driver));
        first.or_else(|| (!self.drivers.iter().all(attached)).then_some(ReasonCode::Volumes))
    }

    /// Reason code of the topology rule that excludes an existing node.
    pub(super) fn topology_obstacle(&self, at: u32) -> Option<ReasonCode> {
        let node = &self.snapshot.input.nodes[at as usize];
        let location = self.topology.location(|key| node_label(node, key).cloned());
        self.topology.conflict(&location).map(super::reason::conflict_code)
    }

    /// Whether some existing node fits the pod.
    pub(super) fn fits_some_node(&self) -> bool {
        let mut nodes = 0..u32::try_from(self.snapshot.input.nodes.len()).unwrap_or(u32::MAX);
        let requests = &self.pod_reqs.shape.requests;
        nodes.any(|at| requests.fits(self.snapshot.free_on_node(at)) && self.obstacle(at).is_none())
    }

    /// Whether the planned node `at` could also run the pod, as one of the outcomes of its launch.
    pub(super) fn fits_planned(&self, at: u32) -> bool {
        let (snapshot, shape) = (self.snapshot, &self.pod_reqs.shape);
        if !shape.requests.fits(snapshot.most_free(at)) || self.takes_port(&snapshot.planned[at as usize]) {
            return false;
        }
        let Some(number) = snapshot.launches().of_node[at as usize] else { return false };
        let outcomes = (0..).zip(&snapshot.launches().list[number as usize].outcomes);
        let mut zones: Vec<(&Zone, bool)> = Vec::new();
        let mut zone_admitted = |zone: &'t Zone| match zones.iter().find(|(known, _)| *known == zone) {
            Some((_, admitted)) => *admitted,
            None => {
                let admitted = self.zone_admitted(at, zone);
                zones.push((zone, admitted));
                admitted
            }
        };
        outcomes.into_iter().any(|(outcome, of)| {
            zone_admitted(&of.offering.zone) && self.fits_outcome(at, (number as usize, outcome), of)
        })
    }

    /// Whether the planned node `at`, launched with this outcome, has capacity for the pod beside
    /// its pods and DaemonSets.
    fn fits_outcome(&self, at: u32, (launch, number): (usize, usize), outcome: &Outcome<'_>) -> bool {
        let (snapshot, shape) = (self.snapshot, &self.pod_reqs.shape);
        let load = &snapshot.planned[at as usize];
        let free = snapshot.free_on_outcome(launch, number);
        let enough = |(name, amount): (&Text, i64)| amount <= 0 || amount <= free.get(name) - load.requests.get(name);
        let daemons = || snapshot.launch_daemons().on_outcome(launch, number);
        let taken = |daemon: &PodShape| conflicting_port(&shape.host_ports, daemon.host_ports.iter()).is_some();
        let attached = |driver: &&Text| self.attaches(load, driver, attach_limit_of_type(outcome.machine, driver));
        let launch = &snapshot.launches().list[launch];
        shape.requests.iter().all(enough)
            && !daemons().any(taken)
            && self.drivers.iter().all(attached)
            && conflicts_on_outcome(launch, outcome, shape, &self.node_affinity, Some(&self.pod_reqs.volumes))
                .is_empty()
    }

    /// Whether the pod needs a host port that is in use.
    fn takes_port(&self, load: &Load<'_>) -> bool {
        conflicting_port(&self.pod_reqs.shape.host_ports, load.ports.iter().copied()).is_some()
    }

    fn attaches(&self, load: &Load<'_>, driver: &str, limit: Option<i64>) -> bool {
        excess_volumes(&load.attached, &self.pod_reqs.volumes.attachments, driver, limit).is_none()
    }

    fn zone_admitted(&self, at: u32, zone: &Zone) -> bool {
        if self.topology.keys.is_empty() {
            return true;
        }
        let label = |key: &Text| self.snapshot.label(NodeRef::Planned(at), key).map(Text::from);
        let location =
            self.topology.location(|key| if key.as_ref() == ZONE { Some(zone.as_text().clone()) } else { label(key) });
        self.topology.conflict(&location).is_none()
    }
}

/// Reason code of the first conflict.
fn code(conflicts: NodeConflicts) -> Option<ReasonCode> {
    conflicts.iter().next().map(|conflict| match conflict {
        NodeConflict::Deleting | NodeConflict::Cordoned | NodeConflict::Taints => ReasonCode::Taints,
        NodeConflict::NodeAffinity => ReasonCode::Requirements,
        NodeConflict::Volumes | NodeConflict::BlockedVolumes => ReasonCode::Volumes,
    })
}
