//! The input, compiled: resources as columns, pods as classes, pools as markets, rules as groups.

use std::collections::BTreeMap;

use super::axis::{self, Amounts, Axis};
use super::classes::{self, Class};
use super::fits::{FitTable, ReqId};
use super::machines::Room;
use super::market::Market;
use super::memo::Memo;
use super::rooms::tolerates_cordon;
use super::subjects::Subjects;
use super::topology::{GroupSpec, NodeFilter, Topology};
use crate::input::PlanningInput;
use crate::model::resources::NODES;
use crate::model::taints::first_barring;
use crate::model::{MicroUsd, Node, NodePool, NodeStage, PodShape, Text};

/// What never changes while pods are placed.
#[derive(Debug)]
pub(super) struct Problem<'i> {
    pub(super) input: &'i PlanningInput,
    pub(super) axis: Axis,
    pub(super) classes: Vec<Class>,
    /// One market per pool, by pool index; pools that take no part have none.
    pub(super) markets: Vec<Option<Market>>,
    /// Pools in the order in which they are asked; those of one tier compete by price.
    pub(super) tiers: Vec<Vec<u32>>,
    /// What a unit of each resource is worth, in micro-dollars per hour.
    pub(super) worth: Vec<f64>,
}

/// What changes as pods are placed, as it stands before the first.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) fits: FitTable,
    pub(super) topology: Topology,
    /// Nodes that may take pods, in the order in which they are asked.
    pub(super) rooms: Vec<Room>,
    /// Room left in each pool under its limits, along [`Market::limited`].
    pub(super) limits: Vec<Vec<i64>>,
    /// Machines that each pool may still add.
    pub(super) nodes_left: Vec<i64>,
    /// Machines that are left of each reservation.
    pub(super) reservations: BTreeMap<Text, i64>,
}

/// Compiles `input`, with the help of what earlier decisions compiled.
pub(super) fn compile<'i>(input: &'i PlanningInput, memo: &mut Memo) -> (Problem<'i>, Start) {
    let axis = Axis::of(input);
    let subjects = Subjects::of(input);
    let mut topology = Topology::new(&subjects);
    let mut fits = FitTable::default();
    register_bound_anti_affinity(input, &subjects, &mut topology);
    let classes = classes::split(input, &axis, &subjects, &mut topology, &mut fits);
    count_bound_pods(input, &subjects, &mut topology, &fits);
    let mut markets: Vec<Option<Market>> = input
        .pools
        .iter()
        .map(|pool| takes_part(pool).then(|| Market::of(memo.stall(pool, &axis, &input.policy.well_known_labels))))
        .collect();
    for (at, market) in (0_u32..).zip(&mut markets) {
        if let Some(market) = market {
            charge_daemons(input, at, market, &axis, &mut fits);
        }
    }
    let worth = super::worth::of(&classes, &markets, axis.len());
    let limits =
        input.pools.iter().zip(&markets).map(|(pool, market)| limits_left(input, pool, market.as_ref())).collect();
    let nodes_left = input.pools.iter().map(|pool| nodes_left(input, pool)).collect();
    let rooms = super::rooms::of(input, &axis, &subjects, &mut topology, &fits);
    let start = Start { fits, topology, rooms, limits, nodes_left, reservations: reservations(input) };
    (Problem { input, axis, classes, markets, tiers: tiers(&input.pools), worth }, start)
}

/// Whether pending pods may be given machines of `pool`.
pub(super) fn takes_part(pool: &NodePool) -> bool {
    pool.not_ready.is_none() && pool.replicas.is_none()
}

/// Healthy pools first (L33), then by weight; pools of equal rank compete by price (L15).
fn tiers(pools: &[NodePool]) -> Vec<Vec<u32>> {
    let mut by_rank: BTreeMap<(bool, i32), Vec<u32>> = BTreeMap::new();
    for (at, pool) in (0_u32..).zip(pools).filter(|(_, pool)| takes_part(pool)) {
        by_rank.entry((pool.unhealthy, -pool.weight)).or_default().push(at);
    }
    by_rank.into_values().collect()
}

/// Pods that are placed already refuse those whom their required anti-affinity means.
fn register_bound_anti_affinity(input: &PlanningInput, subjects: &Subjects<'_>, topology: &mut Topology) {
    for pod in input.nodes.iter().flat_map(|node| &node.pods).filter(|pod| !pod.terminating && !pod.leaving) {
        for spec in anti_groups(&input.shapes[pod.shape as usize], &pod.namespace, subjects, topology) {
            let group = topology.group(spec, subjects);
            topology.harden(group);
        }
    }
}

fn anti_groups(shape: &PodShape, namespace: &Text, subjects: &Subjects<'_>, topology: &mut Topology) -> Vec<GroupSpec> {
    let spec = |term: &crate::model::PodAffinityTerm| GroupSpec {
        key: topology.key(&term.topology_key),
        predicate: vec![(subjects.namespaces_of(term, namespace), term.selector.clone())],
        filter: NodeFilter::default(),
        anti: true,
    };
    shape.pod_anti_affinity.iter().map(spec).collect()
}

/// Counts the pods that are there in every domain but the hostname, which each machine counts for itself.
fn count_bound_pods(input: &PlanningInput, subjects: &Subjects<'_>, topology: &mut Topology, fits: &FitTable) {
    for node in &input.nodes {
        for pod in node.pods.iter().filter(|pod| !pod.terminating && !pod.leaving) {
            let subject = subjects.id(&pod.namespace, pod.labels);
            for group in topology.meant_by(subject).to_vec() {
                topology.add_total(group, 1);
                count(topology, group, node, fits, 1, 0);
            }
            for spec in anti_groups(&input.shapes[pod.shape as usize], &pod.namespace, subjects, topology) {
                let group = topology.group(spec, subjects);
                count(topology, group, node, fits, 0, 1);
            }
        }
    }
}

