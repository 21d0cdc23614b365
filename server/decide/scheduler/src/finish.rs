//! From cohorts to a plan: the launch options of every machine, its cheapest zone, and its pods.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bit_set::BitSet;
use super::classes::Class;
use super::fits::{FitId, FitTable};
use super::machine_cost::credits;
use super::machines::{Cohort, Destination};
use super::packing::Packing;
use super::pool_supply::PoolSupply;
use super::resource_vector::{self, CPU_AT};
use super::type_labels::TypeLabels;
use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, NODECLASS, NODEPOOL, ZONE};
use model::plan::{Plan, PlannedNode};
use model::requirements::label_satisfies;
use model::resources::CPU;
use model::{
    Burstable, CapacityType, Labels, MicroUsd, NodeName, Operator, PoolName, Requirements, Resources, Text, Zone,
};

/// Maximum number of launch options per EC2 Fleet request (Karpenter AWS §4.1).
const MAX_OPTIONS: usize = 60;

/// What the machines of one cohort have in common.
struct CohortLaunch {
    types: Arc<[u32]>,
    /// Zones with the least price; the others follow.
    best_zones: Vec<Zone>,
    other_zones: Vec<Zone>,
    price: MicroUsd,
    burstable: Option<Burstable>,
    capacity_type: CapacityType,
    reservation: Option<Text>,
    first_option: usize,
    slots: BitSet,
    labels: Labels,
}

/// Turns the packing into a plan.
pub(super) fn finish(mut packing: Packing<'_, '_>) -> Plan {
    let destinations = pods_by_destination(&packing);
    let mut plan = Plan { order: destinations.order, placements: destinations.existing_nodes, ..Plan::default() };
    plan.placements.sort_unstable();
    plan.unschedulable = destinations.unplaced;
    let mut machines: Vec<(u32, u32)> =
        (0_u32..).zip(&destinations.machines).filter_map(|(id, pods)| Some((*pods.first()?, id))).collect();
    // Canonical order, by pool and first pod: zones are chosen and names numbered in it.
    machines.sort_by_key(|(pod, id)| (packing.cohorts[packing.cohort_of[*id as usize] as usize].pool, *pod, *id));
    let mut shared: BTreeMap<u32, CohortLaunch> = BTreeMap::new();
    let mut in_zone: BTreeMap<(u32, Zone), (Arc<Labels>, Resources)> = BTreeMap::new();
    let mut names = NodeNames::new(&packing);
    let mut type_labels: BTreeMap<u32, TypeLabels<'_>> = BTreeMap::new();
    for (_, id) in machines {
        let cohort_index = packing.cohort_of[id as usize];
        let pool = packing.cohorts[cohort_index as usize].pool;
        let pods = &destinations.machines[id as usize];
        if let Entry::Vacant(slot) = shared.entry(cohort_index) {
            let Some(parts) = cohort_launch(&mut packing, cohort_index as usize, &mut type_labels) else { continue };
            slot.insert(parts);
        }
        let parts = &shared[&cohort_index];
        let zones = zones_for(&packing, pool, parts);
        packing.pool_counts.add_to_zone(pool, &zones[0]);
        let in_zone = in_zone.entry((cohort_index, zones[0].clone())).or_insert_with(|| {
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
            credits: credits(parts.burstable, requests.get(CPU)),
            reservation: parts.reservation.clone(),
            pods,
            labels,
            taints: packing.problem.input.pools[pool as usize].taints.clone().into(),
            requests,
        });
    }
    plan
}

struct PodsByDestination {
    existing_nodes: Vec<(u32, u32)>,
    machines: Vec<Vec<u32>>,
    order: Vec<u32>,
    unplaced: Vec<u32>,
}

