//! The story of one pod, and of one node: what was chosen, why, and what the runner-up would have cost.

mod node;

use std::collections::BTreeMap;
use std::fmt;

use crate::input::PlanningInput;
use crate::model::labels::{INSTANCE_TYPE, ZONE};
use crate::model::{CapacityType, MicroUsd, Text};
use crate::plan::{Plan, PlannedNode, Reason, ReasonCode};

pub use node::{Forced, FunnelStep, NodeStory, node_story, planned_node_story};

use super::ask::Ask;
use super::launch::launches;
use super::standing::node_refuses;
use super::topology::Topology;
use super::unplaced::explain;
use super::wording::{and, count};
use super::world::World;

/// A machine that was not chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerUp {
    /// NodePool.
    pub pool: Text,
    /// Instance type.
    pub instance_type: Text,
    /// Zone.
    pub zone: Text,
    /// How it would be paid for.
    pub capacity_type: CapacityType,
    /// Price per hour.
    pub price: MicroUsd,
}

/// An existing node that takes a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// Name.
    pub node: Text,
    /// Instance type, where the node's labels tell.
    pub instance_type: Option<Text>,
    /// Zone, where the node's labels tell.
    pub zone: Option<Text>,
    /// How many other existing nodes would have taken it too.
    pub others: usize,
}

/// Where a pod ends up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// On a node that is there already.
    Existing(Existing),
    /// On a node to be launched.
    New {
        /// The node's name in the plan.
        node: Text,
        /// The machine: the first launch option.
        machine: RunnerUp,
        /// How many other pods share the node.
        companions: usize,
        /// Why existing nodes would not do, counted.
        refused: BTreeMap<ReasonCode, usize>,
    },
    /// Nowhere.
    Unplaced {
        /// Why.
        reasons: Vec<Reason>,
        /// What would make it fit.
        fits_if: Vec<String>,
    },
    /// The plan says nothing about it.
    Unknown,
}

/// The story of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodStory {
    /// `namespace/name`.
    pub pod: String,
    /// Where it ends up.
    pub outcome: Outcome,
    /// The cheapest other machine that could have been launched for this pod alone.
    pub runner_up: Option<RunnerUp>,
}

/// Where `pod` (an index into `input.pods`) goes under `plan`, why there, and what the runner-up would have cost; or why it
/// goes nowhere and what would make it fit.
#[must_use]
pub fn pod_story(input: &PlanningInput, plan: &Plan, pod: u32) -> PodStory {
    let own = &input.pods[pod as usize];
    let name = format!("{}/{}", own.namespace, own.name);
    let world = World::without(input, plan, Some(pod));
    let ask = Ask::of(input, own);
    if let Some(&(_, node)) = plan.placements.iter().find(|(placed, _)| *placed == pod) {
        let outcome = Outcome::Existing(existing(&world, &ask, node));
        return PodStory { pod: name, outcome, runner_up: cheapest(&world, &ask, None) };
    }
    if let Some(node) = plan.nodes.iter().find(|node| node.pods.contains(&pod)) {
        let chosen = machine(input, node);
        let runner_up = cheapest(&world, &ask, Some(&chosen));
        let refused = refusals(&world, &ask);
        let companions = node.pods.len() - 1;
        let outcome = Outcome::New { node: node.name.clone(), machine: chosen, companions, refused };
        return PodStory { pod: name, outcome, runner_up };
    }
    let outcome = if plan.unschedulable.contains(&pod) {
        let (reasons, fits_if) = explain(&world, own, true);
        Outcome::Unplaced { reasons, fits_if }
    } else {
        Outcome::Unknown
    };
    PodStory { pod: name, outcome, runner_up: None }
}

/// The machine that a planned node becomes first of all.
fn machine(input: &PlanningInput, node: &PlannedNode) -> RunnerUp {
    let pool = &input.pools[node.pool as usize];
    let first = node.types.first().map(|&t| pool.catalogue.types[t as usize].name.clone());
    RunnerUp {
        pool: pool.name.clone(),
        instance_type: first.unwrap_or_else(|| "no type".into()),
        zone: node.zones.first().cloned().unwrap_or_else(|| "no zone".into()),
        capacity_type: node.capacity_type,
        price: node.price,
    }
}

fn existing(world: &World<'_>, ask: &Ask<'_>, at: u32) -> Existing {
    let node = &world.input.nodes[at as usize];
    let topology = Topology::of(world, ask);
    let nodes = 0..u32::try_from(world.input.nodes.len()).unwrap_or(u32::MAX);
    let others = nodes.filter(|&other| other != at && node_refuses(world, ask, &topology, other).is_none()).count();
    Existing {
        node: node.name.clone(),
        instance_type: node.labels.get(INSTANCE_TYPE).cloned(),
        zone: node.labels.get(ZONE).cloned(),
        others,
    }
}

