//! Buying: which machine to open for pods that no machine has room for, and how many of it.
//!
//! Pools are asked tier by tier; within a tier price decides. The capacity type is chosen first (reserved, spot,
//! on-demand), then the machine with the least effective cost per pod: its price less what its spare room is worth to the
//! demand that still waits, divided by the pods it takes. Among the best few, `foresight` tries who would really fill
//! the rest.

use rustc_hash::FxHashMap;

use super::axis;
use super::bits::BitSet;
use super::cohorts::CountedKey;
use super::fits::FitId;
use super::foresight::{Candidate, Shortlist};
use super::machines::Cohort;
use super::market::PoolSupply;
use super::packing::{Packing, Pin, PreferenceSet};
use super::stall::Machine;
use super::topology::Topology;
use crate::model::{CapacityType, MicroUsd};

/// Spare room is worth a little less than room that is asked for, so that a machine of the right size wins over a larger
/// one whose rest may stay empty.
const SPARE_WORTH: f64 = 0.9;

/// A machine that could be opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub(super) pool: u32,
    pub(super) fit: FitId,
    pub(super) machine: u32,
    pub(super) capacity_type: CapacityType,
    /// Pods on each.
    pub(super) each: u32,
    /// How many at the most, for reasons other than demand.
    pub(super) most: u32,
    score: f64,
    price: MicroUsd,
}

impl Packing<'_, '_> {
    /// Opens machines for up to `count` pods of `class`; returns how many were placed.
    pub(super) fn buy(&mut self, class: u32, count: u32, pins: &[Pin], softs: PreferenceSet) -> u32 {
        let problem = self.problem;
        for tier in &problem.tiers {
            let mut best: Option<Choice> = None;
            for pool in tier {
                if let Some(choice) = self.choice_in(*pool, class, count, pins, softs)
                    && best.as_ref().is_none_or(|known| better(&choice, known))
                {
                    best = Some(choice);
                }
            }
            if let Some(choice) = best {
                return self.open(choice, class, count);
            }
        }
        0
    }

    /// Whether `count` pods could be bought for in the domains `pins` whatever else is bought: some pool sells machines for
    /// them, beside those of reservations, which run out, and no limit is near.
    pub(super) fn can_always_buy(&mut self, class: u32, count: u32, softs: PreferenceSet, pins: &[Pin]) -> bool {
        let pools: Vec<u32> = self.problem.tiers.iter().flatten().copied().collect();
        pools.into_iter().any(|pool| {
            if !self.limits_are_far(pool, class, count) {
                return false;
            }
            // A machine takes one pod at least. Only where that many machines are too many is it asked how many one takes.
            if self.limits_hold(pool, count) {
                return self.sells_one(pool, class, pins, softs);
            }
            let Some(choice) = self.choice_in(pool, class, count, pins, softs) else { return false };
            choice.capacity_type != CapacityType::Reserved && self.limits_hold(pool, count.div_ceil(choice.each.max(1)))
        })
    }

    /// Whether the limits of `pool` leave room for so many machines, whichever they are, and as many again.
    fn limits_hold(&self, pool: u32, machines: u32) -> bool {
        let Some(market) = &self.problem.markets[pool as usize] else { return false };
        let mut limits = market.most_charged.iter().zip(&self.limits[pool as usize]);
        limits.all(|(most, left)| most.saturating_mul(2 * i64::from(machines)) <= *left)
    }

    fn limits_are_far(&self, pool: u32, class: u32, count: u32) -> bool {
        let Some(market) = &self.problem.markets[pool as usize] else { return false };
        if self.ledger.is_stateful(pool) || self.nodes_left[pool as usize] < i64::from(count) {
            return false;
        }
        let asked = |name: &str| {
            let place = self.problem.axis.position(name);
            place.map_or(0, |place| self.problem.classes[class as usize].request[place])
        };
        let mut limits = self.limits[pool as usize].iter().zip(&market.most_charged).zip(&market.limited);
        limits.all(|((left, most), name)| left - most > asked(name).saturating_mul(2 * i64::from(count)))
    }

