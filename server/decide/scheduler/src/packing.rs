//! The packing in progress: which pods are placed, what capacity is left, and the order of
//! placements.
//!
//! Classes are placed one after another. For each, [`Packing::place`] tries existing nodes, then
//! machines that the plan launches anyway, then opens machines. Preferences narrow the choice and
//! are dropped lightest first; a pod never skips existing capacity for a preference (L21).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::bit_set::BitSet;
use super::classes::{Class, ClassRule, PreferenceSet, RuleKind};
use super::fits::{FitId, FitTable, RequirementsId};
use super::machines::{Cohort, ExistingNode, PlacementEvent};
use super::nodes::passes;
use super::packing_cache::{DomainCache, ZoneCache};
use super::patterns::Patterns;
use super::pool_counts::PoolCounts;
use super::problem::{InitialState, Problem};
use super::step_budget::StepBudget;
use super::topology::{DomainId, GroupId, KeyId, Topology};
use model::input::PlanningInput;
use model::{Text, Toleration};

/// Which machines a placement may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Existing nodes of the input only.
    ExistingNodes,
    /// Machines that the plan launches anyway.
    Cohorts,
    /// Machines that no placed pod requires yet.
    NewMachines,
}

/// The claims for one pod that pods on nodes use. Those of pods that leave are free for their next user.
fn claims_in_use(input: &PlanningInput) -> BTreeSet<Text> {
    let pods = input.nodes.iter().flat_map(|node| &node.pods).filter(|pod| !pod.leaving);
    let sets = pods.filter_map(|pod| input.volume_sets.get(pod.volumes? as usize));
    sets.flat_map(|set| set.exclusive_claims.iter().cloned()).collect()
}

type AdmittingNodes<'i> = FxHashMap<(SmallVec<[RequirementsId; 1]>, &'i [Toleration]), Rc<BitSet>>;
type ClassFits = Rc<[FitId]>;

#[derive(Debug)]
pub(super) struct Packing<'p, 'i> {
    pub(super) problem: &'p Problem<'i>,
    pub(super) fits: FitTable,
    pub(super) topology: Topology,
    pub(super) existing_nodes: Vec<ExistingNode>,
    pub(super) cohorts: Vec<Cohort>,
    pub(super) limits: Vec<Vec<i64>>,
    pub(super) nodes_left: Vec<i64>,
    pub(super) reservations: BTreeMap<Text, i64>,
    pub(super) events: Vec<PlacementEvent>,
    /// For each machine to launch, by number, the index of its cohort.
    pub(super) cohort_of: Vec<u32>,
    /// Demand that is not placed yet, along the resource order.
    pub(super) unplaced_demand: Vec<f64>,
    /// Whether the minimum of a spread constraint is taken over the domains that have a node, as
    /// kube-scheduler does, instead of over all domains that could have one. Used for pods that
    /// nothing else places.
    pub(super) present_domains_only: bool,
    /// The same for hostnames: only pods that get no machine of their own use the minimum over the
    /// machines present.
    pub(super) present_hosts_only: bool,
    /// Hostname groups of which every host that counts is to have a pod.
    pub(super) populated: BTreeSet<GroupId>,
    /// Groups of which a domain holds more pods than the skew allows beside an empty domain. No
    /// further domain is opened for them: it would have counted, empty, when those pods were
    /// placed.
    pub(super) no_new_domains: BTreeSet<GroupId>,
    /// Whether an even spread that no limit can disturb is filled domain by domain.
    pub(super) level_by_level: bool,
    /// Whether untolerated `PreferNoSchedule` taints exclude a node or pool.
    pub(super) avoid_prefer_no_schedule: bool,
    /// Whether one machine must take all the pods in question, because they must share it.
    pub(super) all_on_one_machine: bool,
    /// With [`Packing::present_hosts_only`]: the least count over the machines that could carry the
    /// class being placed, per hostname group.
    pub(super) min_host_counts: SmallVec<[(u32, u32); 1]>,
    pub(super) admitting_nodes: AdmittingNodes<'i>,
    pub(super) class_fits: FxHashMap<(u32, PreferenceSet, u32, bool), ClassFits>,
    pub(super) fit_domains: FxHashMap<(FitId, u32, KeyId), Rc<[DomainId]>>,
    pub(super) domain_cache: DomainCache,
    pub(super) zone_cache: ZoneCache,
    /// Cohorts that may have capacity for a queued class, by index.
    pub(super) candidate_cohorts: Vec<u32>,
    /// (class, unplaced pods) in placement order; those from `queue_position` on are not placed
    /// yet.
    pub(super) queue: Vec<(u32, u32)>,
    pub(super) queue_position: usize,
    /// Machines that guide what is opened.
    pub(super) patterns: Patterns,
    /// Nodes per pool and zone, for the opt-in rules.
    pub(super) pool_counts: PoolCounts,
    pub(super) steps: &'p StepBudget,
    pub(super) attempted: BitSet,
    /// The class attempted last.
    pub(super) last_attempted: Option<u32>,
    /// Claims for one pod of the cluster that a bound or placed pod uses.
    claims_in_use: BTreeSet<Text>,
}

