//! Parts of a step: nodes that go, and the machines that the pods of several of them share.
//!
//! The search packs the pods of a group anew, also those of a node for which there is no cheaper machine: it gets a
//! machine like the node. A command that replaces a node by its like disrupts pods and saves nothing.

use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::plan::PlannedNode;
use model::{MicroUsd, Resources};
use rustc_hash::FxHashMap;

use crate::Settings;
use crate::working::{Destination, Step, WorkingCluster};

struct Parts {
    /// The representative of each removed node, and then of each replacement.
    parents: Vec<usize>,
    /// The index of each removed node.
    nodes: FxHashMap<u32, usize>,
}

impl Parts {
    /// Removed nodes and replacements are of one part if a pod moves between them.
    fn of(working: &WorkingCluster<'_>, step: &Step) -> Self {
        let nodes = step.removed.len();
        let numbers = step.removed.iter().zip(0..).map(|((node, _), at)| (*node, at)).collect();
        let mut parts = Self { parents: (0..nodes + step.replacements.len()).collect(), nodes: numbers };
        for (pod, to) in &step.moves {
            let Destination::Replacement(machine) = to else { continue };
            let home = parts.nodes.get(&working.pods[*pod as usize].node).copied();
            home.into_iter().for_each(|home| parts.join(home, nodes + machine));
        }
        parts
    }

    /// The part of a removed node.
    fn of_node(&self, node: u32) -> Option<usize> {
        self.nodes.get(&node).map(|at| self.root(*at))
    }

    fn root(&self, mut of: usize) -> usize {
        while self.parents[of] != of {
            of = self.parents[of];
        }
        of
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.parents[one.max(other)] = one.min(other);
    }
}

/// `step` without the parts whose savings are not worth their moves: their nodes stay as they are.
pub(crate) fn worthwhile(working: &WorkingCluster<'_>, settings: &Settings, step: &Step) -> Step {
    let (parts, nodes) = (Parts::of(working, step), step.removed.len());
    let of_node = |node: u32| parts.of_node(node);
    let (mut saved, mut moved) = (vec![0_i64; parts.parents.len()], vec![0_usize; parts.parents.len()]);
    for (at, (node, _)) in step.removed.iter().enumerate() {
        saved[parts.root(at)] += working.nodes[*node as usize].price.0;
    }
    for (at, machine) in step.replacements.iter().enumerate() {
        saved[parts.root(nodes + at)] -= machine.price.0;
    }
    for (pod, _) in &step.moves {
        of_node(working.pods[*pod as usize].node).into_iter().for_each(|part| moved[part] += 1);
    }
    let is_kept = |part: usize| settings.is_worth(MicroUsd(saved[part]), moved[part]);
    let is_launched = (0..step.replacements.len()).map(|at| is_kept(parts.root(nodes + at)));
    let is_moved = |pod: u32| of_node(working.pods[pod as usize].node).is_none_or(is_kept);
    let mut kept = without_machines(step, &is_launched.collect::<Vec<bool>>());
    kept.moves.retain(|(pod, _)| is_moved(*pod));
    kept.removed.retain(|(node, _)| of_node(*node).is_none_or(is_kept));
    kept
}

/// What makes machines alike, but for their zones: NodePool, instance type and capacity type.
type Kind<'s> = (&'s str, &'s str, &'s str);

