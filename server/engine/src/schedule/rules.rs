//! Rules beyond resources and labels that decide what a pool may open: capacity types, opt-in annotations, `minValues`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::axis;
use super::bits::BitSet;
use super::fits::FitId;
use super::market::PoolSupply;
use super::packing::Packing;
use super::topology::Topology;
use super::variety::{Flexibility, Variety};
use crate::input::MinValuesPolicy;
use crate::model::labels::{ARCH, CAPACITY_TYPE};
use crate::model::{CapacityType, MicroUsd, Operator, Requirement, Text};

/// Zones by name, each with a price.
type Zones = Rc<[(Text, MicroUsd)]>;

/// Zones that were looked for before; pods that are placed change none.
#[derive(Debug, Default)]
pub(super) struct KnownZones {
    /// By class and fit, and whether `PreferNoSchedule` taints are kept clear of.
    usable: FxHashMap<(u32, FitId, bool), Zones>,
    with_room: FxHashMap<(u32, FitId), Zones>,
}

impl Packing<'_, '_> {
    /// `fit` under the opt-in rules that depend on the pod alone: safe architectures.
    pub(super) fn apply_rules(&mut self, class: u32, fit: FitId, at: u32) -> Option<FitId> {
        let problem = self.problem;
        let pool = &problem.input.pools[at as usize];
        let safe = &pool.rules.safe_architectures;
        if safe.is_empty() || problem.classes[class as usize].names_arch {
            return Some(fit);
        }
        let market = problem.markets[at as usize].as_ref()?;
        let wanted = Requirement::new(ARCH, Operator::In, safe.iter().cloned());
        let id = self.fits.intern_requirements([wanted].into_iter().collect());
        let narrowed = self.fits.compile(id, at, pool, market)?;
        self.fits.intersect(fit, narrowed, market)
    }

    /// The slots of `fit` by capacity type, in the order in which they are to be used: reserved, spot, on-demand.
    pub(super) fn slots_by_capacity(&mut self, class: u32, fit: FitId, at: u32) -> Vec<(CapacityType, BitSet)> {
        let problem = self.problem;
        let Some(market) = &problem.markets[at as usize] else { return Vec::new() };
        let all = self.slots_of_fit(fit).clone();
        let mut reserved = all.intersection(market.slots_of(CapacityType::Reserved));
        for slot in reserved.clone().iter() {
            let id = market.slots[slot].reservation.as_ref();
            if id.is_none_or(|id| self.reservations.get(id).copied().unwrap_or(0) < 1) {
                reserved.remove(slot);
            }
        }
        let spot = all.intersection(market.slots_of(CapacityType::Spot));
        let on_demand = all.intersection(market.slots_of(CapacityType::OnDemand));
        let floor = self.below_on_demand_floor(at);
        let may_wait = self.waits(class, at);
        let allowed_spot =
            if floor { BitSet::empty(market.slots.len()) } else { self.spot_within_share(at, spot.clone(), market) };
        let kept_off = floor || (!spot.is_empty() && allowed_spot.is_empty());
        let mut order = vec![(CapacityType::Reserved, reserved), (CapacityType::Spot, allowed_spot)];
        if !may_wait || kept_off {
            order.push((CapacityType::OnDemand, on_demand));
        }
        order.retain(|(_, slots)| !slots.is_empty());
        self.defer_dear_spot(class, fit, market, &mut order);
        order
    }

    /// Spot that costs more than the cheapest on-demand offering is no bargain (Karpenter AWS §4.2, filter 6), so it comes
    /// last: for pods that nothing on demand carries. Only machines with room for the pod are compared.
    fn defer_dear_spot(&mut self, class: u32, fit: FitId, market: &PoolSupply, order: &mut [(CapacityType, BitSet)]) {
        let [.., (CapacityType::Spot, spot), (CapacityType::OnDemand, on_demand)] = &*order else { return };
        let request = &self.problem.classes[class as usize].request;
        let fits = &mut self.fits;
        let mut cheapest = |slots: &BitSet| {
            let fit = fits.within_slots(fit, slots, market)?;
            let ranked = fits.ranked(fit, market);
            ranked.iter().find(|(_, at)| axis::fits(request, &market.rooms[*at])).map(|(price, _)| *price)
        };
        if cheapest(on_demand).is_some_and(|on_demand| cheapest(spot).is_none_or(|spot| spot > on_demand)) {
            let last = order.len() - 1;
            order.swap(last - 1, last);
        }
    }

