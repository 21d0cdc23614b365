//! Which domains count for a rule, and which of them a class can be put in.
//!
//! Rules are asked about domains for every pod or two, and what the domains are changes rarely or never: the answers are
//! kept, by scope where the class makes no difference.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::bits::BitSet;
use super::fits::FitId;
use super::machines::ExistingNode;
use super::nodes::passes;
use super::packing::{Packing, Pin, PreferenceSet};
use super::topology::{ABSENT, DomainId, GroupId, KeyId, ScopeId};
use crate::model::taints::first_barring;

/// Class and preferences, and whether `PreferNoSchedule` taints are kept clear of.
type Asker = (u32, PreferenceSet, bool);
/// Scope and number of events; domains that are possible, and how many of them are certain.
type Present = ((ScopeId, usize), (Rc<[DomainId]>, usize));

/// Answers that were given before.
#[derive(Debug, Default)]
pub(super) struct Known {
    universes: FxHashMap<ScopeId, Rc<[DomainId]>>,
    /// The domains that were present for a scope when there were so many events.
    present: Option<Present>,
    reachable: FxHashMap<(Asker, KeyId), Rc<[DomainId]>>,
    may_lack: FxHashMap<(Asker, KeyId), bool>,
    prices: FxHashMap<(Asker, Pin), i64>,
    /// By scope and pool.
    passing: FxHashMap<(ScopeId, u32), Rc<[FitId]>>,
    rooms_in: FxHashMap<Pin, Rc<BitSet>>,
    /// A class, and the rooms open to it that are not full.
    roomy: Option<(u32, BitSet)>,
}

impl Packing<'_, '_> {
    fn asker(&self, class: u32, softs: PreferenceSet) -> Asker {
        (class, softs, self.avoid_discouraged)
    }

    /// Every domain that counts for rules about `group`: of machines that are there, and of those that could be bought, be
    /// it for others.
    pub(super) fn universe(&mut self, group: GroupId) -> Rc<[DomainId]> {
        let scope = self.topology.scope(group);
        if let Some(known) = self.known.universes.get(&scope) {
            return known.clone();
        }
        let problem = self.problem;
        let key = self.topology.groups[group as usize].key;
        let mut domains: BTreeSet<DomainId> = self.domains_of_rooms(group).collect();
        for pool in problem.tiers.iter().flatten().copied() {
            for fit in self.fits_that_pass(group, pool).iter() {
                domains.extend(self.domains_of_fit(*fit, pool, key).iter());
            }
        }
        let domains: Rc<[DomainId]> = domains.into_iter().collect();
        self.known.universes.insert(scope, domains.clone());
        domains
    }

    /// Domains that a machine which counts for rules about `group` may be in, and how many of them have one for sure. They
    /// stay the same until a pod is placed.
    pub(super) fn present(&mut self, group: GroupId) -> (Rc<[DomainId]>, usize) {
        let asked = (self.topology.scope(group), self.events.len());
        if let Some((known, found)) = &self.known.present
            && *known == asked
        {
            return found.clone();
        }
        let found = self.find_present(group);
        self.known.present = Some((asked, found.clone()));
        found
    }

    /// Forgets which domains are present, when machines were merged or moved.
    pub(super) fn forget_present(&mut self) {
        self.known.present = None;
    }

    fn find_present(&mut self, group: GroupId) -> (Rc<[DomainId]>, usize) {
        let key = self.topology.groups[group as usize].key;
        let mut certain: BTreeSet<DomainId> = self.domains_of_rooms(group).collect();
        let mut possible: BTreeSet<DomainId> = BTreeSet::new();
        for at in 0..self.cohorts.len() {
            if self.cohorts[at].ids.is_empty() {
                continue;
            }
            let (own, pool) = (self.cohorts[at].fit, self.cohorts[at].pool);
            let Some(market) = &self.problem.markets[pool as usize] else { continue };
            // Where the rule looks at some of the options only, it sees the domains of those.
            let (mut domains, mut surely) = (BTreeSet::new(), false);
            for passing in self.fits_that_pass(group, pool).iter() {
                if let Some(both) = self.fits.intersect(own, *passing, market) {
                    surely |= both == own;
                    domains.extend(self.domains_of_cohort(at, both, key).iter().copied());
                }
            }
            if surely && domains.len() == 1 {
                certain.extend(&domains);
            }
            possible.extend(domains);
        }
        (certain.union(&possible).copied().collect(), certain.len())
    }

    fn domains_of_rooms(&self, group: GroupId) -> impl Iterator<Item = DomainId> {
        let spec = &self.topology.groups[group as usize];
        let nodes = &self.problem.input.nodes;
        let counts =
            |room: &&ExistingNode| passes(&spec.filter, &nodes[room.node as usize], &self.fits, &self.topology);
        self.rooms.iter().filter(counts).filter_map(|room| room.domains[usize::from(spec.key) - 1])
    }