/// Assigns the pods of each class to their destinations, in the order of the placement events.
fn pods_by_destination(packing: &Packing<'_, '_>) -> PodsByDestination {
    let classes = &packing.problem.classes;
    let mut next = vec![0_usize; classes.len()];
    let mut destinations = PodsByDestination {
        existing_nodes: Vec::new(),
        machines: vec![Vec::new(); packing.cohort_of.len()],
        order: Vec::with_capacity(packing.problem.input.pods.len()),
        unplaced: Vec::new(),
    };
    for event in &packing.events {
        let from = next[event.class as usize];
        let pods = &classes[event.class as usize].pods[from..from + event.count as usize];
        next[event.class as usize] += pods.len();
        destinations.order.extend(pods);
        match event.destination {
            Destination::Existing(at) => destinations
                .existing_nodes
                .extend(pods.iter().map(|pod| (*pod, packing.existing_nodes[at as usize].node))),
            Destination::New(id) => destinations.machines[id as usize].extend(pods),
        }
    }
    let rest = |(class, from): (&Class, &usize)| class.pods[*from..].to_vec();
    destinations.unplaced = classes.iter().zip(&next).flat_map(rest).collect();
    destinations.unplaced.sort_unstable();
    destinations
}

/// Numbers machines per pool, skipping names that nodes of the input have.
struct NodeNames {
    taken: BTreeSet<NodeName>,
    next: BTreeMap<PoolName, u32>,
}

impl NodeNames {
    fn new(packing: &Packing<'_, '_>) -> Self {
        Self {
            taken: packing.problem.input.nodes.iter().map(|node| node.name.clone()).collect(),
            next: BTreeMap::new(),
        }
    }

    fn next(&mut self, pool: &PoolName) -> NodeName {
        let number = self.next.entry(pool.clone()).or_insert(0);
        loop {
            *number += 1;
            let name = NodeName::from(format!("{pool}-{number}"));
            if !self.taken.contains(&name) {
                return name;
            }
        }
    }
}

/// `None` only for a machine without any option, which packing never opens.
fn cohort_launch<'p>(
    packing: &mut Packing<'p, '_>,
    cohort_index: usize,
    type_labels: &mut BTreeMap<u32, TypeLabels<'p>>,
) -> Option<CohortLaunch> {
    let problem = packing.problem;
    let cohort = packing.cohorts[cohort_index].clone();
    let pool = &problem.input.pools[cohort.pool as usize];
    let supply = problem.supplies[cohort.pool as usize].as_ref()?;
    let options = options_of(packing, &cohort, supply);
    // Charged before the options of the next cohort are chosen, so that limits hold for all.
    charge_largest(packing, &cohort, supply, &options);
    let slots = packing.slots_of_fit(cohort.fit).clone();
    let first_option = *options.first()?;
    let first = &supply.instance_types[first_option];
    let price = first.cheapest_in(&slots).map_or(MicroUsd(0), |(_, price)| price);
    let at_best = first.prices.iter().filter(|(slot, p)| *p == price && slots.contains(usize::from(*slot)));
    let mut best_zones: Vec<Zone> = at_best.map(|(slot, _)| supply.slots[usize::from(*slot)].zone.clone()).collect();
    best_zones.sort();
    best_zones.dedup();
    let offered = |slot: &usize| options.iter().any(|at| supply.instance_types[*at].slots.contains(*slot));
    let zones: BTreeSet<Zone> = slots.iter().filter(offered).map(|slot| supply.slots[slot].zone.clone()).collect();
    let type_labels = type_labels.entry(cohort.pool).or_insert_with(|| TypeLabels::new(pool, supply));
    let a_slot = slots.iter().find(offered).map(|slot| &supply.slots[slot]);
    Some(CohortLaunch {
        types: options.iter().map(|at| supply.instance_types[*at].index).collect(),
        other_zones: zones.into_iter().filter(|zone| !best_zones.contains(zone)).collect(),
        best_zones,
        price,
        burstable: first.burstable,
        capacity_type: a_slot.map_or(CapacityType::OnDemand, |slot| slot.capacity_type),
        reservation: a_slot.and_then(|slot| slot.reservation.clone()),
        first_option,
        labels: labels_of(type_labels, &options, &slots, &packing.fits.fit(cohort.fit).open_labels),
        slots,
    })
}

