//! What may be bought of a pool: offerings that are open to a pod, and why the others are not.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::model::labels::{CAPACITY_TYPE, ZONE};
use crate::model::resources::CPU;
use crate::model::{CapacityType, InstanceType, MicroUsd, NodePool, Offering, Requirement, Requirements, Text};
use crate::plan::PlannedNode;

use super::ask::{Ask, Waiver};
use super::world::{World, living};

/// Why an offering is not open to a pod. The order is that of the tests, the last ones being the nearest misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closed {
    /// In a zone that is not allowed.
    Zone,
    /// Of a capacity type that is not allowed.
    CapacityType,
    /// Another label of the offering is not allowed.
    Label,
    /// It cannot be launched at present.
    Unavailable,
    /// Its reservation has no machine left.
    Reservation,
    /// The pool's price ceilings.
    Price,
    /// The pool keeps its on-demand floor or its share of spot.
    SpotShare,
    /// The pool waits for spot.
    SpotWait,
}

/// What decides, beside labels, which offerings are open: stock, ceilings and shares are looked at or waived, on-demand
/// waits, the machine is bought already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Manner {
    stock: bool,
    ceilings: bool,
    share: bool,
    waits: bool,
    joins: bool,
}

/// What requirements say about offerings, looked up once for all of them.
#[derive(Debug)]
pub(super) struct Wanted<'m> {
    merged: &'m Requirements,
    zone: Option<&'m Requirement>,
    kind: Option<&'m Requirement>,
    /// Labels of offerings that must be there.
    present: Vec<&'m Text>,
    /// Whether spot is allowed.
    spot: bool,
}

/// How a pod meets the offerings of one pool.
#[derive(Debug)]
pub(super) struct Market<'w> {
    /// The finished plan.
    pub world: &'w World<'w>,
    pool: u32,
    fleet: Fleet,
    stock: bool,
    ceilings: bool,
    share: bool,
    wait: Option<i64>,
    /// The machine is bought already: what it draws and counts is settled.
    pub joins: bool,
}

impl<'w> Market<'w> {
    /// The offerings of `pool` as `ask` meets them.
    pub(super) fn new(world: &'w World<'w>, ask: &Ask<'_>, pool: u32) -> Self {
        let wait = if ask.waives(&Waiver::SpotWait(pool)) { None } else { time_left(world, ask, pool) };
        Self {
            world,
            pool,
            fleet: Fleet::of(world, pool),
            stock: !ask.waives(&Waiver::Stock(pool)),
            ceilings: !ask.waives(&Waiver::Ceilings(pool)),
            share: !ask.waives(&Waiver::SpotShare(pool)),
            wait,
            joins: false,
        }
    }

    fn pool(&self) -> &'w NodePool {
        &self.world.input.pools[self.pool as usize]
    }

    /// Whether the machine is larger than the pool's largest (`max-node-vcpu`).
    pub(super) fn oversized(&self, instance: &InstanceType) -> bool {
        let most = self.pool().rules.max_node_vcpu;
        self.ceilings && most.is_some_and(|most| instance.capacity.get(CPU) > most.saturating_mul(1000))
    }

    /// What `merged` says about the offerings of this pool.
    pub(super) fn wanted<'m>(&self, merged: &'m Requirements) -> Wanted<'m>
    where
        'w: 'm,
    {
        let (zone, kind) = (merged.get(ZONE), merged.get(CAPACITY_TYPE));
        let present = |key: &&Text| merged.get(key).is_some_and(|r| !r.allows_absence());
        let present = self.pool().catalogue.offering_keys.iter().filter(present).collect();
        let spot = kind.is_none_or(|r| r.has(CapacityType::Spot.as_str()));
        Wanted { merged, zone, kind, present, spot }
    }

    /// Why `offering` is not open to those who want `wanted`; `None` when it is.
    pub(super) fn closed(&self, instance: &InstanceType, offering: &Offering, wanted: &Wanted<'_>) -> Option<Closed> {
        let allowed = |requirement: Option<&Requirement>, value: &str| requirement.is_none_or(|r| r.has(value));
        if !allowed(wanted.zone, &offering.zone) {
            return Some(Closed::Zone);
        }
        if !allowed(wanted.kind, offering.capacity_type.as_str()) {
            return Some(Closed::CapacityType);
        }
        if !labels_agree(instance, offering, wanted) {
            return Some(Closed::Label);
        }
        if self.stock && !offering.available {
            return Some(Closed::Unavailable);
        }
        let drained = |reservation| self.world.left_in(reservation) <= 0;
        if !self.joins && offering.reservation.as_ref().is_some_and(drained) {
            return Some(Closed::Reservation);
        }
        if self.ceilings && self.too_dear(instance, offering.price) {
            return Some(Closed::Price);
        }
        self.closed_by_share(instance, offering.capacity_type, wanted.spot)
    }

    fn too_dear(&self, instance: &InstanceType, price: MicroUsd) -> bool {
        let rules = &self.pool().rules;
        let per_vcpu =
            |most: MicroUsd| i128::from(price.0) * 1000 > i128::from(most.0) * i128::from(instance.capacity.get(CPU));
        rules.max_node_price.is_some_and(|most| price > most) || rules.max_price_per_vcpu.is_some_and(per_vcpu)
    }

    fn closed_by_share(&self, instance: &InstanceType, kind: CapacityType, spot: bool) -> Option<Closed> {
        let kept_off = self.share && !self.joins && self.fleet.refuses_spot(self.pool(), instance.capacity.get(CPU));
        match kind {
            CapacityType::Spot if kept_off => Some(Closed::SpotShare),
            CapacityType::OnDemand if self.wait.is_some() && spot && !kept_off => Some(Closed::SpotWait),
            _ => None,
        }
    }

    /// The offerings that are open under `merged`, by type of the pool's catalogue.
    pub(super) fn open(&self, merged: &Requirements) -> Rc<[Vec<u32>]> {
        let Self { stock, ceilings, share, joins, .. } = *self;
        let manner = Manner { stock, ceilings, share, waits: self.wait.is_some(), joins };
        let wanted = self.wanted(merged);
        let open = |instance: &InstanceType, offering: &Offering| self.closed(instance, offering, &wanted).is_none();
        self.world.sales((self.pool, merged, manner), open)
    }

    /// Why none of the offerings of these types is open, counted.
    pub(super) fn why_closed(&self, types: &[u32], merged: &Requirements) -> BTreeMap<Closed, usize> {
        let wanted = self.wanted(merged);
        let mut counts = BTreeMap::new();
        for instance in types.iter().map(|&at| &self.pool().catalogue.types[at as usize]) {
            for closed in instance.offerings.iter().filter_map(|offering| self.closed(instance, offering, &wanted)) {
                *counts.entry(closed).or_insert(0) += 1;
            }
        }
        counts
    }
}