impl<'p, 'i> Packing<'p, 'i> {
    pub(super) fn new(problem: &'p Problem<'i>, initial: InitialState, steps: &'p StepBudget) -> Self {
        let mut unplaced_demand = vec![0.0; problem.resources.len()];
        for class in &problem.classes {
            for (sum, ask) in unplaced_demand.iter_mut().zip(&class.request) {
                *sum += *ask as f64 * class.pods.len() as f64;
            }
        }
        // Starts in the strict modes; later passes relax them.
        Self {
            problem,
            fits: initial.fits,
            topology: initial.topology,
            existing_nodes: initial.existing_nodes,
            cohorts: Vec::new(),
            limits: initial.limits,
            nodes_left: initial.nodes_left,
            reservations: initial.reservations,
            events: Vec::new(),
            cohort_of: Vec::new(),
            unplaced_demand,
            present_domains_only: false,
            present_hosts_only: false,
            populated: BTreeSet::new(),
            no_new_domains: BTreeSet::new(),
            level_by_level: true,
            avoid_prefer_no_schedule: true,
            all_on_one_machine: false,
            min_host_counts: SmallVec::new(),
            admitting_nodes: FxHashMap::default(),
            class_fits: FxHashMap::default(),
            fit_domains: FxHashMap::default(),
            domain_cache: DomainCache::default(),
            zone_cache: ZoneCache::default(),
            candidate_cohorts: Vec::new(),
            queue: Vec::new(),
            queue_position: 0,
            patterns: Patterns::default(),
            pool_counts: PoolCounts::of(problem.input),
            steps,
            attempted: BitSet::empty(problem.classes.len()),
            last_attempted: None,
            claims_in_use: claims_in_use(problem.input),
        }
    }

    /// Places up to `count` pods of `class`; returns the number placed.
    pub(super) fn place(&mut self, class: u32, count: u32) -> u32 {
        let needs = &self.problem.classes[class as usize];
        self.attempted.insert(class as usize);
        self.last_attempted = Some(class);
        self.steps.consume(1);
        if !needs.possible
            || needs.alternatives.is_empty()
            || needs.exclusive_claims.iter().any(|claim| self.claims_in_use.contains(claim))
        {
            return 0;
        }
        let count = if needs.exclusive_claims.is_empty() { count } else { count.min(1) };
        if self.present_hosts_only {
            self.min_host_counts = self.find_min_host_counts(class);
        }
        let mut left = count;
        let launchable = self.problem.supplies.iter().flatten().any(|supply| supply.may_hold(&needs.request));
        // Strict modes first: one shared machine where affinity requires it, existing nodes, no
        // tainted nodes.
        for whole in [true, false] {
            if whole && !self.must_share_machine(class) {
                continue;
            }
            for (reach, avoid) in [
                (Reach::ExistingNodes, true),
                (Reach::ExistingNodes, false),
                (Reach::NewMachines, true),
                (Reach::NewMachines, false),
            ] {
                let possible = if reach == Reach::ExistingNodes { !self.existing_nodes.is_empty() } else { launchable };
                if left > 0 && possible && !self.steps.is_exhausted() {
                    (self.avoid_prefer_no_schedule, self.all_on_one_machine) = (avoid, whole);
                    left -= self.place_with_preferences(class, left, reach);
                }
            }
        }
        if left < count {
            self.claims_in_use.extend(needs.exclusive_claims.iter().cloned());
        }
        self.subtract_demand(class, count - left);
        count - left
    }

    /// Places under as many preferences as possible, dropping the lightest first.
    fn place_with_preferences(&mut self, class: u32, count: u32, reach: Reach) -> u32 {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let mut allowed = (0..needs.preferences.len()).fold(PreferenceSet::default(), PreferenceSet::with);
        let mut left = count;
        while left > 0 && !self.steps.is_exhausted() {
            let preferences = self.compatible_preferences(class, allowed, reach);
            let mut got = 0;
            if reach == Reach::NewMachines {
                // Hostname preferences choose among machines that the plan launches anyway and
                // never launch one.
                let host = |at: &usize| needs.preferences[*at].host;
                let wide = (0..needs.preferences.len()).filter(host).fold(preferences, PreferenceSet::without);
                if wide != preferences {
                    got = self.place_with(class, left, preferences, Reach::Cohorts);
                }
                // Capacity of a machine that is launched anyway beats a preferred label, which only
                // decides what is launched.
                let label = |at: &usize| needs.preferences[*at].requirements.is_some();
                let unlabelled = (0..needs.preferences.len()).filter(label).fold(wide, PreferenceSet::without);
                if unlabelled != wide {
                    got += self.place_with(class, left - got, wide, Reach::Cohorts);
                    got += self.place_with(class, left - got, unlabelled, Reach::Cohorts);
                }
                got += self.place_with(class, left - got, wide, Reach::NewMachines);
            } else {
                got = self.place_with(class, left, preferences, reach);
            }
            left -= got;
            if got == 0 {
                let Some(lightest) = lightest(needs, preferences) else { break };
                allowed = allowed.without(lightest);
            }
        }
        count - left
    }

