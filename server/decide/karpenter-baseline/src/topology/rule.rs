//! What a group counts, and what makes two groups the same.

use std::collections::BTreeSet;

use model::input::PlanningInput;
use model::{LabelSelector, Labels, PodAffinityTerm, Requirements, SpreadConstraint, Taint, Text, Toleration};

use crate::pods::{Variant, add_expressions};

/// A constraint of a pod, as far as topology evaluates it.
pub(crate) struct Rule {
    pub(crate) topology_key: Text,
    pub(crate) kind: RuleKind,
    namespaces: BTreeSet<Text>,
    selector: Option<LabelSelector>,
    /// Which nodes count; `None` for all.
    filter: Option<NodeFilter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RuleKind {
    Spread {
        /// `maxSkew`.
        max_skew: i32,
        /// `minDomains`.
        min_domains: Option<i32>,
        /// `nodeTaintsPolicy: Honor`.
        honors_taints: bool,
    },
    Affinity,
    AntiAffinity,
}

/// Which nodes a spread constraint counts.
struct NodeFilter {
    /// Alternatives; empty for every node.
    any_of: Vec<Requirements>,
    tolerations: Option<Vec<Toleration>>,
}

/// What makes two rules share a group: everything but `minDomains` and the values of node requirements
/// (L28).
pub(crate) type RuleKey =
    (Text, RuleKind, BTreeSet<Text>, Option<LabelSelector>, Vec<Vec<Text>>, Option<Vec<Toleration>>);

impl Rule {
    pub(crate) fn spread(spread: &SpreadConstraint, namespace: &Text, variant: &Variant) -> Self {
        let shape = &variant.shape;
        let selector = Requirements::from_labels(&shape.node_selector);
        let with_term = |term: &model::NodeSelectorTerm| {
            let mut all = selector.clone();
            add_expressions(&mut all, &term.expressions);
            all
        };
        let mut any_of: Vec<Requirements> = shape.node_affinity.iter().map(with_term).collect();
        if any_of.is_empty() {
            any_of.push(selector);
        }
        if !spread.honor_node_affinity {
            any_of.clear();
        }
        let tolerations = spread.honor_node_taints.then(|| shape.tolerations.clone());
        Self {
            topology_key: spread.topology_key.clone(),
            kind: RuleKind::Spread {
                max_skew: spread.max_skew,
                min_domains: spread.min_domains,
                honors_taints: spread.honor_node_taints,
            },
            namespaces: BTreeSet::from([namespace.clone()]),
            selector: spread.selector.clone(),
            filter: Some(NodeFilter { any_of, tolerations }),
        }
    }

    pub(crate) fn affinity(term: &PodAffinityTerm, namespace: &Text, input: &PlanningInput) -> Self {
        Self::of_term(RuleKind::Affinity, term, namespace, input)
    }

    pub(crate) fn anti_affinity(term: &PodAffinityTerm, namespace: &Text, input: &PlanningInput) -> Self {
        Self::of_term(RuleKind::AntiAffinity, term, namespace, input)
    }

    fn of_term(kind: RuleKind, term: &PodAffinityTerm, namespace: &Text, input: &PlanningInput) -> Self {
        Self {
            topology_key: term.topology_key.clone(),
            kind,
            namespaces: namespaces(term, namespace, input),
            selector: term.selector.clone(),
            filter: None,
        }
    }

    pub(crate) fn key(&self) -> RuleKey {
        let kind = match self.kind {
            RuleKind::Spread { max_skew, honors_taints, .. } => {
                RuleKind::Spread { max_skew, min_domains: None, honors_taints }
            }
            other => other,
        };
        let keys = |all: &Requirements| all.iter().map(|requirement| requirement.key().clone()).collect();
        let filter = self.filter.as_ref();
        let labels = filter.map(|filter| filter.any_of.iter().map(keys).collect()).unwrap_or_default();
        let tolerations = filter.and_then(|filter| filter.tolerations.clone());
        (self.topology_key.clone(), kind, self.namespaces.clone(), self.selector.clone(), labels, tolerations)
    }

    pub(crate) fn is_anti_affinity(&self) -> bool {
        self.kind == RuleKind::AntiAffinity
    }

    /// Whether pods with these labels are counted.
    pub(crate) fn selects(&self, namespace: &Text, labels: &Labels) -> bool {
        self.namespaces.contains(namespace) && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    /// Whether pods on a node with these requirements are counted.
    pub(crate) fn counts_nodes_with(&self, node: &Requirements, taints: &[Taint]) -> bool {
        let Some(filter) = &self.filter else { return true };
        let matches = |wanted: &Requirements| node.first_incompatible(wanted, |_| false).is_none();
        let tolerated = |tolerations: &Vec<Toleration>| {
            taints.iter().all(|taint| tolerations.iter().any(|toleration| toleration.tolerates(taint)))
        };
        (filter.any_of.is_empty() || filter.any_of.iter().any(matches))
            && filter.tolerations.as_ref().is_none_or(tolerated)
    }
}

/// The namespaces of a term: its own, those listed, and those selected.
fn namespaces(term: &PodAffinityTerm, namespace: &Text, input: &PlanningInput) -> BTreeSet<Text> {
    let Some(selector) = &term.namespace_selector else {
        return match term.namespaces.is_empty() {
            true => BTreeSet::from([namespace.clone()]),
            false => term.namespaces.iter().cloned().collect(),
        };
    };
    let used = input.pods.iter().map(|pod| &pod.namespace);
    let running = input.nodes.iter().flat_map(|node| &node.pods).map(|pod| &pod.namespace);
    let all: BTreeSet<&Text> = used.chain(running).chain(input.namespaces.keys()).collect();
    let matches = |name: &Text| match input.namespaces.get(name) {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&Labels::from([("kubernetes.io/metadata.name".into(), name.clone())])),
    };
    all.into_iter().filter(|name| matches(name)).chain(&term.namespaces).cloned().collect()
}
