//! Placed pods by workload, and the notes that list workloads.

use std::collections::{BTreeMap, BTreeSet};

use crate::placed_pods::NodeRef;
use crate::snapshot::node_label;
use crate::wording::{count, some};
use model::input::PlanningInput;
use model::plan::Plan;
use model::{Labels, Node, Text};

/// Maximum number of workloads, pools or nodes that one note lists before it counts the rest.
const NAMED: usize = 6;

/// A workload: namespace and `Kind/name`.
pub(super) type Name<'i> = (&'i Text, &'i Text);
/// Placed pods by workload: (pod, node).
pub(super) type Workloads<'i> = BTreeMap<Name<'i>, Vec<(u32, NodeRef)>>;

pub(super) fn by_workload<'i>(input: &'i PlanningInput, plan: &Plan) -> Workloads<'i> {
    let mut workloads = Workloads::new();
    let placed = plan.placements.iter().map(|&(pod, node)| (pod, NodeRef::Existing(node)));
    let planned =
        (0_u32..).zip(&plan.nodes).flat_map(|(at, node)| node.pods.iter().map(move |&p| (p, NodeRef::Planned(at))));
    for (index, node_ref) in placed.chain(planned) {
        let pod = &input.pods[index as usize];
        workloads.entry((&pod.namespace, &pod.workload)).or_default().push((index, node_ref));
    }
    workloads
}

/// `Deployment/web in default (3 pods)`.
pub(super) fn named((namespace, workload): Name<'_>, pods: usize, more: &str) -> String {
    format!("{workload} in {namespace} ({}{more})", count(pods, "pod"))
}

/// Adds one note about many workloads; none if the list is empty.
pub(super) fn add_note(subject: &str, workloads: &[String], advice: &str, notes: &mut BTreeSet<String>) {
    if !workloads.is_empty() {
        notes.insert(format!("{subject}: {}{advice}", some(workloads, NAMED)));
    }
}

/// A label of the node, if it is decided.
pub(super) fn label<'i>(input: &'i PlanningInput, plan: &'i Plan, node_ref: NodeRef, key: &str) -> Option<&'i Text> {
    match node_ref {
        NodeRef::Existing(at) => of_node(&input.nodes[at as usize], key),
        NodeRef::Planned(at) => {
            let node = &plan.nodes[at as usize];
            match (key, node.zones.as_ref()) {
                (model::labels::ZONE, [one]) => Some(one),
                _ => of_labels(&node.labels, key),
            }
        }
    }
}

fn of_node<'n>(node: &'n Node, key: &str) -> Option<&'n Text> {
    node_label(node, key)
}

fn of_labels<'l>(labels: &'l Labels, key: &str) -> Option<&'l Text> {
    labels.get(key)
}
