//! The topology constraints of every class of pods, compiled to queries: which queries a class
//! evaluates, and which queries count it.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::super::class::{Class, Classes};
use super::filter::Filter;
use model::input::PlanningInput;
use model::{LabelSelector, Labels, PodAffinityTerm, PodShape, SelectorOperator, SpreadConstraint, Text, Toleration};

/// The pods that a term selects: in these namespaces, with these labels.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Term<'a> {
    namespaces: Vec<&'a str>,
    by_label: Option<&'a LabelSelector>,
    selector: Option<&'a LabelSelector>,
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
    pub(super) filters: Vec<Filter<'a>>,
    pub(super) queries: Vec<Query>,
    /// Rules of each class, by class number.
    pub(super) rules: Vec<Rules>,
    /// By class: queries whose matcher selects its pods.
    pub(super) selecting: Vec<Vec<u32>>,
    matchers: Vec<Vec<Term<'a>>>,
    ids: Ids<'a>,
}

#[derive(Default)]
struct Ids<'a> {
    keys: FxHashMap<&'a str, u32>,
    filters: FxHashMap<FilterParts<'a>, u32>,
    matchers: FxHashMap<Vec<Term<'a>>, u32>,
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
                let matcher = constraints.matcher(vec![affinity_term(class, term)]);
                let query = constraints.query(matcher, &term.topology_key, None);
                rules.anti_affinity.push(query);
            }
            constraints.rules.push(rules);
        }
        constraints.index(input, classes);
        constraints
    }

    fn compile_spreads(&mut self, input: &'a PlanningInput, class: &Class<'a>, shape: &'a PodShape, rules: &mut Rules) {
        let hard: Vec<&SpreadConstraint> = shape.spread.iter().filter(|constraint| constraint.hard).collect();
        let mut keys: Vec<&str> = hard.iter().map(|constraint| constraint.topology_key.as_ref()).collect();
        keys.sort_unstable();
        keys.dedup();
        for constraint in hard {
            let selector = constraint.selector.as_ref();
            let term = Term { namespaces: vec![class.namespace], by_label: None, selector };
            let matcher = self.matcher(vec![term]);
            let filter = self.filter(class.shape, shape, constraint, &keys);
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
        let matcher = self.matcher(shape.pod_affinity.iter().map(|term| affinity_term(class, term)).collect());
        rules.matches_own_affinity = selects(input, &self.matchers[matcher as usize], class);
        let keys: BTreeSet<&str> = shape.pod_affinity.iter().map(|term| term.topology_key.as_ref()).collect();
        rules.affinity = keys.into_iter().map(|key| self.query(matcher, key, None)).collect();
    }

    fn matcher(&mut self, mut terms: Vec<Term<'a>>) -> u32 {
        terms.sort();
        terms.dedup();
        intern(&mut self.ids.matchers, &mut self.matchers, terms.clone(), terms)
    }

    fn filter(&mut self, number: u32, shape: &'a PodShape, constraint: &SpreadConstraint, keys: &[&'a str]) -> u32 {
        let selective = !(shape.node_selector.is_empty() && shape.node_affinity.is_empty());
        let node_affinity = (constraint.honor_node_affinity && selective)
            .then_some((&shape.node_selector, shape.node_affinity.as_slice()));
        let tolerations = constraint.honor_node_taints.then_some(shape.tolerations.as_slice());
        let filter = Filter { keys: keys.to_vec(), node_affinity: node_affinity.map(|_| number), tolerations };
        intern(&mut self.ids.filters, &mut self.filters, (keys.to_vec(), node_affinity, tolerations), filter)
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
fn required_label<'a>(term: &Term<'a>) -> Option<(&'a str, &'a [Text])> {
    let terms = &term.selector?.terms;
    let node_affinity = terms.iter().find(|term| term.operator == SelectorOperator::In)?;
    Some((&node_affinity.key, &node_affinity.values))
}

fn affinity_term<'a>(class: &Class<'a>, term: &'a PodAffinityTerm) -> Term<'a> {
    let mut namespaces: Vec<&str> = term.namespaces.iter().map(AsRef::as_ref).collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.push(class.namespace);
    }
    Term { namespaces, by_label: term.namespace_selector.as_ref(), selector: term.selector.as_ref() }
}

fn selects(input: &PlanningInput, terms: &[Term<'_>], class: &Class<'_>) -> bool {
    let labels = &input.label_sets[class.labels as usize];
    terms.iter().all(|term| {
        term.selector.is_some_and(|selector| selector.matches(labels))
            && (term.namespaces.contains(&class.namespace.as_ref())
                || term.by_label.is_some_and(|selector| namespace_matches(input, selector, class.namespace)))
    })
}

fn namespace_matches(input: &PlanningInput, selector: &LabelSelector, namespace: &Text) -> bool {
    match input.namespaces.get(namespace) {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&Labels::from([(Text::from("kubernetes.io/metadata.name"), namespace.clone())])),
    }
}
