//! Topology spread, pod affinity and pod anti-affinity of one pod, counted over the finished plan
//! by the verifier.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use model::labels::HOSTNAME;
use model::taints::first_untolerated;
use model::{Labels, PodAffinityTerm, Requirements, SpreadConstraint, Text};
use verifier::kernel::{DomainCounts, EligibleDomains, HostDomain, HostFilter, PodSelector};

use super::placed_pods::PlacedGroup;
use super::pod_requirements::{Alternative, IgnoredRule, PodRequirements};
use super::snapshot::PlanSnapshot;

/// The topology labels of a node: values of the keys used by the topology rules.
pub(super) type Location = BTreeMap<Text, Text>;

/// A hard spread constraint and its counts.
#[derive(Debug)]
pub(super) struct Spread {
    /// Index of the constraint in the shape.
    pub index: usize,
    /// The label whose values are the domains.
    pub key: Text,
    /// Pods by domain, domains without pods included.
    pub counts: BTreeMap<Text, i64>,
    /// The global minimum, after `minDomains`.
    pub minimum: i64,
    /// 1 if the pod matches its own selector, else 0.
    pub own: i64,
    /// `maxSkew` of the constraint.
    pub max_skew: i64,
}

/// The domains with pods that match one required affinity or anti-affinity term.
#[derive(Debug)]
pub(super) struct MatchingDomains {
    /// Index of the term in the shape.
    pub index: usize,
    /// The label whose values are the domains.
    pub key: Text,
    /// Matching pods by domain: their number, and one of them.
    pub domains: BTreeMap<Text, (i64, String)>,
}

/// The topology rules of one pod, as far as they do not depend on the node.
#[derive(Debug, Default)]
pub(super) struct Topology {
    /// The alternatives of node selector and affinity; spread counts the nodes admitted by any of
    /// them.
    pub alternatives: Vec<Alternative>,
    pub spread: Vec<Spread>,
    /// Domains with matching pods, for each required affinity term.
    pub affinity: Vec<MatchingDomains>,
    /// No placed pod matches all affinity terms, but the pod itself does: it may be the first.
    pub may_be_first: bool,
    /// Domains with matching pods, for each required anti-affinity term.
    pub anti: Vec<MatchingDomains>,
    /// Domains excluded by the anti-affinity of other pods: (key, value) and one of those pods.
    pub conflicting_pods: BTreeMap<(Text, Text), String>,
    /// Label keys used by the rules.
    pub keys: BTreeSet<Text>,
}

/// The rule that excludes a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TopologyConflict {
    /// Index in [`Topology::spread`].
    Spread(usize),
    /// Index in [`Topology::affinity`].
    Affinity(usize),
    /// Index in [`Topology::anti`].
    AntiAffinity(usize),
    /// The required anti-affinity of another pod.
    OtherPod,
}

impl Topology {
    /// Counts the topology rules of a pod.
    pub(super) fn of(snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>) -> Self {
        let mut topology = Self { alternatives: pod_reqs.alternatives(), ..Self::default() };
        for (index, constraint) in pod_reqs.shape.spread.iter().enumerate().filter(|(_, c)| c.hard) {
            let spread = count_spread(snapshot, pod_reqs, &topology.alternatives, index, constraint);
            topology.spread.push(spread);
        }
        topology.count_affinity(snapshot, pod_reqs);
        for (index, term) in pod_reqs.shape.pod_anti_affinity.iter().enumerate() {
            let selector = PodSelector::of_term(pod_reqs.namespace, term);
            let candidates = snapshot.candidates(term.selector.as_ref());
            let matching = candidates.filter(|group| selects(snapshot, &selector, group));
            topology.anti.push(matching_domains(snapshot, index, &term.topology_key, matching, true));
        }
        if !pod_reqs.ignores(&IgnoredRule::OtherPodsAntiAffinity) {
            topology.count_conflicting_pods(snapshot, pod_reqs);
        }
        topology.keys.extend(topology.spread.iter().map(|s| s.key.clone()));
        topology.keys.extend(topology.affinity.iter().chain(&topology.anti).map(|n| n.key.clone()));
        topology.keys.extend(topology.conflicting_pods.keys().map(|(key, _)| key.clone()));
        topology
    }

