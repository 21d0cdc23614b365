//! Topology spread, pod affinity and pod anti-affinity, checked in the order of the plan.
//!
//! Pods already on nodes count from the start. Then each pod of the order is checked against all
//! pods counted so far, and is counted itself. Every distinct [`Query`] ("how many pods that these
//! terms select, per domain of this key, on nodes that this filter admits") has one
//! [`DomainCounts`]. A pod touches only the counts that its class queries or that select it.

mod constraints;
mod domain_counts;
mod domains;
mod filter;
mod steps;

use std::rc::Rc;

use rustc_hash::FxHashMap;

use constraints::{Constraints, Query, Spread};
use domains::Domains;
use filter::{Admission, LeavingNodes};

pub use constraints::PodSelector;
pub use domain_counts::{DomainCounts, EligibleDomains};
pub use domains::{HostDomain, KeyDomains};
pub use filter::HostFilter;
pub(super) use steps::check_steps;

use super::class::Classes;
use super::launch::Launches;
use super::placements::Placements;
use super::violation::{Findings, Rule};
use model::BoundPod;
use model::input::PlanningInput;
use model::plan::Plan;

pub(super) fn check<'a>(
    input: &'a PlanningInput,
    plan: &'a Plan,
    placements: &Placements<'a>,
    launches: &Launches<'a>,
    findings: &mut Findings<'_>,
) {
    judge((input, plan), placements, launches, (LeavingNodes::Gone, &[]), |checker| {
        // A pod is counted only after its own check: rules see the pods placed before it.
        for pod in &placements.order {
            checker.place(*pod, findings);
        }
    });
}

/// Has `walk` place the pods of the plan, if a rule concerns them. The checker has counted the pods that stay on
/// their nodes, and knows those of `others`, which `walk` counts.
fn judge<'a>(
    (input, plan): (&'a PlanningInput, &'a Plan),
    placements: &Placements<'a>,
    launches: &Launches<'a>,
    (leaving, others): (LeavingNodes<'_>, &[(u32, &'a BoundPod)]),
    walk: impl FnOnce(&mut TopologyChecker<'a, '_>),
) {
    let (mut classes, class_of) = Classes::of_pods(input);
    let existing = existing_pods(input, &mut classes);
    let class = |(host, pod): &(u32, &'a BoundPod)| (classes.id(&pod.namespace, pod.shape, pod.labels), *host);
    let others = others.iter().map(class).collect();
    let planned = class_of.iter().copied().max().map_or(0, |last| last + 1);
    let constraints = Constraints::compile(input, &classes, planned);
    if constraints.queries.is_empty() {
        return;
    }
    let domains = Domains::collect(input, plan, launches, &constraints.keys);
    let admitted: Vec<Vec<Admission>> =
        constraints.filters.iter().map(|filter| filter.admissions_with(input, launches, leaving)).collect();
    let mut eligible_domains: FxHashMap<(u32, u32), Rc<EligibleDomains>> = FxHashMap::default();
    let mut counts_for = |query: &Query| {
        let Some(filter) = query.filter else { return DomainCounts::new(query.key, None, None) };
        let admitted = &admitted[filter as usize];
        let eligible = eligible_domains.entry((query.key, filter)).or_insert_with(|| {
            let filter = &constraints.filters[filter as usize];
            Rc::new(EligibleDomains::of(input, launches, domains.of_key(query.key), filter, admitted))
        });
        DomainCounts::new(query.key, Some(admitted), Some(Rc::clone(eligible)))
    };
    let counts = constraints.queries.iter().map(&mut counts_for).collect();
    let is_known =
        |host: u32| (host as usize) < input.nodes.len() || launches.number_of_host(input.nodes.len(), host).is_some();
    let mut checker = TopologyChecker {
        counts,
        constraints: &constraints,
        domains: &domains,
        placements,
        class_of: &class_of,
        others,
        is_known: &is_known,
    };
    for (class, host) in existing {
        checker.count_pod(class, host);
    }
    walk(&mut checker);
}

/// For each pod to place, whether some hard topology rule over domains wider than nodes counts it.
pub(super) fn counted_beyond_nodes(input: &PlanningInput) -> Vec<bool> {
    let (mut classes, class_of) = Classes::of_pods(input);
    let planned = class_of.iter().copied().max().map_or(0, |last| last + 1);
    drop(existing_pods(input, &mut classes));
    let constraints = Constraints::compile(input, &classes, planned);
    let wide = |query: &u32| {
        let key = constraints.queries[*query as usize].key;
        constraints.keys[key as usize] != model::labels::HOSTNAME
    };
    class_of.iter().map(|class| constraints.selecting[*class as usize].iter().any(wide)).collect()
}

/// Class and host of each pod that counts from the start: neither terminating nor leaving its node.
fn existing_pods<'a>(input: &'a PlanningInput, classes: &mut Classes<'a>) -> Vec<(u32, u32)> {
    let hosted = (0_u32..).zip(&input.nodes).flat_map(|(host, node)| node.pods.iter().map(move |pod| (host, pod)));
    let counted = hosted.filter(|(_, pod)| !pod.terminating && !pod.leaving);
    counted.map(|(host, pod)| (classes.id(&pod.namespace, pod.shape, pod.labels), host)).collect()
}

/// The pods counted so far, per query and domain.
struct TopologyChecker<'a, 'b> {
    counts: Vec<DomainCounts<'b>>,
    constraints: &'b Constraints<'a>,
    domains: &'b Domains<'a>,
    placements: &'b Placements<'a>,
    /// The class of each pod to place.
    class_of: &'b [u32],
    /// Class and host of pods that are not placed and leave their nodes.
    others: Vec<(u32, u32)>,
    /// Whether a host is an existing node, or one with a launch.
    is_known: &'b dyn Fn(u32) -> bool,
}

