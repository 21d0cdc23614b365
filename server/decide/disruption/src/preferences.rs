//! What pods prefer and have: provisioning may have bought it for them, and a voluntary removal keeps it.
//!
//! A preference that holds where a pod runs is planned as required when the pod moves: a spread `ScheduleAnyway`, preferred
//! affinity and anti-affinity over domains of several nodes, and preferred node affinity. Preferences over the hostname
//! never buy a node, so they are not kept (plan contract §2). A preference that does not hold stays one.

use model::input::{PlanningInput, PreferencePolicy};
use model::labels::HOSTNAME;
use model::requirements::label_satisfies;
use model::taints::first_untolerated;
use model::{
    LabelSelector, Node, NodeSelectorTerm, NodeStage, Pod, PodAffinityTerm, PodShape, SelectorOperator,
    SpreadConstraint, Text, Weighted,
};
use rustc_hash::FxHashMap;
use verifier::kernel::{PodSelector, RequiredNodeAffinity};

use crate::movable_pod::MovablePod;

/// Pods that a selector selects, by value of a topology key.
type Counts<'i> = FxHashMap<&'i Text, i64>;

/// For each pod of `pods` the shape in which what it prefers and has is required, by index into the shapes of `input`
/// followed by the returned ones.
pub(crate) fn required_shapes<'i>(input: &'i PlanningInput, pods: &[MovablePod<'i>]) -> (Vec<PodShape>, Vec<u32>) {
    let stated = || pods.iter().map(|pod| pod.shape).collect();
    let is_kept: Vec<bool> = input.shapes.iter().map(has_preferences).collect();
    if input.policy.preferences == PreferencePolicy::Ignore || !pods.iter().any(|pod| is_kept[pod.shape as usize]) {
        return (Vec::new(), stated());
    }
    let mut held = HeldPreferences::of(input);
    let mut known: FxHashMap<(&Text, u32, u32, u32), u32> = FxHashMap::default();
    let (mut shapes, mut numbers): (Vec<PodShape>, FxHashMap<PodShape, u32>) = (Vec::new(), FxHashMap::default());
    let mut of_pods = Vec::with_capacity(pods.len());
    for pod in pods {
        let class = (&pod.pod.namespace, pod.shape, pod.pod.labels, pod.home);
        let shape = match known.get(&class) {
            Some(known) => *known,
            None if !is_kept[pod.shape as usize] => pod.shape,
            None => {
                let stated = &input.shapes[pod.shape as usize];
                match held.required(pod.pod, stated, &input.nodes[pod.home as usize]) {
                    None => pod.shape,
                    Some(required) => {
                        let next = u32::try_from(input.shapes.len() + shapes.len()).unwrap_or(u32::MAX);
                        *numbers.entry(required).or_insert_with_key(|required| {
                            shapes.push(required.clone());
                            next
                        })
                    }
                }
            }
        };
        known.insert(class, shape);
        of_pods.push(shape);
    }
    (shapes, of_pods)
}

fn is_wide(key: &Text) -> bool {
    key.as_ref() != HOSTNAME
}

/// Whether pods of the shape prefer something that a node may be bought for.
fn has_preferences(shape: &PodShape) -> bool {
    let terms = shape.preferred_pod_affinity.iter().chain(&shape.preferred_pod_anti_affinity);
    !shape.preferred_node_affinity.is_empty()
        || shape.spread.iter().any(is_kept_spread)
        || terms.into_iter().any(|weighted| is_wide(&weighted.term.topology_key))
}

fn is_kept_spread(spread: &SpreadConstraint) -> bool {
    !spread.hard && is_wide(&spread.topology_key)
}

/// Pods of one namespace with one set of labels: how many of them are on each node.
struct Class<'i> {
    namespace: &'i Text,
    labels: u32,
    on_nodes: Vec<(u32, i64)>,
}

struct HeldPreferences<'i> {
    input: &'i PlanningInput,
    classes: Vec<Class<'i>>,
    /// The classes that have each label.
    by_label: FxHashMap<(&'i str, &'i str), Vec<usize>>,
    counts: FxHashMap<(PodSelector<'i>, &'i Text), Counts<'i>>,
}

impl<'i> HeldPreferences<'i> {
    fn of(input: &'i PlanningInput) -> Self {
        let mut numbers: FxHashMap<(&Text, u32), usize> = FxHashMap::default();
        let mut classes: Vec<Class<'i>> = Vec::new();
        let staying = (0..).zip(&input.nodes).filter(|(_, node)| node.stage != NodeStage::Deleting);
        for (at, node) in staying {
            for pod in node.pods.iter().filter(|pod| !pod.leaving && !pod.terminating) {
                let number = *numbers.entry((&pod.namespace, pod.labels)).or_insert(classes.len());
                if number == classes.len() {
                    classes.push(Class { namespace: &pod.namespace, labels: pod.labels, on_nodes: Vec::new() });
                }
                match classes[number].on_nodes.last_mut() {
                    Some((last, pods)) if *last == at => *pods += 1,
                    _ => classes[number].on_nodes.push((at, 1)),
                }
            }
        }
        let mut by_label: FxHashMap<(&str, &str), Vec<usize>> = FxHashMap::default();
        for (number, class) in classes.iter().enumerate() {
            for (key, value) in &input.label_sets[class.labels as usize] {
                by_label.entry((key, value)).or_default().push(number);
            }
        }
        Self { input, classes, by_label, counts: FxHashMap::default() }
    }