/// `step` with the nodes kept that a machine like them would replace and that have room for the pods which move to that
/// machine; `None` if there is none. Inter-pod rules are not looked at.
pub(crate) fn with_likes_kept(working: &WorkingCluster<'_>, step: &Step) -> Option<Step> {
    let mut free: FxHashMap<Kind<'_>, Vec<u32>> = FxHashMap::default();
    for (node, _) in &step.removed {
        kind_of_node(working, *node).into_iter().for_each(|kind| free.entry(kind).or_default().push(*node));
    }
    let mut arriving: Vec<Vec<u32>> = vec![Vec::new(); step.replacements.len()];
    for (pod, to) in &step.moves {
        if let Destination::Replacement(at) = to {
            arriving[*at].push(*pod);
        }
    }
    // The machine that each node stands for, and the reverse.
    let (mut machine_of, mut node_of) = (FxHashMap::default(), vec![None; step.replacements.len()]);
    for (at, machine) in step.replacements.iter().enumerate() {
        let alike = kind_of_machine(working, machine).and_then(|kind| free.get_mut(&kind));
        let stays = |node: &u32| {
            let zone = working.input.nodes[*node as usize].labels.get(ZONE);
            zone.is_some_and(|zone| machine.zones.iter().any(|known| known.as_text() == zone))
                && working.nodes[*node as usize].price <= machine.price
                && has_room(working, *node, &arriving[at])
        };
        let node = alike.and_then(|nodes| Some(nodes.swap_remove(nodes.iter().position(stays)?)));
        node_of[at] = node;
        if let Some(node) = node {
            machine_of.insert(node, at);
        }
    }
    if machine_of.is_empty() {
        return None;
    }
    let mut stayed = step.clone();
    stayed.removed.retain(|(node, _)| !machine_of.contains_key(node));
    stayed.moves.retain(|(pod, _)| !machine_of.contains_key(&working.pods[*pod as usize].node));
    for (_, to) in &mut stayed.moves {
        if let Destination::Replacement(at) = to
            && let Some(node) = node_of[*at]
        {
            *to = Destination::Node(node);
        }
    }
    let is_launched: Vec<bool> = node_of.iter().map(Option::is_none).collect();
    Some(without_machines(&stayed, &is_launched))
}

fn kind_of_node<'w>(working: &'w WorkingCluster<'_>, node: u32) -> Option<Kind<'w>> {
    let object = &working.input.nodes[node as usize];
    let label = |key: &str| object.labels.get(key).map(|value| &**value);
    Some((object.pool.as_ref()?.as_ref(), label(INSTANCE_TYPE)?, label(CAPACITY_TYPE)?))
}

fn kind_of_machine<'w>(working: &'w WorkingCluster<'_>, machine: &'w PlannedNode) -> Option<Kind<'w>> {
    let pool = &working.input.pools[machine.pool as usize];
    let first = &pool.catalogue.types[*machine.types.first()? as usize];
    Some((pool.name.as_ref(), first.name.as_ref(), machine.capacity_type.as_str()))
}

/// Whether `node` has room for the pods of `arriving` that run elsewhere, beside its own.
fn has_room(working: &WorkingCluster<'_>, node: u32, arriving: &[u32]) -> bool {
    let object = &working.input.nodes[node as usize];
    let own = object.pods.iter().filter(|pod| !pod.leaving).map(|pod| pod.shape);
    let others = arriving.iter().map(|pod| &working.pods[*pod as usize]).filter(|pod| pod.node != node);
    let mut used = Resources::new();
    own.chain(others.map(|pod| pod.shape)).for_each(|shape| used.add(&working.input.shapes[shape as usize].requests));
    used.fits(&object.allocatable)
}

/// `step` without the replacements that are not launched, and without the moves to them.
fn without_machines(step: &Step, is_launched: &[bool]) -> Step {
    let mut numbers = Vec::with_capacity(is_launched.len());
    let mut next = 0;
    for launched in is_launched {
        numbers.push(launched.then_some(next));
        next += usize::from(*launched);
    }
    let destination = |to: Destination| match to {
        Destination::Node(node) => Some(Destination::Node(node)),
        Destination::Replacement(at) => Some(Destination::Replacement(numbers[at]?)),
    };
    let launched = step.replacements.iter().zip(is_launched).filter(|(_, launched)| **launched);
    Step {
        removed: step.removed.clone(),
        replacements: launched.map(|(machine, _)| machine.clone()).collect(),
        moves: step.moves.iter().filter_map(|(pod, to)| Some((*pod, destination(*to)?))).collect(),
        gives_up_preferences: step.gives_up_preferences,
    }
}
