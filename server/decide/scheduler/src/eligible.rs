//! The domains that count for a rule, and the domains in which a class can be placed.
//!
//! Rules query domains for every pod or two, while the domains change rarely or never: results are
//! cached, by scope where the class makes no difference.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::bit_set::BitSet;
use super::classes::PreferenceSet;
use super::fits::FitId;
use super::machines::ExistingNode;
use super::nodes::{node_satisfies, passes, tolerates_cordon};
use super::packing::Packing;
use super::packing_cache::ClassQuery;
use super::topology::{ABSENT, DomainId, GroupId, KeyId, Pin};
use model::taints::first_untolerated;

impl Packing<'_, '_> {
    pub(super) fn class_query(&self, class: u32, preferences: PreferenceSet) -> ClassQuery {
        (class, preferences, self.avoid_prefer_no_schedule)
    }

    /// Every domain that counts for rules about `group`: those of existing nodes and of machines
    /// that could be opened, for any class.
    pub(super) fn eligible_domains(&mut self, group: GroupId) -> Rc<[DomainId]> {
        let scope = self.topology.scope(group);
        if let Some(known) = self.domain_cache.eligible.get(&scope) {
            return known.clone();
        }
        let problem = self.problem;
        let key = self.topology.groups[group as usize].key;
        let mut domains: BTreeSet<DomainId> = self.domains_of_existing_nodes(group).collect();
        for pool in problem.tiers.iter().flatten().copied() {
            for fit in self.fits_that_pass(group, pool).iter() {
                domains.extend(self.domains_of_fit(*fit, pool, key).iter());
            }
        }
        let domains: Rc<[DomainId]> = domains.into_iter().collect();
        self.domain_cache.eligible.insert(scope, domains.clone());
        domains
    }

    /// The domains possible for machines that count for rules about `group`, and how many of them
    /// are certain to have one. Valid until a pod is placed.
    pub(super) fn present_domains(&mut self, group: GroupId) -> (Rc<[DomainId]>, usize) {
        let query = (self.topology.scope(group), self.events.len());
        if let Some((known, found)) = &self.domain_cache.present
            && *known == query
        {
            return found.clone();
        }
        let found = self.find_present_domains(group);
        self.domain_cache.present = Some((query, found.clone()));
        found
    }

    /// Clears the cached present domains after machines were merged or moved.
    pub(super) fn clear_present_domains(&mut self) {
        self.domain_cache.present = None;
    }

    fn find_present_domains(&mut self, group: GroupId) -> (Rc<[DomainId]>, usize) {
        let key = self.topology.groups[group as usize].key;
        let mut certain: BTreeSet<DomainId> = self.domains_of_existing_nodes(group).collect();
        let mut possible: BTreeSet<DomainId> = BTreeSet::new();
        for at in 0..self.cohorts.len() {
            if self.cohorts[at].ids.is_empty() {
                continue;
            }
            let (own, pool) = (self.cohorts[at].fit, self.cohorts[at].pool);
            let Some(supply) = &self.problem.supplies[pool as usize] else { continue };
            // A filter may admit some of the options only; then it counts the domains of those.
            let (mut domains, mut all_options_pass) = (BTreeSet::new(), false);
            for passing in self.fits_that_pass(group, pool).iter() {
                if let Some(both) = self.fits.intersect(own, *passing, supply) {
                    all_options_pass |= both == own;
                    domains.extend(self.domains_of_cohort(at, both, key).iter().copied());
                }
            }
            if all_options_pass && domains.len() == 1 {
                certain.extend(&domains);
            }
            possible.extend(domains);
        }
        (certain.union(&possible).copied().collect(), certain.len())
    }

    fn domains_of_existing_nodes(&self, group: GroupId) -> impl Iterator<Item = DomainId> {
        let spec = &self.topology.groups[group as usize];
        let nodes = &self.problem.input.nodes;
        let counts =
            |existing: &&ExistingNode| passes(&spec.filter, &nodes[existing.node as usize], &self.fits, &self.topology);
        self.existing_nodes.iter().filter(counts).filter_map(|existing| existing.domains[usize::from(spec.key) - 1])
    }

    /// Domains of `key` in which pods of `class` can be placed, ascending.
    pub(super) fn reachable_domains(&mut self, class: u32, preferences: PreferenceSet, key: KeyId) -> Rc<[DomainId]> {
        let query = (self.class_query(class, preferences), key);
        if let Some(known) = self.domain_cache.reachable.get(&query) {
            return known.clone();
        }
        let problem = self.problem;
        let mut domains: BTreeSet<DomainId> =
            self.existing_nodes.iter().filter_map(|existing| existing.domains[usize::from(key) - 1]).collect();
        for pool in problem.tiers.iter().flatten().copied() {
            for fit in self.class_fits(class, preferences, pool).iter() {
                domains.extend(self.domains_of_fit(*fit, pool, key).iter());
            }
        }
        let domains: Rc<[DomainId]> = domains.into_iter().collect();
        self.domain_cache.reachable.insert(query, domains.clone());
        domains
    }

