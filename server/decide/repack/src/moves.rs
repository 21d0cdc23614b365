//! Fewer moves for the same packing: pods that a plan cannot tell apart change places, so that those
//! whose node stays remain on it.

use std::collections::BTreeMap;

use model::input::PlanningInput;
use model::plan::Plan;
use model::{NodeName, Pod, Text};

/// Pods with one key are interchangeable in a plan: namespace, shape, labels and volumes.
type Class<'i> = (&'i Text, u32, u32, Option<u32>);

/// A placed pod, and the node of the input that it is placed on; `None` for a new node.
#[derive(Debug, Clone, Copy)]
struct Place {
    pod: u32,
    node: Option<u32>,
}

/// `plan` with interchangeable pods exchanged, so that as many as possible are on the node that they
/// run on. Every node has as many pods of each class as before.
pub(crate) fn keep_in_place(input: &PlanningInput, plan: &Plan) -> Plan {
    let nodes: BTreeMap<&NodeName, u32> = (0..).zip(&input.nodes).map(|(at, node)| (&node.name, at)).collect();
    let home = |pod: u32| nodes.get(input.pods[pod as usize].moved_from.as_ref()?).copied();
    let new = plan.nodes.iter().flat_map(|node| &node.pods).map(|pod| Place { pod: *pod, node: None });
    let existing = plan.placements.iter().map(|(pod, node)| Place { pod: *pod, node: Some(*node) });
    let mut classes: BTreeMap<Class<'_>, Vec<Place>> = BTreeMap::new();
    for place in existing.chain(new) {
        classes.entry(class(&input.pods[place.pod as usize])).or_default().push(place);
    }
    let mut successors: BTreeMap<u32, u32> = BTreeMap::new();
    for places in classes.into_values() {
        exchange(&places, home, &mut successors);
    }
    let successor = |pod: &u32| successors.get(pod).copied().unwrap_or(*pod);
    let mut exchanged = plan.clone();
    exchanged.placements.iter_mut().for_each(|(pod, _)| *pod = successor(pod));
    exchanged.placements.sort_unstable();
    for node in &mut exchanged.nodes {
        node.pods.iter_mut().for_each(|pod| *pod = successor(pod));
        node.pods.sort_unstable();
    }
    exchanged.order.iter_mut().for_each(|pod| *pod = successor(pod));
    exchanged
}

fn class(pod: &Pod) -> Class<'_> {
    (&pod.namespace, pod.shape, pod.labels, pod.volumes)
}

/// Adds to `successors`, for each of the interchangeable `places`, the pod that gets it.
fn exchange(places: &[Place], home: impl Fn(u32) -> Option<u32>, successors: &mut BTreeMap<u32, u32>) {
    let mut at_home: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut pods: Vec<u32> = places.iter().map(|place| place.pod).collect();
    pods.sort_unstable_by(|one, other| other.cmp(one));
    for pod in &pods {
        if let Some(node) = home(*pod) {
            at_home.entry(node).or_default().push(*pod);
        }
    }
    let mut taken = Vec::new();
    let mut others = Vec::new();
    for place in places {
        match place.node.and_then(|node| at_home.get_mut(&node)?.pop()) {
            Some(pod) => {
                successors.insert(place.pod, pod);
                taken.push(pod);
            }
            None => others.push(place.pod),
        }
    }
    taken.sort_unstable();
    pods.retain(|pod| taken.binary_search(pod).is_err());
    others.sort_unstable();
    successors.extend(others.into_iter().zip(pods.into_iter().rev()));
}