    fn waits(&self, class: u32, at: u32) -> bool {
        self.problem.classes[class as usize].waits.contains(&at) && self.allows_spot(class, at)
    }

    /// Whether pods of `class` wait for spot and so may not join machines with these options, which are all on demand.
    pub(super) fn must_wait(&self, class: u32, at: u32, fit: FitId) -> bool {
        let Some(market) = &self.problem.markets[at as usize] else { return false };
        let on_demand = |slot: usize| market.slots[slot].capacity_type == CapacityType::OnDemand;
        self.waits(class, at) && self.fits.fit(fit).slots.iter().all(on_demand)
    }

    /// Whether the pod's own constraints and the pool allow spot, whether or not any is for sale.
    fn allows_spot(&self, class: u32, at: u32) -> bool {
        let pool = &self.problem.input.pools[at as usize];
        let allows = |requirement: Option<&Requirement>| requirement.is_none_or(|requirement| requirement.has("spot"));
        let alternatives = &self.problem.classes[class as usize].alternatives;
        allows(pool.requirements.get(CAPACITY_TYPE))
            && alternatives.iter().any(|id| allows(self.fits.requirements(*id).get(CAPACITY_TYPE)))
    }

    fn below_on_demand_floor(&self, at: u32) -> bool {
        let floor = self.problem.input.pools[at as usize].rules.on_demand_min_nodes;
        floor.is_some_and(|floor| self.ledger.on_demand(at) < floor)
    }

    /// Spot slots, unless no spot machine however small stays within the share.
    fn spot_within_share(&self, at: u32, slots: BitSet, market: &PoolSupply) -> BitSet {
        if slots.is_empty() {
            return slots;
        }
        let offered = market.machines.iter().filter(|machine| machine.slots.meets(&slots));
        let mut sizes = offered.map(|machine| machine.vcpu_milli);
        let shared = self.problem.input.pools[at as usize].rules.spot_max_percent.is_some();
        let smallest = if shared { sizes.min() } else { sizes.next() };
        match smallest {
            Some(smallest) if self.spot_share_allows(at, smallest) => slots,
            _ => BitSet::empty(market.slots.len()),
        }
    }

    /// Whether a spot machine of this size keeps the pool's spot share.
    pub(super) fn spot_share_allows(&self, at: u32, vcpu_milli: i64) -> bool {
        let Some(percent) = self.problem.input.pools[at as usize].rules.spot_max_percent else { return true };
        self.ledger.spot_stays_within(at, vcpu_milli, percent)
    }

    /// `fit` in the zone that `zone-balance` asks for next: the usable zone with the fewest machines.
    pub(super) fn balanced(&mut self, class: u32, fit: FitId, at: u32) -> Option<FitId> {
        let problem = self.problem;
        let pool = &problem.input.pools[at as usize];
        if !pool.rules.zone_balance {
            return Some(fit);
        }
        let market = problem.markets[at as usize].as_ref()?;
        let offered = self.varied_zones(class, fit, at, market);
        let usable = if self.looks_beyond(class) || self.is_counted_beyond(class) {
            offered.clone()
        } else {
            self.usable_zones(class, fit, at, market)
        };
        let count = |zone: &Text| self.ledger.in_zone(at, zone);
        let least = usable.iter().map(|(zone, _)| count(zone)).min().unwrap_or(0);
        let level = offered.iter().filter(|(zone, _)| count(zone) <= least);
        let (zone, _) = level.min_by_key(|(zone, price)| (count(zone), *price, zone))?;
        let mut slots = BitSet::empty(market.slots.len());
        market.slots.iter().enumerate().filter(|(_, slot)| slot.zone == *zone).for_each(|(slot, _)| slots.insert(slot));
        self.fits.within_slots(fit, &slots, market)
    }

    /// Whether a hard rule of `class` looks at domains wider than its node: that rule then decides the zone.
    pub(super) fn looks_beyond(&self, class: u32) -> bool {
        let owned = &self.problem.classes[class as usize].owned;
        owned.iter().any(|owned| owned.soft.is_none() && owned.key != Topology::HOST)
    }

    /// Whether some hard rule over domains wider than nodes counts pods of `class`: that rule then decides the zone.
    pub(super) fn is_counted_beyond(&self, class: u32) -> bool {
        self.problem.classes[class as usize]
            .meant_by
            .iter()
            .any(|group| self.topology.is_hard(*group) && self.topology.groups[*group as usize].key != Topology::HOST)
    }

