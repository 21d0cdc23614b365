//! Opening machines: which instance type to launch for unplaced pods, and how many.
//!
//! Pools are tried tier by tier; within a tier cost decides (`machine_cost`). The capacity type is chosen first
//! (reserved, spot, on-demand), then the type with the least effective cost per pod: its cost less
//! the value of its spare capacity for the unplaced demand, divided by the pods it takes. For the
//! best few, `lookahead` tries which queued classes would fill the rest.

use rustc_hash::FxHashMap;

use super::bit_set::BitSet;
use super::classes::{PreferenceSet, in_force};
use super::cohorts::CountedKey;
use super::fits::FitId;
use super::lookahead::{Candidate, Shortlist};
use super::machines::Cohort;
use super::packing::Packing;
use super::patterns::{KeptRoom, MachinePattern};
use super::pool_offerings::PoolInstanceType;
use super::pool_supply::PoolSupply;
use super::resource_vector::{self, CPU_AT};
use super::topology::{Pin, Topology};
use model::{CapacityType, MicroUsd};

/// Discount on spare capacity against requested capacity: a type of the right size wins over a
/// larger one whose rest may stay empty.
const SPARE_VALUE_FACTOR: f64 = 0.9;

/// A machine that could be opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchChoice {
    pub(super) pool: u32,
    pub(super) fit: FitId,
    pub(super) instance_type: u32,
    pub(super) capacity_type: CapacityType,
    /// Pods per machine.
    pub(super) each: u32,
    /// Maximum number of machines, for reasons other than demand.
    pub(super) most: u32,
    score: f64,
    /// Cost of one machine with these pods.
    cost: MicroUsd,
}

impl Packing<'_, '_> {
    /// Opens machines for up to `count` pods of `class`; returns the number placed.
    pub(super) fn launch(&mut self, class: u32, count: u32, pins: &[Pin], preferences: PreferenceSet) -> u32 {
        let problem = self.problem;
        if self.patterns.are_in_use() {
            return self.launch_pattern(class, count, pins, preferences);
        }
        for tier in &problem.tiers {
            let mut best: Option<LaunchChoice> = None;
            for pool in tier {
                if let Some(choice) = self.choice_in(*pool, class, count, pins, preferences)
                    && best.as_ref().is_none_or(|known| is_better(&choice, known))
                {
                    best = Some(choice);
                }
            }
            if let Some(choice) = best {
                return self.open_machines(choice, class, count);
            }
        }
        0
    }

    /// Opens machines of a pattern that begins with `class`, and keeps their room for its other
    /// classes.
    fn launch_pattern(&mut self, class: u32, count: u32, pins: &[Pin], preferences: PreferenceSet) -> u32 {
        if self.all_on_one_machine {
            return 0;
        }
        for (at, pattern) in self.patterns.next(class, pins) {
            let Some(choice) = self.choice_of_pattern(&pattern, count, pins, preferences) else { continue };
            let before = self.cohort_of.len();
            let placed = self.open_machines(choice, class, count);
            if placed > 0 {
                let machines = self.cohort_of.len() - before;
                self.patterns.use_up(at, u32::try_from(machines).unwrap_or(u32::MAX));
                let cohort = self.cohort_of[before] as usize;
                self.cohorts[cohort].kept = KeptRoom::of(&pattern.pods[1..]);
                return placed;
            }
        }
        0
    }