/// The type with the least price and credits, then others by price. Every option carries the
/// machine's pods and keeps the pool's limits, spot share and `minValues`.
fn options_of(packing: &mut Packing<'_, '_>, cohort: &Cohort, supply: &PoolSupply) -> Vec<usize> {
    let ranked = packing.fits.ranked(cohort.fit, supply);
    let target = &supply.instance_types[cohort.target_type as usize];
    let limits = &packing.limits[cohort.pool as usize];
    let machines = i64::try_from(cohort.ids.len()).unwrap_or(i64::MAX);
    let within = |at: usize| {
        let more =
            supply.instance_types[at].charge.iter().zip(&cohort.charged).map(|(new, old)| (new - old) * machines);
        more.zip(limits).all(|(more, left)| more <= 0 || more <= *left)
    };
    let fixed = packing.pool_counts.is_size_fixed(cohort.pool);
    let is_suitable = |at: &usize| {
        resource_vector::fits(&cohort.used, &supply.net_allocatable[*at])
            && within(*at)
            && (!fixed || supply.instance_types[*at].vcpu_milli == target.vcpu_milli)
    };
    let suitable: Vec<(MicroUsd, usize)> = ranked.iter().filter(|(_, at)| is_suitable(at)).copied().collect();
    if suitable.iter().all(|(_, at)| supply.instance_types[*at].burstable.is_none()) {
        return select_options(suitable.iter().map(|(_, at)| *at), supply);
    }
    // Exotic types are options only where there are no others.
    let ordinary = |(_, at): &&(MicroUsd, usize)| !supply.instance_types[*at].exotic;
    let only_ordinary: Vec<(MicroUsd, usize)> = suitable.iter().filter(ordinary).copied().collect();
    let flexible = !supply.min_values_rules.is_empty();
    let candidates = if flexible || only_ordinary.is_empty() { suitable } else { only_ordinary };
    let keeps_min_values = |options: &[usize]| {
        let options = select_options(options.iter().copied(), supply);
        supply.min_values_rules.iter().all(|rule| rule.is_met_by(&options))
    };
    let options = supply.options_by_cost(&candidates, cohort.used[CPU_AT], keeps_min_values);
    select_options(options.into_iter(), supply)
}

/// The options that a launch names out of `all`, in their order: up to the maximum, exotic ones
/// only when there is no other, and chosen so that `minValues` hold if possible.
pub(super) fn select_options(all: impl Iterator<Item = usize>, supply: &PoolSupply) -> Vec<usize> {
    if !supply.min_values_rules.is_empty() {
        return select_for_min_values(&all.collect::<Vec<_>>(), supply);
    }
    let (mut ordinary, mut exotic) = (Vec::new(), Vec::new());
    for at in all {
        let options = if supply.instance_types[at].exotic { &mut exotic } else { &mut ordinary };
        if options.len() < MAX_OPTIONS {
            options.push(at);
        }
        if ordinary.len() == MAX_OPTIONS {
            break;
        }
    }
    if ordinary.is_empty() { exotic } else { ordinary }
}