fn labels_agree(instance: &InstanceType, offering: &Offering, wanted: &Wanted<'_>) -> bool {
    let stated = offering.labels.iter().all(|(key, value)| wanted.merged.get(key).is_none_or(|r| r.has(value)));
    let there = |key: &&Text| offering.labels.contains_key(*key) || instance.labels.get(key).is_some();
    stated && wanted.present.iter().all(there)
}

/// Milliseconds for which on-demand stays closed to `ask` in `pool` (`spot-fallback-after`); `None` when it is open.
pub(super) fn time_left(world: &World<'_>, ask: &Ask<'_>, pool: u32) -> Option<i64> {
    let wait = world.input.pools[pool as usize].rules.spot_fallback_after_ms?;
    let left = wait - world.input.now.millis_since(ask.created?);
    (left > 0).then_some(left)
}

/// What a pool runs on spot and on demand.
#[derive(Debug, Default)]
struct Fleet {
    spot_millicores: i64,
    all_millicores: i64,
    on_demand_nodes: i64,
}

impl Fleet {
    /// Counts existing and planned nodes; a planned node may be its largest option on spot, its smallest elsewhere.
    fn of(world: &World<'_>, index: u32) -> Self {
        let pool = &world.input.pools[index as usize];
        let mut fleet = Self::default();
        if pool.rules.spot_max_percent.is_none() && pool.rules.on_demand_min_nodes.is_none() {
            return fleet;
        }
        for node in living(world.input, pool) {
            fleet.add(node.labels.get(CAPACITY_TYPE).map_or("", |kind| kind), node.capacity.get(CPU));
        }
        for node in world.plan.nodes.iter().filter(|node| node.pool == index) {
            fleet.add(node.capacity_type.as_str(), extreme_cpu(pool, node));
        }
        fleet
    }

    fn add(&mut self, kind: &str, millicores: i64) {
        self.all_millicores += millicores;
        self.spot_millicores += if kind == CapacityType::Spot.as_str() { millicores } else { 0 };
        self.on_demand_nodes += i64::from(kind == CapacityType::OnDemand.as_str());
    }

    fn refuses_spot(&self, pool: &NodePool, millicores: i64) -> bool {
        let floor = pool.rules.on_demand_min_nodes.is_some_and(|least| self.on_demand_nodes < least);
        let share = pool
            .rules
            .spot_max_percent
            .is_some_and(|most| (self.spot_millicores + millicores) * 100 > most * (self.all_millicores + millicores));
        floor || share
    }
}

fn extreme_cpu(pool: &NodePool, node: &PlannedNode) -> i64 {
    let cpus = node.types.iter().map(|&at| pool.catalogue.types[at as usize].capacity.get(CPU));
    let extreme = if node.capacity_type == CapacityType::Spot { cpus.max() } else { cpus.min() };
    extreme.unwrap_or(0)
}
