//! Rules beyond resources and labels that decide what a pool may open: capacity types, opt-in
//! annotations, `minValues`.

use std::collections::{BTreeMap, BTreeSet};

use super::bit_set::BitSet;
use super::classes::PreferenceSet;
use super::fits::FitId;
use super::min_values::{MinValuesCount, MinValuesRule};
use super::packing::Packing;
use super::packing_cache::Zones;
use super::pool_supply::PoolSupply;
use super::resource_vector;
use super::topology::Topology;
use model::input::MinValuesPolicy;
use model::labels::CAPACITY_TYPE;
use model::{CapacityType, MicroUsd, Requirement, Zone};

impl Packing<'_, '_> {
    /// The slots of `fit` by capacity type, in order of use: reserved, spot, on-demand.
    pub(super) fn slots_by_capacity(&mut self, class: u32, fit: FitId, at: u32) -> Vec<(CapacityType, BitSet)> {
        let problem = self.problem;
        let Some(supply) = &problem.supplies[at as usize] else { return Vec::new() };
        let all = self.slots_of_fit(fit).clone();
        let mut reserved = all.intersection(supply.slots_of(CapacityType::Reserved));
        for slot in reserved.clone().iter() {
            let id = supply.slots[slot].reservation.as_ref();
            if id.is_none_or(|id| self.reservations.get(id).copied().unwrap_or(0) < 1) {
                reserved.remove(slot);
            }
        }
        let spot = all.intersection(supply.slots_of(CapacityType::Spot));
        let on_demand = all.intersection(supply.slots_of(CapacityType::OnDemand));
        let floor = self.below_on_demand_floor(at);
        let must_wait = self.waits_for_spot(class, at);
        let allowed_spot =
            if floor { BitSet::empty(supply.slots.len()) } else { self.spot_within_share(at, spot.clone(), supply) };
        let spot_excluded = floor || (!spot.is_empty() && allowed_spot.is_empty());
        let mut order = vec![(CapacityType::Reserved, reserved), (CapacityType::Spot, allowed_spot)];
        if !must_wait || spot_excluded {
            order.push((CapacityType::OnDemand, on_demand));
        }
        order.retain(|(_, slots)| !slots.is_empty());
        self.defer_expensive_spot(class, fit, supply, &mut order);
        order
    }

    /// Spot that costs more than the cheapest on-demand offering comes last (Karpenter AWS §4.2,
    /// filter 6): for pods that fit no on-demand offering. Only types with capacity for the pod are
    /// compared.
    fn defer_expensive_spot(
        &mut self,
        class: u32,
        fit: FitId,
        supply: &PoolSupply,
        order: &mut [(CapacityType, BitSet)],
    ) {
        let [.., (CapacityType::Spot, spot), (CapacityType::OnDemand, on_demand)] = &*order else { return };
        let request = &self.problem.classes[class as usize].request;
        let fits = &mut self.fits;
        let mut cheapest = |slots: &BitSet| {
            let fit = fits.within_slots(fit, slots, supply)?;
            let ranked = fits.ranked(fit, supply);
            ranked
                .iter()
                .find(|(_, at)| resource_vector::fits(request, &supply.net_allocatable[*at]))
                .map(|(price, _)| *price)
        };
        if cheapest(on_demand).is_some_and(|on_demand| cheapest(spot).is_none_or(|spot| spot > on_demand)) {
            let last = order.len() - 1;
            order.swap(last - 1, last);
        }
    }

    fn waits_for_spot(&self, class: u32, at: u32) -> bool {
        self.problem.classes[class as usize].spot_wait_pools.contains(&at) && self.allows_spot(class, at)
    }

    /// Whether pods of `class` wait for spot and so may not join machines with these options, all
    /// of which are on-demand.
    pub(super) fn must_wait_for_spot(&self, class: u32, at: u32, fit: FitId) -> bool {
        let Some(supply) = &self.problem.supplies[at as usize] else { return false };
        let on_demand = |slot: usize| supply.slots[slot].capacity_type == CapacityType::OnDemand;
        self.waits_for_spot(class, at) && self.fits.fit(fit).slots.iter().all(on_demand)
    }

