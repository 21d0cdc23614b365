//! One plan of two: pods on existing nodes, and nodes launched for the others.

use std::collections::VecDeque;

use model::plan::{Plan, PlannedNode};

/// `on_nodes` with `launched` for the pods that it does not place; nodes and order name pods by their pod set, of which
/// there are `sets`.
pub(crate) fn combined(
    mut on_nodes: Plan,
    launched: &[(PlannedNode, Vec<usize>)],
    order: &[usize],
    sets: usize,
    set_of: impl Fn(u32) -> usize,
) -> Plan {
    let mut left = vec![VecDeque::new(); sets];
    for pod in std::mem::take(&mut on_nodes.unschedulable) {
        left[set_of(pod)].push_back(pod);
    }
    let mut in_order = left.clone();
    on_nodes.order.extend(order.iter().filter_map(|set| in_order[*set].pop_front()));
    on_nodes.nodes = launched
        .iter()
        .map(|(node, sets)| {
            let mut pods: Vec<u32> = sets.iter().filter_map(|set| left[*set].pop_front()).collect();
            pods.sort_unstable();
            PlannedNode { pods, ..node.clone() }
        })
        .collect();
    on_nodes
}
