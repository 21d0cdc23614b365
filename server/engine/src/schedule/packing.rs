//! The packing as it grows: which pods have a place, what is left, and the order in which it came about.
//!
//! Classes are placed one after another. For each, [`Packing::place`] asks the nodes that exist, then the machines that
//! are to be bought anyway, then buys. Preferences narrow the choice and are given up lightest first; they never make a
//! pod pass by room that is there (L21).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bits::BitSet;
use super::classes::{Class, Owned, Rule};
use super::eligible::Known;
use super::fits::{FitId, FitTable, ReqId};
use super::ledger::Ledger;
use super::machines::{Cohort, Event, ExistingNode, HostTallies};
use super::nodes::passes;
use super::problem::{InitialState, Problem};
use super::rules::KnownZones;
use super::steps::Steps;
use super::topology::{DomainId, GroupId, KeyId, Topology};
use crate::model::{Text, Toleration};

/// A machine must be in this domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Pin {
    pub(super) key: KeyId,
    pub(super) domain: DomainId,
}

/// A set of a class's preferences, by index; those beyond 64 are never in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct PreferenceSet(u64);

impl PreferenceSet {
    pub(super) fn has(self, at: usize) -> bool {
        at < 64 && self.0 & (1 << at) != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn with(self, at: usize) -> Self {
        if at < 64 { Self(self.0 | 1 << at) } else { self }
    }

    fn without(self, at: usize) -> Self {
        if at < 64 { Self(self.0 & !(1 << at)) } else { self }
    }
}

/// How far a placement may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Nodes that exist.
    Rooms,
    /// Machines that are to be bought anyway.
    Cohorts,
    /// More machines.
    Buy,
}

type OpenRooms<'i> = FxHashMap<(SmallVec<[ReqId; 1]>, &'i [Toleration]), Rc<BitSet>>;
type ClassFits = Rc<[FitId]>;

/// The state of one packing.
#[derive(Debug)]
pub(super) struct Packing<'p, 'i> {
    pub(super) problem: &'p Problem<'i>,
    pub(super) fits: FitTable,
    pub(super) topology: Topology,
    pub(super) rooms: Vec<ExistingNode>,
    pub(super) cohorts: Vec<Cohort>,
    pub(super) limits: Vec<Vec<i64>>,
    pub(super) nodes_left: Vec<i64>,
    pub(super) reservations: BTreeMap<Text, i64>,
    pub(super) events: Vec<Event>,
    /// For each machine bought, by number, the index of its cohort.
    pub(super) home: Vec<u32>,
    /// Demand that has no place yet, in the order of the axis.
    pub(super) rest: Vec<f64>,
    /// Whether the minimum of a spread constraint is taken over the domains that have a machine, as kube-scheduler takes
    /// it, instead of over all domains that could have one. The narrower reading serves pods that nothing else places.
    pub(super) present_domains_only: bool,
    /// The same for hostnames: only pods that get no machine of their own look at the machines that are there.
    pub(super) present_hosts_only: bool,
    /// Groups of which a domain holds more pods than it could if there were an empty one: no further domain is opened, because
    /// it would have been there, empty, when those pods were placed.
    pub(super) relied: BTreeSet<GroupId>,
    /// Whether an even spread that no limit can disturb is filled domain by domain.
    pub(super) level_by_level: bool,
    /// Whether `PreferNoSchedule` taints are kept clear of.
    pub(super) avoid_discouraged: bool,
    /// Whether a machine must take all the pods that are asked about, because they must stand together.
    pub(super) whole_only: bool,
    /// While [`Packing::present_hosts_only`]: the least count over the machines that could carry the class being
    /// placed, per hostname group.
    least_on_hosts: SmallVec<[(u32, u32); 1]>,
    pub(super) open_rooms: OpenRooms<'i>,
    pub(super) class_fits: FxHashMap<(u32, PreferenceSet, u32, bool), ClassFits>,
    pub(super) fit_domains: FxHashMap<(FitId, u32, KeyId), Rc<[DomainId]>>,
    pub(super) known: Known,
    pub(super) zones: KnownZones,
    /// Cohorts that may have room for somebody, by index.
    pub(super) live: Vec<u32>,
    /// Classes in the order in which they are served, with the pods that wait; those from `line_at` on are still to come.
    pub(super) line: Vec<(u32, u32)>,
    pub(super) line_at: usize,
    /// Machines per pool and zone, for the rules that look at them.
    pub(super) ledger: Ledger,
    /// Steps that are left.
    pub(super) steps: &'p Steps,
    /// Classes that were tried.
    pub(super) begun: BitSet,
    /// The one that was tried last.
    pub(super) last: Option<u32>,
}