    /// All terms must be matched by the same set of pods (L48).
    fn count_affinity(&mut self, snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>) {
        let terms = &pod_reqs.shape.pod_affinity;
        // Pods that match all terms match the first one, so its candidates suffice. Without terms
        // there is nothing to match.
        let Some(first) = terms.first() else { return };
        let selectors: Vec<PodSelector<'_>> =
            terms.iter().map(|term| PodSelector::of_term(pod_reqs.namespace, term)).collect();
        let all = |group: &&PlacedGroup| selectors.iter().all(|selector| selects(snapshot, selector, group));
        let matching: Vec<&PlacedGroup> = snapshot.candidates(first.selector.as_ref()).filter(all).collect();
        self.may_be_first =
            selectors.iter().all(|selector| selector.selects(snapshot.input, pod_reqs.namespace, pod_reqs.labels));
        for (index, term) in terms.iter().enumerate() {
            let domains =
                |undecided| matching_domains(snapshot, index, &term.topology_key, matching.iter().copied(), undecided);
            self.may_be_first &= domains(true).domains.is_empty();
            self.affinity.push(domains(false));
        }
    }

    fn count_conflicting_pods(&mut self, snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>) {
        for group in &snapshot.groups {
            for term in &snapshot.input.shapes[group.shape as usize].pod_anti_affinity {
                let selector = PodSelector::of_term(&group.namespace, term);
                if !selector.selects(snapshot.input, pod_reqs.namespace, pod_reqs.labels) {
                    continue;
                }
                let matching = matching_domains(snapshot, 0, &term.topology_key, std::iter::once(group), true);
                for (value, (_, example)) in matching.domains {
                    self.conflicting_pods.entry((term.topology_key.clone(), value)).or_insert(example);
                }
            }
        }
    }

    /// The first rule that excludes a node at `location`.
    pub(super) fn conflict(&self, location: &Location) -> Option<TopologyConflict> {
        let spread = self.spread.iter().position(|rule| !rule.admits(location));
        let affinity = || {
            let met =
                |rule: &MatchingDomains| location.get(&rule.key).is_some_and(|value| rule.domains.contains_key(value));
            let may_be_first = |rule: &MatchingDomains| self.may_be_first && location.contains_key(&rule.key);
            self.affinity.iter().position(|rule| !met(rule) && !may_be_first(rule))
        };
        let anti = || {
            let met =
                |rule: &MatchingDomains| location.get(&rule.key).is_some_and(|value| rule.domains.contains_key(value));
            self.anti.iter().position(met)
        };
        let other_pod =
            || location.iter().any(|(key, value)| self.conflicting_pods.contains_key(&(key.clone(), value.clone())));
        spread
            .map(TopologyConflict::Spread)
            .or_else(|| affinity().map(TopologyConflict::Affinity))
            .or_else(|| anti().map(TopologyConflict::AntiAffinity))
            .or_else(|| other_pod().then_some(TopologyConflict::OtherPod))
    }

    /// The topology labels of a node, read with `value`.
    pub(super) fn location(&self, mut value: impl FnMut(&Text) -> Option<Text>) -> Location {
        self.keys.iter().filter_map(|key| Some((key.clone(), value(key)?))).collect()
    }
}

impl Spread {
    fn admits(&self, location: &Location) -> bool {
        let Some(value) = location.get(&self.key) else { return false };
        self.count(value) + self.own - self.minimum <= self.max_skew
    }

    /// Matching pods in the domain `value`.
    pub(super) fn count(&self, value: &str) -> i64 {
        self.counts.get(value).copied().unwrap_or(0)
    }
}

/// The domains of these groups of pods. `undecided` includes the domains that a pod may be in once
/// its node is launched.
fn matching_domains<'r>(
    snapshot: &PlanSnapshot<'_>,
    index: usize,
    key: &Text,
    groups: impl Iterator<Item = &'r PlacedGroup>,
    undecided: bool,
) -> MatchingDomains {
    let known = snapshot.key_domains(key);
    let mut counts: BTreeMap<u32, (i64, &str)> = BTreeMap::new();
    for group in groups {
        for (&node_ref, number) in &group.nodes {
            let mut count = |domain| counts.entry(domain).or_insert((0, &group.example)).0 += number;
            match known.of_host(snapshot.host(node_ref)) {
                HostDomain::One(domain) => count(domain),
                HostDomain::OneOf(domains) if undecided => domains.iter().copied().for_each(count),
                HostDomain::OneOf(_) | HostDomain::Absent => {}
            }
        }
    }
    let named = |(domain, (number, example)): (u32, (i64, &str))| {
        (Text::from(known.names()[domain as usize]), (number, example.to_owned()))
    };
    MatchingDomains { index, key: key.clone(), domains: counts.into_iter().map(named).collect() }
}