impl TopologyChecker<'_, '_> {
    /// Checks the pod where the plan places it, and counts it there.
    fn place(&mut self, pod: u32, findings: &mut Findings<'_>) {
        let (class, host) = (self.class_of[pod as usize], self.placements.host_of[pod as usize]);
        if (self.is_known)(host) {
            self.check_pod(pod, class, host, findings);
        }
        self.count_pod(class, host);
    }

    /// Takes a pod of `class` on the existing `host` out of the counts.
    fn uncount_pod(&mut self, class: u32, host: u32) {
        for query in &self.constraints.selecting[class as usize] {
            let counts = &mut self.counts[*query as usize];
            if counts.admits(host) {
                counts.uncount(self.domains.of_host(counts.key(), host));
            }
        }
        for query in &self.constraints.rules[class as usize].anti_affinity {
            let counts = &mut self.counts[*query as usize];
            counts.unexclude(self.domains.of_host(counts.key(), host));
        }
    }

    /// Counts a pod of `class` on `host` in every query that selects it, and in its own
    /// anti-affinity terms.
    fn count_pod(&mut self, class: u32, host: u32) {
        for query in &self.constraints.selecting[class as usize] {
            let counts = &mut self.counts[*query as usize];
            if counts.admits(host) {
                counts.count(self.domains.of_host(counts.key(), host));
            }
        }
        for query in &self.constraints.rules[class as usize].anti_affinity {
            let counts = &mut self.counts[*query as usize];
            counts.exclude(self.domains.of_host(counts.key(), host));
        }
    }

    fn check_pod(&self, pod: u32, class: u32, host: u32, findings: &mut Findings<'_>) {
        let rules = &self.constraints.rules[class as usize];
        let name = self.placements.host_name(host);
        for spread in &rules.spreads {
            if let Err((rule, what)) = self.check_spread(spread, host) {
                findings.report_pod(rule, pod, Some(name), &what);
            }
        }
        if !rules.affinity.is_empty()
            && let Err((rule, what)) = self.check_affinity(&rules.affinity, rules.matches_own_affinity, host)
        {
            findings.report_pod(rule, pod, Some(name), &what);
        }
        for query in &rules.anti_affinity {
            if let Err((rule, what)) = self.check_anti_affinity(*query, host) {
                findings.report_pod(rule, pod, Some(name), &what);
            }
        }
        for query in &self.constraints.selecting[class as usize] {
            let counts = &self.counts[*query as usize];
            if counts.excludes(self.domains.of_host(counts.key(), host)) {
                let what =
                    format!("is excluded by the anti-affinity of a pod there, over {}", self.domains.key(counts.key()));
                findings.report_pod(Rule::PodAntiAffinity, pod, Some(name), &what);
            }
        }
    }

    /// The single domain of a host, required by a hard constraint over that key.
    fn single_domain(&self, key: u32, host: u32, rule: Rule) -> Result<u32, (Rule, String)> {
        match self.domains.of_host(key, host) {
            HostDomain::One(domain) => Ok(domain),
            HostDomain::Absent => Err((rule, format!("requires a node with the label {}", self.domains.key(key)))),
            HostDomain::OneOf(_) => {
                let what =
                    format!("has a topology rule over {}, whose value is undecided there", self.domains.key(key));
                Err((Rule::OpenDomain, what))
            }
        }
    }

    /// Rule of kube-scheduler: matching pods in the domain, including the pod itself, exceed the
    /// global minimum by at most `maxSkew`.
    fn check_spread(&self, spread: &Spread, host: u32) -> Result<(), (Rule, String)> {
        let counts = &self.counts[spread.query as usize];
        let domain = self.single_domain(counts.key(), host, Rule::TopologySpread)?;
        let (here, least) = (counts.max_count(domain), counts.global_minimum(spread.min_domains));
        let skew = here + i64::from(spread.counts_itself) - least;
        if skew <= i64::from(spread.max_skew) {
            return Ok(());
        }
        let key = self.domains.key(counts.key());
        let what = format!("makes the skew over {key} {skew} (least {least}); {} is allowed", spread.max_skew);
        Err((Rule::TopologySpread, what))
    }

    /// Rule of kube-scheduler: pods matching all terms run in the domain of the node for every
    /// term. The first pod of a group that selects itself may run anywhere.
    fn check_affinity(&self, terms: &[u32], itself: bool, host: u32) -> Result<(), (Rule, String)> {
        let mut missing = None;
        for query in terms {
            let counts = &self.counts[*query as usize];
            let domain = self.single_domain(counts.key(), host, Rule::PodAffinity)?;
            if counts.min_count(domain) == 0 {
                missing = Some(self.domains.key(counts.key()));
            }
        }
        let none_match = || terms.iter().all(|query| self.counts[*query as usize].is_empty());
        match missing {
            Some(key) if !(itself && none_match()) => {
                Err((Rule::PodAffinity, format!("requires pods that are not in its domain of {key}")))
            }
            _ => Ok(()),
        }
    }

    fn check_anti_affinity(&self, query: u32, host: u32) -> Result<(), (Rule, String)> {
        let counts = &self.counts[query as usize];
        match self.single_domain(counts.key(), host, Rule::PodAntiAffinity) {
            Ok(domain) if counts.max_count(domain) > 0 => {
                let key = self.domains.key(counts.key());
                Err((Rule::PodAntiAffinity, format!("must not share its domain of {key} with pods that run there")))
            }
            // A node without the label is in no domain, so no pod shares its domain.
            Ok(_) | Err((Rule::PodAntiAffinity, _)) => Ok(()),
            Err(open) => Err(open),
        }
    }
}