    /// Whether the pod's constraints and the pool allow spot, whether or not spot is available.
    fn allows_spot(&self, class: u32, at: u32) -> bool {
        let pool = &self.problem.input.pools[at as usize];
        let allows = |requirement: Option<&Requirement>| requirement.is_none_or(|requirement| requirement.has("spot"));
        let alternatives = &self.problem.classes[class as usize].alternatives;
        allows(pool.requirements.get(CAPACITY_TYPE))
            && alternatives.iter().any(|id| allows(self.fits.requirements(*id).get(CAPACITY_TYPE)))
    }

    fn below_on_demand_floor(&self, at: u32) -> bool {
        let floor = self.problem.input.pools[at as usize].rules.on_demand_min_nodes;
        floor.is_some_and(|floor| self.pool_counts.on_demand_nodes(at) < floor)
    }

    /// Spot slots; empty when every spot type exceeds the spot share.
    fn spot_within_share(&self, at: u32, slots: BitSet, supply: &PoolSupply) -> BitSet {
        if slots.is_empty() {
            return slots;
        }
        let mut offered = supply.instance_types.iter().filter(|instance_type| instance_type.slots.overlaps(&slots));
        match offered.any(|instance_type| self.spot_share_allows(at, instance_type.vcpu_milli)) {
            true => slots,
            false => BitSet::empty(supply.slots.len()),
        }
    }

    /// Whether a spot machine of this size keeps the pool within its spot share.
    pub(super) fn spot_share_allows(&self, at: u32, vcpu_milli: i64) -> bool {
        let Some(percent) = self.problem.input.pools[at as usize].rules.spot_max_percent else { return true };
        self.pool_counts.spot_share_holds(at, vcpu_milli, percent)
    }

    /// `fit` in the zone that `zone-balance` requires next: the usable zone with the fewest nodes.
    pub(super) fn narrow_to_balanced_zone(&mut self, class: u32, fit: FitId, at: u32) -> Option<FitId> {
        let problem = self.problem;
        let pool = &problem.input.pools[at as usize];
        if !pool.rules.zone_balance {
            return Some(fit);
        }
        let supply = problem.supplies[at as usize].as_ref()?;
        let offered = self.zones_meeting_min_values(class, fit, at, supply);
        let usable = if self.has_wide_rules(class) || self.is_counted_by_wide_rules(class) {
            offered.clone()
        } else {
            self.usable_zones(class, fit, at, supply)
        };
        let count = |zone: &Zone| self.pool_counts.nodes_in_zone(at, zone);
        let least = usable.iter().map(|(zone, _)| count(zone)).min().unwrap_or(0);
        let level = offered.iter().filter(|(zone, _)| count(zone) <= least);
        let (zone, _) = level.min_by_key(|(zone, price)| (count(zone), *price, zone))?;
        let mut slots = BitSet::empty(supply.slots.len());
        supply.slots.iter().enumerate().filter(|(_, slot)| slot.zone == *zone).for_each(|(slot, _)| slots.insert(slot));
        self.fits.within_slots(fit, &slots, supply)
    }

    /// Whether a required rule of `class` uses a wide key: that rule then decides the zone.
    pub(super) fn has_wide_rules(&self, class: u32) -> bool {
        let rules = &self.problem.classes[class as usize].rules;
        rules.iter().any(|rule| rule.preference.is_none() && rule.key != Topology::HOST)
    }

    /// Whether a required rule over a wide key counts pods of `class`: that rule then decides the
    /// zone.
    pub(super) fn is_counted_by_wide_rules(&self, class: u32) -> bool {
        self.problem.classes[class as usize]
            .selected_by
            .iter()
            .any(|group| self.topology.is_hard(*group) && self.topology.groups[*group as usize].key != Topology::HOST)
    }

    /// Zones in which pods of `class` could run on machines of the pool with the capacity types of
    /// `fit`, ignoring other pods, each with a price.
    fn usable_zones(&mut self, class: u32, fit: FitId, at: u32, supply: &PoolSupply) -> Zones {
        let query = (class, fit, self.avoid_prefer_no_schedule);
        // The pool's remaining limits decide which zones meet `minValues`, so the result is not
        // cached then.
        if let Some(known) = self.zone_cache.usable.get(&query).filter(|_| !self.pool_counts.has_min_values(at)) {
            return known.clone();
        }
        let kinds: BTreeSet<CapacityType> =
            self.slots_of_fit(fit).iter().map(|slot| supply.slots[slot].capacity_type).collect();
        let mut slots = BitSet::empty(supply.slots.len());
        let same = |slot: &usize| kinds.contains(&supply.slots[*slot].capacity_type);
        (0..supply.slots.len()).filter(same).for_each(|slot| slots.insert(slot));
        let mut zones: BTreeMap<Zone, MicroUsd> = BTreeMap::new();
        for fit in self.class_fits(class, PreferenceSet::default(), at).iter() {
            if let Some(fit) = self.fits.within_slots(*fit, &slots, supply) {
                zones.extend(self.zones_meeting_min_values(class, fit, at, supply).iter().cloned());
            }
        }
        let zones: Zones = zones.into_iter().collect();
        self.zone_cache.usable.insert(query, zones.clone());
        zones
    }

