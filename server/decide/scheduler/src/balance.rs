//! Rebalancing for `zone-balance` after all classes are placed.
//!
//! A machine's zone is chosen when it is opened. Pods bound to a zone (by a selector or a volume)
//! may be placed later and open machines there that fit no other zone. Machines whose pods could
//! run elsewhere then move to emptier zones, until no zone has two machines more than a zone where
//! its pods could run.

use std::cmp::Reverse;

use super::bit_set::BitSet;
use super::classes::PreferenceSet;
use super::fits::FitId;
use super::machines::Destination;
use super::packing::Packing;
use super::pool_supply::PoolSupply;
use super::resource_vector;
use model::Zone;

/// Combinations of OR-terms of the pods on one machine beyond which further ones are not tried.
const MAX_FITS: usize = 16;

impl Packing<'_, '_> {
    /// Moves machines of pools with `zone-balance` while that brings the zones closer; returns
    /// whether any moved.
    pub(super) fn balance_zones(&mut self) -> bool {
        let input = self.problem.input;
        let pools = (0_u32..).zip(&input.pools).filter(|(_, pool)| pool.rules.zone_balance).map(|(at, _)| at);
        let pools: Vec<u32> = pools.filter(|at| self.problem.supplies[*at as usize].is_some()).collect();
        if pools.is_empty() {
            return false;
        }
        let mut any = false;
        self.avoid_prefer_no_schedule = false;
        let classes = self.classes_by_machine();
        for pool in pools {
            // Terminates: each move takes a machine from a zone to one with at least two fewer.
            for _ in 0..self.cohort_of.len() {
                if !self.move_machine_between_zones(pool, &classes) {
                    break;
                }
                any = true;
            }
        }
        any
    }

    /// For each machine, by number, the classes of the pods on it.
    fn classes_by_machine(&self) -> Vec<Vec<u32>> {
        let mut classes: Vec<Vec<u32>> = vec![Vec::new(); self.cohort_of.len()];
        for event in &self.events {
            if let Destination::New(id) = event.destination
                && !classes[id as usize].contains(&event.class)
            {
                classes[id as usize].push(event.class);
            }
        }
        classes
    }

    /// Moves one machine from the fullest zone with a movable one to the emptiest zone that can
    /// take it.
    fn move_machine_between_zones(&mut self, pool: u32, classes: &[Vec<u32>]) -> bool {
        let problem = self.problem;
        let Some(supply) = &problem.supplies[pool as usize] else { return false };
        let mut zones: Vec<Zone> = supply.slots.iter().map(|slot| slot.zone.clone()).collect();
        zones.sort();
        zones.dedup();
        let count = |zone: &Zone| self.pool_counts.nodes_in_zone(pool, zone);
        let mut ways: Vec<(Reverse<i64>, i64, Zone, Zone)> = Vec::new();
        for from in &zones {
            let emptier = zones.iter().filter(|to| count(to) + 2 <= count(from));
            ways.extend(emptier.map(|to| (Reverse(count(from)), count(to), from.clone(), to.clone())));
        }
        ways.sort();
        for (_, _, from, to) in ways {
            for at in 0..self.cohorts.len() {
                let cohort = &self.cohorts[at];
                let [id] = *cohort.ids.as_slice() else { continue };
                if cohort.pool != pool || self.only_zone(cohort.fit, supply).as_ref() != Some(&from) {
                    continue;
                }
                if let Some((fit, target)) = self.fit_in_zone(at, &classes[id as usize], &to, supply) {
                    self.cohorts[at].fit = fit;
                    self.retarget(at, target);
                    self.pool_counts.move_machine(pool, &from, &to);
                    return true;
                }
            }
        }
        false
    }

    /// The options of cohort `at`, with pods of `classes`, in another zone; `None` when it cannot
    /// run there.
    fn fit_in_zone(&mut self, at: usize, classes: &[u32], zone: &Zone, supply: &PoolSupply) -> Option<(FitId, u32)> {
        let (pool, own) = (self.cohorts[at].pool, self.cohorts[at].fit);
        if classes.iter().any(|class| self.has_wide_rules(*class) || self.is_counted_by_wide_rules(*class)) {
            return None;
        }
        let present = &supply.slots[self.slots_of_fit(own).iter().next()?];
        let mut slots = BitSet::empty(supply.slots.len());
        for (slot, other) in supply.slots.iter().enumerate() {
            let same_purchase =
                other.capacity_type == present.capacity_type && other.reservation == present.reservation;
            if same_purchase && other.zone == *zone {
                slots.insert(slot);
            }
        }
        let mut fits: Vec<FitId> = self.any_fit(pool).to_vec();
        for class in classes {
            let theirs = self.class_fits(*class, PreferenceSet::default(), pool);
            let mut both = Vec::new();
            for (fit, other) in fits.iter().flat_map(|fit| theirs.iter().map(move |other| (*fit, *other))) {
                both.extend(self.fits.intersect(fit, other, supply).filter(|fit| !both.contains(fit)));
            }
            both.truncate(MAX_FITS);
            fits = both;
        }
        fits.into_iter().find_map(|fit| {
            let fit = self.fits.within_slots(fit, &slots, supply)?;
            Some((fit, self.target_for(at, fit, supply)?))
        })
    }

    /// The target of cohort `at` with these options: the present one, or else the cheapest
    /// possible.
    fn target_for(&mut self, at: usize, fit: FitId, supply: &PoolSupply) -> Option<u32> {
        let ranked = self.fits.ranked(fit, supply);
        let cohort = &self.cohorts[at];
        let nothing = self.problem.resources.zero();
        let now = cohort.target_type as usize;
        let is_suitable = |kind: usize| {
            let charges = supply.instance_types[kind].charge.iter().zip(&cohort.charged);
            let mut more = charges.map(|(new, old)| new - old).zip(&self.limits[cohort.pool as usize]);
            let sized = !self.pool_counts.is_size_fixed(cohort.pool)
                || supply.instance_types[kind].vcpu_milli == supply.instance_types[now].vcpu_milli;
            let target = u32::try_from(kind).unwrap_or(u32::MAX);
            let carried = (cohort.used.as_slice(), cohort.charged.as_slice());
            sized
                && resource_vector::fits(&cohort.used, &supply.net_allocatable[kind])
                && more.all(|(more, left)| more <= 0 || more <= *left)
                && self.count_meeting_min_values(cohort.pool, (fit, target), carried, &nothing, 1) > 0
        };
        let mut kinds: Vec<usize> = ranked.iter().map(|(_, kind)| *kind).collect();
        kinds.sort_by_key(|kind| (*kind != now, supply.instance_types[*kind].exotic));
        kinds.into_iter().find(|kind| is_suitable(*kind)).and_then(|kind| u32::try_from(kind).ok())
    }
}
