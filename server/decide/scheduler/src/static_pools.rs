//! Static pools: machines missing to `replicas`, spread over zones (L34). They carry no planned
//! pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bit_set::BitSet;
use super::compile_cache::CompileCache;
use super::finish::{labels_of, requests_of, select_options};
use super::fits::{FitId, FitTable};
use super::machine_cost::credits;
use super::pool_supply::PoolSupply;
use super::problem::{Problem, charge_daemons, limits_left, nodes_left, reservations};
use super::type_labels::TypeLabels;
use model::input::{MinValuesPolicy, PlanningInput};
use model::labels::ZONE;
use model::plan::{Plan, PlannedNode};
use model::resources::CPU;
use model::{CapacityType, MicroUsd, Node, NodeName, NodePool, NodeStage, Requirements, Text, Zone};

/// A static pool and what it may still launch.
struct StaticPool<'i> {
    input: &'i PlanningInput,
    at: u32,
    pool: &'i NodePool,
    supply: PoolSupply,
    fits: FitTable,
    fit: FitId,
    limits: Vec<i64>,
    /// Nodes of the pool per usable zone.
    zones: BTreeMap<Zone, i64>,
}

/// The machines that static pools miss.
pub(super) fn missing_nodes(problem: &Problem<'_>, plan: &Plan, cache: &mut CompileCache) -> Vec<PlannedNode> {
    let input = problem.input;
    if input.pools.iter().all(|pool| pool.replicas.is_none()) {
        return Vec::new();
    }
    let mut reservations_left = reservations(input);
    for id in plan.nodes.iter().filter_map(|node| node.reservation.as_ref()) {
        reservations_left.entry(id.clone()).and_modify(|left| *left -= 1);
    }
    let mut nodes: Vec<PlannedNode> = Vec::new();
    for (at, pool) in (0_u32..).zip(&input.pools).filter(|(_, pool)| pool.not_ready.is_none()) {
        let Some(replicas) = pool.replicas else { continue };
        let have = i64::try_from(nodes_of_pool(input, pool).count()).unwrap_or(i64::MAX);
        let missing = (replicas - have).max(0).min(nodes_left(input, pool));
        let Some(mut static_pool) = StaticPool::of(problem, at, pool, cache) else { continue };
        for _ in 0..missing {
            nodes.extend(static_pool.next_node(&mut reservations_left));
        }
    }
    for (number, node) in nodes.iter_mut().enumerate() {
        node.name = NodeName::from(format!("{}-static-{}", node.name, number + 1));
    }
    nodes
}

fn nodes_of_pool<'i>(input: &'i PlanningInput, pool: &'i NodePool) -> impl Iterator<Item = &'i Node> {
    let own = |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.stage != NodeStage::Deleting;
    input.nodes.iter().filter(own)
}

impl<'i> StaticPool<'i> {
    /// `None` when the pool has no offering.
    fn of(problem: &Problem<'i>, at: u32, pool: &'i NodePool, cache: &mut CompileCache) -> Option<Self> {
        let input = problem.input;
        let mut supply =
            PoolSupply::of(pool, cache.pool_offerings(pool, &problem.resources, &input.policy.well_known_labels));
        let mut fits = FitTable::default();
        charge_daemons(input, at, &mut supply, &problem.resources, &mut fits);
        let anything = fits.intern_requirements(Requirements::new());
        let fit = fits.compile(anything, at, pool, &supply)?;
        let mut zones: BTreeMap<Zone, i64> =
            fits.fit(fit).slots.iter().map(|slot| (supply.slots[slot].zone.clone(), 0)).collect();
        for zone in nodes_of_pool(input, pool).filter_map(|node| node.labels.get(ZONE)) {
            zones.entry(Zone::from(zone)).and_modify(|count| *count += 1);
        }
        let limits = limits_left(input, pool, Some(&supply));
        Some(Self { input, at, pool, supply, fits, fit, limits, zones })
    }