    /// The machine of `pattern`, as far as every rule allows it for the pods of its first class.
    fn choice_of_pattern(
        &mut self,
        pattern: &MachinePattern,
        count: u32,
        pins: &[Pin],
        preferences: PreferenceSet,
    ) -> Option<LaunchChoice> {
        let MachinePattern { pool, pin, capacity_type, instance_type, .. } = *pattern;
        let (class, each) = *pattern.pods.first()?;
        let own = pin.filter(|own| !pins.contains(own));
        let pins: smallvec::SmallVec<[Pin; 2]> = pins.iter().copied().chain(own).collect();
        if self.nodes_left[pool as usize] < 1 || !self.min_values_possible(pool) {
            return None;
        }
        let supply = self.problem.supplies[pool as usize].as_ref()?;
        let offered = &supply.instance_types[instance_type as usize];
        let (cap, most) = self.new_machine_cap(class, preferences);
        let each = each.min(cap).min(count).min(self.pool_counts.pods_per_node(pool, count));
        let (nothing, request) = (self.problem.resources.zero(), &self.problem.classes[class as usize].request);
        let spot = capacity_type == CapacityType::Spot;
        if !self.within_limits(pool, offered) || (spot && !self.spot_share_allows(pool, offered.vcpu_milli)) {
            return None;
        }
        for fit in self.fits_by_counted_domain(class, preferences, pool, &pins) {
            let mut slots = self.slots_by_capacity(class, fit, pool);
            if self.pool_counts.has_min_values(pool) {
                slots = split_reservations(slots);
            }
            let Some((_, slots)) = slots.into_iter().find(|(known, _)| *known == capacity_type) else { continue };
            let Some(fit) = self.fits.within_slots(fit, &slots, supply) else { continue };
            let Some(fit) = self.narrow_to_balanced_zone(class, fit, pool) else { continue };
            let options = self.fits.fit(fit);
            let Some((_, price)) = offered.cheapest_in(&options.slots) else { continue };
            if !options.types.contains(instance_type as usize) || self.adds_domain(fit, pool) {
                continue;
            }
            let each = each
                .min(resource_vector::copies(request, &supply.net_allocatable[instance_type as usize], each))
                .min(self.count_meeting_min_values(pool, (fit, instance_type), (&nothing, &[]), request, each));
            if each > 0 {
                let most = most.min(pattern.machines);
                let cost = supply.cost(instance_type as usize, price, request[CPU_AT] * i64::from(each));
                return Some(LaunchChoice { pool, fit, instance_type, capacity_type, each, most, score: 0.0, cost });
            }
        }
        None
    }

    /// Whether machines for `count` pods can be launched in the domains `pins` whatever else is
    /// launched: some pool offers them outside of reservations, which run out, and no limit is
    /// near.
    pub(super) fn can_always_launch(
        &mut self,
        class: u32,
        count: u32,
        preferences: PreferenceSet,
        pins: &[Pin],
    ) -> bool {
        let pools: Vec<u32> = self.problem.tiers.iter().flatten().copied().collect();
        pools.into_iter().any(|pool| {
            if !self.limits_are_far(pool, class, count) {
                return false;
            }
            // A machine takes at least one pod. Pods per machine matter only when one machine per
            // pod exceeds the limits.
            if self.limits_hold(pool, count) {
                return self.offers_one(pool, class, pins, preferences);
            }
            let Some(choice) = self.choice_in(pool, class, count, pins, preferences) else { return false };
            choice.capacity_type != CapacityType::Reserved && self.limits_hold(pool, count.div_ceil(choice.each.max(1)))
        })
    }

    /// Whether the limits of `pool` allow twice this number of machines of any type.
    fn limits_hold(&self, pool: u32, machines: u32) -> bool {
        let Some(supply) = &self.problem.supplies[pool as usize] else { return false };
        let mut limits = supply.max_charge.iter().zip(&self.limits[pool as usize]);
        limits.all(|(most, left)| most.saturating_mul(2 * i64::from(machines)) <= *left)
    }

    fn limits_are_far(&self, pool: u32, class: u32, count: u32) -> bool {
        let Some(supply) = &self.problem.supplies[pool as usize] else { return false };
        if self.pool_counts.is_stateful(pool) || self.nodes_left[pool as usize] < i64::from(count) {
            return false;
        }
        let requested = |name: &str| {
            let place = self.problem.resources.position(name);
            place.map_or(0, |place| self.problem.classes[class as usize].request[place])
        };
        let mut limits = self.limits[pool as usize].iter().zip(&supply.max_charge).zip(&supply.limited);
        limits.all(|((left, most), name)| left - most > requested(name).saturating_mul(2 * i64::from(count)))
    }

    /// Whether [`Packing::choice_in`] finds a machine for one pod of `class` in a pool that is not
    /// stateful, reservations excluded.
    fn offers_one(&mut self, pool: u32, class: u32, pins: &[Pin], preferences: PreferenceSet) -> bool {
        let problem = self.problem;
        let Some(supply) = problem.supplies[pool as usize].as_ref() else { return false };
        if self.nodes_left[pool as usize] < 1 || self.new_machine_cap(class, preferences).0 == 0 {
            return false;
        }
        let nothing = problem.resources.zero();
        let request = &problem.classes[class as usize].request;
        self.fits_by_counted_domain(class, preferences, pool, pins).into_iter().any(|fit| {
            let slots = self.slots_by_capacity(class, fit, pool).into_iter();
            let mut lasting = slots.filter(|(capacity_type, _)| *capacity_type != CapacityType::Reserved);
            lasting.any(|(_, slots)| {
                let Some(fit) = self.fits.within_slots(fit, &slots, supply) else { return false };
                let options = self.fits.fit(fit);
                let is_suitable = |at: &usize| {
                    self.steps.consume(1);
                    let instance_type = &supply.instance_types[*at];
                    resource_vector::copies(request, &supply.net_allocatable[*at], 1) > 0
                        && self.within_limits(pool, instance_type)
                        && instance_type.slots.overlaps(&options.slots)
                };
                let found = options.types.iter().find(is_suitable).and_then(|at| u32::try_from(at).ok());
                found.is_some_and(|at| self.count_meeting_min_values(pool, (fit, at), (&nothing, &[]), request, 1) > 0)
            })
        })
    }