    /// Whether pods of `class` can be placed on nodes without the label `key`.
    pub(super) fn may_lack_label(&mut self, class: u32, preferences: PreferenceSet, key: KeyId) -> bool {
        let query = (self.class_query(class, preferences), key);
        if let Some(known) = self.domain_cache.may_lack.get(&query) {
            return *known;
        }
        let problem = self.problem;
        let lacks = self.existing_nodes.iter().any(|existing| existing.domains[usize::from(key) - 1].is_none())
            || problem.tiers.iter().flatten().any(|pool| {
                let fits = self.class_fits(class, preferences, *pool);
                fits.iter().any(|fit| self.domains_of_fit(*fit, *pool, key).is_empty())
            });
        self.domain_cache.may_lack.insert(query, lacks);
        lacks
    }

    /// The offerings of pool `at` that count for `group`, one fit per alternative of its filter.
    pub(super) fn fits_that_pass(&mut self, group: GroupId, at: u32) -> Rc<[FitId]> {
        let query = (self.topology.scope(group), at);
        if let Some(known) = self.domain_cache.passing.get(&query) {
            return known.clone();
        }
        let fits: Rc<[FitId]> = self.find_passing_fits(group, at).into();
        self.domain_cache.passing.insert(query, fits.clone());
        fits
    }

    fn find_passing_fits(&mut self, group: GroupId, at: u32) -> Vec<FitId> {
        let problem = self.problem;
        let pool = &problem.input.pools[at as usize];
        let filter = self.topology.groups[group as usize].filter.clone();
        if filter.tolerations.as_ref().is_some_and(|own| first_untolerated(&pool.taints, own).is_some()) {
            return Vec::new();
        }
        let Some(supply) = &problem.supplies[at as usize] else { return Vec::new() };
        let mut fits: Vec<FitId> = match &filter.any_of {
            Some(any_of) => any_of.iter().filter_map(|id| self.fits.compile(*id, at, pool, supply)).collect(),
            None => self.any_fit(at).to_vec(),
        };
        fits.retain(|fit| filter.keys.iter().all(|key| !self.domains_of_fit(*fit, at, *key).is_empty()));
        fits
    }

    /// The nodes in the domains `pins` whose labels and taints admit `class` and that are not known
    /// to be full for it.
    pub(super) fn candidate_nodes(&mut self, class: u32, pins: &[Pin]) -> BitSet {
        if self.domain_cache.candidates.as_ref().is_none_or(|(of, _)| *of != class) {
            let open = self.admitting_nodes(class);
            self.domain_cache.candidates = Some((class, (*open).clone()));
        }
        let mut nodes = self.domain_cache.candidates.as_ref().map(|(_, nodes)| nodes.clone()).unwrap_or_default();
        pins.iter().for_each(|pin| nodes.intersect(&self.nodes_in_domain(*pin)));
        nodes
    }

    /// Records that node `at` is full for `class`, the last argument of
    /// [`Packing::candidate_nodes`]. It stays so: free capacity of nodes never grows.
    pub(super) fn mark_full(&mut self, class: u32, at: usize) {
        if let Some((_, nodes)) = self.domain_cache.candidates.as_mut().filter(|(of, _)| *of == class) {
            nodes.remove(at);
        }
    }

    fn nodes_in_domain(&mut self, pin: Pin) -> Rc<BitSet> {
        if let Some(known) = self.domain_cache.nodes_in_domain.get(&pin) {
            return known.clone();
        }
        let wanted = (pin.domain != ABSENT).then_some(pin.domain);
        let mut nodes = BitSet::empty(self.existing_nodes.len());
        let inside = |(_, existing): &(usize, &ExistingNode)| existing.domains[usize::from(pin.key) - 1] == wanted;
        self.existing_nodes.iter().enumerate().filter(inside).for_each(|(at, _)| nodes.insert(at));
        let nodes = Rc::new(nodes);
        self.domain_cache.nodes_in_domain.insert(pin, nodes.clone());
        nodes
    }

    /// The nodes whose labels and taints admit `class`, computed once per distinct requirement.
    pub(super) fn admitting_nodes(&mut self, class: u32) -> Rc<BitSet> {
        let problem = self.problem;
        let input = problem.input;
        let needs = &problem.classes[class as usize];
        let shape = &input.shapes[needs.shape as usize];
        let key = (needs.alternatives.clone(), shape.tolerations.as_slice());
        if let Some(known) = self.admitting_nodes.get(&key) {
            return known.clone();
        }
        let mut open = BitSet::empty(self.existing_nodes.len());
        for (at, existing) in self.existing_nodes.iter().enumerate() {
            let node = &input.nodes[existing.node as usize];
            let admitted = (!node.unschedulable || tolerates_cordon(&shape.tolerations))
                && first_untolerated(&node.taints, &shape.tolerations).is_none()
                && needs.alternatives.iter().any(|id| node_satisfies(node, *id, &self.fits));
            if admitted {
                open.insert(at);
            }
        }
        let open = Rc::new(open);
        self.admitting_nodes.insert(key, open.clone());
        open
    }
}