    /// Whether [`Packing::choice_in`] finds a machine for one pod of `class` in a pool that is not stateful, reservations
    /// apart.
    fn sells_one(&mut self, pool: u32, class: u32, pins: &[Pin], softs: PreferenceSet) -> bool {
        let problem = self.problem;
        let Some(market) = problem.markets[pool as usize].as_ref() else { return false };
        if self.nodes_left[pool as usize] < 1 || self.fresh_cap(class, softs).0 == 0 {
            return false;
        }
        let nothing = problem.axis.zero();
        let request = &problem.classes[class as usize].request;
        self.settled_fits(class, softs, pool, pins).into_iter().any(|fit| {
            let slots = self.slots_by_capacity(class, fit, pool).into_iter();
            let mut lasting = slots.filter(|(capacity_type, _)| *capacity_type != CapacityType::Reserved);
            lasting.any(|(_, slots)| {
                let Some(fit) = self.fits.within_slots(fit, &slots, market) else { return false };
                let options = self.fits.fit(fit);
                let suits = |at: &usize| {
                    self.steps.take(1);
                    let machine = &market.machines[*at];
                    axis::times(request, &market.rooms[*at], 1) > 0
                        && self.within_limits(pool, machine)
                        && machine.slots.meets(&options.slots)
                };
                let found = options.types.iter().find(suits).and_then(|at| u32::try_from(at).ok());
                found.is_some_and(|at| self.flexible_count(pool, (fit, at), (&nothing, &[]), request, 1) > 0)
            })
        })
    }

