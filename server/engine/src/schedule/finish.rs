//! From cohorts to a plan: the launch options of every machine, the zone where it is cheapest, and who stands on it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::axis;
use super::bits::BitSet;
use super::classes::Class;
use super::fits::{FitId, FitTable};
use super::machines::{Cohort, Place};
use super::market::PoolSupply;
use super::packing::Packing;
use super::type_labels::TypeLabels;
use crate::input::PlanningInput;
use crate::model::labels::{CAPACITY_TYPE, NODECLASS, NODEPOOL, ZONE};
use crate::model::requirements::label_satisfies;
use crate::model::{CapacityType, Labels, MicroUsd, NodePool, Operator, Requirements, Resources, Text};
use crate::plan::{Plan, PlannedNode};

/// Launch options that EC2 Fleet is given at most (Karpenter AWS §4.1).
const MAX_OPTIONS: usize = 60;

/// What machines of one cohort have in common.
struct Shared {
    types: Arc<[u32]>,
    /// Zones at the least price, then the others.
    best_zones: Vec<Text>,
    other_zones: Vec<Text>,
    price: MicroUsd,
    capacity_type: CapacityType,
    reservation: Option<Text>,
    first_option: usize,
    slots: BitSet,
    labels: Labels,
}

/// Turns the packing into a plan.
pub(super) fn finish(mut packing: Packing<'_, '_>) -> Plan {
    let places = pods_by_place(&packing);
    let mut plan = Plan { order: places.order, placements: places.rooms, ..Plan::default() };
    plan.placements.sort_unstable();
    plan.unschedulable = places.waiting;
    let mut machines: Vec<(u32, u32)> =
        (0_u32..).zip(&places.machines).filter_map(|(id, pods)| Some((*pods.first()?, id))).collect();
    machines.sort_by_key(|(pod, id)| (packing.cohorts[packing.home[*id as usize] as usize].pool, *pod, *id));
    let mut shared: BTreeMap<u32, Shared> = BTreeMap::new();
    let mut in_zone: BTreeMap<(u32, Text), (Arc<Labels>, Resources)> = BTreeMap::new();
    let mut names = Names::new(&packing);
    let mut type_labels: BTreeMap<u32, TypeLabels<'_>> = BTreeMap::new();
    for (_, id) in machines {
        let home = packing.home[id as usize];
        let pool = packing.cohorts[home as usize].pool;
        let pods = &places.machines[id as usize];
        if let Entry::Vacant(slot) = shared.entry(home) {
            let Some(parts) = shared_of(&mut packing, home as usize, &mut type_labels) else { continue };
            slot.insert(parts);
        }
        let parts = &shared[&home];
        let zones = zones_for(&packing, pool, parts);
        packing.ledger.settled(pool, &zones[0]);
        let in_zone = in_zone.entry((home, zones[0].clone())).or_insert_with(|| {
            let labels = labels_in(parts, &zones);
            let requests = requests_in(&packing, pool, parts, pods, (&zones[0], &labels));
            (labels, requests)
        });
        let (labels, requests) = in_zone.clone();
        let mut pods = pods.clone();
        pods.sort_unstable();
        plan.nodes.push(PlannedNode {
            name: names.next(&packing.problem.input.pools[pool as usize].name),
            pool,
            capacity_type: parts.capacity_type,
            zones,
            types: parts.types.clone(),
            price: parts.price,
            reservation: parts.reservation.clone(),
            pods,
            labels,
            taints: packing.problem.input.pools[pool as usize].taints.clone().into(),
            requests,
        });
    }
    plan
}

struct Places {
    rooms: Vec<(u32, u32)>,
    machines: Vec<Vec<u32>>,
    order: Vec<u32>,
    waiting: Vec<u32>,
}

/// Hands the pods of each class to the places that took them, in the order of the events.
fn pods_by_place(packing: &Packing<'_, '_>) -> Places {
    let classes = &packing.problem.classes;
    let mut next = vec![0_usize; classes.len()];
    let mut places = Places {
        rooms: Vec::new(),
        machines: vec![Vec::new(); packing.home.len()],
        order: Vec::with_capacity(packing.problem.input.pods.len()),
        waiting: Vec::new(),
    };
    for event in &packing.events {
        let from = next[event.class as usize];
        let pods = &classes[event.class as usize].pods[from..from + event.count as usize];
        next[event.class as usize] += pods.len();
        places.order.extend(pods);
        match event.place {
            Place::ExistingNode(at) => {
                places.rooms.extend(pods.iter().map(|pod| (*pod, packing.rooms[at as usize].node)))
            }
            Place::New(id) => places.machines[id as usize].extend(pods),
        }
    }
    let rest = |(class, from): (&Class, &usize)| class.pods[*from..].to_vec();
    places.waiting = classes.iter().zip(&next).flat_map(rest).collect();
    places.waiting.sort_unstable();
    places
}

/// Numbers machines per pool, passing over names that nodes of the input have.
struct Names {
    taken: BTreeSet<Text>,
    next: BTreeMap<Text, u32>,
}