    /// `shape` of `pod` on `node` with what it prefers and has as required; `None` if it has nothing of it.
    fn required(&mut self, pod: &'i Pod, shape: &'i PodShape, node: &'i Node) -> Option<PodShape> {
        let mut required = shape.clone();
        for (stated, constraint) in shape.spread.iter().zip(&mut required.spread) {
            constraint.hard |= is_kept_spread(stated) && self.holds_spread(pod, shape, stated, node);
        }
        let holds = |weighted: &&Weighted<NodeSelectorTerm>| holds_on(&weighted.term, node);
        let held: Vec<&NodeSelectorTerm> =
            shape.preferred_node_affinity.iter().filter(holds).map(|weighted| &weighted.term).collect();
        require_node_terms(&mut required.node_affinity, &held);
        required.preferred_node_affinity.retain(|weighted| !holds_on(&weighted.term, node));
        let apart = shape.preferred_pod_anti_affinity.iter().map(|weighted| &weighted.term);
        let apart: Vec<&PodAffinityTerm> = apart.filter(|term| self.others(pod, term, node) == Some(0)).collect();
        required.preferred_pod_anti_affinity.retain(|weighted| !apart.contains(&&weighted.term));
        required.pod_anti_affinity.extend(apart.into_iter().cloned());
        // The same pods match all required terms, so that a further one would change what the others say.
        if shape.pod_affinity.is_empty() {
            let beside = |weighted: &&'i Weighted<PodAffinityTerm>| self.others(pod, &weighted.term, node) > Some(0);
            let held = shape.preferred_pod_affinity.iter().filter(beside).max_by_key(|weighted| weighted.weight);
            required.pod_affinity.extend(held.map(|weighted| weighted.term.clone()));
            required.preferred_pod_affinity.retain(|weighted| Some(weighted) != held);
        }
        (required != *shape).then_some(required)
    }

    /// Whether the domain of `node` exceeds the least filled one by at most the maximum skew.
    fn holds_spread(&mut self, pod: &'i Pod, shape: &PodShape, spread: &'i SpreadConstraint, node: &Node) -> bool {
        let Some(domain) = node.labels.get(&spread.topology_key) else { return false };
        let input = self.input;
        let affinity = RequiredNodeAffinity::of(shape);
        let counts =
            self.counts(PodSelector::of_spread(&pod.namespace, spread), spread.selector.as_ref(), &spread.topology_key);
        let in_domain = |domain: &Text| counts.get(domain).copied().unwrap_or(0);
        let is_counted = |node: &&Node| {
            node.stage != NodeStage::Deleting
                && (!spread.honor_node_affinity || affinity.matches_node(node))
                && (!spread.honor_node_taints || first_untolerated(&node.taints, &shape.tolerations).is_none())
        };
        let domains = input.nodes.iter().filter(is_counted).filter_map(|node| node.labels.get(&spread.topology_key));
        let least = domains.map(in_domain).min().unwrap_or(0);
        in_domain(domain) - least <= i64::from(spread.max_skew)
    }

    /// The other pods that `term` selects in the domain of `node`; `None` if it is over the hostname, or the node has
    /// none of its domains.
    fn others(&mut self, pod: &'i Pod, term: &'i PodAffinityTerm, node: &Node) -> Option<i64> {
        let domain = node.labels.get(&term.topology_key).filter(|_| is_wide(&term.topology_key))?;
        let input = self.input;
        let selector = PodSelector::of_term(&pod.namespace, term);
        let own = selector.selects(input, &pod.namespace, &input.label_sets[pod.labels as usize]);
        let counts = self.counts(selector, term.selector.as_ref(), &term.topology_key);
        Some(counts.get(domain).copied().unwrap_or(0) - i64::from(own))
    }

    /// The pods that `pods` selects, by domain of `key`. They match `selector`.
    fn counts(&mut self, pods: PodSelector<'i>, selector: Option<&LabelSelector>, key: &'i Text) -> &Counts<'i> {
        let Self { input, classes, by_label, counts } = self;
        counts.entry((pods, key)).or_insert_with_key(|(pods, key)| {
            let mut counts = Counts::default();
            let mut add = |class: &Class<'i>| {
                if !pods.selects(input, class.namespace, &input.label_sets[class.labels as usize]) {
                    return;
                }
                for (node, pods) in &class.on_nodes {
                    let domain = input.nodes[*node as usize].labels.get(*key);
                    domain.into_iter().for_each(|domain| *counts.entry(domain).or_insert(0) += pods);
                }
            };
            match selector.and_then(needed_label) {
                Some(label) => by_label.get(&label).into_iter().flatten().for_each(|class| add(&classes[*class])),
                None => classes.iter().for_each(add),
            }
            counts
        })
    }
}

/// A label with one value that pods need for the selector.
fn needed_label(selector: &LabelSelector) -> Option<(&str, &str)> {
    let term = selector.terms.iter().find(|term| term.operator == SelectorOperator::In && term.values.len() == 1)?;
    Some((term.key.as_ref(), term.values.first()?.as_ref()))
}

/// Whether `node` has what a preferred term asks for; one without expressions asks for nothing.
fn holds_on(term: &NodeSelectorTerm, node: &Node) -> bool {
    !(term.expressions.is_empty() && term.names.is_empty())
        && term.expressions.iter().all(|requirement| label_satisfies(&node.labels, requirement))
        && term.names.iter().all(|requirement| requirement.has(&node.name))
}

/// Adds the terms of `held`, which hold together, to each alternative of `required`.
fn require_node_terms(required: &mut Vec<NodeSelectorTerm>, held: &[&NodeSelectorTerm]) {
    // A node is not preferred by its name when it goes.
    let expressions = || held.iter().filter(|term| term.names.is_empty()).flat_map(|term| &term.expressions);
    if expressions().next().is_none() {
        return;
    }
    if required.is_empty() {
        required.push(NodeSelectorTerm::default());
    }
    for term in required {
        term.expressions.extend(expressions().cloned());
    }
}
