//! The topology constraints of every class of pods, compiled to queries: which queries a class
//! evaluates, and which queries count it.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::super::class::{Class, Classes};
use super::filter::{HostFilter, hard_keys, is_selective};
use model::input::PlanningInput;
use model::{LabelSelector, Labels, PodAffinityTerm, PodShape, SelectorOperator, SpreadConstraint, Text, Toleration};

/// The pods that a term selects: in these namespaces, with these labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodSelector<'a> {
    namespaces: Vec<&'a str>,
    by_label: Option<&'a LabelSelector>,
    selector: Option<&'a LabelSelector>,
}

impl<'a> PodSelector<'a> {
    /// The pods that a spread constraint of a pod in `namespace` counts.
    #[must_use]
    pub fn of_spread(namespace: &'a str, constraint: &'a SpreadConstraint) -> Self {
        Self { namespaces: vec![namespace], by_label: None, selector: constraint.selector.as_ref() }
    }

    /// The pods that an affinity or anti-affinity term of a pod in `namespace` selects.
    #[must_use]
    pub fn of_term(namespace: &'a str, term: &'a PodAffinityTerm) -> Self {
        let mut namespaces: Vec<&str> = term.namespaces.iter().map(AsRef::as_ref).collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(namespace);
        }
        Self { namespaces, by_label: term.namespace_selector.as_ref(), selector: term.selector.as_ref() }
    }

    /// Whether it selects a pod in `namespace` with these labels.
    #[must_use]
    pub fn selects(&self, input: &PlanningInput, namespace: &Text, labels: &Labels) -> bool {
        self.selector.is_some_and(|selector| selector.matches(labels))
            && (self.namespaces.contains(&namespace.as_ref())
                || self.by_label.is_some_and(|selector| namespace_matches(input, selector, namespace)))
    }
}

/// A maintained count: pods that match all terms of `matcher`, per domain of `key`, on hosts that
/// `filter` admits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Query {
    matcher: u32,
    pub(super) key: u32,
    pub(super) filter: Option<u32>,
}

/// A hard topology spread constraint of a class.
pub(super) struct Spread {
    pub(super) query: u32,
    pub(super) max_skew: i32,
    pub(super) min_domains: Option<i32>,
    /// Whether the pod matches its own selector.
    pub(super) counts_itself: bool,
}

/// The topology rules of one class.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) spreads: Vec<Spread>,
    /// One query per topology key of the required affinity terms; each selects the pods that match
    /// all terms.
    pub(super) affinity: Vec<u32>,
    /// Whether the pod matches all its own affinity terms.
    pub(super) matches_own_affinity: bool,
    /// One query per required anti-affinity term.
    pub(super) anti_affinity: Vec<u32>,
}

/// The topology rules of all classes.
#[derive(Default)]
pub(super) struct Constraints<'a> {
    pub(super) keys: Vec<&'a str>,
    pub(super) filters: Vec<HostFilter<'a>>,
    pub(super) queries: Vec<Query>,
    /// Rules of each class, by class number.
    pub(super) rules: Vec<Rules>,
    /// By class: queries whose matcher selects its pods.
    pub(super) selecting: Vec<Vec<u32>>,
    matchers: Vec<Vec<PodSelector<'a>>>,
    ids: Ids<'a>,
}

#[derive(Default)]
struct Ids<'a> {
    keys: FxHashMap<&'a str, u32>,
    filters: FxHashMap<FilterParts<'a>, u32>,
    matchers: FxHashMap<Vec<PodSelector<'a>>, u32>,
    queries: FxHashMap<Query, u32>,
}

/// Filter identity: hard keys, honoured node affinity, honoured tolerations.
type FilterParts<'a> = (Vec<&'a str>, Option<NodeAffinityParts<'a>>, Option<&'a [Toleration]>);
type NodeAffinityParts<'a> = (&'a std::collections::BTreeMap<Text, Text>, &'a [model::NodeSelectorTerm]);

fn intern<K: std::hash::Hash + Eq, V>(ids: &mut FxHashMap<K, u32>, list: &mut Vec<V>, key: K, value: V) -> u32 {
    let next = u32::try_from(list.len()).unwrap_or(u32::MAX);
    let id = *ids.entry(key).or_insert(next);
    if id == next {
        list.push(value);
    }
    id
}

impl<'a> Constraints<'a> {
    /// Compiles the rules of all classes. Classes below `planned` have pods to place. The pods of
    /// the others are already on nodes, so only their anti-affinity matters.
    pub(super) fn compile(input: &'a PlanningInput, classes: &Classes<'a>, planned: u32) -> Self {
        let mut constraints = Self::default();
        for (number, class) in (0_u32..).zip(&classes.list) {
            let shape = &input.shapes[class.shape as usize];
            let mut rules = Rules::default();
            if number < planned {
                constraints.compile_spreads(input, class, shape, &mut rules);
                constraints.compile_affinity(input, class, shape, &mut rules);
            }
            for term in &shape.pod_anti_affinity {
                let matcher = constraints.matcher(vec![PodSelector::of_term(class.namespace, term)]);
                let query = constraints.query(matcher, &term.topology_key, None);
                rules.anti_affinity.push(query);
            }
            constraints.rules.push(rules);
        }
        constraints.index(input, classes);
        constraints
    }