    /// The best machine of `pool` for `class`.
    fn choice_in(
        &mut self,
        pool: u32,
        class: u32,
        count: u32,
        pins: &[Pin],
        preferences: PreferenceSet,
    ) -> Option<LaunchChoice> {
        if self.nodes_left[pool as usize] < 1 || !self.min_values_possible(pool) {
            return None;
        }
        let mut best: Option<LaunchChoice> = None;
        for fit in self.fits_by_counted_domain(class, preferences, pool, pins) {
            let mut slots = self.slots_by_capacity(class, fit, pool);
            if self.pool_counts.has_min_values(pool) {
                slots = split_reservations(slots);
            }
            for (capacity_type, slots) in slots {
                let choice = self.choice_of(pool, class, count, fit, capacity_type, &slots, preferences);
                if let Some(choice) = choice {
                    if best.as_ref().is_none_or(|known| precedes(&choice, known)) {
                        best = Some(choice);
                    }
                    break;
                }
            }
        }
        best
    }

    /// [`Packing::pinned_fits`]; where the pool has `minValues`, one fit per domain of the counted
    /// keys, because `minValues` count within it.
    fn fits_by_counted_domain(
        &mut self,
        class: u32,
        preferences: PreferenceSet,
        pool: u32,
        pins: &[Pin],
    ) -> Vec<FitId> {
        let mut fits = self.pinned_fits(class, preferences, pool, pins);
        if !self.pool_counts.has_min_values(pool) {
            return fits;
        }
        for CountedKey { key, .. } in self.pinned_keys(class, pool) {
            let mut pinned = Vec::new();
            for fit in fits {
                let domains = self.domains_of_fit(fit, pool, key);
                pinned.extend(domains.iter().filter_map(|domain| self.pin(fit, pool, Pin { key, domain: *domain })));
                if domains.is_empty() {
                    pinned.push(fit);
                }
            }
            fits = pinned;
        }
        fits
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one evaluation of one rectangle of options; a struct would only rename them"
    )]
    fn choice_of(
        &mut self,
        pool: u32,
        class: u32,
        count: u32,
        fit: FitId,
        capacity_type: CapacityType,
        slots: &BitSet,
        preferences: PreferenceSet,
    ) -> Option<LaunchChoice> {
        let problem = self.problem;
        let supply = problem.supplies[pool as usize].as_ref()?;
        let fit = self.fits.within_slots(fit, slots, supply)?;
        let fit = self.narrow_to_balanced_zone(class, fit, pool)?;
        if self.adds_domain(fit, pool) {
            return None;
        }
        let (cap, most) = self.new_machine_cap(class, preferences);
        // Pods that must share a machine count as one towards the nodes that the pool misses.
        let scattered = if self.all_on_one_machine { count } else { self.pool_counts.pods_per_node(pool, count) };
        let cap = cap.min(count).min(scattered);
        if cap == 0 || (self.all_on_one_machine && cap < count) {
            return None;
        }
        let ranked = self.fits.ranked(fit, supply);
        // Exotic types are tried only when no ordinary type is possible.
        for exotic in [false, true] {
            let shortlist = self.shortlist(pool, class, (fit, &ranked), cap, count, exotic);
            let best = self.choose_by_lookahead(pool, class, count, shortlist);
            if let Some(Candidate { instance_type, each, score, cost, .. }) = best {
                return Some(LaunchChoice { pool, fit, instance_type, capacity_type, each, most, score, cost });
            }
        }
        None
    }

    /// The candidates of `fit` (sorted by price in `ranked`) with the least effective cost per pod;
    /// ordinary types, or exotic ones.
    fn shortlist(
        &self,
        pool: u32,
        class: u32,
        (fit, ranked): (FitId, &[(MicroUsd, usize)]),
        cap: u32,
        count: u32,
        exotic: bool,
    ) -> Shortlist {
        let mut shortlist = Shortlist::default();
        let problem = self.problem;
        let Some(supply) = &problem.supplies[pool as usize] else { return shortlist };
        let request = &problem.classes[class as usize].request;
        let options = self.fits.fit(fit);
        let ignore_exotic = self.pool_counts.has_min_values(pool);
        let nothing = problem.resources.zero();
        let mut flexible: FxHashMap<Option<i64>, u32> = FxHashMap::default();
        let spot = options.slots.iter().all(|slot| supply.slots[slot].capacity_type == CapacityType::Spot);
        for (price, at) in ranked.iter().copied() {
            self.steps.consume(1);
            let instance_type = &supply.instance_types[at];
            if (instance_type.exotic != exotic && !ignore_exotic) || !self.within_limits(pool, instance_type) {
                continue;
            }
            if spot && !self.spot_share_allows(pool, instance_type.vcpu_milli) {
                continue;
            }
            // The lower bound excludes a type before the exact evaluation, which costs more.
            let idle_cost = supply.cost(at, price, 0);
            if shortlist.excludes(self.least_score(class, &supply.net_allocatable[at], idle_cost, cap)) {
                continue;
            }
            let each = resource_vector::copies(request, &supply.net_allocatable[at], cap);
            if each == 0 {
                continue;
            }
            let kind = u32::try_from(at).unwrap_or(u32::MAX);
            let size = self.pool_counts.is_size_fixed(pool).then_some(instance_type.vcpu_milli);
            let flexible = flexible
                .entry(size)
                .or_insert_with(|| self.count_meeting_min_values(pool, (fit, kind), (&nothing, &[]), request, cap));
            let each = each.min(*flexible);
            if each == 0 || (self.all_on_one_machine && each < count) {
                continue;
            }
            let score = self.score(class, (supply, at), price, each, count);
            let cost = supply.cost(at, price, request[CPU_AT] * i64::from(each));
            shortlist.insert(Candidate { instance_type: kind, each, score, price, cost });
        }
        shortlist
    }

    fn within_limits(&self, pool: u32, instance_type: &PoolInstanceType) -> bool {
        instance_type.charge.iter().zip(&self.limits[pool as usize]).all(|(charge, left)| charge <= left)
    }

    /// Effective cost of one pod on a machine of type `at`, in micro-dollars per hour. Spare
    /// capacity is worth what its use would not add in credits.
    fn score(&self, class: u32, (supply, at): (&PoolSupply, usize), price: MicroUsd, each: u32, count: u32) -> f64 {
        let capacity = &supply.net_allocatable[at];
        let request = &self.problem.classes[class as usize].request;
        let machines = f64::from(count.div_ceil(each));
        let filled = |resource: usize| {
            let spare = (capacity[resource] - request[resource] * i64::from(each)).max(0) as f64;
            let others = self.unplaced_demand[resource] - request[resource] as f64 * f64::from(count);
            spare.min((others / machines).max(0.0))
        };
        let prices = self.problem.shadow_prices.iter().enumerate();
        let spare_value: f64 = prices.map(|(resource, per_unit)| per_unit * filled(resource)).sum();
        let cpu = request[CPU_AT] * i64::from(each);
        let cost = supply.cost(at, price, cpu).0;
        let added = supply.cost(at, price, cpu + filled(CPU_AT) as i64).0 - cost;
        (cost as f64 - (SPARE_VALUE_FACTOR * spare_value - added as f64).max(0.0)) / f64::from(each)
    }

    /// A lower bound of [`Packing::score`] for any unplaced demand and any rules between pods: each
    /// pod uses at least its request of the machine's value, and all spare capacity is used.
    fn least_score(&self, class: u32, capacity: &[i64], price: MicroUsd, cap: u32) -> f64 {
        let request = &self.problem.classes[class as usize].request;
        let (mut whole, mut each) = (0.0, 0.0);
        for ((price_per_unit, amount), ask) in self.problem.shadow_prices.iter().zip(capacity).zip(request) {
            whole += price_per_unit * (*amount).max(0) as f64;
            each += price_per_unit * *ask as f64;
        }
        let unfilled = price.0 as f64 - SPARE_VALUE_FACTOR * whole;
        let most = if each > 0.0 { (whole / each).min(f64::from(cap)) } else { f64::from(cap) };
        if unfilled < 0.0 { f64::NEG_INFINITY } else { unfilled / most + SPARE_VALUE_FACTOR * each }
    }

    /// Pods of `class` that rules between pods allow on an empty machine, and the number of such
    /// machines.
    fn new_machine_cap(&self, class: u32, preferences: PreferenceSet) -> (u32, u32) {
        let needs = &self.problem.classes[class as usize];
        let shape = &self.problem.input.shapes[needs.shape as usize];
        let cap = self.host_cap(class, &super::machines::HostTallies::default(), preferences);
        let together = needs.rules.iter().any(|rule| {
            rule.key == Topology::HOST
                && matches!(rule.kind, super::classes::RuleKind::Affinity { .. })
                && in_force(rule.preference, preferences)
        });
        (if shape.host_ports.is_empty() { cap } else { cap.min(1) }, if together { 1 } else { u32::MAX })
    }

    /// Opens the machines of `choice`.
    fn open_machines(&mut self, choice: LaunchChoice, class: u32, count: u32) -> u32 {
        let Some(supply) = &self.problem.supplies[choice.pool as usize] else { return 0 };
        let wanted = (count / choice.each).max(1);
        let each = choice.each.min(count);
        let mut used = self.problem.resources.zero();
        resource_vector::add(&mut used, &self.problem.classes[class as usize].request, each);
        let charged = self.charge_for(choice.pool, (choice.fit, choice.instance_type), (&used, &[]));
        let mut machines = wanted.min(choice.most).min(self.limit_on_machines(&choice, &charged));
        // Pinning may reduce the number of machines, so the limits are charged after it.
        let Some(fit) = self.pin_reservation_and_domains(&choice, class, supply, &mut machines) else { return 0 };
        let instance_type = &supply.instance_types[choice.instance_type as usize];
        for (left, charge) in self.limits[choice.pool as usize].iter_mut().zip(&charged) {
            *left -= charge * i64::from(machines);
        }
        self.nodes_left[choice.pool as usize] -= i64::from(machines);
        let first = u32::try_from(self.cohort_of.len()).unwrap_or(u32::MAX);
        self.cohort_of.resize(self.cohort_of.len() + machines as usize, 0);
        let cohort = Cohort {
            ids: (first..first + machines).collect(),
            pool: choice.pool,
            target_type: choice.instance_type,
            fit,
            charged,
            free: supply.net_allocatable[choice.instance_type as usize].clone(),
            used: self.problem.resources.zero(),
            ports: supply.daemon_ports.clone(),
            host: super::machines::HostTallies::default(),
            kept: KeptRoom::default(),
            growth: None,
        };
        let zone = self.only_zone(fit, supply);
        self.pool_counts.add_machines(
            choice.pool,
            choice.capacity_type,
            instance_type.vcpu_milli,
            zone,
            i64::from(machines),
        );
        let at = self.add_cohort(cohort);
        self.add_to_cohort(class, at, fit, each)
    }

    fn limit_on_machines(&self, choice: &LaunchChoice, charged: &[i64]) -> u32 {
        let by_charge = charged.iter().zip(&self.limits[choice.pool as usize]);
        let by_charge = by_charge.filter(|(charge, _)| **charge > 0).map(|(charge, left)| left / charge);
        let least = by_charge.chain([self.nodes_left[choice.pool as usize]]).min().unwrap_or(i64::MAX);
        let one_by_one = self.pool_counts.is_stateful(choice.pool);
        u32::try_from(least.max(0)).unwrap_or(u32::MAX).min(if one_by_one { 1 } else { u32::MAX })
    }

    /// Pins what must be unique per machine: its reservation, and the domain of every key under
    /// which its pods are counted. May reduce the number of machines.
    fn pin_reservation_and_domains(
        &mut self,
        choice: &LaunchChoice,
        class: u32,
        supply: &PoolSupply,
        machines: &mut u32,
    ) -> Option<FitId> {
        let mut fit = choice.fit;
        if choice.capacity_type == CapacityType::Reserved {
            let instance_type = &supply.instance_types[choice.instance_type as usize];
            let (slot, _) = instance_type.cheapest_in(self.slots_of_fit(fit))?;
            let mut only = BitSet::empty(supply.slots.len());
            only.insert(usize::from(slot));
            fit = self.fits.within_slots(fit, &only, supply)?;
            let left = self.reservations.get_mut(supply.slots[usize::from(slot)].reservation.as_ref()?)?;
            *machines = (*machines).min(u32::try_from(*left).unwrap_or(0));
            *left -= i64::from(*machines);
        }
        // Each pin narrows the fit of the one before: domains are chosen within the reserved slot.
        for CountedKey { key, group, .. } in self.pinned_keys(class, choice.pool) {
            let domains = self.domains_of_fit(fit, choice.pool, key);
            let offered: Vec<_> = domains
                .iter()
                .copied()
                .filter(|domain| self.offers_target_in(fit, choice, Pin { key, domain: *domain }, supply))
                .collect();
            if let Some(domain) = offered.iter().copied().min_by_key(|domain| {
                (self.topology.tally(group, *domain).matched, self.topology.domain_name(key, *domain).clone())
            }) {
                *machines = (*machines).min(machines.div_ceil(u32::try_from(offered.len()).unwrap_or(1)));
                fit = self.pin(fit, choice.pool, Pin { key, domain })?;
            }
        }
        (*machines > 0).then_some(fit)
    }

    fn offers_target_in(&mut self, fit: FitId, choice: &LaunchChoice, pin: Pin, supply: &PoolSupply) -> bool {
        self.pin(fit, choice.pool, pin).is_some_and(|fit| {
            let options = self.fits.fit(fit);
            let target = choice.instance_type as usize;
            options.types.contains(target) && supply.instance_types[target].slots.overlaps(&options.slots)
        })
    }

    /// [`Packing::domain_price`], uncached.
    pub(super) fn find_domain_price(&mut self, class: u32, preferences: PreferenceSet, pin: Pin) -> i64 {
        let problem = self.problem;
        let mut least = i64::MAX;
        for pool in problem.tiers.iter().flatten().copied() {
            let Some(supply) = &problem.supplies[pool as usize] else { continue };
            for fit in self.pinned_fits(class, preferences, pool, &[pin]) {
                let ranked = self.fits.ranked(fit, supply);
                let holds = |at: usize| {
                    resource_vector::fits(&problem.classes[class as usize].request, &supply.net_allocatable[at])
                };
                let cpu = problem.classes[class as usize].request[CPU_AT];
                let costs = ranked.iter().filter(|(_, at)| holds(*at)).map(|(price, at)| supply.cost(*at, *price, cpu));
                least = costs.min().map_or(least, |cost| least.min(cost.0));
            }
        }
        least
    }

    /// The least price of an offering with capacity for a pod of `class` in the domain `pin`: ranks
    /// domains that are filled alike.
    pub(super) fn domain_price(&mut self, class: u32, preferences: PreferenceSet, pin: Pin) -> i64 {
        let query = (self.class_query(class, preferences), pin);
        if let Some(known) = self.domain_cache.prices.get(&query) {
            return *known;
        }
        let price = self.find_domain_price(class, preferences, pin);
        self.domain_cache.prices.insert(query, price);
        price
    }
}

