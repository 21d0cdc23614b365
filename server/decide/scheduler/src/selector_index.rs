//! Which pods a selector matches, found through an index by label instead of a scan of all pods.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use model::input::PlanningInput;
use model::{LabelSelector, Labels, PodAffinityTerm, SelectorOperator, Text};

/// Index of a distinct (namespace, label set) of pods.
pub(super) type PodLabelsId = u32;

/// The namespaces of an affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Namespaces {
    All,
    These(BTreeSet<Text>),
}

/// Pods that match all of these (namespaces, selector) pairs.
pub(super) type Predicate = Vec<(Namespaces, Option<LabelSelector>)>;

/// Distinct (namespace, label set) pairs with an index by label.
#[derive(Debug)]
pub(super) struct SelectorIndex<'i> {
    pairs: Vec<(&'i Text, &'i Labels)>,
    ids: FxHashMap<(&'i str, u32), PodLabelsId>,
    by_value: FxHashMap<(&'i str, &'i str), Vec<PodLabelsId>>,
    by_key: FxHashMap<&'i str, Vec<PodLabelsId>>,
    namespaces: BTreeMap<Text, Labels>,
}

impl<'i> SelectorIndex<'i> {
    /// Indexes every pod of `input`, bound or pending.
    pub(super) fn of(input: &'i PlanningInput) -> Self {
        let bound = input.nodes.iter().flat_map(|node| &node.pods).map(|pod| (&pod.namespace, pod.labels));
        let pending = input.pods.iter().map(|pod| (&pod.namespace, pod.labels));
        let mut selector_index = Self {
            pairs: Vec::new(),
            ids: FxHashMap::default(),
            by_value: FxHashMap::default(),
            by_key: FxHashMap::default(),
            namespaces: input.namespaces.clone(),
        };
        for (namespace, labels) in pending.chain(bound) {
            selector_index.add(namespace, labels, &input.label_sets[labels as usize]);
        }
        selector_index
    }

    fn add(&mut self, namespace: &'i Text, label_set: u32, labels: &'i Labels) {
        let id = u32::try_from(self.pairs.len()).unwrap_or(u32::MAX);
        if self.ids.contains_key(&(namespace.as_ref(), label_set)) {
            return;
        }
        self.ids.insert((namespace, label_set), id);
        self.pairs.push((namespace, labels));
        for (key, value) in labels {
            self.by_value.entry((key, value)).or_default().push(id);
            self.by_key.entry(key).or_default().push(id);
        }
        if !self.namespaces.contains_key(namespace) {
            let own = Labels::from([(Text::from("kubernetes.io/metadata.name"), namespace.clone())]);
            self.namespaces.insert(namespace.clone(), own);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    pub(super) fn id(&self, namespace: &str, label_set: u32) -> PodLabelsId {
        self.ids[&(namespace, label_set)]
    }

    /// The namespaces of an affinity term of a pod in namespace `own`.
    pub(super) fn namespaces_of(&self, term: &PodAffinityTerm, own: &Text) -> Namespaces {
        if term.namespaces.is_empty() && term.namespace_selector.is_none() {
            return Namespaces::These(BTreeSet::from([own.clone()]));
        }
        let mut names: BTreeSet<Text> = term.namespaces.iter().cloned().collect();
        if let Some(selector) = &term.namespace_selector {
            if selector.terms.is_empty() {
                return Namespaces::All;
            }
            let chosen = self.namespaces.iter().filter(|(_, labels)| selector.matches(labels));
            names.extend(chosen.map(|(name, _)| name.clone()));
        }
        Namespaces::These(names)
    }

    /// The label sets that `predicate` selects, ascending.
    pub(super) fn matching(&self, predicate: &Predicate) -> Vec<PodLabelsId> {
        let Some((_, Some(first))) = predicate.iter().min_by_key(|(_, selector)| self.estimate(selector.as_ref()))
        else {
            return Vec::new();
        };
        let matches = |id: &PodLabelsId| predicate.iter().all(|pair| self.matches(*id, pair));
        match self.candidates(first) {
            Some(candidates) => candidates.into_iter().filter(matches).collect(),
            None => (0..u32::try_from(self.len()).unwrap_or(u32::MAX)).filter(matches).collect(),
        }
    }

    fn matches(&self, id: PodLabelsId, (namespaces, selector): &(Namespaces, Option<LabelSelector>)) -> bool {
        let (namespace, labels) = self.pairs[id as usize];
        let in_namespaces = match namespaces {
            Namespaces::All => true,
            Namespaces::These(names) => names.contains(namespace),
        };
        in_namespaces && selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    fn estimate(&self, selector: Option<&LabelSelector>) -> usize {
        selector.map_or(0, |selector| self.candidates(selector).map_or(usize::MAX, |candidates| candidates.len()))
    }

    /// A superset of what `selector` selects, by its narrowest positive term; `None` when it has
    /// none.
    fn candidates(&self, selector: &LabelSelector) -> Option<Vec<PodLabelsId>> {
        let of_term = |term: &model::SelectorTerm| match term.operator {
            SelectorOperator::In => {
                let mut all: Vec<PodLabelsId> = Vec::new();
                for value in &term.values {
                    all.extend(self.by_value.get(&(term.key.as_ref(), value.as_ref())).into_iter().flatten());
                }
                all.sort_unstable();
                Some(all)
            }
            SelectorOperator::Exists => Some(self.by_key.get(term.key.as_ref()).cloned().unwrap_or_default()),
            SelectorOperator::NotIn | SelectorOperator::DoesNotExist => None,
        };
        selector.terms.iter().filter_map(of_term).min_by_key(Vec::len)
    }
}