    /// Zones in which pods of `class` could run on machines of the pool bought as those of `fit` are, whatever other pods
    /// say, each with some price.
    fn usable_zones(&mut self, class: u32, fit: FitId, at: u32, market: &PoolSupply) -> Zones {
        let asked = (class, fit, self.avoid_discouraged);
        // Which zones are varied enough for `minValues` depends on what the limits leave.
        if let Some(known) = self.zones.usable.get(&asked).filter(|_| !self.ledger.wants_min_values(at)) {
            return known.clone();
        }
        let kinds: BTreeSet<CapacityType> =
            self.slots_of_fit(fit).iter().map(|slot| market.slots[slot].capacity_type).collect();
        let mut slots = BitSet::empty(market.slots.len());
        let same = |slot: &usize| kinds.contains(&market.slots[*slot].capacity_type);
        (0..market.slots.len()).filter(same).for_each(|slot| slots.insert(slot));
        let mut zones: BTreeMap<Text, MicroUsd> = BTreeMap::new();
        for fit in self.class_fits(class, super::packing::PreferenceSet::default(), at).iter() {
            if let Some(fit) = self.fits.within_slots(*fit, &slots, market) {
                zones.extend(self.varied_zones(class, fit, at, market).iter().cloned());
            }
        }
        let zones: Zones = zones.into_iter().collect();
        self.zones.usable.insert(asked, zones.clone());
        zones
    }

    /// [`Packing::zones_with_room`] that sell enough different options.
    fn varied_zones(&mut self, class: u32, fit: FitId, at: u32, market: &PoolSupply) -> Zones {
        let zones = self.zones_with_room(class, fit, market);
        if !self.ledger.wants_min_values(at) {
            return zones;
        }
        zones.iter().filter(|(zone, _)| self.is_varied_in(class, fit, at, zone)).cloned().collect()
    }

    /// Whether `zone` alone sells the options of `fit` that `minValues` want for a pod of `class`.
    fn is_varied_in(&mut self, class: u32, fit: FitId, at: u32, zone: &Text) -> bool {
        let Some(market) = &self.problem.markets[at as usize] else { return false };
        let mut slots = BitSet::empty(market.slots.len());
        market.slots.iter().enumerate().filter(|(_, slot)| slot.zone == *zone).for_each(|(slot, _)| slots.insert(slot));
        let Some(fit) = self.fits.within_slots(fit, &slots, market) else { return false };
        let nothing = self.problem.axis.zero();
        let request = &self.problem.classes[class as usize].request;
        let kinds: Vec<usize> = self.fits.fit(fit).types.iter().collect();
        kinds
            .into_iter()
            .filter_map(|kind| u32::try_from(kind).ok())
            .any(|kind| self.flexible_count(at, (fit, kind), (&nothing, &[]), request, 1) > 0)
    }

    /// Zones in which some option of `fit` with room for a pod of `class` is offered, each with the least price.
    fn zones_with_room(&mut self, class: u32, fit: FitId, market: &PoolSupply) -> Zones {
        if let Some(known) = self.zones.with_room.get(&(class, fit)) {
            return known.clone();
        }
        let options = self.fits.fit(fit);
        let request = &self.problem.classes[class as usize].request;
        let mut least: Vec<Option<MicroUsd>> = vec![None; market.slots.len()];
        let roomy = options.types.iter().filter(|kind| axis::fits(request, &market.rooms[*kind]));
        for (slot, price) in roomy.flat_map(|kind| &market.machines[kind].prices) {
            let known = &mut least[usize::from(*slot)];
            *known = Some(known.map_or(*price, |known| known.min(*price)));
        }
        let mut zones: BTreeMap<Text, MicroUsd> = BTreeMap::new();
        for (slot, price) in options.slots.iter().filter_map(|slot| Some((slot, least[slot]?))) {
            let known = zones.entry(market.slots[slot].zone.clone()).or_insert(price);
            *known = (*known).min(price);
        }
        let zones: Zones = zones.into_iter().collect();
        self.zones.with_room.insert((class, fit), zones.clone());
        zones
    }

    /// Zones in which some option of `fit` is offered.
    pub(super) fn zones_of_fit(&self, fit: FitId, market: &PoolSupply) -> BTreeSet<Text> {
        let options = self.fits.fit(fit);
        let offered = |slot: &usize| options.types.iter().any(|kind| market.machines[kind].slots.contains(*slot));
        options.slots.iter().filter(offered).map(|slot| market.slots[slot].zone.clone()).collect()
    }

