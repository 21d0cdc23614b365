//! The input, compiled: resources as columns, pods as classes, pools as markets, rules as groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::axis::{self, Amounts, Axis};
use super::classes::{self, Class};
use super::fits::FitTable;
use super::machines::ExistingNode;
use super::market::PoolSupply;
use super::memo::CompileCache;
use super::nodes::{self, count_bound_pods, register_bound_anti_affinity};
use super::subjects::SelectorIndex;
use super::topology::Topology;
use crate::input::PlanningInput;
use crate::model::offering::SharedCatalogue;
use crate::model::resources::NODES;
use crate::model::taints::first_barring;
use crate::model::{Node, NodePool, NodeStage, Text};

/// What never changes while pods are placed.
#[derive(Debug)]
pub(super) struct Problem<'i> {
    pub(super) input: &'i PlanningInput,
    pub(super) axis: Axis,
    pub(super) classes: Vec<Class>,
    /// One market per pool, by pool index; pools that take no part have none.
    pub(super) markets: Vec<Option<PoolSupply>>,
    /// Pools in the order in which they are asked; those of one tier compete by price.
    pub(super) tiers: Vec<Vec<u32>>,
    /// What a unit of each resource is worth, in micro-dollars per hour.
    pub(super) worth: Vec<f64>,
}

/// What changes as pods are placed, as it stands before the first.
#[derive(Debug)]
pub(super) struct InitialState {
    pub(super) fits: FitTable,
    pub(super) topology: Topology,
    /// Nodes that may take pods, in the order in which they are asked.
    pub(super) rooms: Vec<ExistingNode>,
    /// ExistingNode left in each pool under its limits, along [`PoolSupply::limited`].
    pub(super) limits: Vec<Vec<i64>>,
    /// Machines that each pool may still add.
    pub(super) nodes_left: Vec<i64>,
    /// Machines that are left of each reservation.
    pub(super) reservations: BTreeMap<Text, i64>,
}

/// Compiles `input`, with the help of what earlier decisions compiled.
pub(super) fn compile<'i>(input: &'i PlanningInput, memo: &mut CompileCache) -> (Problem<'i>, InitialState) {
    let axis = Axis::of(input);
    let subjects = SelectorIndex::of(input);
    let mut topology = Topology::new(&subjects);
    let mut fits = FitTable::default();
    register_bound_anti_affinity(input, &subjects, &mut topology);
    let classes = classes::split(input, &axis, &subjects, &mut topology, &mut fits);
    count_bound_pods(input, &subjects, &mut topology, &fits);
    let mut markets: Vec<Option<PoolSupply>> = input
        .pools
        .iter()
        .map(|pool| takes_part(pool).then(|| PoolSupply::of(memo.stall(pool, &axis, &input.policy.well_known_labels))))
        .collect();
    for (at, market) in (0_u32..).zip(&mut markets) {
        if let Some(market) = market {
            charge_daemons(input, at, market, &axis, &mut fits);
            market.measure();
        }
    }
    let worth = super::worth::of(&classes, &markets, axis.len());
    let limits =
        input.pools.iter().zip(&markets).map(|(pool, market)| limits_left(input, pool, market.as_ref())).collect();
    let nodes_left = input.pools.iter().map(|pool| nodes_left(input, pool)).collect();
    let rooms = nodes::rooms(input, &axis, &subjects, &mut topology);
    let start = InitialState { fits, topology, rooms, limits, nodes_left, reservations: reservations(input) };
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

/// Takes what DaemonSets need off every machine that they suit. All their terms count, and their tolerations include
/// `PreferNoSchedule` (Karpenter core §3.14; L30: terms are judged independently).
pub(super) fn charge_daemons(
    input: &PlanningInput,
    at: u32,
    market: &mut PoolSupply,
    axis: &Axis,
    fits: &mut FitTable,
) {
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

pub(super) fn limits_left(input: &PlanningInput, pool: &NodePool, market: Option<&PoolSupply>) -> Vec<i64> {
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
    let mut catalogues: Vec<&SharedCatalogue> = Vec::new();
    for pool in &input.pools {
        if !catalogues.iter().any(|known| Arc::ptr_eq(known, &pool.catalogue)) {
            catalogues.push(&pool.catalogue);
        }
    }
    let offerings = catalogues.into_iter().flat_map(|catalogue| &catalogue.types).flat_map(|kind| &kind.offerings);
    for reservation in
        offerings.filter(|offering| offering.available).filter_map(|offering| offering.reservation.as_ref())
    {
        let slot = left.entry(reservation.id.clone()).or_insert(reservation.remaining);
        *slot = (*slot).min(reservation.remaining);
    }
    left
}