fn count(topology: &mut Topology, group: u32, node: &Node, fits: &FitTable, matched: u32, owners: u32) {
    let spec = &topology.groups[group as usize];
    let key = spec.key;
    if key == Topology::HOST || !passes(&spec.filter, node, fits, topology) {
        return;
    }
    if let Some(value) = node.labels.get(topology.key_name(key)).cloned() {
        let domain = topology.domain(key, &value);
        topology.count(group, domain, matched, owners);
    }
}

/// The tallies of the hostname groups on `node`, sorted by group.
pub(super) fn host_tallies(
    input: &PlanningInput,
    node: &Node,
    subjects: &Subjects<'_>,
    topology: &mut Topology,
) -> super::machines::HostTallies {
    let mut tallies = super::machines::HostTallies::default();
    for pod in node.pods.iter().filter(|pod| !pod.terminating && !pod.leaving) {
        for group in topology.meant_by(subjects.id(&pod.namespace, pod.labels)).to_vec() {
            if topology.groups[group as usize].key == Topology::HOST {
                tallies.add(group, 1, 0);
            }
        }
        for spec in anti_groups(&input.shapes[pod.shape as usize], &pod.namespace, subjects, topology) {
            if spec.key == Topology::HOST {
                let group = topology.group(spec, subjects);
                tallies.add(group, 0, 1);
            }
        }
    }
    tallies
}

/// Whether `node` counts for a group with this filter.
pub(super) fn passes(filter: &NodeFilter, node: &Node, fits: &FitTable, topology: &Topology) -> bool {
    let labelled = filter.keys.iter().all(|key| node.labels.contains_key(topology.key_name(*key)));
    let tolerated = filter
        .tolerations
        .as_ref()
        .is_none_or(|own| first_barring(&node.taints, own).is_none() && (!node.unschedulable || tolerates_cordon(own)));
    labelled
        && tolerated
        && filter.any_of.as_ref().is_none_or(|any| any.iter().any(|id| node_satisfies(node, *id, fits)))
}

/// Whether `node` satisfies requirements `id` as kube-scheduler reads them.
pub(super) fn node_satisfies(node: &Node, id: ReqId, fits: &FitTable) -> bool {
    fits.requirements(id).iter().all(|requirement| {
        if requirement.key().as_ref() == super::fits::NAME_FIELD {
            return requirement.has(&node.name);
        }
        crate::model::requirements::label_satisfies(&node.labels, requirement)
    })
}

/// Takes what DaemonSets need off every machine that they suit. All their terms count, and their tolerations include
/// `PreferNoSchedule` (Karpenter core §3.14; L30: terms are judged independently).
pub(super) fn charge_daemons(input: &PlanningInput, at: u32, market: &mut Market, axis: &Axis, fits: &mut FitTable) {
    let pool = &input.pools[at as usize];
    for (index, daemon) in (0_u32..).zip(&input.daemons) {
        let shape = &input.shapes[daemon.shape as usize];
        if first_barring(&pool.taints, &shape.tolerations).is_some() {
            continue;
        }
        let mut suited = super::bits::BitSet::empty(market.machines.len());
        let alternatives = classes::node_alternatives(shape, None, fits);
        let options: Vec<_> = alternatives.iter().filter_map(|id| fits.compile(*id, at, pool, market)).collect();
        for fit in &options {
            fits.fit(*fit).types.iter().for_each(|machine| suited.insert(machine));
        }
        let demand: Amounts = axis.demand(&shape.requests);
        for machine in suited.iter() {
            axis::take(&mut market.rooms[machine], &demand, 1);
        }
        if !suited.is_empty() {
            market.daemon_ports.extend(shape.host_ports.iter().cloned());
            market.daemons.push((index, options));
        }
    }
}

fn of_pool<'i>(input: &'i PlanningInput, pool: &'i NodePool) -> impl Iterator<Item = &'i Node> {
    let own = |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.stage != NodeStage::Deleting;
    input.nodes.iter().filter(own)
}

pub(super) fn limits_left(input: &PlanningInput, pool: &NodePool, market: Option<&Market>) -> Vec<i64> {
    let left = |name: &Text| {
        let used: i64 = of_pool(input, pool).map(|node| node.capacity.get(name)).sum();
        pool.limits.get(name).saturating_sub(used)
    };
    market.map(|market| market.limited.iter().map(left).collect()).unwrap_or_default()
}

/// How many machines `pool` may still add; without a limit, as many as there are numbers.
pub(super) fn nodes_left(input: &PlanningInput, pool: &NodePool) -> i64 {
    if !pool.limits.contains(NODES) {
        return i64::MAX / 2;
    }
    let used = i64::try_from(of_pool(input, pool).count()).unwrap_or(i64::MAX);
    pool.limits.get(NODES).saturating_sub(used).max(0)
}

/// Machines left per reservation: the least that any catalogue says.
pub(super) fn reservations(input: &PlanningInput) -> BTreeMap<Text, i64> {
    let mut left: BTreeMap<Text, i64> = BTreeMap::new();
    let offerings = input.pools.iter().flat_map(|pool| &pool.catalogue.types).flat_map(|kind| &kind.offerings);
    for reservation in
        offerings.filter(|offering| offering.available).filter_map(|offering| offering.reservation.as_ref())
    {
        let slot = left.entry(reservation.id.clone()).or_insert(reservation.remaining);
        *slot = (*slot).min(reservation.remaining);
    }
    left
}

/// Dollars and room of the machines that a class could use, for judging what resources are worth.
pub(super) fn cheapest_price(machine: &super::stall::Machine) -> Option<MicroUsd> {
    machine.prices.first().map(|(_, price)| *price)
}