    /// The [`Packing::zones_with_capacity`] that meet `minValues`.
    fn zones_meeting_min_values(&mut self, class: u32, fit: FitId, at: u32, supply: &PoolSupply) -> Zones {
        let zones = self.zones_with_capacity(class, fit, supply);
        if !self.pool_counts.has_min_values(at) {
            return zones;
        }
        zones.iter().filter(|(zone, _)| self.meets_min_values_in(class, fit, at, zone)).cloned().collect()
    }

    /// Whether `zone` by itself offers enough distinct options of `fit` for `minValues` with a pod
    /// of `class`.
    fn meets_min_values_in(&mut self, class: u32, fit: FitId, at: u32, zone: &Zone) -> bool {
        let Some(supply) = &self.problem.supplies[at as usize] else { return false };
        let mut slots = BitSet::empty(supply.slots.len());
        supply.slots.iter().enumerate().filter(|(_, slot)| slot.zone == *zone).for_each(|(slot, _)| slots.insert(slot));
        let Some(fit) = self.fits.within_slots(fit, &slots, supply) else { return false };
        let nothing = self.problem.resources.zero();
        let request = &self.problem.classes[class as usize].request;
        let kinds: Vec<usize> = self.fits.fit(fit).types.iter().collect();
        kinds
            .into_iter()
            .filter_map(|kind| u32::try_from(kind).ok())
            .any(|kind| self.count_meeting_min_values(at, (fit, kind), (&nothing, &[]), request, 1) > 0)
    }

    /// Zones in which an option of `fit` with capacity for a pod of `class` is offered, each with
    /// the least price.
    fn zones_with_capacity(&mut self, class: u32, fit: FitId, supply: &PoolSupply) -> Zones {
        if let Some(known) = self.zone_cache.offering_capacity.get(&(class, fit)) {
            return known.clone();
        }
        let options = self.fits.fit(fit);
        let request = &self.problem.classes[class as usize].request;
        let mut least: Vec<Option<MicroUsd>> = vec![None; supply.slots.len()];
        let fits_pod =
            options.types.iter().filter(|kind| resource_vector::fits(request, &supply.net_allocatable[*kind]));
        for (slot, price) in fits_pod.flat_map(|kind| &supply.instance_types[kind].prices) {
            let known = &mut least[usize::from(*slot)];
            *known = Some(known.map_or(*price, |known| known.min(*price)));
        }
        let mut zones: BTreeMap<Zone, MicroUsd> = BTreeMap::new();
        for (slot, price) in options.slots.iter().filter_map(|slot| Some((slot, least[slot]?))) {
            let known = zones.entry(supply.slots[slot].zone.clone()).or_insert(price);
            *known = (*known).min(price);
        }
        let zones: Zones = zones.into_iter().collect();
        self.zone_cache.offering_capacity.insert((class, fit), zones.clone());
        zones
    }

    /// Zones in which an option of `fit` is offered.
    pub(super) fn zones_of_fit(&self, fit: FitId, supply: &PoolSupply) -> BTreeSet<Zone> {
        let options = self.fits.fit(fit);
        let offered = |slot: &usize| options.types.iter().any(|kind| supply.instance_types[kind].slots.contains(*slot));
        options.slots.iter().filter(offered).map(|slot| supply.slots[slot].zone.clone()).collect()
    }

    /// The zone of `fit` when it has only one.
    pub(super) fn only_zone(&self, fit: FitId, supply: &PoolSupply) -> Option<Zone> {
        let mut zones = self.zones_of_fit(fit, supply).into_iter();
        zones.next().filter(|_| zones.next().is_none())
    }

