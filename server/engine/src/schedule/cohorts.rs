//! Machines that are to be bought anyway: filled before more are bought, and grown when nothing else helps.

use super::axis::{self, Amounts};
use super::bits::BitSet;
use super::fits::FitId;
use super::machines::{Cohort, Event, Growth, Place, ports_free};
use super::market::PoolSupply;
use super::packing::{Packing, Pin, PreferenceSet};
use super::topology::{ABSENT, DomainId, GroupId, KeyId, Tally, Topology};
use crate::model::taints::{discouraged, first_barring};

/// A wide key under which pods of a class are counted, and a group that does.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedKey {
    pub(super) key: KeyId,
    pub(super) group: GroupId,
    /// Whether a hard rule looks at it.
    hard: bool,
}

pub(super) type Counted = smallvec::SmallVec<[CountedKey; 2]>;

impl<'i> Packing<'_, 'i> {
    /// The options of pool `pool` for `class` under `softs`: one fit per alternative, resources and pins apart.
    pub(super) fn class_fits(&mut self, class: u32, softs: PreferenceSet, pool: u32) -> std::rc::Rc<[FitId]> {
        if let Some(known) = self.class_fits.get(&(class, softs, pool, self.avoid_discouraged)) {
            return known.clone();
        }
        let fits: std::rc::Rc<[FitId]> = self.make_class_fits(class, softs, pool).into();
        self.class_fits.insert((class, softs, pool, self.avoid_discouraged), fits.clone());
        fits
    }

    fn make_class_fits(&mut self, class: u32, softs: PreferenceSet, at: u32) -> Vec<FitId> {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let pool = &problem.input.pools[at as usize];
        let Some(market) = &problem.markets[at as usize] else { return Vec::new() };
        let shape = &problem.input.shapes[needs.shape as usize];
        if first_barring(&pool.taints, &shape.tolerations).is_some()
            || (self.avoid_discouraged && discouraged(&pool.taints, &shape.tolerations))
            || !ports_free(&shape.host_ports, &market.daemon_ports)
        {
            return Vec::new();
        }
        let preferred = needs.softs.iter().enumerate().filter(|(at, _)| softs.has(*at));
        let preferred: Vec<_> = preferred.filter_map(|(_, soft)| soft.requirements.as_ref()).collect();
        let mut fits = Vec::new();
        for id in &needs.alternatives {
            self.steps.take((1 + preferred.len()) * (1 + market.machines.len() / 32));
            let mut id = *id;
            if !preferred.is_empty() {
                let mut all = self.fits.requirements(id).clone();
                preferred.iter().for_each(|wanted| all.add_all(wanted));
                id = self.fits.intern_requirements(all);
            }
            if let Some(fit) = self.fits.compile(id, at, pool, market)
                && let Some(fit) = self.apply_rules(class, fit, at)
                && !fits.contains(&fit)
            {
                fits.push(fit);
            }
        }
        fits
    }

    /// Everything that `pool` offers, whoever asks.
    pub(super) fn any_fit(&mut self, pool: u32) -> std::rc::Rc<[FitId]> {
        let id = self.fits.intern_requirements(crate::model::Requirements::new());
        let Some(market) = &self.problem.markets[pool as usize] else { return [].into() };
        self.fits.compile(id, pool, &self.problem.input.pools[pool as usize], market).into_iter().collect()
    }

    /// [`Packing::class_fits`] narrowed to the domains `pins`.
    pub(super) fn pinned_fits(&mut self, class: u32, softs: PreferenceSet, pool: u32, pins: &[Pin]) -> Vec<FitId> {
        let fits = self.class_fits(class, softs, pool);
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
        let market = self.problem.markets[at as usize].as_ref()?;
        let value = self.topology.domain_name(pin.key, pin.domain).clone();
        let wanted = crate::model::Requirement::equals(self.topology.key_name(pin.key), value);
        let id = self.fits.intern_requirements([wanted].into_iter().collect());
        let narrowed = self.fits.compile(id, at, &self.problem.input.pools[at as usize], market)?;
        self.fits.intersect(fit, narrowed, market)
    }

    /// Wide keys under which somebody counts pods of `class`: its machine must have one domain for each. For the sake of
    /// preferences a key is settled too, unless that takes options which `minValues` need.
    pub(super) fn counted_keys(&self, class: u32) -> Counted {
        let mut keys = Counted::new();
        for group in &self.problem.classes[class as usize].meant_by {
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

    /// [`Packing::counted_keys`] that must be settled on machines of `pool`.
    pub(super) fn settled_keys(&self, class: u32, pool: u32) -> Counted {
        let mut keys = self.counted_keys(class);
        keys.retain(|counted| counted.hard || !self.ledger.wants_min_values(pool));
        keys
    }

    /// Puts up to `most` pods of `class` on machines that are to be bought anyway; returns how many found a place. With
    /// `scatter`, pools that want more machines (`min-nodes`) are passed over.
    pub(super) fn fill_cohorts(
        &mut self,
        class: u32,
        most: u32,
        pins: &[Pin],
        softs: PreferenceSet,
        scatter: bool,
    ) -> u32 {
        let problem = self.problem;
        let request = &problem.classes[class as usize].request;
        let each_look = problem.classes[class as usize].constraints();
        let counted = self.counted_keys(class);
        let mut left = most;
        let mut at = 0;
        while left > 0 && at < self.live.len() {
            let cohort = self.live[at] as usize;
            at += 1;
            self.steps.take(each_look);
            if !axis::fits(request, &self.cohorts[cohort].free)
                || (scatter && self.ledger.lacking(self.cohorts[cohort].pool) > 0)
            {
                continue;
            }
            let Some(fit) = self.joined_fit(class, cohort, pins, softs, &counted) else { continue };
            let one_by_one = self.reserves_options(self.cohorts[cohort].pool);
            loop {
                let each = self.cohort_cap(class, cohort, fit, softs).min(left);
                let alike = self.cohorts[cohort].ids.len();
                if each == 0 || (self.whole_only && each < left) {
                    break;
                }
                left -= self.put_on_cohort(class, cohort, fit, each, left);
                if left == 0 || !one_by_one || alike == 1 {
                    break;
                }
            }
        }
        most - left
    }

    /// The options of cohort `at` that are left when a pod of `class` joins; `None` when it cannot.
    fn joined_fit(
        &mut self,
        class: u32,
        at: usize,
        pins: &[Pin],
        softs: PreferenceSet,
        counted: &[CountedKey],
    ) -> Option<FitId> {
        let (pool, own) = (self.cohorts[at].pool, self.cohorts[at].fit);
        let market = self.problem.markets[pool as usize].as_ref()?;
        let target = self.cohorts[at].target as usize;
        let fits = self.class_fits(class, softs, pool);
        for theirs in fits.iter() {
            let Some(fit) = self.fits.intersect(own, *theirs, market) else { continue };
            let Some(fit) = self.pin_all(fit, pool, pins) else { continue };
            let Some(fit) = self.pin_counted(fit, pool, counted) else { continue };
            if self.must_wait(class, pool, fit) {
                continue;
            }
            let left = self.fits.fit(fit);
            if left.types.contains(target) && market.machines[target].slots.meets(&left.slots) {
                return Some(fit);
            }
        }
        None
    }

    /// Settles every counted key on its least filled domain.
    fn pin_counted(&mut self, fit: FitId, pool: u32, counted: &[CountedKey]) -> Option<FitId> {
        let mut fit = fit;
        let hard_only = self.ledger.wants_min_values(pool);
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

    /// How many pods of `class` one machine of the cohort takes.
    fn cohort_cap(&self, class: u32, at: usize, fit: FitId, softs: PreferenceSet) -> u32 {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let cohort = &self.cohorts[at];
        let shape = &problem.input.shapes[needs.shape as usize];
        let mut cap = self.host_cap(class, &cohort.host, softs);
        if !shape.host_ports.is_empty() {
            cap = cap.min(u32::from(ports_free(&shape.host_ports, &cohort.ports)));
        }
        if cap == 0 {
            return 0;
        }
        let count = axis::times(&needs.request, &cohort.free, cap);
        self.flexible_count(cohort.pool, (fit, cohort.target), (&cohort.used, &cohort.charged), &needs.request, count)
    }

    /// Puts `each` pods on as many machines of the cohort as `left` needs, splitting it so that cohorts stay alike.
    fn put_on_cohort(&mut self, class: u32, at: usize, fit: FitId, each: u32, left: u32) -> u32 {
        let machines = u32::try_from(self.cohorts[at].ids.len()).unwrap_or(u32::MAX);
        let one_by_one = self.reserves_options(self.cohorts[at].pool);
        let full = (left / each).min(if one_by_one { 1 } else { machines });
        let full = self.split(at, full as usize);
        let mut placed = self.join(class, full, fit, each);
        if placed < left && full != at && !one_by_one {
            let rest = left - placed;
            if rest < each {
                let one = self.split(at, 1);
                placed += self.join(class, one, fit, rest);
            }
        }
        placed
    }

    /// Splits `count` machines off cohort `at` and returns the index of the part that has them.
    pub(super) fn split(&mut self, at: usize, count: usize) -> usize {
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
            self.home[*id as usize] = u32::try_from(at).unwrap_or(u32::MAX);
        }
        self.cohorts.push(cohort);
        self.live.push(u32::try_from(at).unwrap_or(u32::MAX));
        at
    }

    /// Puts `each` pods of `class` on every machine of cohort `at`.
    pub(super) fn join(&mut self, class: u32, at: usize, fit: FitId, each: u32) -> u32 {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let cohort = &mut self.cohorts[at];
        (cohort.fit, cohort.growth) = (fit, None);
        axis::take(&mut cohort.free, &needs.request, each);
        axis::add(&mut cohort.used, &needs.request, each);
        cohort.ports.extend(problem.input.shapes[needs.shape as usize].host_ports.iter().cloned());
        for id in &cohort.ids {
            self.events.push(Event { class, place: Place::New(*id), count: each });
        }
        let machines = u32::try_from(cohort.ids.len()).unwrap_or(u32::MAX);
        self.charge_anew(at);
        self.tally_on_cohort(class, at, each, machines);
        if self.present_domains_only {
            let host = self.cohorts[at].host.clone();
            self.note_relied(class, &host);
        }
        each * machines
    }

    /// Charges the pool for what the machines of cohort `at` are now.
    fn charge_anew(&mut self, at: usize) {
        let cohort = &self.cohorts[at];
        let (pool, machines) = (cohort.pool as usize, i64::try_from(cohort.ids.len()).unwrap_or(i64::MAX));
        let charge = self.charge_for(cohort.pool, (cohort.fit, cohort.target), (&cohort.used, &cohort.charged));
        for (left, (old, new)) in self.limits[pool].iter_mut().zip(self.cohorts[at].charged.iter().zip(&charge)) {
            *left += (old - new) * machines;
        }
        self.cohorts[at].charged = charge;
    }

    fn tally_on_cohort(&mut self, class: u32, at: usize, each: u32, machines: u32) {
        let (pool, fit) = (self.cohorts[at].pool, self.cohorts[at].fit);
        for (group, tally) in self.contributions(class) {
            let key = self.topology.groups[group as usize].key;
            if key == Topology::HOST || !self.domains_of_fit(fit, pool, key).is_empty() {
                self.topology.add_total(group, tally.matched * each * machines);
            }
            if key == Topology::HOST {
                self.cohorts[at].host.add(group, tally.matched * each, tally.owners * each);
            } else if let [domain] = *self.domains_of_fit(fit, pool, key)
                && self.fit_passes(group, fit, pool)
            {
                self.topology.count(group, domain, tally.matched * each * machines, tally.owners * each * machines);
                if !self.fit_surely_passes(group, fit, pool) {
                    self.topology.doubt(group, domain, tally.matched * each * machines);
                }
            }
        }
    }

    /// Records pods on an existing node.
    pub(super) fn tally_on_room(&mut self, class: u32, at: usize, node: u32, count: u32, domains: &[Option<DomainId>]) {
        let input = self.problem.input;
        for (group, tally) in self.contributions(class) {
            let key = self.topology.groups[group as usize].key;
            if key == Topology::HOST || domains[usize::from(key) - 1].is_some() {
                self.topology.add_total(group, tally.matched * count);
            }
            let spec = &self.topology.groups[group as usize];
            if spec.key == Topology::HOST {
                self.rooms[at].host.add(group, tally.matched * count, tally.owners * count);
            } else if let Some(domain) = domains[usize::from(spec.key) - 1]
                && super::nodes::passes(&spec.filter, &input.nodes[node as usize], &self.fits, &self.topology)
            {
                self.topology.count(group, domain, tally.matched * count, tally.owners * count);
            }
        }
    }

    /// What one pod of `class` adds to which groups.
    fn contributions(&self, class: u32) -> smallvec::SmallVec<[(u32, Tally); 4]> {
        let needs = &self.problem.classes[class as usize];
        let mut all: smallvec::SmallVec<[(u32, Tally); 4]> =
            needs.meant_by.iter().map(|group| (*group, Tally { matched: 1, ..Tally::default() })).collect();
        for owned in &needs.owned {
            if self.topology.groups[owned.group as usize].anti {
                match all.iter_mut().find(|(group, _)| *group == owned.group) {
                    Some((_, tally)) => tally.owners += 1,
                    None => all.push((owned.group, Tally { owners: 1, ..Tally::default() })),
                }
            }
        }
        all
    }

    /// The domains of `key` that machines of cohort `at` may be in within `fit`, given what stands on them.
    pub(super) fn domains_of_cohort(&mut self, at: usize, fit: FitId, key: KeyId) -> std::rc::Rc<[DomainId]> {
        let (pool, used) = (self.cohorts[at].pool, &self.cohorts[at].used);
        let mut fit = self.fits.fit(fit).clone();
        if let Some(market) = &self.problem.markets[pool as usize] {
            let all = fit.types.clone();
            let cramped = all.iter().filter(|kind| !axis::fits(used, &market.rooms[*kind]));
            cramped.for_each(|kind| fit.types.remove(kind));
        }
        let fit = self.fits.intern(fit);
        self.domains_of_fit(fit, pool, key)
    }

    /// Whether machines with these options may count for `group`.
    pub(super) fn fit_passes(&mut self, group: u32, fit: FitId, at: u32) -> bool {
        let Some(market) = &self.problem.markets[at as usize] else { return false };
        self.fits_that_pass(group, at).iter().any(|theirs| self.fits.intersect(fit, *theirs, market).is_some())
    }

    /// Whether machines with these options count for `group` whichever of them is launched.
    fn fit_surely_passes(&mut self, group: u32, fit: FitId, at: u32) -> bool {
        if self.topology.groups[group as usize].filter.any_of.is_none() {
            return true;
        }
        let Some(market) = &self.problem.markets[at as usize] else { return false };
        self.fits_that_pass(group, at).iter().any(|theirs| self.fits.intersect(fit, *theirs, market) == Some(fit))
    }

    /// Gives pods of `class` room by choosing a larger machine for one that is to be bought anyway: what is left when no
    /// further machine may be bought, or when the pods must stand beside others.
    pub(super) fn grow(&mut self, class: u32, most: u32, pins: &[Pin], softs: PreferenceSet) -> u32 {
        let counted = self.counted_keys(class);
        let mut left = most;
        for at in 0..self.cohorts.len() {
            if left == 0 || self.steps.are_spent() {
                break;
            }
            self.steps.take(1);
            if self.cohorts[at].ids.is_empty() {
                continue;
            }
            let Some((fit, target, each)) = self.larger_target(class, at, pins, softs, &counted, left) else {
                continue;
            };
            let one = self.split(at, 1);
            self.retarget(one, target);
            left -= self.join(class, one, fit, each);
        }
        most - left
    }

    fn larger_target(
        &mut self,
        class: u32,
        at: usize,
        pins: &[Pin],
        softs: PreferenceSet,
        counted: &[CountedKey],
        most: u32,
    ) -> Option<(FitId, u32, u32)> {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let pool = self.cohorts[at].pool;
        let market = problem.markets[pool as usize].as_ref()?;
        let shape = &problem.input.shapes[needs.shape as usize];
        let mut cap = self.host_cap(class, &self.cohorts[at].host, softs).min(most);
        if !shape.host_ports.is_empty() {
            cap = cap.min(u32::from(ports_free(&shape.host_ports, &self.cohorts[at].ports)));
        }
        if cap == 0 {
            return None;
        }
        let own = self.cohorts[at].fit;
        for theirs in self.class_fits(class, softs, pool).iter() {
            let Some(fit) = self.fits.intersect(own, *theirs, market) else { continue };
            let Some(fit) = self.pin_all(fit, pool, pins) else { continue };
            let Some(fit) = self.pin_counted(fit, pool, counted) else { continue };
            if !self.must_wait(class, pool, fit)
                && self.may_grow(class, at, fit)
                && let Some((target, each)) = self.best_growth(class, at, fit, cap)
            {
                return Some((fit, target, each));
            }
        }
        None
    }

    /// Whether, resource by resource, some machine that cohort `at` could change to has room for a pod of `class`. What is
    /// found is kept, so that pods which no machine could ever take ask no machine.
    fn may_grow(&mut self, class: u32, at: usize, fit: FitId) -> bool {
        let cohort = &self.cohorts[at];
        let limits = &self.limits[cohort.pool as usize];
        let holds =
            |known: &&Growth| known.fit == fit && limits.iter().zip(&known.limits).all(|(now, then)| now <= then);
        let request = &self.problem.classes[class as usize].request;
        if let Some(known) = cohort.growth.as_ref().filter(holds) {
            return axis::fits(request, &known.most);
        }
        let Some(market) = &self.problem.markets[cohort.pool as usize] else { return false };
        let mut most: Amounts = cohort.used.iter().map(|_| i64::MIN).collect();
        for kind in self.affordable(cohort, fit, market) {
            for ((most, room), used) in most.iter_mut().zip(&market.rooms[kind]).zip(&cohort.used) {
                *most = (*most).max(room - used);
            }
        }
        let fits = axis::fits(request, &most);
        let limits = limits.iter().copied().collect();
        self.cohorts[at].growth = Some(Growth { fit, limits, most });
        fits
    }

    /// Machines of `fit` that hold what stands on `cohort` and that the limits of its pool allow in place of its target.
    fn affordable<'s>(
        &'s self,
        cohort: &'s Cohort,
        fit: FitId,
        market: &'s PoolSupply,
    ) -> impl Iterator<Item = usize> + 's {
        let charge = &cohort.charged;
        let limits = &self.limits[cohort.pool as usize];
        let vcpu_milli = market.machines[cohort.target as usize].vcpu_milli;
        let fixed = self.ledger.is_fixed(cohort.pool);
        self.fits.fit(fit).types.iter().filter(move |kind| {
            let more = market.machines[*kind].charge.iter().zip(charge).map(|(new, old)| new - old);
            let sized = !fixed || market.machines[*kind].vcpu_milli == vcpu_milli;
            sized
                && more.zip(limits).all(|(more, left)| more <= *left || more <= 0)
                && axis::fits(&cohort.used, &market.rooms[*kind])
        })
    }

    /// The machine that takes most pods, then the cheapest, within what the pool's limits leave.
    fn best_growth(&self, class: u32, at: usize, fit: FitId, cap: u32) -> Option<(u32, u32)> {
        let problem = self.problem;
        let cohort = &self.cohorts[at];
        let market = problem.markets[cohort.pool as usize].as_ref()?;
        let request = &problem.classes[class as usize].request;
        let options = self.fits.fit(fit);
        let carried = (cohort.used.as_slice(), cohort.charged.as_slice());
        let flexible = self.flexible_count(cohort.pool, (fit, cohort.target), carried, request, cap);
        let candidates = self.affordable(cohort, fit, market).filter_map(|kind| {
            let machine = &market.machines[kind];
            let (_, price) = machine.cheapest_in(&options.slots)?;
            let mut room: Amounts = market.rooms[kind].clone();
            axis::take(&mut room, &cohort.used, 1);
            let each = axis::times(request, &room, cap);
            let kind = u32::try_from(kind).unwrap_or(u32::MAX);
            let each = each.min(flexible);
            (each > 0).then_some((std::cmp::Reverse(each), price, kind))
        });
        candidates.min().map(|(each, _, kind)| (kind, each.0))
    }

    /// Changes the machine that cohort `at` fills, and what it is charged for.
    pub(super) fn retarget(&mut self, at: usize, target: u32) {
        let cohort = &mut self.cohorts[at];
        let Some(market) = &self.problem.markets[cohort.pool as usize] else { return };
        (cohort.target, cohort.growth) = (target, None);
        cohort.free = market.rooms[target as usize].clone();
        axis::take(&mut cohort.free, &cohort.used, 1);
        self.charge_anew(at);
    }

    /// Drops cohorts that no waiting pod could join, so that later classes do not ask them.
    pub(super) fn prune(&mut self, least: &[i64]) {
        let cohorts = &self.cohorts;
        self.live.retain(|at| axis::fits(least, &cohorts[*at as usize].free));
    }

    /// Slots of `fit`, as a set.
    pub(super) fn slots_of_fit(&self, fit: FitId) -> &BitSet {
        &self.fits.fit(fit).slots
    }
}

