//! Topology spread, pod affinity and pod anti-affinity (Karpenter core §3.15).
//!
//! A [`Group`](group::Group) counts pods by domain. A pod is restricted by the groups of its own
//! constraints, and by the groups of other pods' required anti-affinity that select it.

mod group;
mod rule;
mod universe;

use std::collections::BTreeMap;

use model::input::{PlanningInput, PreferencePolicy};
use model::labels::HOSTNAME;
use model::{NodeStage, Operator, PodAffinityTerm, PodShape, Requirement, Requirements, Taint, Text};

use crate::pods::{PodKind, Variant};
use group::Group;
use rule::{Rule, RuleKey};
use universe::Universe;

/// A kind of pod after some steps of relaxation: (kind, step).
pub(crate) type VariantId = (usize, usize);

pub(crate) struct Topology<'i> {
    input: &'i PlanningInput,
    universe: Universe<'i>,
    groups: Vec<Group>,
    known: BTreeMap<RuleKey, usize>,
    /// The groups of each variant's own constraints.
    own: BTreeMap<VariantId, Vec<usize>>,
    /// Required anti-affinity as others see it: domains that hold a pod which excludes the selected.
    inverse: Vec<Group>,
    known_inverse: BTreeMap<RuleKey, usize>,
    /// The inverse groups that each kind of pod fills.
    fills: Vec<Vec<usize>>,
}

impl<'i> Topology<'i> {
    /// The groups of all kinds as they are written, with the pods that run counted.
    pub(crate) fn new(input: &'i PlanningInput, pools: &[u32], kinds: &[PodKind]) -> Self {
        let mut topology = Self {
            input,
            universe: Universe::of(input, pools),
            groups: Vec::new(),
            known: BTreeMap::new(),
            own: BTreeMap::new(),
            inverse: Vec::new(),
            known_inverse: BTreeMap::new(),
            fills: vec![Vec::new(); kinds.len()],
        };
        topology.count_running_anti_affinity(kinds);
        for (kind, pod) in kinds.iter().enumerate() {
            if let Some(first) = pod.variants.first() {
                topology.register(kinds, (kind, 0));
                topology.register_inverse(kinds, kind, &first.shape);
            }
        }
        topology
    }

    /// Creates the groups of a variant's constraints. A group that only a relaxed pod has counts no
    /// pod that was placed before in this round (L47).
    pub(crate) fn register(&mut self, kinds: &[PodKind], id: VariantId) {
        if self.own.contains_key(&id) {
            return;
        }
        let (pod, mut own) = (&kinds[id.0], Vec::new());
        for rule in rules(self.input.policy.preferences, &pod.namespace, &pod.variants[id.1], self.input) {
            let key = rule.key();
            let at = match self.known.get(&key) {
                Some(at) => *at,
                None => {
                    let mut group = self.group(rule, kinds, &pod.variants[id.1].shape);
                    self.count_running_pods(&mut group);
                    self.groups.push(group);
                    self.known.insert(key, self.groups.len() - 1);
                    self.groups.len() - 1
                }
            };
            own.push(at);
        }
        self.own.insert(id, own);
    }

    fn group(&self, rule: Rule, kinds: &[PodKind], shape: &PodShape) -> Group {
        let domains = self.universe.domains(&rule, shape);
        let selects = |pod: &PodKind| rule.selects(&pod.namespace, &self.input.label_sets[pod.labels as usize]);
        let selected = kinds.iter().map(selects).collect();
        Group::new(rule, domains, selected)
    }

    fn inverse_group(&mut self, rule: Rule, kinds: &[PodKind], shape: &PodShape) -> usize {
        let key = rule.key();
        if let Some(at) = self.known_inverse.get(&key) {
            return *at;
        }
        let group = self.group(rule, kinds, shape);
        self.inverse.push(group);
        self.known_inverse.insert(key, self.inverse.len() - 1);
        self.inverse.len() - 1
    }

    fn register_inverse(&mut self, kinds: &[PodKind], kind: usize, shape: &PodShape) {
        for term in &shape.pod_anti_affinity {
            let rule = Rule::anti_affinity(term, &kinds[kind].namespace, self.input);
            let at = self.inverse_group(rule, kinds, shape);
            self.fills[kind].push(at);
        }
    }

    /// Counts the pods that run on nodes and exclude others.
    fn count_running_anti_affinity(&mut self, kinds: &[PodKind]) {
        let input = self.input;
        for node in &input.nodes {
            for pod in node.pods.iter().filter(|pod| !pod.leaving) {
                let shape = &input.shapes[pod.shape as usize];
                for term in &shape.pod_anti_affinity {
                    let at = self.inverse_group(Rule::anti_affinity(term, &pod.namespace, input), kinds, shape);
                    if let Some(domain) = node.labels.get(&term.topology_key) {
                        self.inverse[at].record(domain);
                    }
                }
            }
        }
    }