impl Names {
    fn new(packing: &Packing<'_, '_>) -> Self {
        Self {
            taken: packing.problem.input.nodes.iter().map(|node| node.name.clone()).collect(),
            next: BTreeMap::new(),
        }
    }

    fn next(&mut self, pool: &Text) -> Text {
        let number = self.next.entry(pool.clone()).or_insert(0);
        loop {
            *number += 1;
            let name = Text::from(format!("{pool}-{number}"));
            if !self.taken.contains(&name) {
                return name;
            }
        }
    }
}

/// `None` only for a machine without any option, which packing never opens.
fn shared_of<'p>(
    packing: &mut Packing<'p, '_>,
    home: usize,
    type_labels: &mut BTreeMap<u32, TypeLabels<'p>>,
) -> Option<Shared> {
    let problem = packing.problem;
    let cohort = packing.cohorts[home].clone();
    let pool = &problem.input.pools[cohort.pool as usize];
    let market = problem.markets[cohort.pool as usize].as_ref()?;
    let options = options_of(packing, &cohort, market);
    charge_largest(packing, &cohort, market, &options);
    let slots = packing.slots_of_fit(cohort.fit).clone();
    let first_option = *options.first()?;
    let first = &market.machines[first_option];
    let price = first.cheapest_in(&slots).map_or(MicroUsd(0), |(_, price)| price);
    let at_best = first.prices.iter().filter(|(slot, p)| *p == price && slots.contains(usize::from(*slot)));
    let mut best_zones: Vec<Text> = at_best.map(|(slot, _)| market.slots[usize::from(*slot)].zone.clone()).collect();
    best_zones.sort();
    best_zones.dedup();
    let offered = |slot: &usize| options.iter().any(|at| market.machines[*at].slots.contains(*slot));
    let zones: BTreeSet<Text> = slots.iter().filter(offered).map(|slot| market.slots[slot].zone.clone()).collect();
    let type_labels = type_labels.entry(cohort.pool).or_insert_with(|| TypeLabels::new(pool, market));
    let a_slot = slots.iter().find(offered).map(|slot| &market.slots[slot]);
    Some(Shared {
        types: options.iter().map(|at| market.machines[*at].index).collect(),
        other_zones: zones.into_iter().filter(|zone| !best_zones.contains(zone)).collect(),
        best_zones,
        price,
        capacity_type: a_slot.map_or(CapacityType::OnDemand, |slot| slot.capacity_type),
        reservation: a_slot.and_then(|slot| slot.reservation.clone()),
        first_option,
        labels: labels_of(pool, type_labels, &options, &slots, &packing.fits.fit(cohort.fit).open_labels),
        slots,
    })
}

/// Cheapest first; every one carries what stands on the machine, and keeps the pool's limits, shares and `minValues`.
fn options_of(packing: &mut Packing<'_, '_>, cohort: &Cohort, market: &PoolSupply) -> Vec<usize> {
    let ranked = packing.fits.ranked(cohort.fit, market);
    let target = &market.machines[cohort.target as usize];
    let limits = &packing.limits[cohort.pool as usize];
    let machines = i64::try_from(cohort.ids.len()).unwrap_or(i64::MAX);
    let within = |at: usize| {
        let more = market.machines[at].charge.iter().zip(&cohort.charged).map(|(new, old)| (new - old) * machines);
        more.zip(limits).all(|(more, left)| more <= 0 || more <= *left)
    };
    let fixed = packing.ledger.is_fixed(cohort.pool);
    let suits = |at: &usize| {
        axis::fits(&cohort.used, &market.rooms[*at])
            && within(*at)
            && (!fixed || market.machines[*at].vcpu_milli == target.vcpu_milli)
    };
    named(ranked.iter().map(|(_, at)| *at).filter(suits), market)
}

/// The options that a launch names out of `all`, in their order: as many as it may have, exotic ones only when there is
/// nothing else, and such that `minValues` hold if they can.
pub(super) fn named(all: impl Iterator<Item = usize>, market: &PoolSupply) -> Vec<usize> {
    if !market.varieties.is_empty() {
        return flexible(&all.collect::<Vec<_>>(), market);
    }
    let (mut ordinary, mut exotic) = (Vec::new(), Vec::new());
    for at in all {
        let options = if market.machines[at].exotic { &mut exotic } else { &mut ordinary };
        if options.len() < MAX_OPTIONS {
            options.push(at);
        }
        if ordinary.len() == MAX_OPTIONS {
            break;
        }
    }
    if ordinary.is_empty() { exotic } else { ordinary }
}

/// The cheapest options that keep `minValues` within the number of options that a launch may have.
fn flexible(all: &[usize], market: &PoolSupply) -> Vec<usize> {
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    for variety in &market.varieties {
        let missing = variety.missing(all, chosen.iter().map(|place| all[*place]));
        chosen.extend(missing);
    }
    chosen.insert(0);
    for place in 0..all.len() {
        if chosen.len() >= MAX_OPTIONS {
            break;
        }
        chosen.insert(place);
    }
    chosen.into_iter().filter_map(|place| all.get(place).copied()).collect()
}

