//! Texts that the objects of one cluster have in common, held once.
//!
//! Every node has the same labels but for a few values, and every pod names its node and what owns it: of the texts of a
//! cluster with 100 nodes and 2,000 pods four fifths say what another says. Sharing is by content, within one cluster.

use std::sync::Arc;

use engine::cluster::{ClaimRecord, NodeRecord, PodRecord};
use engine::model::{Labels, Resources, Taint, Text};
use rustc_hash::FxHashSet;

/// Texts after which those that nobody uses any more are looked for; doubles with what is in use.
const FIRST_SWEEP: usize = 1_024;

/// The texts of one cluster. Looked up, never iterated in an order that matters.
#[derive(Default)]
pub(super) struct Texts {
    known: FxHashSet<Text>,
    sweep_at: usize,
}

impl Texts {
    /// The pod, with what it says of others shared.
    pub(super) fn pod(&mut self, mut pod: PodRecord) -> PodRecord {
        self.share(&mut pod.key.namespace);
        self.share(&mut pod.workload);
        let others = [&mut pod.node, &mut pod.nominated, &mut pod.hinted, &mut pod.daemon, &mut pod.invalid];
        others.into_iter().flatten().for_each(|text| self.share(text));
        pod
    }

    /// The Node, with its texts shared.
    pub(super) fn node(&mut self, mut node: NodeRecord) -> NodeRecord {
        self.share(&mut node.name);
        self.share(&mut node.provider_id);
        self.labels(&mut node.labels);
        self.taints(&mut node.taints);
        self.resources(&mut node.allocatable);
        self.resources(&mut node.capacity);
        node
    }

    /// The NodeClaim, with its texts shared.
    pub(super) fn claim(&mut self, mut claim: ClaimRecord) -> ClaimRecord {
        let texts = [&mut claim.name, &mut claim.pool, &mut claim.node_class, &mut claim.provider_id];
        texts.into_iter().for_each(|text| self.share(text));
        self.labels(&mut claim.labels);
        self.taints(&mut claim.taints);
        self.taints(&mut claim.startup_taints);
        for resources in [&mut claim.requests, &mut claim.capacity, &mut claim.allocatable] {
            self.resources(resources);
        }
        claim
    }

    fn labels(&mut self, labels: &mut Labels) {
        let shared = std::mem::take(labels).into_iter().map(|(mut key, mut value)| {
            self.share(&mut key);
            self.share(&mut value);
            (key, value)
        });
        *labels = shared.collect();
    }

    fn taints(&mut self, taints: &mut [Taint]) {
        for taint in taints {
            self.share(&mut taint.key);
            self.share(&mut taint.value);
        }
    }

    fn resources(&mut self, resources: &mut Resources) {
        let shared = resources.iter().map(|(name, amount)| {
            let mut name = name.clone();
            self.share(&mut name);
            (name, amount)
        });
        *resources = shared.collect();
    }

    fn share(&mut self, text: &mut Text) {
        match self.known.get(text) {
            Some(known) => *text = Arc::clone(known),
            None => {
                self.sweep();
                self.known.insert(Arc::clone(text));
            }
        }
    }

    /// Forgets what nobody but this says.
    fn sweep(&mut self) {
        if self.known.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = 2 * self.known.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: usize) -> NodeRecord {
        let labels = [("zone".into(), "a".into()), ("name".into(), number.to_string().into())];
        let name = Text::from(format!("n{number}"));
        NodeRecord { name, labels: Labels::from_iter(labels), ..NodeRecord::default() }
    }

    #[test]
    fn what_two_nodes_say_alike_is_held_once_and_nothing_is_changed_by_that() {
        let mut texts = Texts::default();
        let [one, other] = [1, 2].map(|number| texts.node(node(number)));
        assert_eq!([&one, &other], [&node(1), &node(2)]);
        let zone =
            |node: &NodeRecord| node.labels.get_key_value("zone").map(|(key, value)| (key.clone(), value.clone()));
        let ((key, value), (other_key, other_value)) = (zone(&one).unwrap(), zone(&other).unwrap());
        assert!(Arc::ptr_eq(&key, &other_key) && Arc::ptr_eq(&value, &other_value));
    }

    #[test]
    fn texts_of_nodes_that_are_gone_are_swept_away() {
        let mut texts = Texts::default();
        let kept = texts.node(node(0));
        (1..3_000).for_each(|number| drop(texts.node(node(number))));
        // Two keys, `a`, and a name and a value of each node.
        let held = texts.known.len();
        assert!(held <= FIRST_SWEEP, "{held} texts are held for one node");
        assert!(texts.known.contains(&kept.name));
    }
}
