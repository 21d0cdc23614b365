//! The order in which pods that move are placed, so that their spread over domains holds at each placement.
//!
//! Of the pods that a spread constraint counts, those come first whose domains then have the fewest of them, and pods that
//! must stand beside others come last. In the order
//! of a plan for all of them, the removed nodes are gone before the first placement; in the order of each command, the
//! pods of later ones are on their nodes.

use model::labels::HOSTNAME;
use model::{LabelSelector, SelectorOperator, SelectorTerm, Text};
use rustc_hash::FxHashMap;

use crate::working::WorkingCluster;

pub(crate) fn order_of_placement(working: &WorkingCluster<'_>) -> Vec<u32> {
    let moves = working.moves();
    let mut counts = DomainCounts::of(working, &moves);
    if counts.constraints.is_empty() {
        return moves;
    }
    counts.count_staying_pods();
    counts.in_order(moves)
}

/// The pods of each of `commands`, which move, in the order in which they are placed.
pub(crate) fn order_in_commands(working: &WorkingCluster<'_>, commands: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
    let moves: Vec<u32> = commands.iter().flatten().copied().collect();
    let mut counts = DomainCounts::of(working, &moves);
    if counts.constraints.is_empty() {
        return commands;
    }
    counts.count_staying_pods();
    moves.iter().for_each(|pod| counts.count_at_home(*pod, 1));
    let in_order = |pods: Vec<u32>| {
        pods.iter().for_each(|pod| counts.count_at_home(*pod, -1));
        counts.in_order(pods)
    };
    commands.into_iter().map(in_order).collect()
}

/// A hard spread constraint of pods in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Constraint<'w> {
    namespace: &'w Text,
    topology_key: &'w Text,
    selector: &'w LabelSelector,
}

