//! Reports about one pod or one node: the chosen node, the reasons, and the price of the runner-up.

mod node;

use std::collections::BTreeMap;
use std::fmt;

use model::input::PlanningInput;
use model::labels::{INSTANCE_TYPE, ZONE};
use model::plan::{Plan, PlannedNode, Reason, ReasonCode};
use model::{CapacityType, InstanceTypeName, MicroUsd, NodeName, PodKey, PoolName, Zone};

pub use node::{FilterStep, MachineConstraint, NodeReport, node_report, planned_node_report};

use super::existing::NodeTrial;
use super::launch::launches;
use super::pod_requirements::PodRequirements;
use super::snapshot::PlanSnapshot;
use super::topology::Topology;
use super::unplaced::explain;
use super::wording::{and, count};

/// A launchable instance type with its offering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineOption {
    pub pool: PoolName,
    /// Value of `node.kubernetes.io/instance-type`.
    pub instance_type: InstanceTypeName,
    /// Value of `topology.kubernetes.io/zone`.
    pub zone: Zone,
    pub capacity_type: CapacityType,
    /// Price per hour, in micro-dollars.
    pub price: MicroUsd,
}

/// An existing node on which the plan places the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    pub node: NodeName,
    /// Instance type, if the node has the label.
    pub instance_type: Option<InstanceTypeName>,
    /// Zone, if the node has the label.
    pub zone: Option<Zone>,
    /// Number of other existing nodes that would fit the pod.
    pub others: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Existing(Existing),
    /// On a node to launch.
    New {
        /// Name of the node in the plan.
        node: NodeName,
        /// The first launch option of the node.
        machine: MachineOption,
        /// Number of other pods on the node.
        other_pods: usize,
        /// Number of existing nodes that do not fit, by reason.
        rejected: BTreeMap<ReasonCode, usize>,
    },
    /// The pod is unschedulable.
    Unplaced {
        /// Reasons, one per pool or without a pool.
        reasons: Vec<Reason>,
        /// Relaxations that would make the pod fit.
        fits_if: Vec<String>,
    },
    /// The plan does not contain the pod.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodReport {
    /// Namespace and name of the pod.
    pub pod: PodKey,
    pub outcome: Outcome,
    /// The cheapest other node that could have been launched for this pod alone.
    pub runner_up: Option<MachineOption>,
    /// Why the plan does not launch the runner-up although it is cheaper.
    pub why_not_cheaper: Option<String>,
}

/// Reports where `plan` places `pod` (an index into `input.pods`), why, and the price of the
/// runner-up; or why the pod is unschedulable and which relaxations would make it fit.
#[must_use]
pub fn pod_report(input: &PlanningInput, plan: &Plan, pod: u32) -> PodReport {
    let own = &input.pods[pod as usize];
    let snapshot = PlanSnapshot::without(input, plan, Some(pod));
    let pod_reqs = PodRequirements::of(input, own);
    if let Some(&(_, node)) = plan.placements.iter().find(|(placed, _)| *placed == pod) {
        let outcome = Outcome::Existing(existing(&snapshot, &pod_reqs, node));
        let runner_up = cheapest(&snapshot, &pod_reqs, None);
        return PodReport { pod: own.key(), outcome, runner_up, why_not_cheaper: None };
    }
    if let Some(node) = plan.nodes.iter().find(|node| node.pods.contains(&pod)) {
        let chosen = machine(input, node);
        let runner_up = cheapest(&snapshot, &pod_reqs, Some(&chosen));
        let rejected = rejected_nodes(&snapshot, &pod_reqs);
        let other_pods = node.pods.len() - 1;
        let why_not_cheaper =
            runner_up.as_ref().and_then(|other| why_not_cheaper(input, &chosen, other, node.pods.len()));
        let outcome = Outcome::New { node: node.name.clone(), machine: chosen, other_pods, rejected };
        return PodReport { pod: own.key(), outcome, runner_up, why_not_cheaper };
    }
    let outcome = if plan.unschedulable.contains(&pod) {
        let (reasons, fits_if) = explain(&snapshot, own, true);
        Outcome::Unplaced { reasons, fits_if }
    } else {
        Outcome::Unknown
    };
    PodReport { pod: own.key(), outcome, runner_up: None, why_not_cheaper: None }
}

/// The first launch option of a planned node.
fn machine(input: &PlanningInput, node: &PlannedNode) -> MachineOption {
    let pool = &input.pools[node.pool as usize];
    let first = node.types.first().map(|&t| pool.catalogue.types[t as usize].name.clone());
    MachineOption {
        pool: pool.name.clone(),
        instance_type: first.unwrap_or_else(|| "no type".into()),
        zone: node.zones.first().cloned().unwrap_or_else(|| "no zone".into()),
        capacity_type: node.capacity_type,
        price: node.price,
    }
}

fn existing(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>, at: u32) -> Existing {
    let node = &snapshot.input.nodes[at as usize];
    let topology = Topology::of(snapshot, pod_reqs);
    let trial = NodeTrial::new(snapshot, pod_reqs, &topology);
    let nodes = 0..u32::try_from(snapshot.input.nodes.len()).unwrap_or(u32::MAX);
    let others = nodes.filter(|&other| other != at && trial.obstacle(other).is_none()).count();
    Existing {
        node: node.name.clone(),
        instance_type: node.labels.get(INSTANCE_TYPE).map(InstanceTypeName::from),
        zone: node.labels.get(ZONE).map(Zone::from),
        others,
    }
}

