//! What DaemonSets take of a machine before any pod comes (Karpenter: daemon overhead). Every OR-term of a DaemonSet's
//! affinity is looked at, on each machine anew.

use crate::input::PlanningInput;
use crate::model::labels::{HOSTNAME, INITIALIZED, REGISTERED};
use crate::model::requirements::label_satisfies;
use crate::model::taints::first_barring;
use crate::model::{DaemonSet, HostPort, InstanceType, Node, NodePool, Requirement, Requirements, Resources};

use super::ask::{Alternative, alternatives};

/// What pods find on a type of a pool.
#[derive(Debug)]
pub(super) struct Freed {
    /// Allocatable less what DaemonSets ask for.
    pub room: Resources,
    /// Ports that DaemonSets take, with the DaemonSet's name.
    pub ports: Vec<(HostPort, String)>,
}

/// Shapes of the DaemonSet pods that `node` will get and does not have yet.
pub(super) fn still_to_come<'i>(input: &'i PlanningInput, node: &'i Node) -> impl Iterator<Item = u32> + 'i {
    let missing = move |daemon: &&DaemonSet| {
        let owner = format!("{}/{}", daemon.namespace, daemon.name);
        let there = node.pods.iter().any(|pod| pod.daemon.as_deref() == Some(owner.as_str()));
        !there && suits_node(input, daemon, node)
    };
    input.daemons.iter().filter(missing).map(|daemon| daemon.shape)
}

/// Whether the DaemonSet puts a pod on an existing node.
pub(super) fn suits_node(input: &PlanningInput, daemon: &DaemonSet, node: &Node) -> bool {
    let shape = &input.shapes[daemon.shape as usize];
    let suits = |way: &Alternative| {
        way.contradiction.is_none()
            && way.requirements.iter().all(|requirement| label_satisfies(&node.labels, requirement))
            && way.names.iter().all(|names| names.has(&node.name))
    };
    first_barring(&node.taints, &shape.tolerations).is_none() && alternatives(shape).iter().any(suits)
}

/// The ways in which the DaemonSet suits nodes of `pool` whatever their type; empty when it never does.
fn ways(input: &PlanningInput, daemon: &DaemonSet, pool: &NodePool, base: &Requirements) -> Vec<Alternative> {
    let shape = &input.shapes[daemon.shape as usize];
    if first_barring(&pool.taints, &shape.tolerations).is_some() {
        return Vec::new();
    }
    let mut template = base.clone();
    template.add(Requirement::equals(REGISTERED, "true"));
    template.add(Requirement::equals(INITIALIZED, "true"));
    let known = |key: &str| key != HOSTNAME && super::catalogue::may_be_defined(pool, key);
    let mut ways = alternatives(shape);
    ways.retain(|way| {
        way.contradiction.is_none()
            && way.names.iter().all(|names| names.finite_values().is_none())
            && template.first_incompatible(&way.requirements, known).is_none()
    });
    ways
}

/// What every type of `pool` leaves to pods, by type.
pub(super) fn free_of_daemons(input: &PlanningInput, pool: &NodePool, base: &Requirements) -> Vec<Freed> {
    let daemons: Vec<(&DaemonSet, Vec<Alternative>)> =
        input.daemons.iter().map(|daemon| (daemon, ways(input, daemon, pool, base))).collect();
    let free = |instance: &InstanceType| {
        let mut freed = Freed { room: instance.allocatable.clone(), ports: Vec::new() };
        for (daemon, ways) in &daemons {
            if ways.iter().any(|way| instance.labels.first_conflict(&way.requirements).is_none()) {
                let shape = &input.shapes[daemon.shape as usize];
                freed.room.subtract(&shape.requests);
                let name = format!("{}/{}", daemon.namespace, daemon.name);
                freed.ports.extend(shape.host_ports.iter().map(|port| (port.clone(), name.clone())));
            }
        }
        freed
    };
    pool.catalogue.types.iter().map(free).collect()
}