impl Packing<'_, '_> {
    /// Lets every cohort be asked again.
    pub(super) fn revive(&mut self) {
        self.forget_present();
        let cohorts = (0_u32..).zip(&self.cohorts).filter(|(_, cohort)| !cohort.ids.is_empty());
        self.live = cohorts.map(|(at, _)| at).collect();
    }

    /// Chooses the smallest machine that holds what stands on it, in pools with limits, so that what a machine was opened
    /// with and does not use is there for pods that wait (L17). Whether any machine was changed.
    pub(super) fn give_back(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.cohorts.len() {
            let pool = self.cohorts[at].pool;
            if self.limits[pool as usize].is_empty() || self.ledger.is_fixed(pool) {
                continue;
            }
            if let Some(target) = self.smallest_target(at) {
                any |= target != self.cohorts[at].target;
                self.retarget(at, target);
            }
        }
        any
    }

    fn smallest_target(&self, at: usize) -> Option<u32> {
        let cohort = &self.cohorts[at];
        let market = self.problem.markets[cohort.pool as usize].as_ref()?;
        let options = self.fits.fit(cohort.fit);
        let charge = &market.machines[cohort.target as usize].charge;
        let smaller = |kind: &usize| {
            let machine = &market.machines[*kind];
            axis::fits(&cohort.used, &market.rooms[*kind])
                && machine.charge.iter().zip(charge).all(|(new, old)| new <= old)
        };
        let rank = |kind: usize| {
            let machine = &market.machines[kind];
            let price = machine.cheapest_in(&options.slots)?.1;
            Some((machine.charge.clone(), price, kind))
        };
        let best = options.types.iter().filter(smaller).filter_map(rank).min()?;
        u32::try_from(best.2).ok()
    }
}