/// The cheapest options that meet `minValues` within the maximum number of options.
fn select_for_min_values(all: &[usize], supply: &PoolSupply) -> Vec<usize> {
    let mut chosen: BTreeSet<usize> = BTreeSet::new();
    for rule in &supply.min_values_rules {
        let missing = rule.missing(all, chosen.iter().map(|place| all[*place]));
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

/// Replaces the reserved charge by that of the largest option, so that limits hold whichever is
/// launched.
fn charge_largest(packing: &mut Packing<'_, '_>, cohort: &Cohort, supply: &PoolSupply, options: &[usize]) {
    let machines = i64::try_from(cohort.ids.len()).unwrap_or(i64::MAX);
    let charged = &cohort.charged;
    for (at, left) in packing.limits[cohort.pool as usize].iter_mut().enumerate() {
        let largest =
            options.iter().map(|option| supply.instance_types[*option].charge[at]).max().unwrap_or(charged[at]);
        *left -= (largest - charged[at]) * machines;
    }
}

/// The zone with the fewest nodes of the pool among those with the least price, then the others by
/// name.
fn zones_for(packing: &Packing<'_, '_>, pool: u32, parts: &CohortLaunch) -> Arc<[Zone]> {
    let mut best = parts.best_zones.clone();
    best.sort_by_key(|zone| (packing.pool_counts.nodes_in_zone(pool, zone), zone.clone()));
    let mut rest: Vec<Zone> = best.split_off(1.min(best.len()));
    rest.extend(parts.other_zones.iter().cloned());
    rest.sort();
    best.into_iter().chain(rest).collect()
}

fn labels_in(parts: &CohortLaunch, zones: &Arc<[Zone]>) -> Arc<Labels> {
    let mut labels = parts.labels.clone();
    if let [zone] = &**zones {
        labels.insert(Text::from(ZONE), zone.as_text().clone());
    }
    Arc::new(labels)
}

/// Labels known and common to all options.
pub(super) fn labels_of(types: &mut TypeLabels<'_>, options: &[usize], slots: &BitSet, open: &Requirements) -> Labels {
    let pool = types.pool();
    let mut labels = pool.labels.clone();
    labels.insert(NODEPOOL.into(), pool.name.as_text().clone());
    labels.insert(NODECLASS.into(), pool.node_class.clone());
    labels.extend(types.common(options).map(|(key, value)| (key.clone(), value.clone())));
    add_offering_labels(&mut labels, types.supply(), options, slots);
    for requirement in open.iter().filter(|requirement| requirement.operator() != Operator::DoesNotExist) {
        let unknown = !labels.contains_key(requirement.key()) && !requirement.allows_absence();
        if unknown && let Some(value) = requirement.representative() {
            labels.insert(requirement.key().clone(), value);
        }
    }
    labels
}

fn add_offering_labels(labels: &mut Labels, supply: &PoolSupply, options: &[usize], slots: &BitSet) {
    let offered = |slot: &usize| options.iter().any(|at| supply.instance_types[*at].slots.contains(*slot));
    let used: Vec<_> = slots.iter().filter(offered).map(|slot| &supply.slots[slot]).collect();
    let Some(first) = used.first() else { return };
    labels.insert(CAPACITY_TYPE.into(), first.capacity_type.as_str().into());
    for (key, value) in first.labels.iter() {
        if used.iter().all(|slot| slot.labels.get(key) == Some(value)) {
            labels.insert(key.clone(), value.clone());
        }
    }
}

/// Requests of the pods of one machine, and of the DaemonSets of its first option in `zone`.
fn requests_in(
    packing: &Packing<'_, '_>,
    pool: u32,
    parts: &CohortLaunch,
    pods: &[u32],
    (zone, labels): (&Zone, &Labels),
) -> Resources {
    let Some(supply) = &packing.problem.supplies[pool as usize] else { return Resources::new() };
    let mut in_zone = parts.slots.clone();
    parts.slots.iter().filter(|slot| supply.slots[*slot].zone != *zone).for_each(|slot| in_zone.remove(slot));
    let slot = supply.instance_types[parts.first_option].cheapest_in(&in_zone).map_or(0, |(slot, _)| usize::from(slot));
    requests_of(packing.problem.input, pods, supply, &packing.fits, (parts.first_option, slot, labels))
}

/// Requests of `pods`, and of the DaemonSets of type `instance_type` launched in `slot` with
/// `labels`.
pub(super) fn requests_of(
    input: &PlanningInput,
    pods: &[u32],
    supply: &PoolSupply,
    fits: &FitTable,
    (instance_type, slot, labels): (usize, usize, &Labels),
) -> Resources {
    let mut sum = Resources::new();
    for pod in pods {
        sum.add(&input.shapes[input.pods[*pod as usize].shape as usize].requests);
    }
    let is_suitable = |fit: &FitId| {
        let fit = fits.fit(*fit);
        let open = fit.open_labels.iter().all(|requirement| label_satisfies(labels, requirement));
        open && fit.types.contains(instance_type) && fit.slots.contains(slot)
    };
    for (daemon, _) in supply.daemons.iter().filter(|(_, matching)| matching.iter().any(is_suitable)) {
        sum.add(&input.shapes[input.daemons[*daemon as usize].shape as usize].requests);
    }
    sum
}
