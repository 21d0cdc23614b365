//! The options of a class: which types and offerings of a pool its pods may use, and the domains that these have.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::bit_set::BitSet;
use super::classes::PreferenceSet;
use super::fits::FitId;
use super::machines::ports_free;
use super::packing::Packing;
use super::pool_offerings::is_offering_label;
use super::resource_vector;
use super::topology::{DomainId, KeyId};
use model::labels::{ARCH, CAPACITY_TYPE, NODECLASS, NODEPOOL};
use model::taints::{first_untolerated, has_untolerated_soft_taint};
use model::{Operator, Requirement};

impl Packing<'_, '_> {
    /// The options of `pool` for `class` under `preferences`: one fit per alternative, before
    /// resources and pins.
    pub(super) fn class_fits(&mut self, class: u32, preferences: PreferenceSet, pool: u32) -> Rc<[FitId]> {
        if let Some(known) = self.class_fits.get(&(class, preferences, pool, self.avoid_prefer_no_schedule)) {
            return known.clone();
        }
        let fits: Rc<[FitId]> = self.make_class_fits(class, preferences, pool).into();
        self.class_fits.insert((class, preferences, pool, self.avoid_prefer_no_schedule), fits.clone());
        fits
    }

    fn make_class_fits(&mut self, class: u32, preferences: PreferenceSet, at: u32) -> Vec<FitId> {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let pool = &problem.input.pools[at as usize];
        let Some(supply) = &problem.supplies[at as usize] else { return Vec::new() };
        let shape = &problem.input.shapes[needs.shape as usize];
        if first_untolerated(&pool.taints, &shape.tolerations).is_some()
            || (self.avoid_prefer_no_schedule && has_untolerated_soft_taint(&pool.taints, &shape.tolerations))
            || !ports_free(&shape.host_ports, &supply.daemon_ports)
        {
            return Vec::new();
        }
        let preferred = needs.preferences.iter().enumerate().filter(|(at, _)| preferences.has(*at));
        let preferred: Vec<_> = preferred.filter_map(|(_, preference)| preference.requirements.as_ref()).collect();
        let mut fits = Vec::new();
        // The alternatives are OR-terms, so node preferences narrow each one by itself.
        for id in &needs.alternatives {
            self.steps.consume((1 + preferred.len()) * (1 + supply.instance_types.len() / 32));
            let mut id = *id;
            if !preferred.is_empty() {
                let mut all = self.fits.requirements(id).clone();
                preferred.iter().for_each(|wanted| all.add_all(wanted));
                id = self.fits.intern_requirements(all);
            }
            if let Some(fit) = self.fits.compile(id, at, pool, supply)
                && let Some(fit) = self.apply_rules(class, fit, at)
                && !fits.contains(&fit)
            {
                fits.push(fit);
            }
        }
        fits
    }

    /// Every option that `pool` offers, for any class.
    pub(super) fn any_fit(&mut self, pool: u32) -> Rc<[FitId]> {
        let id = self.fits.intern_requirements(model::Requirements::new());
        let Some(supply) = &self.problem.supplies[pool as usize] else { return [].into() };
        self.fits.compile(id, pool, &self.problem.input.pools[pool as usize], supply).into_iter().collect()
    }

    /// `fit` under the opt-in rule that depends on the pod alone: safe architectures.
    fn apply_rules(&mut self, class: u32, fit: FitId, at: u32) -> Option<FitId> {
        let problem = self.problem;
        let pool = &problem.input.pools[at as usize];
        let safe = &pool.rules.safe_architectures;
        if safe.is_empty() || problem.classes[class as usize].requires_arch {
            return Some(fit);
        }
        let supply = problem.supplies[at as usize].as_ref()?;
        let wanted = Requirement::new(ARCH, Operator::In, safe.iter().cloned());
        let id = self.fits.intern_requirements([wanted].into_iter().collect());
        let narrowed = self.fits.compile(id, at, pool, supply)?;
        self.fits.intersect(fit, narrowed, supply)
    }

    /// Slots of `fit`.
    pub(super) fn slots_of_fit(&self, fit: FitId) -> &BitSet {
        &self.fits.fit(fit).slots
    }

    /// The domains of `key` possible for the options of `fit`.
    pub(super) fn domains_of_fit(&mut self, fit: FitId, pool: u32, key: KeyId) -> Rc<[DomainId]> {
        if let Some(known) = self.fit_domains.get(&(fit, pool, key)) {
            return known.clone();
        }
        let name = self.topology.key_name(key).clone();
        let values = self.values_of_fit(fit, pool, &name);
        let domains: BTreeSet<DomainId> = values.iter().map(|value| self.topology.domain_id(key, value)).collect();
        let domains: Rc<[DomainId]> = domains.into_iter().collect();
        self.fit_domains.insert((fit, pool, key), domains.clone());
        domains
    }

    fn values_of_fit(&self, fit: FitId, at: u32, key: &str) -> BTreeSet<String> {
        let problem = self.problem;
        let pool = &problem.input.pools[at as usize];
        let Some(supply) = &problem.supplies[at as usize] else { return BTreeSet::new() };
        let fit = self.fits.fit(fit);
        match key {
            NODEPOOL => return BTreeSet::from([pool.name.to_string()]),
            NODECLASS => return BTreeSet::from([pool.node_class.to_string()]),
            _ => {}
        }
        if key == CAPACITY_TYPE || is_offering_label(pool, key) {
            let offered = |slot: &usize| fit.types.iter().any(|kind| supply.instance_types[kind].slots.contains(*slot));
            let label = |slot: usize| supply.slots[slot].label(key).map(str::to_owned);
            return fit.slots.iter().filter(offered).filter_map(label).collect();
        }
        // Values that types define take precedence over those that the pool leaves open.
        let open = fit.open_labels.get(key).or_else(|| pool.requirements.get(key));
        let mut values = BTreeSet::new();
        let mut typed = false;
        for kind in fit.types.iter() {
            let kind = &pool.catalogue.types[supply.instance_types[kind].index as usize];
            if let Some(known) = kind.labels.get(key) {
                typed = true;
                let allowed = known.finite_values().into_iter().flatten();
                values.extend(allowed.filter(|v| open.is_none_or(|open| open.has(v))).map(|v| v.to_string()));
            }
        }
        if !typed && let Some(open) = open.filter(|open| !open.allows_absence()) {
            match open.finite_values() {
                Some(finite) => values.extend(finite.iter().map(|v| v.to_string())),
                None => values.extend(open.representative().map(|v| v.to_string())),
            }
        }
        values
    }

    /// The domains of `key` possible for machines of cohort `at` within `fit`, given their pods.
    pub(super) fn domains_of_cohort(&mut self, at: usize, fit: FitId, key: KeyId) -> Rc<[DomainId]> {
        let (pool, used) = (self.cohorts[at].pool, &self.cohorts[at].used);
        let mut fit = self.fits.fit(fit).clone();
        if let Some(supply) = &self.problem.supplies[pool as usize] {
            let all = fit.types.clone();
            let cramped = all.iter().filter(|kind| !resource_vector::fits(used, &supply.net_allocatable[*kind]));
            cramped.for_each(|kind| fit.types.remove(kind));
        }
        let fit = self.fits.intern(fit);
        self.domains_of_fit(fit, pool, key)
    }
}