    /// One more machine, in the zone with the fewest nodes that offers one.
    fn next_node(&mut self, reservations_left: &mut BTreeMap<Text, i64>) -> Option<PlannedNode> {
        let mut zones: Vec<(i64, Zone)> = self.zones.iter().map(|(zone, count)| (*count, zone.clone())).collect();
        zones.sort();
        let (zone, slot, options) = zones.into_iter().find_map(|(_, zone)| {
            let (slot, options) = self.choose_slot(&zone, reservations_left)?;
            Some((zone, slot, options))
        })?;
        self.zones.entry(zone.clone()).and_modify(|count| *count += 1);
        for (at, left) in self.limits.iter_mut().enumerate() {
            *left -= options.iter().map(|option| self.supply.instance_types[*option].charge[at]).max().unwrap_or(0);
        }
        let node = self.node(zone, slot, &options);
        if let Some(left) = node.reservation.as_ref().and_then(|id| reservations_left.get_mut(id)) {
            *left -= 1;
        }
        Some(node)
    }

    /// The first slot of `zone`, in the order of capacity types, with acceptable options, and those
    /// options.
    fn choose_slot(&self, zone: &Zone, reservations_left: &BTreeMap<Text, i64>) -> Option<(usize, Vec<usize>)> {
        let left = |slot: usize| {
            let reservation = self.supply.slots[slot].reservation.as_ref();
            reservation.is_none_or(|id| reservations_left.get(id).is_some_and(|left| *left > 0))
        };
        let available = |slot: &usize| self.supply.slots[*slot].zone == *zone && left(*slot);
        self.fits.fit(self.fit).slots.iter().filter(available).find_map(|slot| {
            let options = self.supply.options_by_cost(&self.ranked_types(slot), 0, |options| {
                self.min_values_hold(&select_options(options.iter().copied(), &self.supply))
            });
            let options = select_options(options.into_iter(), &self.supply);
            (!options.is_empty() && self.min_values_hold(&options)).then_some((slot, options))
        })
    }

    /// Prices and instance types of `slot` within the pool's limits, cheapest first.
    fn ranked_types(&self, slot: usize) -> Vec<(MicroUsd, usize)> {
        let mut only = BitSet::empty(self.supply.slots.len());
        only.insert(slot);
        let within =
            |at: &usize| self.supply.instance_types[*at].charge.iter().zip(&self.limits).all(|(ask, left)| ask <= left);
        let price = |at: usize| Some((self.supply.instance_types[at].cheapest_in(&only)?.1, at));
        let mut ranked: Vec<(MicroUsd, usize)> =
            self.fits.fit(self.fit).types.iter().filter(within).filter_map(price).collect();
        ranked.sort_unstable();
        ranked
    }

    fn min_values_hold(&self, options: &[usize]) -> bool {
        self.input.policy.min_values == MinValuesPolicy::BestEffort
            || self.supply.min_values_rules.iter().all(|rule| rule.is_met_by(options))
    }

    fn node(&self, zone: Zone, slot: usize, options: &[usize]) -> PlannedNode {
        let mut slots = BitSet::empty(self.supply.slots.len());
        slots.insert(slot);
        let first = &self.supply.instance_types[options[0]];
        let open = &self.fits.fit(self.fit).open_labels;
        let mut labels = labels_of(&mut TypeLabels::new(self.pool, &self.supply), options, &slots, open);
        labels.insert(Text::from(ZONE), zone.as_text().clone());
        let capacity_type: CapacityType = self.supply.slots[slot].capacity_type;
        let requests = requests_of(self.input, &[], &self.supply, &self.fits, (options[0], slot, &labels));
        PlannedNode {
            name: NodeName::from(self.pool.name.as_text()),
            pool: self.at,
            capacity_type,
            zones: Arc::new([zone]),
            types: options.iter().map(|at| self.supply.instance_types[*at].index).collect(),
            price: first.cheapest_in(&slots).map_or(MicroUsd(0), |(_, price)| price),
            credits: credits(first.burstable, requests.get(CPU)),
            reservation: self.supply.slots[slot].reservation.clone(),
            pods: Vec::new(),
            requests,
            labels: Arc::new(labels),
            taints: self.pool.taints.clone().into(),
        }
    }
}