/// Why existing nodes would not do. Nodes that would do now may have been full when the pod's turn came.
fn refusals(world: &World<'_>, ask: &Ask<'_>) -> BTreeMap<ReasonCode, usize> {
    let topology = Topology::of(world, ask);
    let nodes = 0..u32::try_from(world.input.nodes.len()).unwrap_or(u32::MAX);
    let mut refused = BTreeMap::new();
    for code in nodes.filter_map(|at| node_refuses(world, ask, &topology, at)) {
        *refused.entry(code).or_insert(0) += 1;
    }
    refused
}

/// The cheapest machine that could be launched for the pod alone, of another type or pool than `chosen`.
fn cheapest(world: &World<'_>, ask: &Ask<'_>, chosen: Option<&RunnerUp>) -> Option<RunnerUp> {
    let topology = Topology::of(world, ask);
    let mut best: Option<RunnerUp> = None;
    for (at, pool) in world.open_pools() {
        for launch in launches(world, ask, &topology, at).unwrap_or_default() {
            let instance = &pool.catalogue.types[launch.instance as usize];
            let offering = &instance.offerings[launch.offering as usize];
            let same = |c: &RunnerUp| c.pool == pool.name && c.instance_type == instance.name;
            if chosen.is_some_and(same) || best.as_ref().is_some_and(|best| best.price <= launch.price) {
                continue;
            }
            best = Some(RunnerUp {
                pool: pool.name.clone(),
                instance_type: instance.name.clone(),
                zone: offering.zone.clone(),
                capacity_type: offering.capacity_type,
                price: launch.price,
            });
        }
    }
    best
}

impl fmt::Display for RunnerUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.capacity_type.as_str();
        write!(
            f,
            "{} in {}, {kind}, at ${} per hour (NodePool {})",
            self.instance_type, self.zone, self.price, self.pool
        )
    }
}

/// `$0.01 more`, `$0.01 less`, `the same price`.
fn difference(other: MicroUsd, chosen: MicroUsd) -> String {
    match other.0 - chosen.0 {
        0 => "the same price".to_owned(),
        more if more > 0 => format!("${} more", MicroUsd(more)),
        less => format!("${} less", MicroUsd(-less)),
    }
}

impl fmt::Display for PodStory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Existing(existing) => self.tell_existing(f, existing),
            Outcome::New { node, machine, companions, refused } => {
                writeln!(f, "{} goes to the new node {node}: {machine}.", self.pod)?;
                if *companions > 0 {
                    writeln!(f, "It shares the node with {}.", count(*companions, "other pod"))?;
                }
                if !refused.is_empty() {
                    let by = refused.iter().map(|(code, nodes)| format!("{nodes} by {}", code.as_str()));
                    let nodes: usize = refused.values().sum();
                    writeln!(f, "{} refused: {}.", count(nodes, "existing node"), and(&by.collect::<Vec<String>>()))?;
                }
                match &self.runner_up {
                    Some(other) => {
                        writeln!(
                            f,
                            "Runner-up for this pod alone: {other}, {}.",
                            difference(other.price, machine.price)
                        )
                    }
                    None => writeln!(f, "There was no runner-up: no other machine could carry it."),
                }
            }
            Outcome::Unplaced { reasons, fits_if } => {
                writeln!(f, "{} has no place.", self.pod)?;
                for reason in reasons {
                    let pool = reason.pool.as_ref().map_or(String::new(), |pool| format!("NodePool {pool}, "));
                    writeln!(f, "- {pool}{}: {}", reason.code.as_str(), reason.message)?;
                }
                fits_if.iter().try_for_each(|relaxation| writeln!(f, "It {relaxation}."))
            }
            Outcome::Unknown => writeln!(f, "{} is not part of this plan.", self.pod),
        }
    }
}

impl PodStory {
    fn tell_existing(&self, f: &mut fmt::Formatter<'_>, existing: &Existing) -> fmt::Result {
        let known: Vec<&str> =
            existing.instance_type.iter().chain(&existing.zone).map(|known| known.as_ref()).collect();
        let what = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
        writeln!(
            f,
            "{} goes to the existing node {}{what}, which has room: nothing is bought.",
            self.pod, existing.node
        )?;
        match existing.others {
            0 => writeln!(f, "No other existing node takes it.")?,
            others => writeln!(f, "{} would take it too.", count(others, "other existing node"))?,
        }
        match &self.runner_up {
            Some(other) => writeln!(f, "The cheapest new machine for it alone would be {other}."),
            None => writeln!(f, "No new machine could be launched for it."),
        }
    }
}
