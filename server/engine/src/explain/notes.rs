//! Surprises told before they happen: one sentence for each kind of surprise, naming the workloads or pools it concerns.

mod pools;
mod preferences;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};

use crate::input::PlanningInput;
use crate::model::{Labels, Node, Text};
use crate::plan::Plan;

use super::wording::{count, some};
use super::world::{Place, World};

/// Workloads, pools or nodes that one note names before it counts the rest.
const NAMED: usize = 6;

/// What a plan's reader should know beforehand: whole workloads in one zone, pods without an architecture constraint on
/// arm64, pools that can never launch, preferences that could not be kept, required labels that nothing defines, and
/// DaemonSets without room. Sorted, each once; the number of notes does not grow with the number of pods.
#[must_use]
pub fn notes(input: &PlanningInput, plan: &Plan) -> Vec<String> {
    let mut notes = BTreeSet::new();
    pools::tell(input, &mut notes);
    preferences::tell_of_the_bound(input, &mut notes);
    let workloads = by_workload(input, plan);
    workloads::tell(input, plan, &workloads, &mut notes);
    if preferences::are_stated(input, &workloads) || !input.daemons.is_empty() {
        let world = World::new(input, plan);
        preferences::tell(&world, &workloads, &mut notes);
        pools::tell_daemons(&world, &mut notes);
    }
    notes.into_iter().collect()
}

/// A workload: namespace and `Kind/name`.
type Name<'i> = (&'i Text, &'i Text);
/// Pods that have a place, by workload: (pod, place).
type Workloads<'i> = BTreeMap<Name<'i>, Vec<(u32, Place)>>;

fn by_workload<'i>(input: &'i PlanningInput, plan: &Plan) -> Workloads<'i> {
    let mut workloads = Workloads::new();
    let placed = plan.placements.iter().map(|&(pod, node)| (pod, Place::Node(node)));
    let bought =
        (0_u32..).zip(&plan.nodes).flat_map(|(at, node)| node.pods.iter().map(move |&p| (p, Place::Planned(at))));
    for (index, place) in placed.chain(bought) {
        let pod = &input.pods[index as usize];
        workloads.entry((&pod.namespace, &pod.workload)).or_default().push((index, place));
    }
    workloads
}

/// `Deployment/web in default (3 pods)`.
fn named((namespace, workload): Name<'_>, pods: usize, more: &str) -> String {
    format!("{workload} in {namespace} ({}{more})", count(pods, "pod"))
}

/// One note about many workloads; none when there are none.
fn tell_about(subject: &str, workloads: &[String], advice: &str, notes: &mut BTreeSet<String>) {
    if !workloads.is_empty() {
        notes.insert(format!("{subject}: {}{advice}", some(workloads, NAMED)));
    }
}

/// A label of the place as far as it is decided.
fn label<'i>(input: &'i PlanningInput, plan: &'i Plan, place: Place, key: &str) -> Option<&'i Text> {
    match place {
        Place::Node(at) => of_node(&input.nodes[at as usize], key),
        Place::Planned(at) => {
            let node = &plan.nodes[at as usize];
            match (key, node.zones.as_ref()) {
                (crate::model::labels::ZONE, [one]) => Some(one),
                _ => of_labels(&node.labels, key),
            }
        }
    }
}

fn of_node<'n>(node: &'n Node, key: &str) -> Option<&'n Text> {
    super::world::node_label(node, key)
}

fn of_labels<'l>(labels: &'l Labels, key: &str) -> Option<&'l Text> {
    labels.get(key)
}