    /// The subset of `allowed` that can hold together, chosen heaviest first.
    fn compatible_preferences(&mut self, class: u32, allowed: PreferenceSet, reach: Reach) -> PreferenceSet {
        let needs = &self.problem.classes[class as usize];
        if allowed.is_empty() || reach != Reach::NewMachines {
            return allowed;
        }
        let mut order: Vec<usize> = (0..needs.preferences.len()).filter(|at| allowed.has(*at)).collect();
        // A preferred node or pod affinity is given up before a spread, whatever its weight (Karpenter: relaxation).
        order.sort_by_key(|at| (!needs.preferences[*at].spread, -needs.preferences[*at].weight, *at));
        let mut kept = PreferenceSet::default();
        for at in order {
            if needs.preferences[at].host || self.is_feasible(class, kept.with(at)) {
                kept = kept.with(at);
            }
        }
        kept
    }

    /// Whether some pool has options and some domain is allowed under `preferences`, ignoring
    /// resources.
    fn is_feasible(&mut self, class: u32, preferences: PreferenceSet) -> bool {
        let pools: Vec<u32> = self.problem.tiers.iter().flatten().copied().collect();
        self.steps.consume(self.problem.classes[class as usize].constraints() * (1 + pools.len()));
        let constrained = self.wide_rules(class, preferences);
        let tuples =
            if constrained.is_empty() { vec![SmallVec::new()] } else { self.targets(class, preferences, &constrained) };
        tuples.iter().any(|pins| pools.iter().any(|pool| !self.pinned_fits(class, preferences, *pool, pins).is_empty()))
    }

    fn subtract_demand(&mut self, class: u32, count: u32) {
        let needs = &self.problem.classes[class as usize];
        for (sum, ask) in self.unplaced_demand.iter_mut().zip(&needs.request) {
            *sum -= *ask as f64 * f64::from(count);
        }
    }

    /// Places up to `count` pods under exactly these preferences.
    fn place_with(&mut self, class: u32, count: u32, preferences: PreferenceSet, reach: Reach) -> u32 {
        if count == 0 {
            return 0;
        }
        let rules = self.wide_rules(class, preferences);
        if rules.is_empty() {
            self.fill_within(class, count, &[], preferences, reach)
        } else {
            self.spread_over(class, count, preferences, reach, &rules)
        }
    }

    /// For each hostname spread of `class`, the least count over the machines that count for it.
    fn find_min_host_counts(&mut self, class: u32) -> SmallVec<[(u32, u32); 1]> {
        let problem = self.problem;
        let spreads = |rule: &&ClassRule| {
            rule.key == Topology::HOST && rule.preference.is_none() && matches!(rule.kind, RuleKind::Spread { .. })
        };
        let rules = problem.classes[class as usize].rules.iter().filter(spreads);
        rules.map(|rule| (rule.group, self.min_host_count(rule))).collect()
    }

    /// The least count over the machines that count for a hostname spread; zero when they are fewer
    /// than `minDomains`.
    fn min_host_count(&mut self, rule: &ClassRule) -> u32 {
        let filter = &self.topology.groups[rule.group as usize].filter;
        let nodes = &self.problem.input.nodes;
        let counts =
            |existing: &&ExistingNode| passes(filter, &nodes[existing.node as usize], &self.fits, &self.topology);
        let mut tallies: Vec<u32> =
            self.existing_nodes.iter().filter(counts).map(|existing| existing.host.get(rule.group).matched).collect();
        let mut hosts = tallies.len();
        for at in 0..self.cohorts.len() {
            let (pool, fit) = (self.cohorts[at].pool, self.cohorts[at].fit);
            if !self.cohorts[at].ids.is_empty() && self.fit_passes(rule.group, fit, pool) {
                tallies.push(self.cohorts[at].host.get(rule.group).matched);
                hosts += self.cohorts[at].ids.len();
            }
        }
        match rule.kind {
            RuleKind::Spread { min_domains, .. } if hosts < min_domains as usize => 0,
            _ => tallies.into_iter().min().unwrap_or(0),
        }
    }
}

fn lightest(needs: &Class, preferences: PreferenceSet) -> Option<usize> {
    let rank = |at: &usize| (needs.preferences[*at].spread, needs.preferences[*at].weight, *at);
    (0..needs.preferences.len()).filter(|at| preferences.has(*at)).min_by_key(rank)
}