    fn compile_spreads(&mut self, input: &'a PlanningInput, class: &Class<'a>, shape: &'a PodShape, rules: &mut Rules) {
        let keys = hard_keys(shape);
        for constraint in shape.spread.iter().filter(|constraint| constraint.hard) {
            let selector = constraint.selector.as_ref();
            let matcher = self.matcher(vec![PodSelector::of_spread(class.namespace, constraint)]);
            let filter = self.filter(shape, constraint, &keys);
            let labels = &input.label_sets[class.labels as usize];
            rules.spreads.push(Spread {
                query: self.query(matcher, &constraint.topology_key, Some(filter)),
                max_skew: constraint.max_skew,
                min_domains: constraint.min_domains,
                counts_itself: selector.is_some_and(|selector| selector.matches(labels)),
            });
        }
    }

    fn compile_affinity(
        &mut self,
        input: &'a PlanningInput,
        class: &Class<'a>,
        shape: &'a PodShape,
        rules: &mut Rules,
    ) {
        if shape.pod_affinity.is_empty() {
            return;
        }
        let matcher =
            self.matcher(shape.pod_affinity.iter().map(|term| PodSelector::of_term(class.namespace, term)).collect());
        rules.matches_own_affinity = selects(input, &self.matchers[matcher as usize], class);
        let keys: BTreeSet<&str> = shape.pod_affinity.iter().map(|term| term.topology_key.as_ref()).collect();
        rules.affinity = keys.into_iter().map(|key| self.query(matcher, key, None)).collect();
    }

    fn matcher(&mut self, mut terms: Vec<PodSelector<'a>>) -> u32 {
        terms.sort();
        terms.dedup();
        intern(&mut self.ids.matchers, &mut self.matchers, terms.clone(), terms)
    }

    fn filter(&mut self, shape: &'a PodShape, constraint: &SpreadConstraint, keys: &[&'a str]) -> u32 {
        let node_affinity = (constraint.honor_node_affinity && is_selective(shape))
            .then_some((&shape.node_selector, shape.node_affinity.as_slice()));
        let tolerations = constraint.honor_node_taints.then_some(shape.tolerations.as_slice());
        let next = u32::try_from(self.filters.len()).unwrap_or(u32::MAX);
        let id = *self.ids.filters.entry((keys.to_vec(), node_affinity, tolerations)).or_insert(next);
        if id == next {
            self.filters.push(HostFilter::of(shape, constraint));
        }
        id
    }

    fn query(&mut self, matcher: u32, key: &'a str, filter: Option<u32>) -> u32 {
        let key = intern(&mut self.ids.keys, &mut self.keys, key, key);
        let query = Query { matcher, key, filter };
        intern(&mut self.ids.queries, &mut self.queries, query, query)
    }

    /// Finds the queries that count each class. Matchers that require a label are indexed by it, so
    /// that a class is tested against few matchers.
    fn index(&mut self, input: &PlanningInput, classes: &Classes<'a>) {
        let mut by_label: FxHashMap<(&str, &str), Vec<u32>> = FxHashMap::default();
        let mut rest = Vec::new();
        for (number, terms) in (0_u32..).zip(&self.matchers) {
            match terms.first().and_then(required_label) {
                Some((key, values)) => {
                    values.iter().for_each(|value| by_label.entry((key, value)).or_default().push(number));
                }
                None => rest.push(number),
            }
        }
        let mut queries: Vec<Vec<u32>> = vec![Vec::new(); self.matchers.len()];
        for (number, query) in (0_u32..).zip(&self.queries) {
            queries[query.matcher as usize].push(number);
        }
        self.selecting.reserve(classes.list.len());
        for class in &classes.list {
            let labels = &input.label_sets[class.labels as usize];
            let by_required_label =
                labels.iter().filter_map(|(key, value)| by_label.get(&(key.as_ref(), value.as_ref()))).flatten();
            let matching =
                by_required_label.chain(&rest).filter(|m| selects(input, &self.matchers[**m as usize], class));
            self.selecting.push(matching.flat_map(|matcher| &queries[*matcher as usize]).copied().collect());
        }
    }
}

/// The label that every selected pod has, with its allowed values.
fn required_label<'a>(term: &PodSelector<'a>) -> Option<(&'a str, &'a [Text])> {
    let terms = &term.selector?.terms;
    let node_affinity = terms.iter().find(|term| term.operator == SelectorOperator::In)?;
    Some((&node_affinity.key, &node_affinity.values))
}

fn selects(input: &PlanningInput, terms: &[PodSelector<'_>], class: &Class<'_>) -> bool {
    let labels = &input.label_sets[class.labels as usize];
    terms.iter().all(|term| term.selects(input, class.namespace, labels))
}

fn namespace_matches(input: &PlanningInput, selector: &LabelSelector, namespace: &Text) -> bool {
    match input.namespaces.get(namespace) {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&Labels::from([(Text::from("kubernetes.io/metadata.name"), namespace.clone())])),
    }
}