/// The selected pods in each domain.
struct DomainCounts<'w> {
    working: &'w WorkingCluster<'w>,
    constraints: Vec<Constraint<'w>>,
    numbers: FxHashMap<Constraint<'w>, usize>,
    /// By namespace and shape, the number of the constraint of pods with it.
    of_shape: FxHashMap<(&'w Text, u32), Option<usize>>,
    /// The constraints whose selectors need one value of one label, by both.
    by_label: FxHashMap<(&'w str, &'w str), Vec<usize>>,
    by_other_terms: Vec<usize>,
    /// By namespace and label set, the constraints that select pods with them.
    selecting: FxHashMap<(&'w Text, u32), Vec<usize>>,
    domains: NodeDomains<'w>,
    /// By constraint and domain.
    counts: FxHashMap<(usize, u32), i64>,
}

/// The domains of nodes, numbered.
#[derive(Default)]
struct NodeDomains<'w> {
    /// By topology key, the domain of each node.
    of_nodes: Vec<(&'w Text, Vec<u32>)>,
    /// The index of the topology key of each constraint.
    keys: Vec<usize>,
}

impl<'w> DomainCounts<'w> {
    fn of(working: &'w WorkingCluster<'w>, moves: &[u32]) -> Self {
        let mut counts = Self {
            working,
            constraints: Vec::new(),
            numbers: FxHashMap::default(),
            of_shape: FxHashMap::default(),
            by_label: FxHashMap::default(),
            by_other_terms: Vec::new(),
            selecting: FxHashMap::default(),
            domains: NodeDomains::default(),
            counts: FxHashMap::default(),
        };
        for pod in moves {
            let object = &working.input.pods[*pod as usize];
            if counts.of_shape.contains_key(&(&object.namespace, object.shape)) {
                continue;
            }
            let number = constraint_of(working, *pod).map(|constraint| counts.number(constraint));
            counts.of_shape.insert((&object.namespace, object.shape), number);
        }
        counts
    }

    fn number(&mut self, constraint: Constraint<'w>) -> usize {
        let next = self.constraints.len();
        let number = *self.numbers.entry(constraint).or_insert(next);
        if number == next {
            self.constraints.push(constraint);
            self.domains.add(self.working, constraint.topology_key);
            match needed_label(constraint.selector) {
                Some(label) => self.by_label.entry(label).or_default().push(number),
                None => self.by_other_terms.push(number),
            }
        }
        number
    }

    fn count_staying_pods(&mut self) {
        let working = self.working;
        for (node, (object, state)) in working.input.nodes.iter().zip(&working.nodes).enumerate() {
            let own = object.pods.iter().take(state.own);
            for pod in own.filter(|pod| !state.is_gone && !pod.leaving && !pod.terminating) {
                self.count(node, (&pod.namespace, pod.labels), 1);
            }
        }
    }

    /// Counts `pods` where they go; returns them in order.
    fn in_order(&mut self, pods: Vec<u32>) -> Vec<u32> {
        let mut ordered: Vec<(Option<i64>, u32)> = pods.into_iter().map(|pod| (self.place(pod), pod)).collect();
        let needs_others = |pod: u32| {
            let shape = self.working.input.pods[pod as usize].shape;
            !self.working.input.shapes[shape as usize].pod_affinity.is_empty()
        };
        ordered.sort_by_key(|(count, pod)| (needs_others(*pod), *count));
        ordered.into_iter().map(|(_, pod)| pod).collect()
    }

    /// Counts `pods` more of the movable pod on the node that it runs on.
    fn count_at_home(&mut self, pod: u32, pods: i64) {
        let (home, object) = (self.working.pods[pod as usize].home as usize, &self.working.input.pods[pod as usize]);
        self.count(home, (&object.namespace, object.labels), pods);
    }

    /// Counts the pod on its node; returns how many the domain has by the constraint of the pod.
    fn place(&mut self, pod: u32) -> Option<i64> {
        let movable = &self.working.pods[pod as usize];
        let (node, pod_object) = (movable.node as usize, &self.working.input.pods[pod as usize]);
        self.count(node, (&pod_object.namespace, pod_object.labels), 1);
        let number = (*self.of_shape.get(&(&pod_object.namespace, pod_object.shape))?)?;
        Some(self.counts.get(&(number, self.domains.of(number, node))).copied().unwrap_or(0))
    }

    fn count(&mut self, node: usize, class: (&'w Text, u32), pods: i64) {
        let input = &self.working.input;
        let Self { constraints, selecting, domains, counts, by_label, by_other_terms, .. } = self;
        let selecting = selecting.entry(class).or_insert_with(|| {
            let labels = &input.label_sets[class.1 as usize];
            let selects = |one: &Constraint<'_>| one.namespace == class.0 && one.selector.matches(labels);
            let of_label = |(key, value): (&'w Text, &'w Text)| by_label.get(&(key.as_ref(), value.as_ref()));
            let indexed = labels.iter().filter_map(of_label).flatten();
            indexed.chain(by_other_terms.iter()).copied().filter(|at| selects(&constraints[*at])).collect()
        });
        for number in selecting {
            *counts.entry((*number, domains.of(*number, node))).or_default() += pods;
        }
    }
}

impl<'w> NodeDomains<'w> {
    /// Adds a constraint over the domains of `key`.
    fn add(&mut self, working: &'w WorkingCluster<'w>, key: &'w Text) {
        let known = self.of_nodes.iter().position(|(known, _)| *known == key);
        self.keys.push(known.unwrap_or(self.of_nodes.len()));
        if known.is_some() {
            return;
        }
        let mut numbers: FxHashMap<&str, u32> = FxHashMap::default();
        let of_nodes = working.input.nodes.iter().map(|node| {
            let domain = node.labels.get(key).map_or("", |value| value.as_ref());
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(domain).or_insert(next)
        });
        let of_nodes = of_nodes.collect();
        self.of_nodes.push((key, of_nodes));
    }

    /// The domain of `node` by the topology key of `constraint`.
    fn of(&self, constraint: usize, node: usize) -> u32 {
        self.of_nodes[self.keys[constraint]].1[node]
    }
}

/// A label with one value that pods need for the selector.
fn needed_label(selector: &LabelSelector) -> Option<(&str, &str)> {
    let has_one = |term: &&SelectorTerm| term.operator == SelectorOperator::In && term.values.len() == 1;
    let term = selector.terms.iter().find(has_one)?;
    Some((term.key.as_ref(), term.values.first()?.as_ref()))
}

/// The first hard spread constraint of the pod, one over wider domains than nodes before others.
fn constraint_of<'w>(working: &'w WorkingCluster<'w>, pod: u32) -> Option<Constraint<'w>> {
    let pod = &working.input.pods[pod as usize];
    let hard = working.input.shapes[pod.shape as usize].spread.iter().filter(|one| one.hard);
    let first = hard.min_by_key(|one| one.topology_key.as_ref() == HOSTNAME)?;
    let selector = first.selector.as_ref()?;
    Some(Constraint { namespace: &pod.namespace, topology_key: &first.topology_key, selector })
}
