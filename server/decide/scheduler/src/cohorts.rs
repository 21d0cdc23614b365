//! Cohorts: machines that the plan launches anyway. They are filled before more are opened, and get
//! a larger target when no further machine may be opened.

use smallvec::SmallVec;

use super::classes::PreferenceSet;
use super::fits::FitId;
use super::machines::{Cohort, Destination, GrowthLimit, PlacementEvent, ports_free};
use super::packing::Packing;
use super::patterns::{KeptRoom, Patterns};
use super::pool_supply::PoolSupply;
use super::resource_vector::{self, Amounts, CPU_AT};
use super::topology::{ABSENT, DomainId, GroupId, KeyId, Pin, Tally, Topology};

/// A wide key under which pods of a class are counted, and a group that counts them.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedKey {
    pub(super) key: KeyId,
    pub(super) group: GroupId,
    /// Whether a required rule uses it.
    hard: bool,
}

pub(super) type Counted = SmallVec<[CountedKey; 2]>;

impl<'i> Packing<'_, 'i> {
    /// [`Packing::class_fits`] narrowed to the domains `pins`.
    pub(super) fn pinned_fits(
        &mut self,
        class: u32,
        preferences: PreferenceSet,
        pool: u32,
        pins: &[Pin],
    ) -> Vec<FitId> {
        let fits = self.class_fits(class, preferences, pool);
        fits.iter().filter_map(|fit| self.pin_all(*fit, pool, pins)).collect()
    }

    fn pin_all(&mut self, fit: FitId, pool: u32, pins: &[Pin]) -> Option<FitId> {
        pins.iter().try_fold(fit, |fit, pin| self.pin(fit, pool, *pin))
    }

    /// `fit` narrowed to one domain.
    pub(super) fn pin(&mut self, fit: FitId, at: u32, pin: Pin) -> Option<FitId> {
        match *self.domains_of_fit(fit, at, pin.key) {
            ref domains if pin.domain == ABSENT => return domains.is_empty().then_some(fit),
            [only] if only == pin.domain => return Some(fit),
            ref several if !several.contains(&pin.domain) => return None,
            _ => {}
        }
        let supply = self.problem.supplies[at as usize].as_ref()?;
        let value = self.topology.domain_name(pin.key, pin.domain).clone();
        let wanted = model::Requirement::equals(self.topology.key_name(pin.key), value);
        let id = self.fits.intern_requirements([wanted].into_iter().collect());
        let narrowed = self.fits.compile(id, at, &self.problem.input.pools[at as usize], supply)?;
        self.fits.intersect(fit, narrowed, supply)
    }

    /// Wide keys under which any group counts pods of `class`: its machine must have exactly one
    /// domain for each. For preferences the domain is pinned too, unless that removes options which
    /// `minValues` need.
    pub(super) fn counted_keys(&self, class: u32) -> Counted {
        let mut keys = Counted::new();
        for group in &self.problem.classes[class as usize].selected_by {
            let key = self.topology.groups[*group as usize].key;
            let hard = self.topology.is_hard(*group);
            match keys.iter_mut().find(|counted| counted.key == key) {
                Some(counted) => counted.hard |= hard,
                None if key == Topology::HOST => {}
                None => keys.push(CountedKey { key, group: *group, hard }),
            }
        }
        keys
    }

    /// The [`Packing::counted_keys`] that must be pinned on machines of `pool`.
    pub(super) fn pinned_keys(&self, class: u32, pool: u32) -> Counted {
        let mut keys = self.counted_keys(class);
        keys.retain(|counted| counted.hard || !self.pool_counts.has_min_values(pool));
        keys
    }

    /// Puts up to `most` pods of `class` on machines that the plan launches anyway; returns the
    /// number placed. With `scatter`, pools that miss nodes to `min-nodes` are skipped.
    pub(super) fn fill_cohorts(
        &mut self,
        class: u32,
        most: u32,
        pins: &[Pin],
        preferences: PreferenceSet,
        scatter: bool,
    ) -> u32 {
        let problem = self.problem;
        let request = &problem.classes[class as usize].request;
        let each_look = problem.classes[class as usize].constraints();
        let counted = self.counted_keys(class);
        if self.patterns.are_in_use() {
            return self.fill_kept_room(class, most, pins, preferences, &counted);
        }
        let mut left = most;
        let mut at = 0;
        while left > 0 && at < self.candidate_cohorts.len() {
            let cohort = self.candidate_cohorts[at] as usize;
            at += 1;
            self.steps.consume(each_look);
            if !resource_vector::fits(request, &self.cohorts[cohort].free)
                || (scatter && self.pool_counts.missing_nodes(self.cohorts[cohort].pool) > 0)
            {
                continue;
            }
            let Some(fit) = self.joined_fit(class, cohort, pins, preferences, &counted) else { continue };
            // Where charges reserve options, each machine changes the limits of the next: one at a
            // time.
            let one_by_one = self.reserves_options(self.cohorts[cohort].pool);
            loop {
                let each = self.cohort_cap(class, cohort, fit, preferences).min(left);
                let machines = self.cohorts[cohort].ids.len();
                if each == 0 || (self.all_on_one_machine && each < left) {
                    break;
                }
                left -= self.fill_cohort(class, cohort, fit, each, left);
                if left == 0 || !one_by_one || machines == 1 {
                    break;
                }
            }
        }
        most - left
    }

    /// Puts up to `most` pods of `class` into the room that is kept for them.
    fn fill_kept_room(
        &mut self,
        class: u32,
        most: u32,
        pins: &[Pin],
        preferences: PreferenceSet,
        counted: &[CountedKey],
    ) -> u32 {
        if self.all_on_one_machine {
            return 0;
        }
        let keeps = |at: &u32| self.cohorts[*at as usize].kept.pods_of(class) > 0;
        let candidates: Vec<u32> = self.candidate_cohorts.iter().copied().filter(keeps).collect();
        let mut left = most;
        for cohort in candidates {
            self.steps.consume(1);
            let cohort = cohort as usize;
            if left == 0 {
                break;
            }
            let Some(fit) = self.joined_fit(class, cohort, pins, preferences, counted) else { continue };
            let kept = self.cohorts[cohort].kept.pods_of(class);
            let each = self.cohort_cap(class, cohort, fit, preferences).min(left).min(kept);
            if each > 0 {
                left -= self.fill_cohort(class, cohort, fit, each, left);
            }
        }
        most - left
    }

    /// Ends the guidance by patterns, after which any room is filled and any machine opened; returns
    /// whether there was one.
    pub(super) fn end_guidance(&mut self) -> bool {
        let guided = self.patterns.are_in_use();
        if guided {
            self.patterns = Patterns::default();
            self.cohorts.iter_mut().for_each(|cohort| cohort.kept = KeptRoom::default());
        }
        guided
    }

    /// The options left to cohort `at` when a pod of `class` joins; `None` when it cannot.
    fn joined_fit(
        &mut self,
        class: u32,
        at: usize,
        pins: &[Pin],
        preferences: PreferenceSet,
        counted: &[CountedKey],
    ) -> Option<FitId> {
        let (pool, own) = (self.cohorts[at].pool, self.cohorts[at].fit);
        let supply = self.problem.supplies[pool as usize].as_ref()?;
        let target = self.cohorts[at].target_type as usize;
        let fits = self.class_fits(class, preferences, pool);
        for theirs in fits.iter() {
            let Some(fit) = self.fits.intersect(own, *theirs, supply) else { continue };
            let Some(fit) = self.pin_all(fit, pool, pins) else { continue };
            let Some(fit) = self.pin_counted(fit, pool, counted) else { continue };
            if self.must_wait_for_spot(class, pool, fit) {
                continue;
            }
            let left = self.fits.fit(fit);
            if left.types.contains(target) && supply.instance_types[target].slots.overlaps(&left.slots) {
                return Some(fit);
            }
        }
        None
    }

    /// Pins every counted key to its least filled domain.
    fn pin_counted(&mut self, fit: FitId, pool: u32, counted: &[CountedKey]) -> Option<FitId> {
        let mut fit = fit;
        let hard_only = self.pool_counts.has_min_values(pool);
        for counted in counted.iter().filter(|counted| counted.hard || !hard_only) {
            let domains = self.domains_of_fit(fit, pool, counted.key);
            if domains.len() > 1 {
                let domain = self.least_filled(counted.group, &domains)?;
                fit = self.pin(fit, pool, Pin { key: counted.key, domain })?;
            }
        }
        Some(fit)
    }

    fn least_filled(&self, group: u32, domains: &[DomainId]) -> Option<DomainId> {
        domains.iter().copied().min_by_key(|domain| self.topology.tally(group, *domain).matched)
    }

    /// Pods of `class` that one machine of the cohort can take.
    fn cohort_cap(&self, class: u32, at: usize, fit: FitId, preferences: PreferenceSet) -> u32 {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let cohort = &self.cohorts[at];
        let shape = &problem.input.shapes[needs.shape as usize];
        let mut cap = self.host_cap(class, &cohort.host, preferences);
        if !shape.host_ports.is_empty() {
            cap = cap.min(u32::from(ports_free(&shape.host_ports, &cohort.ports)));
        }
        if cap == 0 {
            return 0;
        }
        let count = resource_vector::copies(&needs.request, &cohort.free, cap);
        self.count_meeting_min_values(
            cohort.pool,
            (fit, cohort.target_type),
            (&cohort.used, &cohort.charged),
            &needs.request,
            count,
        )
    }

    /// Puts `each` pods on as many machines of the cohort as `left` needs. Splits the cohort,
    /// because the machines of one cohort are identical.
    fn fill_cohort(&mut self, class: u32, at: usize, fit: FitId, each: u32, left: u32) -> u32 {
        let machines = u32::try_from(self.cohorts[at].ids.len()).unwrap_or(u32::MAX);
        let one_by_one = self.reserves_options(self.cohorts[at].pool);
        let full = (left / each).min(if one_by_one { 1 } else { machines });
        let full = self.split_cohort(at, full as usize);
        let mut placed = self.add_to_cohort(class, full, fit, each);
        if placed < left && full != at && !one_by_one {
            let rest = left - placed;
            if rest < each {
                let one = self.split_cohort(at, 1);
                placed += self.add_to_cohort(class, one, fit, rest);
            }
        }
        placed
    }

    /// Splits `count` machines off cohort `at`; returns the index of the cohort that has them.
    pub(super) fn split_cohort(&mut self, at: usize, count: usize) -> usize {
        if count == self.cohorts[at].ids.len() {
            return at;
        }
        let ids: Vec<u32> = self.cohorts[at].ids.drain(..count).collect();
        let part = Cohort { ids, ..self.cohorts[at].clone() };
        self.add_cohort(part)
    }

    pub(super) fn add_cohort(&mut self, cohort: Cohort) -> usize {
        let at = self.cohorts.len();
        for id in &cohort.ids {
            self.cohort_of[*id as usize] = u32::try_from(at).unwrap_or(u32::MAX);
        }
        self.cohorts.push(cohort);
        self.candidate_cohorts.push(u32::try_from(at).unwrap_or(u32::MAX));
        at
    }

    /// Puts `each` pods of `class` on every machine of cohort `at`.
    pub(super) fn add_to_cohort(&mut self, class: u32, at: usize, fit: FitId, each: u32) -> u32 {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let cohort = &mut self.cohorts[at];
        (cohort.fit, cohort.growth) = (fit, None);
        cohort.kept.take(class, each);
        resource_vector::subtract(&mut cohort.free, &needs.request, each);
        resource_vector::add(&mut cohort.used, &needs.request, each);
        cohort.ports.extend(problem.input.shapes[needs.shape as usize].host_ports.iter().cloned());
        for id in &cohort.ids {
            self.events.push(PlacementEvent { class, destination: Destination::New(*id), count: each });
        }
        let machines = u32::try_from(cohort.ids.len()).unwrap_or(u32::MAX);
        self.update_charge(at);
        self.count_on_cohort(class, at, each, machines);
        if self.present_domains_only {
            let host = self.cohorts[at].host.clone();
            self.forbid_new_domains(class, &host);
        }
        each * machines
    }

    /// Updates the charge against the pool's limits for the machines of cohort `at`.
    fn update_charge(&mut self, at: usize) {
        let cohort = &self.cohorts[at];
        let (pool, machines) = (cohort.pool as usize, i64::try_from(cohort.ids.len()).unwrap_or(i64::MAX));
        let charge = self.charge_for(cohort.pool, (cohort.fit, cohort.target_type), (&cohort.used, &cohort.charged));
        for (left, (old, new)) in self.limits[pool].iter_mut().zip(self.cohorts[at].charged.iter().zip(&charge)) {
            *left += (old - new) * machines;
        }
        self.cohorts[at].charged = charge;
    }

    fn count_on_cohort(&mut self, class: u32, at: usize, each: u32, machines: u32) {
        let (pool, fit) = (self.cohorts[at].pool, self.cohorts[at].fit);
        for (group, tally) in self.contributions(class) {
            let key = self.topology.groups[group as usize].key;
            if key == Topology::HOST || !self.domains_of_fit(fit, pool, key).is_empty() {
                self.topology.add_total(group, tally.matched * each * machines);
            }
            if key == Topology::HOST {
                self.cohorts[at].host.add(group, tally.matched * each, tally.carriers * each);
            } else if let [domain] = *self.domains_of_fit(fit, pool, key)
                && self.fit_passes(group, fit, pool)
            {
                self.topology.add_pods(
                    group,
                    domain,
                    tally.matched * each * machines,
                    tally.carriers * each * machines,
                );
                if !self.fit_surely_passes(group, fit, pool) {
                    self.topology.mark_doubtful(group, domain, tally.matched * each * machines);
                }
            }
        }
    }

    /// Counts pods placed on an existing node.
    pub(super) fn count_on_node(&mut self, class: u32, at: usize, node: u32, count: u32, domains: &[Option<DomainId>]) {
        let input = self.problem.input;
        for (group, tally) in self.contributions(class) {
            let key = self.topology.groups[group as usize].key;
            if key == Topology::HOST || domains[usize::from(key) - 1].is_some() {
                self.topology.add_total(group, tally.matched * count);
            }
            let spec = &self.topology.groups[group as usize];
            if spec.key == Topology::HOST {
                self.existing_nodes[at].host.add(group, tally.matched * count, tally.carriers * count);
            } else if let Some(domain) = domains[usize::from(spec.key) - 1]
                && super::nodes::passes(&spec.filter, &input.nodes[node as usize], &self.fits, &self.topology)
            {
                self.topology.add_pods(group, domain, tally.matched * count, tally.carriers * count);
            }
        }
    }

    /// What one pod of `class` adds to the tallies of which groups.
    fn contributions(&self, class: u32) -> SmallVec<[(u32, Tally); 4]> {
        let needs = &self.problem.classes[class as usize];
        let mut all: SmallVec<[(u32, Tally); 4]> =
            needs.selected_by.iter().map(|group| (*group, Tally { matched: 1, ..Tally::default() })).collect();
        for rule in &needs.rules {
            if self.topology.groups[rule.group as usize].anti {
                match all.iter_mut().find(|(group, _)| *group == rule.group) {
                    Some((_, tally)) => tally.carriers += 1,
                    None => all.push((rule.group, Tally { carriers: 1, ..Tally::default() })),
                }
            }
        }
        all
    }

    /// Whether machines with these options may count for `group`.
    pub(super) fn fit_passes(&mut self, group: u32, fit: FitId, at: u32) -> bool {
        let Some(supply) = &self.problem.supplies[at as usize] else { return false };
        self.fits_that_pass(group, at).iter().any(|theirs| self.fits.intersect(fit, *theirs, supply).is_some())
    }

    /// Whether machines with these options count for `group` whichever option is launched.
    fn fit_surely_passes(&mut self, group: u32, fit: FitId, at: u32) -> bool {
        if self.topology.groups[group as usize].filter.any_of.is_none() {
            return true;
        }
        let Some(supply) = &self.problem.supplies[at as usize] else { return false };
        self.fits_that_pass(group, at).iter().any(|theirs| self.fits.intersect(fit, *theirs, supply) == Some(fit))
    }

    /// Places pods of `class` by choosing a larger instance type for a machine that the plan
    /// launches anyway: used when no further machine may be opened, or when the pods must share a
    /// machine with others.
    pub(super) fn grow_cohorts(&mut self, class: u32, most: u32, pins: &[Pin], preferences: PreferenceSet) -> u32 {
        let counted = self.counted_keys(class);
        let mut left = most;
        for at in 0..self.cohorts.len() {
            if left == 0 || self.steps.is_exhausted() {
                break;
            }
            self.steps.consume(1);
            if self.cohorts[at].ids.is_empty() {
                continue;
            }
            let Some((fit, target, each)) = self.larger_target(class, at, pins, preferences, &counted, left) else {
                continue;
            };
            let one = self.split_cohort(at, 1);
            self.retarget(one, target);
            left -= self.add_to_cohort(class, one, fit, each);
        }
        most - left
    }

    fn larger_target(
        &mut self,
        class: u32,
        at: usize,
        pins: &[Pin],
        preferences: PreferenceSet,
        counted: &[CountedKey],
        most: u32,
    ) -> Option<(FitId, u32, u32)> {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let pool = self.cohorts[at].pool;
        let supply = problem.supplies[pool as usize].as_ref()?;
        let shape = &problem.input.shapes[needs.shape as usize];
        let mut cap = self.host_cap(class, &self.cohorts[at].host, preferences).min(most);
        if !shape.host_ports.is_empty() {
            cap = cap.min(u32::from(ports_free(&shape.host_ports, &self.cohorts[at].ports)));
        }
        if cap == 0 {
            return None;
        }
        let own = self.cohorts[at].fit;
        // The first alternative with a possible target wins, in the order of the pod's OR-terms.
        for theirs in self.class_fits(class, preferences, pool).iter() {
            let Some(fit) = self.fits.intersect(own, *theirs, supply) else { continue };
            let Some(fit) = self.pin_all(fit, pool, pins) else { continue };
            let Some(fit) = self.pin_counted(fit, pool, counted) else { continue };
            if !self.must_wait_for_spot(class, pool, fit)
                && self.may_grow(class, at, fit)
                && let Some((target, each)) = self.best_growth(class, at, fit, cap)
            {
                return Some((fit, target, each));
            }
        }
        None
    }

    /// Whether, resource by resource, an instance type that cohort `at` could change to holds a pod
    /// of `class`. The maximum is cached, so that pods which fit no type skip the scan.
    fn may_grow(&mut self, class: u32, at: usize, fit: FitId) -> bool {
        let cohort = &self.cohorts[at];
        let limits = &self.limits[cohort.pool as usize];
        let holds =
            |known: &&GrowthLimit| known.fit == fit && limits.iter().zip(&known.limits).all(|(now, then)| now <= then);
        let request = &self.problem.classes[class as usize].request;
        if let Some(known) = cohort.growth.as_ref().filter(holds) {
            return resource_vector::fits(request, &known.most);
        }
        let Some(supply) = &self.problem.supplies[cohort.pool as usize] else { return false };
        let mut most: Amounts = cohort.used.iter().map(|_| i64::MIN).collect();
        for kind in self.affordable(cohort, fit, supply) {
            for ((most, amount), used) in most.iter_mut().zip(&supply.net_allocatable[kind]).zip(&cohort.used) {
                *most = (*most).max(amount - used);
            }
        }
        let fits = resource_vector::fits(request, &most);
        let limits = limits.iter().copied().collect();
        self.cohorts[at].growth = Some(GrowthLimit { fit, limits, most });
        fits
    }

    /// Instance types of `fit` that hold the pods of `cohort` and that its pool's limits allow
    /// instead of its target.
    fn affordable<'s>(
        &'s self,
        cohort: &'s Cohort,
        fit: FitId,
        supply: &'s PoolSupply,
    ) -> impl Iterator<Item = usize> + 's {
        let charge = &cohort.charged;
        let limits = &self.limits[cohort.pool as usize];
        let vcpu_milli = supply.instance_types[cohort.target_type as usize].vcpu_milli;
        let fixed = self.pool_counts.is_size_fixed(cohort.pool);
        self.fits.fit(fit).types.iter().filter(move |kind| {
            let more = supply.instance_types[*kind].charge.iter().zip(charge).map(|(new, old)| new - old);
            let sized = !fixed || supply.instance_types[*kind].vcpu_milli == vcpu_milli;
            sized
                && more.zip(limits).all(|(more, left)| more <= *left || more <= 0)
                && resource_vector::fits(&cohort.used, &supply.net_allocatable[*kind])
        })
    }

    /// The instance type that takes most pods, then the cheapest, within the pool's limits.
    fn best_growth(&self, class: u32, at: usize, fit: FitId, cap: u32) -> Option<(u32, u32)> {
        let problem = self.problem;
        let cohort = &self.cohorts[at];
        let supply = problem.supplies[cohort.pool as usize].as_ref()?;
        let request = &problem.classes[class as usize].request;
        let options = self.fits.fit(fit);
        let carried = (cohort.used.as_slice(), cohort.charged.as_slice());
        let flexible = self.count_meeting_min_values(cohort.pool, (fit, cohort.target_type), carried, request, cap);
        let candidates = self.affordable(cohort, fit, supply).filter_map(|kind| {
            let instance_type = &supply.instance_types[kind];
            let (_, price) = instance_type.cheapest_in(&options.slots)?;
            let mut free: Amounts = supply.net_allocatable[kind].clone();
            resource_vector::subtract(&mut free, &cohort.used, 1);
            let each = resource_vector::copies(request, &free, cap);
            let kind = u32::try_from(kind).unwrap_or(u32::MAX);
            let each = each.min(flexible);
            let cpu = cohort.used[CPU_AT] + request[CPU_AT] * i64::from(each);
            let cost = supply.cost(kind as usize, price, cpu);
            (each > 0).then_some((std::cmp::Reverse(each), cost, kind))
        });
        candidates.min().map(|(each, _, kind)| (kind, each.0))
    }

    /// Changes the target of cohort `at`, and its charge.
    pub(super) fn retarget(&mut self, at: usize, target: u32) {
        let cohort = &mut self.cohorts[at];
        let Some(supply) = &self.problem.supplies[cohort.pool as usize] else { return };
        (cohort.target_type, cohort.growth) = (target, None);
        cohort.free = supply.net_allocatable[target as usize].clone();
        resource_vector::subtract(&mut cohort.free, &cohort.used, 1);
        self.update_charge(at);
    }

    /// Removes cohorts that no queued class fits from the candidates.
    pub(super) fn drop_full_cohorts(&mut self, least: &[i64]) {
        let cohorts = &self.cohorts;
        self.candidate_cohorts.retain(|at| resource_vector::fits(least, &cohorts[*at as usize].free));
    }

    /// Whether a machine with these options may add a domain to a group that must not get one.
    pub(super) fn adds_domain(&mut self, fit: FitId, pool: u32) -> bool {
        if self.no_new_domains.is_empty() {
            return false;
        }
        let no_new_domains: SmallVec<[GroupId; 4]> = self.no_new_domains.iter().copied().collect();
        no_new_domains.into_iter().any(|group| {
            let key = self.topology.groups[group as usize].key;
            let known = |packing: &mut Self| {
                let domains = packing.domains_of_fit(fit, pool, key);
                domains.iter().all(|domain| packing.topology.tally(group, *domain).matched > 0)
            };
            self.fit_passes(group, fit, pool) && (key == Topology::HOST || !known(self))
        })
    }
}

