//! Topology spread, pod affinity and pod anti-affinity, counted over the finished plan as
//! kube-scheduler counts them.

use std::collections::{BTreeMap, BTreeSet};

use model::labels::HOSTNAME;
use model::taints::first_untolerated;
use model::{Labels, NodeName, NodeStage, PodAffinityTerm, Requirements, SpreadConstraint, Text};

use super::pod_requirements::{Alternative, IgnoredRule, PodRequirements};
use super::snapshot::{NodeRef, PlacedGroup, PlanSnapshot};

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
    /// Hard spread constraints.
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
            let matching =
                snapshot.candidates(term.selector.as_ref()).filter(|r| selects(snapshot, term, pod_reqs.namespace, r));
            topology.anti.push(matching_domains(snapshot, index, &term.topology_key, matching));
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
        let all = |r: &&PlacedGroup| terms.iter().all(|term| selects(snapshot, term, pod_reqs.namespace, r));
        // Pods that match all terms match the first one, so its candidates suffice. Without terms
        // there is nothing to match.
        let matching: Vec<&PlacedGroup> = match terms.first() {
            Some(first) => snapshot.candidates(first.selector.as_ref()).filter(all).collect(),
            None => Vec::new(),
        };
        self.may_be_first = matching.is_empty()
            && terms
                .iter()
                .all(|term| selects_pod(snapshot, term, pod_reqs.namespace, pod_reqs.namespace, pod_reqs.labels));
        for (index, term) in terms.iter().enumerate() {
            self.affinity.push(matching_domains(snapshot, index, &term.topology_key, matching.iter().copied()));
        }
    }

    fn count_conflicting_pods(&mut self, snapshot: &PlanSnapshot<'_>, pod_reqs: &PodRequirements<'_>) {
        for group in &snapshot.groups {
            for term in &snapshot.input.shapes[group.shape as usize].pod_anti_affinity {
                if !selects_pod(snapshot, term, &group.namespace, pod_reqs.namespace, pod_reqs.labels) {
                    continue;
                }
                for value in group.nodes.keys().flat_map(|&node_ref| snapshot.domains(node_ref, &term.topology_key)) {
                    let domain = (term.topology_key.clone(), value.clone());
                    self.conflicting_pods.entry(domain).or_insert_with(|| group.example.clone());
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

fn matching_domains<'r>(
    snapshot: &PlanSnapshot<'_>,
    index: usize,
    key: &Text,
    groups: impl Iterator<Item = &'r PlacedGroup>,
) -> MatchingDomains {
    let mut domains: BTreeMap<Text, (i64, String)> = BTreeMap::new();
    for group in groups {
        for (&node_ref, number) in &group.nodes {
            for value in snapshot.domains(node_ref, key) {
                domains.entry(value.clone()).or_insert_with(|| (0, group.example.clone())).0 += number;
            }
        }
    }
    MatchingDomains { index, key: key.clone(), domains }
}

/// Whether `term` of a pod in namespace `owner` selects the group.
fn selects(snapshot: &PlanSnapshot<'_>, term: &PodAffinityTerm, owner: &Text, group: &PlacedGroup) -> bool {
    let labels = &snapshot.input.label_sets[group.labels as usize];
    selects_pod(snapshot, term, owner, &group.namespace, labels)
}

/// Whether `term` of a pod in namespace `owner` selects a pod with this namespace and these labels.
pub(super) fn selects_pod(
    snapshot: &PlanSnapshot<'_>,
    term: &PodAffinityTerm,
    owner: &Text,
    namespace: &Text,
    labels: &Labels,
) -> bool {
    if !term.selector.as_ref().is_some_and(|selector| selector.matches(labels)) {
        return false;
    }
    let Some(by_label) = &term.namespace_selector else {
        return if term.namespaces.is_empty() { owner == namespace } else { term.namespaces.contains(namespace) };
    };
    let name_only = || Labels::from([("kubernetes.io/metadata.name".into(), namespace.clone())]);
    let selected = snapshot
        .input
        .namespaces
        .get(namespace)
        .map_or_else(|| by_label.matches(&name_only()), |labels| by_label.matches(labels));
    selected || term.namespaces.contains(namespace)
}

fn count_spread(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    alternatives: &[Alternative],
    index: usize,
    constraint: &SpreadConstraint,
) -> Spread {
    let key = &constraint.topology_key;
    let selects = |labels: &Labels| constraint.selector.as_ref().is_some_and(|s| s.matches(labels));
    let mut counts: BTreeMap<Text, i64> = BTreeMap::new();
    let node_refs = eligible_nodes(snapshot, pod_reqs, alternatives, constraint);
    // Empty domains enter the counts first: the minimum must see them.
    for value in node_refs.iter().filter_map(|&node_ref| domain(snapshot, node_ref, key)) {
        counts.entry(value.clone()).or_insert(0);
    }
    if key.as_ref() != HOSTNAME {
        for value in launchable_domains(snapshot, pod_reqs, alternatives, constraint) {
            counts.entry(value).or_insert(0);
        }
    }
    for group in snapshot.candidates(constraint.selector.as_ref()).filter(|r| r.namespace == *pod_reqs.namespace) {
        if !selects(&snapshot.input.label_sets[group.labels as usize]) {
            continue;
        }
        for (&node_ref, number) in group.nodes.iter().filter(|(node_ref, _)| node_refs.binary_search(node_ref).is_ok())
        {
            if let Some(value) = domain(snapshot, node_ref, key) {
                *counts.entry(value.clone()).or_insert(0) += number;
            }
        }
    }
    let own = i64::from(selects(pod_reqs.labels));
    let minimum = minimum(constraint, &counts);
    Spread { index, key: key.clone(), counts, minimum, own, max_skew: i64::from(constraint.max_skew) }
}

/// The global minimum. For hostnames it is zero, because another node is always possible.
fn minimum(constraint: &SpreadConstraint, counts: &BTreeMap<Text, i64>) -> i64 {
    let too_few =
        constraint.min_domains.is_some_and(|least| i64::try_from(counts.len()).unwrap_or(i64::MAX) < i64::from(least));
    if too_few || constraint.topology_key.as_ref() == HOSTNAME {
        return 0;
    }
    counts.values().copied().min().unwrap_or(0)
}

/// The domain of a node, if it is decided.
fn domain<'w>(snapshot: &PlanSnapshot<'w>, node_ref: NodeRef, key: &str) -> Option<&'w Text> {
    match snapshot.domains(node_ref, key).as_slice() {
        [one] => Some(one),
        _ => None,
    }
}

/// Nodes whose pods count, ascending: those admitted by node affinity and tolerations of the pod,
/// as the constraint requires.
fn eligible_nodes(
    snapshot: &PlanSnapshot<'_>,
    pod_reqs: &PodRequirements<'_>,
    alternatives: &[Alternative],
    constraint: &SpreadConstraint,
) -> Vec<NodeRef> {
    let mut node_refs = Vec::new();
    let admits = |node_ref: NodeRef, name: &NodeName| {
        let alternative = |alternative: &Alternative| {
            alternative.contradiction.is_none()
                && alternative.requirements.iter().all(|r| snapshot.satisfies(node_ref, r))
                && alternative.names.iter().all(|names| names.has(name))
        };
        !constraint.honor_node_affinity || alternatives.iter().any(alternative)
    };
    let tolerates = |taints: &[_]| {
        !constraint.honor_node_taints || first_untolerated(taints, &pod_reqs.shape.tolerations).is_none()
    };
    for (at, node) in (0_u32..).zip(&snapshot.input.nodes).filter(|(_, node)| node.stage != NodeStage::Deleting) {
        if admits(NodeRef::Existing(at), &node.name) && tolerates(&node.taints) {
            node_refs.push(NodeRef::Existing(at));
        }
    }
    for (at, node) in (0_u32..).zip(&snapshot.plan.nodes) {
        if admits(NodeRef::Planned(at), &node.name) && tolerates(&node.taints) {
            node_refs.push(NodeRef::Planned(at));
        }
    }
    node_refs
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
