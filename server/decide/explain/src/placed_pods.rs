//! Placed pods, grouped by what topology rules distinguish.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use model::Text;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum NodeRef {
    /// Index of a node of the input.
    Existing(u32),
    /// Index of a node of the plan.
    Planned(u32),
}

/// Placed pods that are identical to every topology rule, and their nodes.
#[derive(Debug)]
pub(super) struct PlacedGroup {
    pub namespace: Text,
    /// Index into `PlanningInput::label_sets`.
    pub labels: u32,
    /// Index into `PlanningInput::shapes`.
    pub shape: u32,
    /// One of the pods, for messages: `namespace/name`.
    pub example: String,
    /// Number of pods per node.
    pub nodes: BTreeMap<NodeRef, i64>,
}

/// Groups placed pods by namespace, labels and shape.
#[derive(Default)]
pub(super) struct GroupCounter {
    pub(super) groups: Vec<PlacedGroup>,
    index: FxHashMap<(Text, u32, u32), usize>,
}

impl GroupCounter {
    pub(super) fn add(
        &mut self,
        namespace: &Text,
        labels: u32,
        shape: u32,
        node_ref: NodeRef,
        name: impl Fn() -> String,
    ) {
        let groups = &mut self.groups;
        let at = *self.index.entry((namespace.clone(), labels, shape)).or_insert_with(|| {
            let namespace = namespace.clone();
            groups.push(PlacedGroup { namespace, labels, shape, example: name(), nodes: BTreeMap::new() });
            groups.len() - 1
        });
        *groups[at].nodes.entry(node_ref).or_insert(0) += 1;
    }
}
