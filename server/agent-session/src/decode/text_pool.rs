//! Strings shared between the objects of one cluster.
//!
//! Most labels of Nodes are equal, and every pod names its Node and owner: in a cluster with 100
//! Nodes and 2,000 pods, four fifths of the strings are duplicates. Sharing is by content, within
//! one cluster.

use std::ops::Deref;
use std::sync::Arc;

use controller::cluster::{ClaimRecord, NodeRecord, PodRecord};
use model::{Labels, Resources, Taint, Text};
use rustc_hash::FxHashSet;

/// Minimum number of strings before unused ones are swept; doubles with the number in use.
const FIRST_SWEEP: usize = 1_024;

/// String pool of one cluster. Looked up, never iterated in an order that matters.
#[derive(Default)]
pub(super) struct TextPool {
    known: FxHashSet<Text>,
    sweep_at: usize,
}

impl TextPool {
    /// Interns the strings of a pod.
    pub(super) fn intern_pod(&mut self, mut pod: PodRecord) -> PodRecord {
        self.intern(&mut pod.key.namespace);
        self.intern(&mut pod.workload);
        let nodes = [&mut pod.node, &mut pod.nominated, &mut pod.own_nomination];
        nodes.into_iter().flatten().for_each(|node| self.intern_name(node));
        [&mut pod.daemon, &mut pod.invalid].into_iter().flatten().for_each(|text| self.intern(text));
        pod
    }

    /// Interns the strings of a Node.
    pub(super) fn intern_node(&mut self, mut node: NodeRecord) -> NodeRecord {
        self.intern_name(&mut node.name);
        self.intern_name(&mut node.provider_id);
        self.intern_labels(&mut node.labels);
        self.intern_taints(&mut node.taints);
        self.intern_resources(&mut node.allocatable);
        self.intern_resources(&mut node.capacity);
        node
    }

    /// Interns the strings of a NodeClaim.
    pub(super) fn intern_claim(&mut self, mut claim: ClaimRecord) -> ClaimRecord {
        self.intern_name(&mut claim.name);
        self.intern_name(&mut claim.pool);
        self.intern(&mut claim.node_class);
        self.intern_name(&mut claim.provider_id);
        self.intern_labels(&mut claim.labels);
        self.intern_taints(&mut claim.taints);
        self.intern_taints(&mut claim.startup_taints);
        for resources in [&mut claim.requests, &mut claim.capacity, &mut claim.allocatable] {
            self.intern_resources(resources);
        }
        claim
    }

    fn intern_labels(&mut self, labels: &mut Labels) {
        let shared = std::mem::take(labels).into_iter().map(|(mut key, mut value)| {
            self.intern(&mut key);
            self.intern(&mut value);
            (key, value)
        });
        *labels = shared.collect();
    }

    fn intern_taints(&mut self, taints: &mut [Taint]) {
        for taint in taints {
            self.intern(&mut taint.key);
            self.intern(&mut taint.value);
        }
    }

    fn intern_resources(&mut self, resources: &mut Resources) {
        let shared = resources.iter().map(|(name, amount)| {
            let mut name = name.clone();
            self.intern(&mut name);
            (name, amount)
        });
        *resources = shared.collect();
    }

    fn intern_name<N: Deref<Target = Text> + From<Text>>(&mut self, name: &mut N) {
        let mut text = Arc::clone(name);
        self.intern(&mut text);
        *name = N::from(text);
    }

    fn intern(&mut self, text: &mut Text) {
        match self.known.get(text) {
            Some(known) => *text = Arc::clone(known),
            None => {
                self.sweep();
                self.known.insert(Arc::clone(text));
            }
        }
    }

    /// Drops strings that only the pool refers to.
    fn sweep(&mut self) {
        if self.known.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = 2 * self.known.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use model::NodeName;

    use super::*;

    fn node(number: usize) -> NodeRecord {
        let labels = [("zone".into(), "a".into()), ("name".into(), number.to_string().into())];
        let name = NodeName::from(format!("n{number}"));
        NodeRecord { name, labels: Labels::from_iter(labels), ..NodeRecord::default() }
    }

    #[test]
    fn equal_strings_of_two_nodes_are_shared_and_the_nodes_are_unchanged() {
        let mut texts = TextPool::default();
        let [one, other] = [1, 2].map(|number| texts.intern_node(node(number)));
        assert_eq!([&one, &other], [&node(1), &node(2)]);
        let zone =
            |node: &NodeRecord| node.labels.get_key_value("zone").map(|(key, value)| (key.clone(), value.clone()));
        let ((key, value), (other_key, other_value)) = (zone(&one).unwrap(), zone(&other).unwrap());
        assert!(Arc::ptr_eq(&key, &other_key) && Arc::ptr_eq(&value, &other_value));
    }

    #[test]
    fn strings_of_deleted_nodes_are_swept() {
        let mut texts = TextPool::default();
        let kept = texts.intern_node(node(0));
        (1..3_000).for_each(|number| drop(texts.intern_node(node(number))));
        // Two keys, `a`, and a name and a value of each Node.
        let held = texts.known.len();
        assert!(held <= FIRST_SWEEP, "{held} strings are held for one node");
        assert!(texts.known.contains(kept.name.as_text()));
    }
}