    /// The best machine that pool `pool` has for `class`.
    fn choice_in(&mut self, pool: u32, class: u32, count: u32, pins: &[Pin], softs: PreferenceSet) -> Option<Choice> {
        if self.nodes_left[pool as usize] < 1 || !self.could_be_varied(pool) {
            return None;
        }
        let mut best: Option<Choice> = None;
        for fit in self.settled_fits(class, softs, pool, pins) {
            let mut slots = self.slots_by_capacity(class, fit, pool);
            if self.ledger.wants_min_values(pool) {
                slots = apart(slots);
            }
            for (capacity_type, slots) in slots {
                let choice = self.choice_of(pool, class, count, fit, capacity_type, &slots, softs);
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

    /// [`Packing::pinned_fits`], where `minValues` count after counted keys are settled: one fit per domain of those.
    fn settled_fits(&mut self, class: u32, softs: PreferenceSet, pool: u32, pins: &[Pin]) -> Vec<FitId> {
        let mut fits = self.pinned_fits(class, softs, pool, pins);
        if !self.ledger.wants_min_values(pool) {
            return fits;
        }
        for CountedKey { key, .. } in self.settled_keys(class, pool) {
            let mut settled = Vec::new();
            for fit in fits {
                let domains = self.domains_of_fit(fit, pool, key);
                settled.extend(domains.iter().filter_map(|domain| self.pin(fit, pool, Pin { key, domain: *domain })));
                if domains.is_empty() {
                    settled.push(fit);
                }
            }
            fits = settled;
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
        softs: PreferenceSet,
    ) -> Option<Choice> {
        let problem = self.problem;
        let market = problem.markets[pool as usize].as_ref()?;
        let fit = self.fits.within_slots(fit, slots, market)?;
        let fit = self.balanced(class, fit, pool)?;
        if self.adds_domain(fit, pool) {
            return None;
        }
        let (cap, most) = self.fresh_cap(class, softs);
        let cap = cap.min(count).min(self.ledger.share_of(pool, count));
        if cap == 0 || (self.whole_only && cap < count) {
            return None;
        }
        let ranked = self.fits.ranked(fit, market);
        for exotic in [false, true] {
            let shortlist = self.shortlist(pool, class, (fit, &ranked), cap, count, exotic);
            let best = self.foresee(pool, class, count, shortlist);
            if let Some(Candidate { machine, each, score, price }) = best {
                return Some(Choice { pool, fit, machine, capacity_type, each, most, score, price });
            }
        }
        None
    }

    /// The machines of `fit`, which are `ranked`, with the least effective cost per pod; ordinary ones or exotic ones.
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
        let Some(market) = &problem.markets[pool as usize] else { return shortlist };
        let request = &problem.classes[class as usize].request;
        let options = self.fits.fit(fit);
        let ignore_exotic = self.ledger.wants_min_values(pool);
        let nothing = problem.axis.zero();
        let mut flexible: FxHashMap<Option<i64>, u32> = FxHashMap::default();
        let spot = options.slots.iter().all(|slot| market.slots[slot].capacity_type == CapacityType::Spot);
        for (price, at) in ranked.iter().copied() {
            self.steps.take(1);
            let machine = &market.machines[at];
            if (machine.exotic != exotic && !ignore_exotic) || !self.within_limits(pool, machine) {
                continue;
            }
            if spot && !self.spot_share_allows(pool, machine.vcpu_milli) {
                continue;
            }
            if shortlist.excludes(self.least_score(class, &market.rooms[at], price, cap)) {
                continue;
            }
            let each = axis::times(request, &market.rooms[at], cap);
            if each == 0 {
                continue;
            }
            let kind = u32::try_from(at).unwrap_or(u32::MAX);
            let size = self.ledger.is_fixed(pool).then_some(machine.vcpu_milli);
            let flexible = flexible
                .entry(size)
                .or_insert_with(|| self.flexible_count(pool, (fit, kind), (&nothing, &[]), request, cap));
            let each = each.min(*flexible);
            if each == 0 || (self.whole_only && each < count) {
                continue;
            }
            let score = self.score(class, &market.rooms[at], price, each, count);
            shortlist.offer(Candidate { machine: kind, each, score, price });
        }
        shortlist
    }

    fn within_limits(&self, pool: u32, machine: &Machine) -> bool {
        machine.charge.iter().zip(&self.limits[pool as usize]).all(|(charge, left)| charge <= left)
    }

    /// Effective cost of one pod on a machine with `room`, in micro-dollars per hour.
    fn score(&self, class: u32, room: &[i64], price: MicroUsd, each: u32, count: u32) -> f64 {
        let request = &self.problem.classes[class as usize].request;
        let machines = f64::from(count.div_ceil(each));
        let mut spare_worth = 0.0;
        for (at, worth) in self.problem.worth.iter().enumerate() {
            let spare = (room[at] - request[at] * i64::from(each)).max(0) as f64;
            let waiting = ((self.rest[at] - request[at] as f64 * f64::from(count)) / machines).max(0.0);
            spare_worth += worth * spare.min(waiting);
        }
        (price.0 as f64 - SPARE_WORTH * spare_worth) / f64::from(each)
    }

    /// A bound that [`Packing::score`] is never below, whatever waits and whatever rules between pods say: no pod takes less
    /// of what a machine is worth than it asks for, and all spare room is wanted.
    fn least_score(&self, class: u32, room: &[i64], price: MicroUsd, cap: u32) -> f64 {
        let request = &self.problem.classes[class as usize].request;
        let (mut whole, mut each) = (0.0, 0.0);
        for ((worth, room), ask) in self.problem.worth.iter().zip(room).zip(request) {
            whole += worth * (*room).max(0) as f64;
            each += worth * *ask as f64;
        }
        let unfilled = price.0 as f64 - SPARE_WORTH * whole;
        let most = if each > 0.0 { (whole / each).min(f64::from(cap)) } else { f64::from(cap) };
        if unfilled < 0.0 { f64::NEG_INFINITY } else { unfilled / most + SPARE_WORTH * each }
    }

    /// How many pods of `class` an empty machine takes by rules between pods, and how many such machines may be opened.
    fn fresh_cap(&self, class: u32, softs: PreferenceSet) -> (u32, u32) {
        let needs = &self.problem.classes[class as usize];
        let shape = &self.problem.input.shapes[needs.shape as usize];
        let cap = self.host_cap(class, &super::machines::HostTallies::default(), softs);
        let together = needs.owned.iter().any(|owned| {
            owned.key == Topology::HOST
                && matches!(owned.rule, super::classes::Rule::With { .. })
                && super::packing::in_force(owned.soft, softs)
        });
        (if shape.host_ports.is_empty() { cap } else { cap.min(1) }, if together { 1 } else { u32::MAX })
    }

    /// Opens the machines of `choice`.
    fn open(&mut self, choice: Choice, class: u32, count: u32) -> u32 {
        let Some(market) = &self.problem.markets[choice.pool as usize] else { return 0 };
        let wanted = (count / choice.each).max(1);
        let each = choice.each.min(count);
        let mut used = self.problem.axis.zero();
        axis::add(&mut used, &self.problem.classes[class as usize].request, each);
        let charged = self.charge_for(choice.pool, (choice.fit, choice.machine), (&used, &[]));
        let mut machines = wanted.min(choice.most).min(self.limit_on_machines(&choice, &charged));
        let Some(fit) = self.settle(&choice, class, market, &mut machines) else { return 0 };
        let machine = &market.machines[choice.machine as usize];
        for (left, charge) in self.limits[choice.pool as usize].iter_mut().zip(&charged) {
            *left -= charge * i64::from(machines);
        }
        self.nodes_left[choice.pool as usize] -= i64::from(machines);
        let first = u32::try_from(self.home.len()).unwrap_or(u32::MAX);
        self.home.resize(self.home.len() + machines as usize, 0);
        let cohort = Cohort {
            ids: (first..first + machines).collect(),
            pool: choice.pool,
            target: choice.machine,
            fit,
            charged,
            free: market.rooms[choice.machine as usize].clone(),
            used: self.problem.axis.zero(),
            ports: market.daemon_ports.clone(),
            host: super::machines::HostTallies::default(),
            growth: None,
        };
        let zone = self.only_zone(fit, market);
        self.ledger.opened(choice.pool, choice.capacity_type, machine.vcpu_milli, zone, i64::from(machines));
        let at = self.add_cohort(cohort);
        self.join(class, at, fit, each)
    }

    fn limit_on_machines(&self, choice: &Choice, charged: &[i64]) -> u32 {
        let by_charge = charged.iter().zip(&self.limits[choice.pool as usize]);
        let by_charge = by_charge.filter(|(charge, _)| **charge > 0).map(|(charge, left)| left / charge);
        let least = by_charge.chain([self.nodes_left[choice.pool as usize]]).min().unwrap_or(i64::MAX);
        let one_by_one = self.ledger.is_stateful(choice.pool);
        u32::try_from(least.max(0)).unwrap_or(u32::MAX).min(if one_by_one { 1 } else { u32::MAX })
    }

    /// Settles what must be one thing on each machine: the reservation it draws on, and the domain of every key under
    /// which its pods are counted. Fewer machines may result.
    fn settle(&mut self, choice: &Choice, class: u32, market: &PoolSupply, machines: &mut u32) -> Option<FitId> {
        let mut fit = choice.fit;
        if choice.capacity_type == CapacityType::Reserved {
            let machine = &market.machines[choice.machine as usize];
            let (slot, _) = machine.cheapest_in(self.slots_of_fit(fit))?;
            let mut only = BitSet::empty(market.slots.len());
            only.insert(usize::from(slot));
            fit = self.fits.within_slots(fit, &only, market)?;
            let left = self.reservations.get_mut(market.slots[usize::from(slot)].reservation.as_ref()?)?;
            *machines = (*machines).min(u32::try_from(*left).unwrap_or(0));
            *left -= i64::from(*machines);
        }
        for CountedKey { key, group, .. } in self.settled_keys(class, choice.pool) {
            let domains = self.domains_of_fit(fit, choice.pool, key);
            let offered: Vec<_> = domains
                .iter()
                .copied()
                .filter(|domain| self.offers(fit, choice, Pin { key, domain: *domain }, market))
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

    fn offers(&mut self, fit: FitId, choice: &Choice, pin: Pin, market: &PoolSupply) -> bool {
        self.pin(fit, choice.pool, pin).is_some_and(|fit| {
            let options = self.fits.fit(fit);
            let target = choice.machine as usize;
            options.types.contains(target) && market.machines[target].slots.meets(&options.slots)
        })
    }

    /// [`Packing::domain_price`], looked for.
    pub(super) fn find_price(&mut self, class: u32, softs: PreferenceSet, pin: Pin) -> i64 {
        let problem = self.problem;
        let mut least = i64::MAX;
        for pool in problem.tiers.iter().flatten().copied() {
            let Some(market) = &problem.markets[pool as usize] else { continue };
            for fit in self.pinned_fits(class, softs, pool, &[pin]) {
                let ranked = self.fits.ranked(fit, market);
                let roomy = |at: usize| axis::fits(&problem.classes[class as usize].request, &market.rooms[at]);
                least = ranked.iter().find(|(_, at)| roomy(*at)).map_or(least, |(price, _)| least.min(price.0));
            }
        }
        least
    }
}

/// Reserved slots one by one: a machine draws on one reservation, so `minValues` count within it.
fn apart(slots: Vec<(CapacityType, BitSet)>) -> Vec<(CapacityType, BitSet)> {
    let alone = |all: &BitSet, slot: usize| {
        let mut only = all.clone();
        all.iter().filter(|other| *other != slot).for_each(|other| only.remove(other));
        only
    };
    let mut result = Vec::new();
    for (kind, all) in slots {
        match kind {
            CapacityType::Reserved => result.extend(all.iter().map(|slot| (kind, alone(&all, slot)))),
            _ => result.push((kind, all)),
        }
    }
    result
}

/// The order of capacity types decides, except that spot must not be dearer than on-demand (Karpenter AWS §4.2, filter 6).
fn precedes(choice: &Choice, known: &Choice) -> bool {
    let per_pod = |price: MicroUsd, pods: u32| price.0 * i64::from(pods);
    let (own, theirs) = (per_pod(choice.price, known.each), per_pod(known.price, choice.each));
    match (choice.capacity_type, known.capacity_type) {
        (CapacityType::Spot, CapacityType::OnDemand) => own <= theirs,
        (CapacityType::OnDemand, CapacityType::Spot) => own < theirs,
        (a, b) => a < b || (a == b && better(choice, known)),
    }
}

fn better(choice: &Choice, known: &Choice) -> bool {
    less((choice.score, choice.price), (known.score, known.price))
}

fn less(a: (f64, MicroUsd), b: (f64, MicroUsd)) -> bool {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).is_lt()
}