    /// Whether the instance types of `pool` together have as many values as its `minValues`
    /// require.
    pub(super) fn min_values_possible(&self, pool: u32) -> bool {
        let strict = self.problem.input.policy.min_values == MinValuesPolicy::Strict;
        let Some(supply) = &self.problem.supplies[pool as usize] else { return false };
        !strict || supply.min_values_rules.iter().all(MinValuesRule::is_possible)
    }

    /// The largest number up to `count` for which `minValues` hold over the options that still hold
    /// `used` plus that many times `request`, and that have the size of `target` where sizes are
    /// fixed (Karpenter core §2.6). The target has no other effect. `charged` is the pool's present
    /// charge for the machine; empty for a new one.
    pub(super) fn count_meeting_min_values(
        &self,
        pool: u32,
        (fit, target): (FitId, u32),
        (used, charged): (&[i64], &[i64]),
        request: &[i64],
        count: u32,
    ) -> u32 {
        let strict = self.problem.input.policy.min_values == MinValuesPolicy::Strict;
        let Some(supply) = &self.problem.supplies[pool as usize] else { return 0 };
        if count == 0 || !strict || supply.min_values_rules.is_empty() {
            return count;
        }
        let vcpu_milli =
            self.pool_counts.is_size_fixed(pool).then(|| supply.instance_types[target as usize].vcpu_milli);
        let mut counter = MinValuesCount::new(&supply.min_values_rules, count);
        for kind in self.fits.fit(fit).types.iter() {
            let sized = vcpu_milli.is_none_or(|size| supply.instance_types[kind].vcpu_milli == size);
            let more = resource_vector::copies_beside(request, used, &supply.net_allocatable[kind], count);
            if more > 0 && sized && self.within_limits_of(pool, kind, supply, charged) {
                counter.add_type(kind, more);
                if counter.is_met() {
                    return count;
                }
            }
        }
        counter.max_pods()
    }

    /// Whether the pool's limits allow a machine of this type instead of what is `charged`.
    fn within_limits_of(&self, pool: u32, kind: usize, supply: &PoolSupply, charged: &[i64]) -> bool {
        let charges = supply.instance_types[kind].charge.iter().zip(&self.limits[pool as usize]).enumerate();
        charges.into_iter().all(|(at, (charge, left))| {
            let own = charged.get(at).copied().unwrap_or(0);
            *charge <= own || *charge <= left + own
        })
    }

    /// Whether machines of `pool` are charged for more than their target: `minValues` require
    /// several options, and each must stay within the limits whichever is launched.
    pub(super) fn reserves_options(&self, pool: u32) -> bool {
        let strict = self.problem.input.policy.min_values == MinValuesPolicy::Strict;
        strict && self.pool_counts.has_min_values(pool) && !self.limits[pool as usize].is_empty()
    }

    /// The charge to `pool` for a machine of type `target` that carries `used`, so that its limits
    /// still allow the options that `minValues` require: the smallest types with enough capacity.
    pub(super) fn charge_for(
        &self,
        at: u32,
        (fit, target): (FitId, u32),
        (used, charged): (&[i64], &[i64]),
    ) -> Vec<i64> {
        let Some(supply) = &self.problem.supplies[at as usize] else { return Vec::new() };
        let mut charge = supply.instance_types[target as usize].charge.clone();
        if !self.reserves_options(at) {
            return charge;
        }
        let vcpu_milli = supply.instance_types[target as usize].vcpu_milli;
        let sized =
            |kind: usize| !self.pool_counts.is_size_fixed(at) || supply.instance_types[kind].vcpu_milli == vcpu_milli;
        let is_suitable = |kind: &usize| {
            let fits_pod = resource_vector::fits(used, &supply.net_allocatable[*kind]);
            fits_pod && sized(*kind) && self.within_limits_of(at, *kind, supply, charged)
        };
        let mut kinds: Vec<usize> = self.fits.fit(fit).types.iter().filter(is_suitable).collect();
        kinds.sort_by_key(|kind| (&supply.instance_types[*kind].charge, *kind));
        for place in supply.min_values_rules.iter().flat_map(|rule| rule.missing(&kinds, std::iter::empty())) {
            let wanted = &supply.instance_types[kinds[place]].charge;
            charge.iter_mut().zip(wanted).for_each(|(charge, wanted)| *charge = (*charge).max(*wanted));
        }
        charge
    }
}