impl Packing<'_, '_> {
    /// Makes every cohort a candidate again.
    pub(super) fn reset_candidate_cohorts(&mut self) {
        self.clear_present_domains();
        let cohorts = (0_u32..).zip(&self.cohorts).filter(|(_, cohort)| !cohort.ids.is_empty());
        self.candidate_cohorts = cohorts.map(|(at, _)| at).collect();
    }

    /// In pools with limits, chooses the smallest target that holds the pods, so that unused limits
    /// are free for queued pods (L17). Returns whether any target changed.
    pub(super) fn shrink_targets(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.cohorts.len() {
            let pool = self.cohorts[at].pool;
            if self.limits[pool as usize].is_empty() || self.pool_counts.is_size_fixed(pool) {
                continue;
            }
            if let Some(target) = self.smallest_target(at) {
                any |= target != self.cohorts[at].target_type;
                self.retarget(at, target);
            }
        }
        any
    }

    fn smallest_target(&self, at: usize) -> Option<u32> {
        let cohort = &self.cohorts[at];
        let supply = self.problem.supplies[cohort.pool as usize].as_ref()?;
        let options = self.fits.fit(cohort.fit);
        let charge = &supply.instance_types[cohort.target_type as usize].charge;
        let smaller = |kind: &usize| {
            let instance_type = &supply.instance_types[*kind];
            resource_vector::fits(&cohort.used, &supply.net_allocatable[*kind])
                && instance_type.charge.iter().zip(charge).all(|(new, old)| new <= old)
        };
        let rank = |kind: usize| {
            let instance_type = &supply.instance_types[kind];
            let price = instance_type.cheapest_in(&options.slots)?.1;
            let cost = supply.cost(kind, price, cohort.used[CPU_AT]);
            Some((instance_type.charge.clone(), cost, kind))
        };
        let best = options.types.iter().filter(smaller).filter_map(rank).min()?;
        u32::try_from(best.2).ok()
    }
}