    /// Counts the pods that run and are selected, and makes the domains of nodes known.
    fn count_running_pods(&self, group: &mut Group) {
        for node in self.input.nodes.iter().filter(|node| node.stage != NodeStage::InFlight) {
            let labels = Requirements::from_labels(&node.labels);
            let Some(domain) = node.labels.get(&group.rule.topology_key) else { continue };
            if !group.rule.counts_nodes_with(&labels, &node.taints) {
                continue;
            }
            group.make_known(domain);
            let running = node.pods.iter().filter(|pod| !pod.leaving && !pod.terminating);
            let counted =
                running.filter(|pod| group.rule.selects(&pod.namespace, &self.input.label_sets[pod.labels as usize]));
            for _ in 0..counted.count() {
                group.record(domain);
            }
        }
    }

    /// Makes the hostname of a new NodeClaim known.
    pub(crate) fn register_host(&mut self, host: &Text) {
        let groups = self.groups.iter_mut().chain(&mut self.inverse);
        for group in groups.filter(|group| group.rule.topology_key.as_ref() == HOSTNAME) {
            group.make_known(host);
        }
    }

    /// Whether the rules over hostnames allow the variant on `host`. A cheap part of [`Self::restrict`].
    pub(crate) fn allows_host(&self, id: VariantId, host: &Text) -> bool {
        let mut over_hosts = self.restricting(id).filter(|group| group.rule.topology_key.as_ref() == HOSTNAME);
        over_hosts.all(|group| group.allows_host(id.0, host))
    }

    /// `requirements` of a node restricted to the domains that every rule allows; `None` if a rule
    /// allows none. If each allows some and they have none in common, the label must be absent:
    /// Karpenter has one value for both (core §2.1), so that a node without the label takes the pod.
    pub(crate) fn restrict(
        &self,
        id: VariantId,
        pod: &Requirements,
        requirements: &Requirements,
    ) -> Option<Requirements> {
        let mut restricted = requirements.clone();
        for group in self.restricting(id) {
            let key = &group.rule.topology_key;
            let any = Requirement::new(key, Operator::Exists, []);
            let (of_pod, of_node) = (pod.get(key).unwrap_or(&any), requirements.get(key).unwrap_or(&any));
            let domains = group.allowed(id.0, of_pod, of_node);
            if domains.is_empty() {
                return None;
            }
            restricted.add(Requirement::new(key, Operator::In, domains));
            if restricted.get(key).is_some_and(Requirement::is_impossible) {
                restricted.remove(key);
                restricted.add(Requirement::new(key, Operator::DoesNotExist, []));
            }
        }
        Some(restricted)
    }

    fn restricting(&self, id: VariantId) -> impl Iterator<Item = &Group> {
        let own = self.own.get(&id).into_iter().flatten().map(|at| &self.groups[*at]);
        own.chain(self.inverse.iter().filter(move |group| group.selected[id.0]))
    }

    /// Counts a pod of `kind` that was placed on a node with `requirements`. Anti-affinity counts it
    /// in every domain that the node may still have.
    pub(crate) fn record(&mut self, kind: usize, taints: &[Taint], requirements: &Requirements) {
        for group in self.groups.iter_mut().filter(|group| group.selected[kind]) {
            if group.rule.counts_nodes_with(requirements, taints) {
                group.record_placed(requirements, group.rule.is_anti_affinity());
            }
        }
        for at in &self.fills[kind] {
            self.inverse[*at].record_placed(requirements, true);
        }
    }
}

/// The rules of a variant's constraints.
fn rules(policy: PreferencePolicy, namespace: &Text, variant: &Variant, input: &PlanningInput) -> Vec<Rule> {
    let shape = &variant.shape;
    let respect = policy == PreferencePolicy::Respect;
    let spread = shape.spread.iter().filter(|spread| spread.hard || respect);
    let mut rules: Vec<Rule> = spread.map(|spread| Rule::spread(spread, namespace, variant)).collect();
    let preferred = |terms: &'_ [model::Weighted<PodAffinityTerm>]| -> Vec<PodAffinityTerm> {
        terms.iter().filter(|_| respect).map(|weighted| weighted.term.clone()).collect()
    };
    let affinity = [shape.pod_affinity.clone(), preferred(&shape.preferred_pod_affinity)].concat();
    let anti = [shape.pod_anti_affinity.clone(), preferred(&shape.preferred_pod_anti_affinity)].concat();
    rules.extend(affinity.iter().map(|term| Rule::affinity(term, namespace, input)));
    rules.extend(anti.iter().map(|term| Rule::anti_affinity(term, namespace, input)));
    rules
}