    /// The zone of `fit` when it has only one.
    pub(super) fn only_zone(&self, fit: FitId, market: &PoolSupply) -> Option<Text> {
        let mut zones = self.zones_of_fit(fit, market).into_iter();
        zones.next().filter(|_| zones.next().is_none())
    }

    /// Whether the machines of `pool`, all together, have as many values as its `minValues` want.
    pub(super) fn could_be_varied(&self, pool: u32) -> bool {
        let strict = self.problem.input.policy.min_values == MinValuesPolicy::Strict;
        let Some(market) = &self.problem.markets[pool as usize] else { return false };
        !strict || market.varieties.iter().all(Variety::is_possible)
    }

    /// The largest number up to `count` for which `minValues` hold over the options that still fit `used` and that many
    /// times `request`, and that are of the size of `target` where sizes are settled (Karpenter core §2.6). The target makes
    /// no other difference. The pool is `charged` for the machine already; nothing means a new one.
    pub(super) fn flexible_count(
        &self,
        pool: u32,
        (fit, target): (FitId, u32),
        (used, charged): (&[i64], &[i64]),
        request: &[i64],
        count: u32,
    ) -> u32 {
        let strict = self.problem.input.policy.min_values == MinValuesPolicy::Strict;
        let Some(market) = &self.problem.markets[pool as usize] else { return 0 };
        if count == 0 || !strict || market.varieties.is_empty() {
            return count;
        }
        let vcpu_milli = self.ledger.is_fixed(pool).then(|| market.machines[target as usize].vcpu_milli);
        let mut flexibility = Flexibility::new(&market.varieties, count);
        for kind in self.fits.fit(fit).types.iter() {
            let sized = vcpu_milli.is_none_or(|size| market.machines[kind].vcpu_milli == size);
            let more = axis::times_more(request, used, &market.rooms[kind], count);
            if more > 0 && sized && self.within_limits_of(pool, kind, market, charged) {
                flexibility.note(kind, more);
                if flexibility.is_full() {
                    return count;
                }
            }
        }
        flexibility.allowed()
    }

    /// Whether the pool's limits leave room for a machine of this kind in place of what is `charged`.
    fn within_limits_of(&self, pool: u32, kind: usize, market: &PoolSupply, charged: &[i64]) -> bool {
        let charges = market.machines[kind].charge.iter().zip(&self.limits[pool as usize]).enumerate();
        charges.into_iter().all(|(at, (charge, left))| {
            let own = charged.get(at).copied().unwrap_or(0);
            *charge <= own || *charge <= left + own
        })
    }

    /// Whether machines of `pool` are charged for more than their target: `minValues` want several options, and each of
    /// those must stay within the limits whichever is launched.
    pub(super) fn reserves_options(&self, pool: u32) -> bool {
        let strict = self.problem.input.policy.min_values == MinValuesPolicy::Strict;
        strict && self.ledger.wants_min_values(pool) && !self.limits[pool as usize].is_empty()
    }

    /// What `pool` must be charged for a machine of kind `target` that carries `used`, so that its limits still allow the
    /// options that `minValues` need: the smallest of those with room, whatever else is bought.
    pub(super) fn charge_for(
        &self,
        at: u32,
        (fit, target): (FitId, u32),
        (used, charged): (&[i64], &[i64]),
    ) -> Vec<i64> {
        let Some(market) = &self.problem.markets[at as usize] else { return Vec::new() };
        let mut charge = market.machines[target as usize].charge.clone();
        if !self.reserves_options(at) {
            return charge;
        }
        let vcpu_milli = market.machines[target as usize].vcpu_milli;
        let sized = |kind: usize| !self.ledger.is_fixed(at) || market.machines[kind].vcpu_milli == vcpu_milli;
        let suits = |kind: &usize| {
            let roomy = axis::fits(used, &market.rooms[*kind]);
            roomy && sized(*kind) && self.within_limits_of(at, *kind, market, charged)
        };
        let mut kinds: Vec<usize> = self.fits.fit(fit).types.iter().filter(suits).collect();
        kinds.sort_by_key(|kind| (&market.machines[*kind].charge, *kind));
        for place in market.varieties.iter().flat_map(|variety| variety.missing(&kinds, std::iter::empty())) {
            let wanted = &market.machines[kinds[place]].charge;
            charge.iter_mut().zip(wanted).for_each(|(charge, wanted)| *charge = (*charge).max(*wanted));
        }
        charge
    }
}