/// Splits reserved slots one by one: a machine uses one reservation, so `minValues` count within
/// it.
fn split_reservations(slots: Vec<(CapacityType, BitSet)>) -> Vec<(CapacityType, BitSet)> {
    let self_exclusive = |all: &BitSet, slot: usize| {
        let mut only = all.clone();
        all.iter().filter(|other| *other != slot).for_each(|other| only.remove(other));
        only
    };
    let mut result = Vec::new();
    for (kind, all) in slots {
        match kind {
            CapacityType::Reserved => result.extend(all.iter().map(|slot| (kind, self_exclusive(&all, slot)))),
            _ => result.push((kind, all)),
        }
    }
    result
}

/// The order of capacity types decides, except that spot must not cost more than on-demand
/// (Karpenter AWS §4.2, filter 6).
fn precedes(choice: &LaunchChoice, known: &LaunchChoice) -> bool {
    let per_pod = |cost: MicroUsd, pods: u32| cost.0 * i64::from(pods);
    let (own, theirs) = (per_pod(choice.cost, known.each), per_pod(known.cost, choice.each));
    match (choice.capacity_type, known.capacity_type) {
        (CapacityType::Spot, CapacityType::OnDemand) => own <= theirs,
        (CapacityType::OnDemand, CapacityType::Spot) => own < theirs,
        (a, b) => a < b || (a == b && is_better(choice, known)),
    }
}

fn is_better(choice: &LaunchChoice, known: &LaunchChoice) -> bool {
    is_less((choice.score, choice.cost), (known.score, known.cost))
}

fn is_less(a: (f64, MicroUsd), b: (f64, MicroUsd)) -> bool {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).is_lt()
}
