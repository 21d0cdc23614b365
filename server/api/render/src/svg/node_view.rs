//! What is drawn of each node.

use std::collections::BTreeMap;

use model::labels::{INSTANCE_TYPE, ZONE};
use model::plan::PlannedNode;
use model::{MicroUsd, Node, NodeName, NodeStage, Resources};
use repack::HeldNode;
use verifier::kernel::DaemonSets;

use super::super::Rendering;
use super::super::names::natural_order;
use command::wording::and_more;

/// Maximum number of running pods that a tooltip names.
const NAMED_PODS: usize = 12;

/// A node to launch, or one that exists.
pub(super) struct NodeView<'r> {
    pub(super) name: &'r str,
    /// Type, capacity type, zone, and whether it exists.
    pub(super) description: String,
    pub(super) price: Option<MicroUsd>,
    pub(super) exists: bool,
    /// Whether it exists and the plan of a repacked cluster removes it.
    pub(super) is_removed: bool,
    pub(super) allocatable: &'r Resources,
    pub(super) daemons: Resources,
    /// Requests of pods that run on it and stay.
    pub(super) running: Resources,
    /// Names of these pods, and the number of the others.
    pub(super) running_names: String,
    /// Requests of all these and of the pods that the plan puts on it.
    pub(super) used: Resources,
    /// The pods that the plan puts on it.
    pub(super) pods: Vec<u32>,
}

/// The nodes to launch, then the nodes that exist and take pods; in a repacked cluster also those
/// that stay without taking any, and at last those that are removed.
pub(super) fn views<'r>(rendering: &Rendering<'r>) -> Vec<NodeView<'r>> {
    let launched = rendering.plan.nodes.iter().chain(&rendering.plan.static_nodes);
    let mut views: Vec<NodeView<'r>> = launched.map(|node| launched_view(rendering, node)).collect();
    let mut existing: BTreeMap<u32, (Vec<u32>, Option<&HeldNode>)> = BTreeMap::new();
    for held in rendering.repacking.into_iter().flat_map(|summary| &summary.held) {
        existing.entry(held.node).or_default().1 = Some(held);
    }
    for (pod, node) in &rendering.plan.placements {
        existing.entry(*node).or_default().0.push(*pod);
    }
    let known: &'r [Node] = if rendering.repacking.is_some() { &rendering.input.nodes } else { &[] };
    let removed = known.iter().zip(0_u32..).filter(|(node, at)| is_removed(node) && !existing.contains_key(at));
    let mut removed: Vec<NodeView<'r>> = removed.map(|(node, _)| removed_view(node)).collect();
    removed.sort_by(|one, other| natural_order(one.name, other.name));
    let daemons = DaemonSets::of(rendering.input);
    let mut existing: Vec<NodeView<'r>> = existing
        .into_iter()
        .map(|(node, (pods, held))| {
            let node = &rendering.input.nodes[node as usize];
            existing_view(rendering, (node, held), pods, &daemons)
        })
        .collect();
    existing.sort_by(|one, other| natural_order(one.name, other.name));
    views.append(&mut existing);
    views.append(&mut removed);
    views
}

/// Repacking plans as if the nodes that it removes were being deleted.
fn is_removed(node: &Node) -> bool {
    node.stage == NodeStage::Deleting
}

fn launched_view<'r>(rendering: &Rendering<'r>, node: &'r PlannedNode) -> NodeView<'r> {
    let types = &rendering.input.pools[node.pool as usize].catalogue.types;
    let machine = &types[node.types[0] as usize];
    let mut daemons = node.requests.clone();
    for pod in &node.pods {
        daemons.subtract(requests(rendering, *pod));
    }
    NodeView {
        name: node.name.as_ref(),
        description: format!(
            "{} · {} · {}",
            and_more(machine.name.as_ref(), node.types.len()),
            node.capacity_type.as_str(),
            node.zones.first().map_or("", |zone| zone.as_ref())
        ),
        price: Some(node.cost()),
        exists: false,
        is_removed: false,
        allocatable: &machine.allocatable,
        daemons,
        running: Resources::new(),
        running_names: String::new(),
        used: node.requests.clone(),
        pods: node.pods.clone(),
    }
}

fn existing_view<'r>(
    rendering: &Rendering<'r>,
    (node, held): (&'r Node, Option<&HeldNode>),
    pods: Vec<u32>,
    daemon_sets: &DaemonSets<'r>,
) -> NodeView<'r> {
    let staying = || node.pods.iter().filter(|pod| !pod.leaving && pod.daemon.is_none());
    let mut running = Resources::new();
    staying().for_each(|pod| running.add(&rendering.input.shapes[pod.shape as usize].requests));
    // What is neither free nor used by the pods that run there is for DaemonSets, present or missing.
    let mut daemons = node.allocatable.clone();
    daemons.subtract(&daemon_sets.free_on_node(node));
    daemons.subtract(&running);
    let mut used = daemons.clone();
    used.add(&running);
    pods.iter().for_each(|pod| used.add(requests(rendering, *pod)));
    NodeView {
        name: name(&node.name),
        description: description(node, if held.is_some() { "exists, held" } else { "exists" }),
        price: held.map(|held| held.price),
        exists: true,
        is_removed: false,
        allocatable: &node.allocatable,
        daemons,
        running,
        running_names: names(staying().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect()),
        used,
        pods,
    }
}

/// A node that is removed, without what is on it.
fn removed_view(node: &Node) -> NodeView<'_> {
    NodeView {
        name: name(&node.name),
        description: description(node, "removed"),
        price: None,
        exists: true,
        is_removed: true,
        allocatable: &node.allocatable,
        daemons: Resources::new(),
        running: Resources::new(),
        running_names: String::new(),
        used: Resources::new(),
        pods: Vec::new(),
    }
}

/// Type, zone and state of a node that exists.
fn description(node: &Node, state: &str) -> String {
    let label = |key: &str| node.labels.get(key).map_or("?", |value| value.as_ref());
    format!("{} · {} · {state}", label(INSTANCE_TYPE), label(ZONE))
}

fn name(name: &NodeName) -> &str {
    name
}

fn names(mut names: Vec<String>) -> String {
    names.sort_by(|one, other| natural_order(one, other));
    let more = names.len().saturating_sub(NAMED_PODS);
    names.truncate(NAMED_PODS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &more
}

/// Requests of the pod with this index.
pub(super) fn requests<'r>(rendering: &Rendering<'r>, pod: u32) -> &'r Resources {
    &rendering.input.shapes[rendering.pod(pod).shape as usize].requests
}
