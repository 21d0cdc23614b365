//! What DaemonSets take of a machine before any pod comes (Karpenter: daemon overhead). Every OR-term of a DaemonSet's
//! affinity is looked at, on each machine anew.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crate::input::PlanningInput;
use crate::model::labels::{HOSTNAME, INITIALIZED, REGISTERED};
use crate::model::requirements::label_satisfies;
use crate::model::taints::first_barring;
use crate::model::{
    Catalogue, DaemonSet, HostPort, InstanceType, Node, NodePool, Requirement, Requirements, Resources, Text,
};

use super::ask::{Alternative, alternatives};

/// What pods find on a type of a pool.
#[derive(Debug)]
pub(super) struct Freed {
    /// Allocatable less what DaemonSets ask for.
    pub room: Resources,
    /// Ports that DaemonSets take, with the DaemonSet's name.
    pub ports: Vec<(HostPort, String)>,
}

/// What pods find on the types of a catalogue.
#[derive(Debug)]
pub(super) struct FreeRoom {
    /// By type.
    pub types: Vec<Freed>,
    /// By resource and type, so that one resource of all types is looked at without searching for its name.
    amounts: BTreeMap<Text, Vec<i64>>,
}

/// What a pod asks for, beside what every type has of it.
#[derive(Debug)]
pub(super) struct Asked<'f>(SmallVec<[(i64, &'f [i64]); 4]>);

impl FreeRoom {
    fn new(types: Vec<Freed>) -> Self {
        let names: BTreeSet<&Text> = types.iter().flat_map(|freed| freed.room.iter().map(|(name, _)| name)).collect();
        let column = |name: &Text| types.iter().map(|freed| freed.room.get(name)).collect();
        let amounts = names.into_iter().map(|name| (name.clone(), column(name))).collect();
        Self { types, amounts }
    }

    /// `requests`, ready to be compared with every type.
    pub(super) fn asked(&self, requests: &Resources) -> Asked<'_> {
        let column = |name: &Text| self.amounts.get(name).map_or(&[] as &[i64], Vec::as_slice);
        Asked(requests.iter().filter(|(_, amount)| *amount > 0).map(|(name, amount)| (amount, column(name))).collect())
    }
}

impl Asked<'_> {
    /// Whether type `t` has room for it.
    pub(super) fn fits(&self, t: u32) -> bool {
        self.0.iter().all(|(amount, column)| *amount <= column.get(t as usize).copied().unwrap_or(0))
    }

    /// How far type `t` is from it: [`super::catalogue::distance`].
    pub(super) fn distance(&self, t: u32) -> i64 {
        let share = |(amount, column): &(i64, &[i64])| {
            super::catalogue::missing_share(*amount, column.get(t as usize).copied().unwrap_or(0))
        };
        self.0.iter().map(share).max().unwrap_or(0)
    }
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

/// The DaemonSets that may put pods on nodes of a pool, by index, and in which ways.
pub(super) type Ways = Vec<(usize, Vec<Alternative>)>;

/// The ways in which DaemonSets suit nodes of `pool`, whose nodes all satisfy `base`.
pub(super) fn ways_onto(input: &PlanningInput, pool: &NodePool, base: &Requirements) -> Ways {
    let all = input.daemons.iter().enumerate().map(|(at, daemon)| (at, ways(input, daemon, pool, base)));
    all.filter(|(_, ways)| !ways.is_empty()).collect()
}

/// What every type of `catalogue` leaves to pods where DaemonSets come in these ways.
pub(super) fn free_of_daemons(input: &PlanningInput, catalogue: &Catalogue, daemons: &Ways) -> FreeRoom {
    let free = |instance: &InstanceType| {
        let mut freed = Freed { room: instance.allocatable.clone(), ports: Vec::new() };
        for (at, ways) in daemons {
            if ways.iter().any(|way| instance.labels.first_conflict(&way.requirements).is_none()) {
                let daemon = &input.daemons[*at];
                let shape = &input.shapes[daemon.shape as usize];
                freed.room.subtract(&shape.requests);
                let name = format!("{}/{}", daemon.namespace, daemon.name);
                freed.ports.extend(shape.host_ports.iter().map(|port| (port.clone(), name.clone())));
            }
        }
        freed
    };
    FreeRoom::new(catalogue.types.iter().map(free).collect())
}