/// Whether `selector` selects the pods of the group.
fn selects(snapshot: &PlanSnapshot<'_>, selector: &PodSelector<'_>, group: &PlacedGroup) -> bool {
    selector.selects(snapshot.input, &group.namespace, &snapshot.input.label_sets[group.labels as usize])
}

/// Counts the pods of a hard spread constraint as the verifier does, and adds the domains in which
/// a node could be launched: the scheduler leaves room for them.
fn count_spread(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    alternatives: &[Alternative],
    index: usize,
    constraint: &SpreadConstraint,
) -> Spread {
    let (input, launches, key) = (snapshot.input, snapshot.launches(), &constraint.topology_key);
    let domains = snapshot.key_domains(key);
    let filter = HostFilter::of(&pod_reqs.shape, constraint);
    let admitted = filter.admissions(input, launches);
    let eligible = Rc::new(EligibleDomains::of(input, launches, &domains, &filter, &admitted));
    let mut counter = DomainCounts::new(0, Some(&admitted), Some(Rc::clone(&eligible)));
    let selector = PodSelector::of_spread(pod_reqs.namespace, constraint);
    let candidates = snapshot.candidates(constraint.selector.as_ref());
    for group in candidates.filter(|group| selects(snapshot, &selector, group)) {
        for (&node_ref, number) in &group.nodes {
            let host = snapshot.host(node_ref);
            let pods = if counter.admits(host) { *number } else { 0 };
            (0..pods).for_each(|_| counter.count(domains.of_host(host)));
        }
    }
    let mut counts: BTreeMap<Text, i64> = BTreeMap::new();
    for (domain, name) in (0..).zip(domains.names()) {
        let pods = counter.max_count(domain);
        if pods > 0 || eligible.contains(domain) {
            *counts.entry(Text::from(*name)).or_insert(0) += pods;
        }
    }
    let (mut least, mut there) = (counter.global_minimum(None), eligible.certain());
    if key.as_ref() == HOSTNAME {
        // Another node is always possible.
        least = 0;
    } else {
        for value in launchable_domains(snapshot, pod_reqs, alternatives, constraint) {
            let domain = domains.number(&value);
            if !domain.is_some_and(|domain| eligible.contains(domain)) {
                least = least.min(domain.map_or(0, |domain| counter.min_count(domain)));
                there += 1;
            }
            counts.entry(value).or_insert(0);
        }
    }
    let too_few =
        constraint.min_domains.is_some_and(|wanted| usize::try_from(wanted).is_ok_and(|wanted| there < wanted));
    let minimum = if too_few { 0 } else { least };
    let own = i64::from(selector.selects(input, pod_reqs.namespace, pod_reqs.labels));
    Spread { index, key: key.clone(), counts, minimum, own, max_skew: i64::from(constraint.max_skew) }
}

/// Whether `term` of a pod in namespace `owner` selects a pod with this namespace and these labels.
pub(super) fn selects_pod(
    snapshot: &PlanSnapshot<'_>,
    term: &PodAffinityTerm,
    owner: &Text,
    namespace: &Text,
    labels: &Labels,
) -> bool {
    PodSelector::of_term(owner, term).selects(snapshot.input, namespace, labels)
}

/// Domains in which a new node can be launched.
fn launchable_domains(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    alternatives: &[Alternative],
    constraint: &SpreadConstraint,
) -> BTreeSet<Text> {
    let key = constraint.topology_key.as_ref();
    let mut domains = BTreeSet::new();
    for (at, pool) in snapshot.open_pools().filter(|(_, pool)| pool.not_ready.is_none()) {
        let base = &snapshot.pools[at as usize].base;
        if constraint.honor_node_taints && first_untolerated(&pool.taints, &pod_reqs.shape.tolerations).is_some() {
            continue;
        }
        let allowed = |value: &Text| {
            let admits = |requirements: &Requirements| requirements.get(key).is_none_or(|r| r.has(value));
            base.get(key).is_none_or(|r| r.has(value))
                && (!constraint.honor_node_affinity
                    || alternatives.iter().any(|alternative| admits(&alternative.requirements)))
        };
        domains.extend(snapshot.offered(at, &constraint.topology_key).iter().filter(|value| allowed(value)).cloned());
    }
    domains
}
