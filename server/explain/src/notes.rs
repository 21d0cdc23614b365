//! Notes about surprising results of a plan: one sentence per kind, listing the affected workloads
//! or pools.

mod pools;
mod preferences;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};

use model::input::PlanningInput;
use model::plan::Plan;
use model::{Labels, Node, Text};

use super::snapshot::{NodeRef, PlanSnapshot};
use super::wording::{count, some};

/// Maximum number of workloads, pools or nodes that one note lists before it counts the rest.
const NAMED: usize = 6;

/// Notes of a plan: workloads in a single zone, pods without an architecture constraint on arm64,
/// pools that can never launch, violated preferences, required labels that nothing defines, and
/// DaemonSets without capacity. Sorted and unique; the number of notes does not grow with the
/// number of pods.
#[must_use]
pub fn notes(input: &PlanningInput, plan: &Plan) -> Vec<String> {
    let mut notes = BTreeSet::new();
    pools::add_notes(input, &mut notes);
    preferences::add_preference_limit_note(input, &mut notes);
    let workloads = by_workload(input, plan);
    workloads::add_notes(input, plan, &workloads, &mut notes);
    if preferences::any_stated(input, &workloads) || !input.daemons.is_empty() {
        let snapshot = PlanSnapshot::new(input, plan);
        preferences::add_notes(&snapshot, &workloads, &mut notes);
        pools::add_daemon_notes(&snapshot, &mut notes);
    }
    notes.into_iter().collect()
}

/// A workload: namespace and `Kind/name`.
type Name<'i> = (&'i Text, &'i Text);
/// Placed pods by workload: (pod, node).
type Workloads<'i> = BTreeMap<Name<'i>, Vec<(u32, NodeRef)>>;

fn by_workload<'i>(input: &'i PlanningInput, plan: &Plan) -> Workloads<'i> {
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
fn named((namespace, workload): Name<'_>, pods: usize, more: &str) -> String {
    format!("{workload} in {namespace} ({}{more})", count(pods, "pod"))
}

/// Adds one note about many workloads; none if the list is empty.
fn add_note(subject: &str, workloads: &[String], advice: &str, notes: &mut BTreeSet<String>) {
    if !workloads.is_empty() {
        notes.insert(format!("{subject}: {}{advice}", some(workloads, NAMED)));
    }
}

/// A label of the node, if it is decided.
fn label<'i>(input: &'i PlanningInput, plan: &'i Plan, node_ref: NodeRef, key: &str) -> Option<&'i Text> {
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
    super::snapshot::node_label(node, key)
}

fn of_labels<'l>(labels: &'l Labels, key: &str) -> Option<&'l Text> {
    labels.get(key)
}