/// Charges the pool for the largest option instead of what was reserved, so that limits hold whichever is launched.
fn charge_largest(packing: &mut Packing<'_, '_>, cohort: &Cohort, market: &PoolSupply, options: &[usize]) {
    let machines = i64::try_from(cohort.ids.len()).unwrap_or(i64::MAX);
    let charged = &cohort.charged;
    for (at, left) in packing.limits[cohort.pool as usize].iter_mut().enumerate() {
        let largest = options.iter().map(|option| market.machines[*option].charge[at]).max().unwrap_or(charged[at]);
        *left -= (largest - charged[at]) * machines;
    }
}

/// The zone with the fewest machines of the pool among those with the least price, then the others by name.
fn zones_for(packing: &Packing<'_, '_>, pool: u32, parts: &Shared) -> Arc<[Text]> {
    let mut best = parts.best_zones.clone();
    best.sort_by_key(|zone| (packing.ledger.in_zone(pool, zone), zone.clone()));
    let mut rest: Vec<Text> = best.split_off(1.min(best.len()));
    rest.extend(parts.other_zones.iter().cloned());
    rest.sort();
    best.into_iter().chain(rest).collect()
}

fn labels_in(parts: &Shared, zones: &Arc<[Text]>) -> Arc<Labels> {
    let mut labels = parts.labels.clone();
    if let [zone] = &**zones {
        labels.insert(Text::from(ZONE), zone.clone());
    }
    Arc::new(labels)
}

/// Labels known and common to all options.
pub(super) fn labels_of(
    pool: &NodePool,
    types: &mut TypeLabels<'_>,
    options: &[usize],
    slots: &BitSet,
    open: &Requirements,
) -> Labels {
    let mut labels = pool.labels.clone();
    labels.insert(NODEPOOL.into(), pool.name.clone());
    labels.insert(NODECLASS.into(), pool.node_class.clone());
    labels.extend(types.common(options).map(|(key, value)| (key.clone(), value.clone())));
    add_slot_labels(&mut labels, types.market(), options, slots);
    for requirement in open.iter().filter(|requirement| requirement.operator() != Operator::DoesNotExist) {
        let unknown = !labels.contains_key(requirement.key()) && !requirement.allows_absence();
        if unknown && let Some(value) = requirement.representative() {
            labels.insert(requirement.key().clone(), value);
        }
    }
    labels
}

fn add_slot_labels(labels: &mut Labels, market: &PoolSupply, options: &[usize], slots: &BitSet) {
    let offered = |slot: &usize| options.iter().any(|at| market.machines[*at].slots.contains(*slot));
    let used: Vec<_> = slots.iter().filter(offered).map(|slot| &market.slots[slot]).collect();
    let Some(first) = used.first() else { return };
    labels.insert(CAPACITY_TYPE.into(), first.capacity_type.as_str().into());
    for (key, value) in &first.labels {
        if used.iter().all(|slot| slot.labels.get(key) == Some(value)) {
            labels.insert(key.clone(), value.clone());
        }
    }
}

/// What the pods of one machine ask for, and the daemons of its first option in `zone`.
fn requests_in(
    packing: &Packing<'_, '_>,
    pool: u32,
    parts: &Shared,
    pods: &[u32],
    (zone, labels): (&Text, &Labels),
) -> Resources {
    let Some(market) = &packing.problem.markets[pool as usize] else { return Resources::new() };
    let mut here = parts.slots.clone();
    parts.slots.iter().filter(|slot| market.slots[*slot].zone != *zone).for_each(|slot| here.remove(slot));
    let slot = market.machines[parts.first_option].cheapest_in(&here).map_or(0, |(slot, _)| usize::from(slot));
    requests_of(packing.problem.input, pods, market, &packing.fits, (parts.first_option, slot, labels))
}

/// What `pods` ask for, and the daemons of machine `machine` bought in `slot` with `labels`.
pub(super) fn requests_of(
    input: &PlanningInput,
    pods: &[u32],
    market: &PoolSupply,
    fits: &FitTable,
    (machine, slot, labels): (usize, usize, &Labels),
) -> Resources {
    let mut sum = Resources::new();
    for pod in pods {
        sum.add(&input.shapes[input.pods[*pod as usize].shape as usize].requests);
    }
    let suits = |fit: &FitId| {
        let fit = fits.fit(*fit);
        let open = fit.open_labels.iter().all(|requirement| label_satisfies(labels, requirement));
        open && fit.types.contains(machine) && fit.slots.contains(slot)
    };
    for (daemon, _) in market.daemons.iter().filter(|(_, suited)| suited.iter().any(suits)) {
        sum.add(&input.shapes[input.daemons[*daemon as usize].shape as usize].requests);
    }
    sum
}
