//! The compiled input: resources as vector positions, pods as classes, pools as supplies, rules as
//! groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::classes::{self, Class};
use super::compile_cache::CompileCache;
use super::fits::FitTable;
use super::machines::ExistingNode;
use super::nodes::{self, count_bound_pods, register_bound_anti_affinity};
use super::pool_supply::PoolSupply;
use super::resource_vector::{self, Amounts, ResourceOrder};
use super::selector_index::SelectorIndex;
use super::topology::Topology;
use model::input::PlanningInput;
use model::offering::SharedCatalogue;
use model::resources::NODES;
use model::taints::first_untolerated;
use model::{Node, NodePool, NodeStage, Text};

/// The immutable part of the compiled input.
#[derive(Debug)]
pub(super) struct Problem<'i> {
    pub(super) input: &'i PlanningInput,
    pub(super) resources: ResourceOrder,
    pub(super) classes: Vec<Class>,
    /// One supply per pool, by pool index; `None` for pools that do not provision pending pods.
    pub(super) supplies: Vec<Option<PoolSupply>>,
    /// Pools in the order in which they are tried; the pools of one tier compete by price.
    pub(super) tiers: Vec<Vec<u32>>,
    /// Shadow price of one unit of each resource, in micro-dollars per hour.
    pub(super) shadow_prices: Vec<f64>,
}

/// The mutable state, before the first pod is placed.
#[derive(Debug)]
pub(super) struct InitialState {
    pub(super) fits: FitTable,
    pub(super) topology: Topology,
    /// Nodes that may take pods, in the order in which they are tried.
    pub(super) existing_nodes: Vec<ExistingNode>,
    /// Amounts left in each pool under its limits, along [`PoolSupply::limited`].
    pub(super) limits: Vec<Vec<i64>>,
    /// Nodes that each pool may still add.
    pub(super) nodes_left: Vec<i64>,
    pub(super) reservations: BTreeMap<Text, i64>,
}

/// Compiles `input`, reusing what `cache` holds of earlier decisions.
pub(super) fn compile<'i>(input: &'i PlanningInput, cache: &mut CompileCache) -> (Problem<'i>, InitialState) {
    let resources = ResourceOrder::of(input);
    let selector_index = SelectorIndex::of(input);
    let mut topology = Topology::new(&selector_index);
    let mut fits = FitTable::default();
    register_bound_anti_affinity(input, &selector_index, &mut topology);
    let classes = classes::split_into_classes(input, &resources, &selector_index, &mut topology, &mut fits);
    count_bound_pods(input, &selector_index, &mut topology, &fits);
    let mut supplies: Vec<Option<PoolSupply>> = input
        .pools
        .iter()
        .map(|pool| {
            provisions_pods(pool)
                .then(|| PoolSupply::of(pool, cache.pool_offerings(pool, &resources, &input.policy.well_known_labels)))
        })
        .collect();
    for (at, supply) in (0_u32..).zip(&mut supplies) {
        if let Some(supply) = supply {
            charge_daemons(input, at, supply, &resources, &mut fits);
            supply.update_max_allocatable();
        }
    }
    let shadow_prices = super::shadow_prices::compute(&classes, &supplies, resources.len());
    let limits =
        input.pools.iter().zip(&supplies).map(|(pool, supply)| limits_left(input, pool, supply.as_ref())).collect();
    let nodes_left = input.pools.iter().map(|pool| nodes_left(input, pool)).collect();
    let existing_nodes = nodes::existing_nodes(input, &resources, &selector_index, &mut topology);
    let start = InitialState { fits, topology, existing_nodes, limits, nodes_left, reservations: reservations(input) };
    (Problem { input, resources, classes, supplies, tiers: tiers(&input.pools), shadow_prices }, start)
}

/// Whether pending pods may be provisioned from `pool`.
pub(super) fn provisions_pods(pool: &NodePool) -> bool {
    pool.not_ready.is_none() && pool.replicas.is_none()
}

/// Healthy pools first (L33), then by weight; pools of equal rank compete by price (L15).
fn tiers(pools: &[NodePool]) -> Vec<Vec<u32>> {
    let mut by_rank: BTreeMap<(bool, i32), Vec<u32>> = BTreeMap::new();
    for (at, pool) in (0_u32..).zip(pools).filter(|(_, pool)| provisions_pods(pool)) {
        by_rank.entry((pool.unhealthy, -pool.weight)).or_default().push(at);
    }
    by_rank.into_values().collect()
}

/// Subtracts the requests of DaemonSets from every instance type that they match. All their terms
/// count, and their tolerations include `PreferNoSchedule` (Karpenter core §3.14; L30: terms are
/// evaluated independently).
pub(super) fn charge_daemons(
    input: &PlanningInput,
    at: u32,
    supply: &mut PoolSupply,
    resources: &ResourceOrder,
    fits: &mut FitTable,
) {
    let pool = &input.pools[at as usize];
    for (index, daemon) in (0_u32..).zip(&input.daemons) {
        let shape = &input.shapes[daemon.shape as usize];
        if first_untolerated(&pool.taints, &shape.tolerations).is_some() {
            continue;
        }
        let mut matching = super::bit_set::BitSet::empty(supply.instance_types.len());
        let alternatives = classes::node_alternatives(shape, None, fits);
        let options: Vec<_> = alternatives.iter().filter_map(|id| fits.compile(*id, at, pool, supply)).collect();
        for fit in &options {
            fits.fit(*fit).types.iter().for_each(|instance_type| matching.insert(instance_type));
        }
        let demand: Amounts = resources.demand(&shape.requests);
        for instance_type in matching.iter() {
            resource_vector::subtract(&mut supply.net_allocatable[instance_type], &demand, 1);
        }
        if !matching.is_empty() {
            supply.daemon_ports.extend(shape.host_ports.iter().cloned());
            supply.daemons.push((index, options));
        }
    }
}

fn nodes_of_pool<'i>(input: &'i PlanningInput, pool: &'i NodePool) -> impl Iterator<Item = &'i Node> {
    let own = |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.stage != NodeStage::Deleting;
    input.nodes.iter().filter(own)
}

pub(super) fn limits_left(input: &PlanningInput, pool: &NodePool, supply: Option<&PoolSupply>) -> Vec<i64> {
    let left = |name: &Text| {
        let used: i64 = nodes_of_pool(input, pool).map(|node| node.capacity.get(name)).sum();
        pool.limits.get(name).saturating_sub(used)
    };
    supply.map(|supply| supply.limited.iter().map(left).collect()).unwrap_or_default()
}

/// How many nodes `pool` may still add; practically unlimited without a `nodes` limit.
pub(super) fn nodes_left(input: &PlanningInput, pool: &NodePool) -> i64 {
    if !pool.limits.contains(NODES) {
        return i64::MAX / 2;
    }
    let used = i64::try_from(nodes_of_pool(input, pool).count()).unwrap_or(i64::MAX);
    pool.limits.get(NODES).saturating_sub(used).max(0)
}

/// Instances left per reservation: the minimum over all catalogues.
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
