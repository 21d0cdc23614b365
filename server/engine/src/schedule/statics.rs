//! Static pools: machines that are missing to `replicas`, spread over zones (L34). They carry no planned pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bits::BitSet;
use super::finish::{labels_of, named, requests_of};
use super::fits::{FitId, FitTable};
use super::market::PoolSupply;
use super::memo::CompileCache;
use super::problem::{Problem, charge_daemons, limits_left, nodes_left, reservations};
use super::type_labels::TypeLabels;
use crate::input::{MinValuesPolicy, PlanningInput};
use crate::model::labels::ZONE;
use crate::model::{CapacityType, MicroUsd, Node, NodePool, NodeStage, Requirements, Text};
use crate::plan::{Plan, PlannedNode};

/// A static pool and what it may still buy.
struct Shop<'i> {
    input: &'i PlanningInput,
    at: u32,
    pool: &'i NodePool,
    market: PoolSupply,
    fits: FitTable,
    fit: FitId,
    limits: Vec<i64>,
    /// Machines of the pool per zone that it could use.
    zones: BTreeMap<Text, i64>,
}

/// The machines that static pools lack.
pub(super) fn lacking(problem: &Problem<'_>, plan: &Plan, memo: &mut CompileCache) -> Vec<PlannedNode> {
    let input = problem.input;
    if input.pools.iter().all(|pool| pool.replicas.is_none()) {
        return Vec::new();
    }
    let mut stock = reservations(input);
    for id in plan.nodes.iter().filter_map(|node| node.reservation.as_ref()) {
        stock.entry(id.clone()).and_modify(|left| *left -= 1);
    }
    let mut nodes: Vec<PlannedNode> = Vec::new();
    for (at, pool) in (0_u32..).zip(&input.pools).filter(|(_, pool)| pool.not_ready.is_none()) {
        let Some(replicas) = pool.replicas else { continue };
        let have = i64::try_from(of_pool(input, pool).count()).unwrap_or(i64::MAX);
        let missing = (replicas - have).max(0).min(nodes_left(input, pool));
        let Some(mut shop) = Shop::of(problem, at, pool, memo) else { continue };
        for _ in 0..missing {
            nodes.extend(shop.next(&mut stock));
        }
    }
    for (number, node) in nodes.iter_mut().enumerate() {
        node.name = Text::from(format!("{}-static-{}", node.name, number + 1));
    }
    nodes
}

fn of_pool<'i>(input: &'i PlanningInput, pool: &'i NodePool) -> impl Iterator<Item = &'i Node> {
    let own = |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.stage != NodeStage::Deleting;
    input.nodes.iter().filter(own)
}

impl<'i> Shop<'i> {
    /// `None` when the pool can buy nothing.
    fn of(problem: &Problem<'i>, at: u32, pool: &'i NodePool, memo: &mut CompileCache) -> Option<Self> {
        let input = problem.input;
        let mut market = PoolSupply::of(memo.stall(pool, &problem.axis, &input.policy.well_known_labels));
        let mut fits = FitTable::default();
        charge_daemons(input, at, &mut market, &problem.axis, &mut fits);
        let anything = fits.intern_requirements(Requirements::new());
        let fit = fits.compile(anything, at, pool, &market)?;
        let mut zones: BTreeMap<Text, i64> =
            fits.fit(fit).slots.iter().map(|slot| (market.slots[slot].zone.clone(), 0)).collect();
        for zone in of_pool(input, pool).filter_map(|node| node.labels.get(ZONE)) {
            zones.entry(zone.clone()).and_modify(|count| *count += 1);
        }
        let limits = limits_left(input, pool, Some(&market));
        Some(Self { input, at, pool, market, fits, fit, limits, zones })
    }

    /// One more machine, in the emptiest zone that sells one.
    fn next(&mut self, stock: &mut BTreeMap<Text, i64>) -> Option<PlannedNode> {
        let mut zones: Vec<(i64, Text)> = self.zones.iter().map(|(zone, count)| (*count, zone.clone())).collect();
        zones.sort();
        let (zone, slot, options) = zones.into_iter().find_map(|(_, zone)| {
            let (slot, options) = self.offer_in(&zone, stock)?;
            Some((zone, slot, options))
        })?;
        self.zones.entry(zone.clone()).and_modify(|count| *count += 1);
        for (at, left) in self.limits.iter_mut().enumerate() {
            *left -= options.iter().map(|option| self.market.machines[*option].charge[at]).max().unwrap_or(0);
        }
        let node = self.node(zone, slot, &options);
        if let Some(left) = node.reservation.as_ref().and_then(|id| stock.get_mut(id)) {
            *left -= 1;
        }
        Some(node)
    }

    /// The first slot of `zone`, in the order of capacity types, whose options will do, with them.
    fn offer_in(&self, zone: &Text, stock: &BTreeMap<Text, i64>) -> Option<(usize, Vec<usize>)> {
        let left = |slot: usize| {
            let reservation = self.market.slots[slot].reservation.as_ref();
            reservation.is_none_or(|id| stock.get(id).is_some_and(|left| *left > 0))
        };
        let here = |slot: &usize| self.market.slots[*slot].zone == *zone && left(*slot);
        self.fits.fit(self.fit).slots.iter().filter(here).find_map(|slot| {
            let options = named(self.on_sale(slot).into_iter(), &self.market);
            (!options.is_empty() && self.min_values_hold(&options)).then_some((slot, options))
        })
    }

    /// What `slot` sells within the pool's limits, cheapest first.
    fn on_sale(&self, slot: usize) -> Vec<usize> {
        let mut only = BitSet::empty(self.market.slots.len());
        only.insert(slot);
        let within =
            |at: &usize| self.market.machines[*at].charge.iter().zip(&self.limits).all(|(ask, left)| ask <= left);
        let price = |at: usize| Some((self.market.machines[at].cheapest_in(&only)?.1, at));
        let mut ranked: Vec<(MicroUsd, usize)> =
            self.fits.fit(self.fit).types.iter().filter(within).filter_map(price).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, at)| at).collect()
    }

    fn min_values_hold(&self, options: &[usize]) -> bool {
        self.input.policy.min_values == MinValuesPolicy::BestEffort
            || self.market.varieties.iter().all(|variety| variety.holds(options))
    }

    fn node(&self, zone: Text, slot: usize, options: &[usize]) -> PlannedNode {
        let mut slots = BitSet::empty(self.market.slots.len());
        slots.insert(slot);
        let first = &self.market.machines[options[0]];
        let open = &self.fits.fit(self.fit).open_labels;
        let mut labels = labels_of(self.pool, &mut TypeLabels::new(self.pool, &self.market), options, &slots, open);
        labels.insert(Text::from(ZONE), zone.clone());
        let capacity_type: CapacityType = self.market.slots[slot].capacity_type;
        PlannedNode {
            name: self.pool.name.clone(),
            pool: self.at,
            capacity_type,
            zones: Arc::new([zone]),
            types: options.iter().map(|at| self.market.machines[*at].index).collect(),
            price: first.cheapest_in(&slots).map_or(MicroUsd(0), |(_, price)| price),
            reservation: self.market.slots[slot].reservation.clone(),
            pods: Vec::new(),
            requests: requests_of(self.input, &[], &self.market, &self.fits, (options[0], slot, &labels)),
            labels: Arc::new(labels),
            taints: self.pool.taints.clone().into(),
        }
    }
}