    /// Domains of `key` in which pods of `class` could be put, ascending.
    pub(super) fn reachable(&mut self, class: u32, softs: PreferenceSet, key: KeyId) -> Rc<[DomainId]> {
        let asked = (self.asker(class, softs), key);
        if let Some(known) = self.known.reachable.get(&asked) {
            return known.clone();
        }
        let problem = self.problem;
        let mut domains: BTreeSet<DomainId> =
            self.rooms.iter().filter_map(|room| room.domains[usize::from(key) - 1]).collect();
        for pool in problem.tiers.iter().flatten().copied() {
            for fit in self.class_fits(class, softs, pool).iter() {
                domains.extend(self.domains_of_fit(*fit, pool, key).iter());
            }
        }
        let domains: Rc<[DomainId]> = domains.into_iter().collect();
        self.known.reachable.insert(asked, domains.clone());
        domains
    }

    /// Whether pods of `class` could be put on machines without the label `key`.
    pub(super) fn may_lack(&mut self, class: u32, softs: PreferenceSet, key: KeyId) -> bool {
        let asked = (self.asker(class, softs), key);
        if let Some(known) = self.known.may_lack.get(&asked) {
            return *known;
        }
        let problem = self.problem;
        let lacks = self.rooms.iter().any(|room| room.domains[usize::from(key) - 1].is_none())
            || problem.tiers.iter().flatten().any(|pool| {
                let fits = self.class_fits(class, softs, *pool);
                fits.iter().any(|fit| self.domains_of_fit(*fit, *pool, key).is_empty())
            });
        self.known.may_lack.insert(asked, lacks);
        lacks
    }

    /// The least price of anything with room for a pod of `class` in the domain `pin`: a rank for domains that are filled
    /// alike.
    pub(super) fn domain_price(&mut self, class: u32, softs: PreferenceSet, pin: Pin) -> i64 {
        let asked = (self.asker(class, softs), pin);
        if let Some(known) = self.known.prices.get(&asked) {
            return *known;
        }
        let price = self.find_price(class, softs, pin);
        self.known.prices.insert(asked, price);
        price
    }

    /// What pool `at` offers that counts for `group`, one fit per alternative of its filter.
    pub(super) fn fits_that_pass(&mut self, group: GroupId, at: u32) -> Rc<[FitId]> {
        let asked = (self.topology.scope(group), at);
        if let Some(known) = self.known.passing.get(&asked) {
            return known.clone();
        }
        let fits: Rc<[FitId]> = self.find_passing(group, at).into();
        self.known.passing.insert(asked, fits.clone());
        fits
    }

    fn find_passing(&mut self, group: GroupId, at: u32) -> Vec<FitId> {
        let problem = self.problem;
        let pool = &problem.input.pools[at as usize];
        let filter = self.topology.groups[group as usize].filter.clone();
        if filter.tolerations.as_ref().is_some_and(|own| first_barring(&pool.taints, own).is_some()) {
            return Vec::new();
        }
        let Some(market) = &problem.markets[at as usize] else { return Vec::new() };
        let mut fits: Vec<FitId> = match &filter.any_of {
            Some(any_of) => any_of.iter().filter_map(|id| self.fits.compile(*id, at, pool, market)).collect(),
            None => self.any_fit(at).to_vec(),
        };
        fits.retain(|fit| filter.keys.iter().all(|key| !self.domains_of_fit(*fit, at, *key).is_empty()));
        fits
    }

    /// The rooms in the domains `pins` that labels and taints open to `class` and that are not known to be full for it.
    pub(super) fn roomy(&mut self, class: u32, pins: &[Pin]) -> BitSet {
        if self.known.roomy.as_ref().is_none_or(|(of, _)| *of != class) {
            let open = self.open_rooms(class);
            self.known.roomy = Some((class, (*open).clone()));
        }
        let mut rooms = self.known.roomy.as_ref().map(|(_, rooms)| rooms.clone()).unwrap_or_default();
        pins.iter().for_each(|pin| rooms.intersect(&self.rooms_in(*pin)));
        rooms
    }

    /// Notes that room `at` is full for `class`, which [`Packing::roomy`] was asked about last. It stays so: rooms never get
    /// anything back.
    pub(super) fn note_full(&mut self, class: u32, at: usize) {
        if let Some((_, rooms)) = self.known.roomy.as_mut().filter(|(of, _)| *of == class) {
            rooms.remove(at);
        }
    }

    fn rooms_in(&mut self, pin: Pin) -> Rc<BitSet> {
        if let Some(known) = self.known.rooms_in.get(&pin) {
            return known.clone();
        }
        let wanted = (pin.domain != ABSENT).then_some(pin.domain);
        let mut there = BitSet::empty(self.rooms.len());
        let inside = |(_, room): &(usize, &ExistingNode)| room.domains[usize::from(pin.key) - 1] == wanted;
        self.rooms.iter().enumerate().filter(inside).for_each(|(at, _)| there.insert(at));
        let there = Rc::new(there);
        self.known.rooms_in.insert(pin, there.clone());
        there
    }
}