/// Number of existing nodes that do not fit, by reason. A node that fits now may have been full
/// when the pod was planned.
fn rejected_nodes(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>) -> BTreeMap<ReasonCode, usize> {
    let topology = Topology::of(snapshot, pod_reqs);
    let trial = NodeTrial::new(snapshot, pod_reqs, &topology);
    let nodes = 0..u32::try_from(snapshot.input.nodes.len()).unwrap_or(u32::MAX);
    let mut rejected = BTreeMap::new();
    for code in nodes.filter_map(|at| trial.obstacle(at)) {
        *rejected.entry(code).or_insert(0) += 1;
    }
    rejected
}

/// The cheapest node that could be launched for the pod alone, with another type or pool than
/// `chosen`.
fn cheapest(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    chosen: Option<&MachineOption>,
) -> Option<MachineOption> {
    let topology = Topology::of(snapshot, pod_reqs);
    let mut best: Option<MachineOption> = None;
    for (at, pool) in snapshot.open_pools() {
        for launch in launches(snapshot, pod_reqs, &topology, at).unwrap_or_default() {
            let instance = &pool.catalogue.types[launch.instance as usize];
            let offering = &instance.offerings[launch.offering as usize];
            let same = |c: &MachineOption| c.pool == pool.name && c.instance_type == instance.name;
            if chosen.is_some_and(same) || best.as_ref().is_some_and(|best| best.price <= launch.price) {
                continue;
            }
            best = Some(MachineOption {
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

impl fmt::Display for MachineOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.capacity_type.as_str();
        write!(
            f,
            "{} in {}, {kind}, at ${} per hour (NodePool {})",
            self.instance_type, self.zone, self.price, self.pool
        )
    }
}

/// Why `other` is not launched for one of the `pods` on `chosen` although its price is lower; `None`
/// if it is not lower.
fn why_not_cheaper(
    input: &PlanningInput,
    chosen: &MachineOption,
    other: &MachineOption,
    pods: usize,
) -> Option<String> {
    if other.price >= chosen.price {
        return None;
    }
    let weight = |pool: &PoolName| input.pools.iter().find(|known| known.name == *pool).map(|known| known.weight);
    if weight(&chosen.pool) > weight(&other.pool) {
        return Some(format!("NodePool {} has the higher weight and comes first", chosen.pool));
    }
    // The order of the variants is that in which capacity is used (Karpenter).
    if chosen.capacity_type < other.capacity_type {
        let (first, second) = (chosen.capacity_type.as_str(), other.capacity_type.as_str());
        return Some(format!("{first} capacity comes before {second} where it is allowed"));
    }
    let shares = i64::try_from(pods).unwrap_or(i64::MAX);
    if shares > 1 && chosen.price.0 < other.price.0.saturating_mul(shares) {
        return Some(format!(
            "one such machine for each of the {pods} pods of the node would cost ${}, and the node costs ${}",
            MicroUsd(other.price.0.saturating_mul(shares)),
            chosen.price
        ));
    }
    Some("the plan is the cheapest found for all pods together, not for this pod alone".to_owned())
}

/// `$0.01 more`, `$0.01 less`, `the same price`.
fn price_difference(other: MicroUsd, chosen: MicroUsd) -> String {
    match other.0 - chosen.0 {
        0 => "the same price".to_owned(),
        more if more > 0 => format!("${} more", MicroUsd(more)),
        less => format!("${} less", MicroUsd(-less)),
    }
}

impl fmt::Display for PodReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The placement comes first, then the rejected nodes, then the runner-up: each sentence
        // explains the one before.
        match &self.outcome {
            Outcome::Existing(existing) => self.write_existing(f, existing),
            Outcome::New { node, machine, other_pods, rejected } => {
                writeln!(f, "{} goes to the new node {node}: {machine}.", self.pod)?;
                if *other_pods > 0 {
                    writeln!(f, "It shares the node with {}.", count(*other_pods, "other pod"))?;
                }
                if !rejected.is_empty() {
                    let by = rejected.iter().map(|(code, nodes)| format!("{nodes} by {}", code.as_str()));
                    let nodes: usize = rejected.values().sum();
                    writeln!(f, "{} refused: {}.", count(nodes, "existing node"), and(&by.collect::<Vec<String>>()))?;
                }
                match &self.runner_up {
                    Some(other) => {
                        let why = self.why_not_cheaper.as_ref().map_or(String::new(), |why| format!("; {why}"));
                        writeln!(
                            f,
                            "Runner-up for this pod alone: {other}, {}{why}.",
                            price_difference(other.price, machine.price)
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

impl PodReport {
    fn write_existing(&self, f: &mut fmt::Formatter<'_>, existing: &Existing) -> fmt::Result {
        let (instance_type, zone) = (existing.instance_type.as_deref(), existing.zone.as_deref());
        let known: Vec<&str> = instance_type.into_iter().chain(zone).map(AsRef::as_ref).collect();
        let what = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
        writeln!(f, "{} fits the existing node {}{what}: no node is launched.", self.pod, existing.node)?;
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