impl<'p, 'i> Packing<'p, 'i> {
    pub(super) fn new(problem: &'p Problem<'i>, start: InitialState, steps: &'p Steps) -> Self {
        let mut rest = vec![0.0; problem.axis.len()];
        for class in &problem.classes {
            for (sum, ask) in rest.iter_mut().zip(&class.request) {
                *sum += *ask as f64 * class.pods.len() as f64;
            }
        }
        Self {
            problem,
            fits: start.fits,
            topology: start.topology,
            rooms: start.rooms,
            cohorts: Vec::new(),
            limits: start.limits,
            nodes_left: start.nodes_left,
            reservations: start.reservations,
            events: Vec::new(),
            home: Vec::new(),
            rest,
            present_domains_only: false,
            present_hosts_only: false,
            relied: BTreeSet::new(),
            level_by_level: true,
            avoid_discouraged: true,
            whole_only: false,
            least_on_hosts: SmallVec::new(),
            open_rooms: FxHashMap::default(),
            class_fits: FxHashMap::default(),
            fit_domains: FxHashMap::default(),
            known: Known::default(),
            zones: KnownZones::default(),
            live: Vec::new(),
            line: Vec::new(),
            line_at: 0,
            ledger: Ledger::of(problem.input),
            steps,
            begun: BitSet::empty(problem.classes.len()),
            last: None,
        }
    }

    /// Places as many of `count` pods of `class` as have a place; returns how many.
    pub(super) fn place(&mut self, class: u32, count: u32) -> u32 {
        let needs = &self.problem.classes[class as usize];
        self.begun.insert(class as usize);
        self.last = Some(class);
        self.steps.take(1);
        if !needs.possible || needs.alternatives.is_empty() {
            return 0;
        }
        if self.present_hosts_only {
            self.least_on_hosts = self.find_least_on_hosts(class);
        }
        let mut left = count;
        let buyable = self.problem.markets.iter().flatten().any(|market| market.could_hold(&needs.request));
        for whole in [true, false] {
            if whole && !self.must_gather(class) {
                continue;
            }
            for (reach, avoid) in [(Reach::Rooms, true), (Reach::Rooms, false), (Reach::Buy, true), (Reach::Buy, false)]
            {
                let possible = if reach == Reach::Rooms { !self.rooms.is_empty() } else { buyable };
                if left > 0 && possible && !self.steps.are_spent() {
                    (self.avoid_discouraged, self.whole_only) = (avoid, whole);
                    left -= self.place_softly(class, left, reach);
                }
            }
        }
        self.forget_demand(class, count - left);
        count - left
    }

    /// Notes which spread rules of `class`, placed on a machine with these tallies, an empty domain more would break.
    pub(super) fn note_relied(&mut self, class: u32, host: &HostTallies) {
        for owned in self.problem.classes[class as usize].owned.iter().filter(|owned| owned.soft.is_none()) {
            let Rule::Spread { max_skew, .. } = owned.rule else { continue };
            let fullest = match owned.key {
                Topology::HOST => host.get(owned.group).matched,
                _ => self.topology.filled(owned.group).map(|(_, matched)| matched).max().unwrap_or(0),
            };
            if fullest > max_skew {
                self.relied.insert(owned.group);
            }
        }
    }

    /// Whether a machine with these options may be a domain that was not there when pods were placed that relied on that.
    pub(super) fn adds_domain(&mut self, fit: FitId, pool: u32) -> bool {
        if self.relied.is_empty() {
            return false;
        }
        let relied: SmallVec<[GroupId; 4]> = self.relied.iter().copied().collect();
        relied.into_iter().any(|group| {
            let key = self.topology.groups[group as usize].key;
            let known = |packing: &mut Self| {
                let domains = packing.domains_of_fit(fit, pool, key);
                domains.iter().all(|domain| packing.topology.tally(group, *domain).matched > 0)
            };
            self.fit_passes(group, fit, pool) && (key == Topology::HOST || !known(self))
        })
    }

