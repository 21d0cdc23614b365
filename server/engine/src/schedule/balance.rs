//! `zone-balance`, looked at once more when everybody has a place.
//!
//! A machine's zone is chosen when it is opened, by what stands then. Pods that are bound to a zone (by a selector, a volume)
//! may come later and fill that zone with machines that can stand nowhere else. Machines whose pods could run elsewhere give
//! way: they move to emptier zones until none is two machines fuller than a zone where its pods could run.

use std::cmp::Reverse;

use super::axis;
use super::bits::BitSet;
use super::fits::FitId;
use super::machines::Place;
use super::market::PoolSupply;
use super::packing::{Packing, PreferenceSet};
use crate::model::Text;

/// Combinations of OR-terms of the pods on one machine beyond which further ones are not tried.
const MOST_FITS: usize = 16;

impl Packing<'_, '_> {
    /// Moves machines of pools that balance zones, for as long as that brings the zones closer; whether any moved.
    pub(super) fn balance_zones(&mut self) -> bool {
        let input = self.problem.input;
        let pools = (0_u32..).zip(&input.pools).filter(|(_, pool)| pool.rules.zone_balance).map(|(at, _)| at);
        let pools: Vec<u32> = pools.filter(|at| self.problem.markets[*at as usize].is_some()).collect();
        if pools.is_empty() {
            return false;
        }
        let mut any = false;
        self.avoid_discouraged = false;
        let classes = self.classes_by_machine();
        for pool in pools {
            // Each move takes a machine from a zone to one with at least two fewer, so there is an end; it is soon.
            for _ in 0..self.home.len() {
                if !self.move_one(pool, &classes) {
                    break;
                }
                any = true;
            }
        }
        any
    }

    /// For each machine, by number, the classes of the pods on it.
    fn classes_by_machine(&self) -> Vec<Vec<u32>> {
        let mut classes: Vec<Vec<u32>> = vec![Vec::new(); self.home.len()];
        for event in &self.events {
            if let Place::New(id) = event.place
                && !classes[id as usize].contains(&event.class)
            {
                classes[id as usize].push(event.class);
            }
        }
        classes
    }

    /// Moves one machine from the fullest zone that has one to move to the emptiest that takes it.
    fn move_one(&mut self, pool: u32, classes: &[Vec<u32>]) -> bool {
        let problem = self.problem;
        let Some(market) = &problem.markets[pool as usize] else { return false };
        let mut zones: Vec<Text> = market.slots.iter().map(|slot| slot.zone.clone()).collect();
        zones.sort();
        zones.dedup();
        let count = |zone: &Text| self.ledger.in_zone(pool, zone);
        let mut ways: Vec<(Reverse<i64>, i64, Text, Text)> = Vec::new();
        for from in &zones {
            let emptier = zones.iter().filter(|to| count(to) + 2 <= count(from));
            ways.extend(emptier.map(|to| (Reverse(count(from)), count(to), from.clone(), to.clone())));
        }
        ways.sort();
        for (_, _, from, to) in ways {
            for at in 0..self.cohorts.len() {
                let cohort = &self.cohorts[at];
                let [id] = *cohort.ids.as_slice() else { continue };
                if cohort.pool != pool || self.only_zone(cohort.fit, market).as_ref() != Some(&from) {
                    continue;
                }
                if let Some((fit, target)) = self.elsewhere(at, &classes[id as usize], &to, market) {
                    self.cohorts[at].fit = fit;
                    self.retarget(at, target);
                    self.ledger.moved(pool, &from, &to);
                    return true;
                }
            }
        }
        false
    }

    /// The options of cohort `at`, on which pods of `classes` stand, in another zone; `None` when it cannot stand there.
    fn elsewhere(&mut self, at: usize, classes: &[u32], zone: &Text, market: &PoolSupply) -> Option<(FitId, u32)> {
        let (pool, own) = (self.cohorts[at].pool, self.cohorts[at].fit);
        if classes.iter().any(|class| self.looks_beyond(*class) || self.is_counted_beyond(*class)) {
            return None;
        }
        let bought = &market.slots[self.slots_of_fit(own).iter().next()?];
        let mut slots = BitSet::empty(market.slots.len());
        for (slot, other) in market.slots.iter().enumerate() {
            let alike = other.capacity_type == bought.capacity_type && other.reservation == bought.reservation;
            if alike && other.zone == *zone {
                slots.insert(slot);
            }
        }
        let mut fits: Vec<FitId> = self.any_fit(pool).to_vec();
        for class in classes {
            let theirs = self.class_fits(*class, PreferenceSet::default(), pool);
            let mut both = Vec::new();
            for (fit, other) in fits.iter().flat_map(|fit| theirs.iter().map(move |other| (*fit, *other))) {
                both.extend(self.fits.intersect(fit, other, market).filter(|fit| !both.contains(fit)));
            }
            both.truncate(MOST_FITS);
            fits = both;
        }
        fits.into_iter().find_map(|fit| {
            let fit = self.fits.within_slots(fit, &slots, market)?;
            Some((fit, self.target_for(at, fit, market)?))
        })
    }

    /// The machine that cohort `at` would fill with these options: the one it fills now, or else the cheapest that will do.
    fn target_for(&mut self, at: usize, fit: FitId, market: &PoolSupply) -> Option<u32> {
        let ranked = self.fits.ranked(fit, market);
        let cohort = &self.cohorts[at];
        let nothing = self.problem.axis.zero();
        let now = cohort.target as usize;
        let suits = |kind: usize| {
            let charges = market.machines[kind].charge.iter().zip(&cohort.charged);
            let mut more = charges.map(|(new, old)| new - old).zip(&self.limits[cohort.pool as usize]);
            let sized = !self.ledger.is_fixed(cohort.pool)
                || market.machines[kind].vcpu_milli == market.machines[now].vcpu_milli;
            let target = u32::try_from(kind).unwrap_or(u32::MAX);
            let carried = (cohort.used.as_slice(), cohort.charged.as_slice());
            sized
                && axis::fits(&cohort.used, &market.rooms[kind])
                && more.all(|(more, left)| more <= 0 || more <= *left)
                && self.flexible_count(cohort.pool, (fit, target), carried, &nothing, 1) > 0
        };
        let mut kinds: Vec<usize> = ranked.iter().map(|(_, kind)| *kind).collect();
        kinds.sort_by_key(|kind| (*kind != now, market.machines[*kind].exotic));
        kinds.into_iter().find(|kind| suits(*kind)).and_then(|kind| u32::try_from(kind).ok())
    }
}