    /// Places under as many preferences as can be kept, giving them up lightest first.
    fn place_softly(&mut self, class: u32, count: u32, reach: Reach) -> u32 {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let mut allowed = (0..needs.softs.len()).fold(PreferenceSet::default(), PreferenceSet::with);
        let mut left = count;
        while left > 0 && !self.steps.are_spent() {
            let softs = self.keepable(class, allowed, reach);
            let mut got = 0;
            if reach == Reach::Buy {
                // Hostname preferences choose among the machines that are bought anyway and never buy one.
                let host = |at: &usize| needs.softs[*at].host;
                let wide = (0..needs.softs.len()).filter(host).fold(softs, PreferenceSet::without);
                if wide != softs {
                    got = self.place_under(class, left, softs, Reach::Cohorts);
                }
                // ExistingNode that is bought anyway beats a preferred label, which only decides what is bought.
                let label = |at: &usize| needs.softs[*at].requirements.is_some();
                let unlabelled = (0..needs.softs.len()).filter(label).fold(wide, PreferenceSet::without);
                if unlabelled != wide {
                    got += self.place_under(class, left - got, wide, Reach::Cohorts);
                    got += self.place_under(class, left - got, unlabelled, Reach::Cohorts);
                }
                got += self.place_under(class, left - got, wide, Reach::Buy);
            } else {
                got = self.place_under(class, left, softs, reach);
            }
            left -= got;
            if got == 0 {
                let Some(lightest) = lightest(needs, softs) else { break };
                allowed = allowed.without(lightest);
            }
        }
        count - left
    }

    /// The preferences out of `allowed` that can be kept together, heaviest first.
    fn keepable(&mut self, class: u32, allowed: PreferenceSet, reach: Reach) -> PreferenceSet {
        let needs = &self.problem.classes[class as usize];
        if allowed.is_empty() || reach != Reach::Buy {
            return allowed;
        }
        let mut order: Vec<usize> = (0..needs.softs.len()).filter(|at| allowed.has(*at)).collect();
        order.sort_by_key(|at| (-needs.softs[*at].weight, *at));
        let mut kept = PreferenceSet::default();
        for at in order {
            if needs.softs[at].host || self.is_thinkable(class, kept.with(at)) {
                kept = kept.with(at);
            }
        }
        kept
    }

    /// Whether some pool has options and some domain is allowed under `softs`, resources apart.
    fn is_thinkable(&mut self, class: u32, softs: PreferenceSet) -> bool {
        let pools: Vec<u32> = self.problem.tiers.iter().flatten().copied().collect();
        self.steps.take(self.problem.classes[class as usize].constraints() * (1 + pools.len()));
        let constrained = self.wide_rules(class, softs);
        let tuples =
            if constrained.is_empty() { vec![SmallVec::new()] } else { self.targets(class, softs, &constrained) };
        tuples.iter().any(|pins| pools.iter().any(|pool| !self.pinned_fits(class, softs, *pool, pins).is_empty()))
    }

    /// Whether the pods must stand on one machine and none of them has a place: whatever takes the first takes them all.
    fn must_gather(&self, class: u32) -> bool {
        self.problem.classes[class as usize].owned.iter().any(|owned| {
            owned.soft.is_none()
                && owned.key == Topology::HOST
                && matches!(owned.rule, Rule::With { bootstrap: true })
                && self.is_first_by(class, owned)
        })
    }

    fn forget_demand(&mut self, class: u32, count: u32) {
        let needs = &self.problem.classes[class as usize];
        for (sum, ask) in self.rest.iter_mut().zip(&needs.request) {
            *sum -= *ask as f64 * f64::from(count);
        }
    }

    /// Places up to `count` pods under exactly these preferences.
    fn place_under(&mut self, class: u32, count: u32, softs: PreferenceSet, reach: Reach) -> u32 {
        if count == 0 {
            return 0;
        }
        let rules = self.wide_rules(class, softs);
        if rules.is_empty() {
            self.fill(class, count, &[], softs, reach)
        } else {
            self.spread_over(class, count, softs, reach, &rules)
        }
    }

    /// Fills what `reach` allows, in order, in the domains `pins`.
    pub(super) fn fill(&mut self, class: u32, count: u32, pins: &[Pin], softs: PreferenceSet, reach: Reach) -> u32 {
        let mut left = count;
        if reach == Reach::Rooms {
            return self.fill_rooms(class, left, pins, softs);
        }
        left -= self.fill_cohorts(class, left, pins, softs, true);
        if reach == Reach::Cohorts {
            return count - left;
        }
        while left > 0 {
            let got = self.buy(class, left, pins, softs);
            if got == 0 {
                break;
            }
            left -= got;
        }
        if left > 0 && self.ledger.lacks_machines() {
            left -= self.fill_cohorts(class, left, pins, softs, false);
        }
        if left > 0 {
            left -= self.grow(class, left, pins, softs);
        }
        count - left
    }

    /// How many pods of `class` the hostname rules allow on a machine with these tallies.
    pub(super) fn host_cap(&self, class: u32, host: &HostTallies, softs: PreferenceSet) -> u32 {
        let needs = &self.problem.classes[class as usize];
        let mut cap = u32::MAX;
        for owned in needs.owned.iter().filter(|owned| owned.key == Topology::HOST && in_force(owned.soft, softs)) {
            let tally = host.get(owned.group);
            cap = cap.min(match owned.rule {
                Rule::Spread { max_skew, selfish, .. } => {
                    self.host_spread_cap(owned.group, tally.matched, max_skew, selfish)
                }
                Rule::With { .. } if tally.matched > 0 => u32::MAX,
                Rule::With { bootstrap } if bootstrap && self.is_first_by(class, owned) => u32::MAX,
                Rule::With { .. } => 0,
                Rule::Without { .. } if tally.matched > 0 => 0,
                Rule::Without { selfish } => {
                    if selfish {
                        1
                    } else {
                        u32::MAX
                    }
                }
            });
        }
        let refused = |group: &u32| {
            let spec = &self.topology.groups[*group as usize];
            spec.anti && spec.key == Topology::HOST && host.get(*group).owners > 0
        };
        if needs.meant_by.iter().any(refused) { 0 } else { cap }
    }

    /// Whether nobody that rule `own` of `class` means stands anywhere.
    pub(super) fn is_first(&self, class: u32, own: usize) -> bool {
        self.is_first_by(class, &self.problem.classes[class as usize].owned[own])
    }

    /// All terms of a pod's required affinity count together: the first pod of its kind is exempt from all or from none.
    fn is_first_by(&self, class: u32, rule: &Owned) -> bool {
        let nobody = |owned: &Owned| self.topology.total(owned.group) == 0;
        if rule.soft.is_some() {
            return nobody(rule);
        }
        let owned = &self.problem.classes[class as usize].owned;
        let hard = owned.iter().filter(|owned| owned.soft.is_none() && matches!(owned.rule, Rule::With { .. }));
        hard.into_iter().all(nobody)
    }

    /// An empty machine can always be made, so the least count is zero; only for pods that nothing else places is it the
    /// least count of the machines that are there.
    fn host_spread_cap(&self, group: u32, matched: u32, max_skew: u32, selfish: bool) -> u32 {
        let known = self.least_on_hosts.iter().find(|(known, _)| *known == group);
        let least = known.map_or(0, |(_, least)| *least);
        match (selfish, matched <= max_skew + least) {
            (true, _) => (max_skew + least).saturating_sub(matched),
            (false, true) => u32::MAX,
            (false, false) => 0,
        }
    }

    /// For each hostname spread of `class`, the least count over the machines that count for it.
    fn find_least_on_hosts(&mut self, class: u32) -> SmallVec<[(u32, u32); 1]> {
        let problem = self.problem;
        let spreads = |owned: &&Owned| {
            owned.key == Topology::HOST && owned.soft.is_none() && matches!(owned.rule, Rule::Spread { .. })
        };
        let rules = problem.classes[class as usize].owned.iter().filter(spreads);
        rules.map(|owned| (owned.group, self.least_on_counted_hosts(owned))).collect()
    }

    /// The least count over the machines that count for a hostname spread; zero when they are too few.
    fn least_on_counted_hosts(&mut self, owned: &Owned) -> u32 {
        let filter = &self.topology.groups[owned.group as usize].filter;
        let nodes = &self.problem.input.nodes;
        let counts = |room: &&ExistingNode| passes(filter, &nodes[room.node as usize], &self.fits, &self.topology);
        let mut tallies: Vec<u32> =
            self.rooms.iter().filter(counts).map(|room| room.host.get(owned.group).matched).collect();
        let mut hosts = tallies.len();
        for at in 0..self.cohorts.len() {
            let (pool, fit) = (self.cohorts[at].pool, self.cohorts[at].fit);
            if !self.cohorts[at].ids.is_empty() && self.fit_passes(owned.group, fit, pool) {
                tallies.push(self.cohorts[at].host.get(owned.group).matched);
                hosts += self.cohorts[at].ids.len();
            }
        }
        match owned.rule {
            Rule::Spread { min_domains, .. } if hosts < min_domains as usize => 0,
            _ => tallies.into_iter().min().unwrap_or(0),
        }
    }
}

/// Whether a rule counts under `softs`: hard rules always do.
pub(super) fn in_force(soft: Option<u8>, softs: PreferenceSet) -> bool {
    soft.is_none_or(|at| softs.has(usize::from(at)))
}

fn lightest(needs: &Class, softs: PreferenceSet) -> Option<usize> {
    (0..needs.softs.len()).filter(|at| softs.has(*at)).min_by_key(|at| (needs.softs[*at].weight, *at))
}
