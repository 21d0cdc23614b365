//! Where the pods of a plan are, and why others have no place.

use std::collections::{BTreeMap, BTreeSet};

use model::input::PlanningInput;
use model::plan::Plan;

use crate::answer::{Blocker, ExistingNodePods, PodCount};
use crate::pod_set::{PodSet, TableLengths};

/// Number of pods of each pod set among `pods`.
pub(crate) fn by_pod_set(
    input: &PlanningInput,
    pods: impl IntoIterator<Item = u32>,
    sets: &[PodSet],
    before: TableLengths,
) -> Vec<PodCount> {
    let mut counts = vec![0; sets.len()];
    for pod in pods {
        counts[before.pod_set_of(&input.pods[pod as usize])] += 1;
    }
    let counted = sets.iter().zip(counts).filter(|(_, count)| *count > 0);
    counted.map(|(set, pods)| PodCount { pod_set: set.name.clone(), pods }).collect()
}

/// The pods on nodes of the cluster, by node.
pub(crate) fn on_existing_nodes(
    input: &PlanningInput,
    plan: &Plan,
    sets: &[PodSet],
    before: TableLengths,
) -> Vec<ExistingNodePods> {
    let mut nodes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    plan.placements.iter().for_each(|(pod, node)| nodes.entry(*node).or_default().push(*pod));
    let on_node = |(node, pods): (u32, Vec<u32>)| ExistingNodePods {
        node: input.nodes[node as usize].name.clone(),
        pods: by_pod_set(input, pods, sets, before),
    };
    nodes.into_iter().map(on_node).collect()
}

/// Why pods have no place: one entry for each pod set that has such pods.
pub(crate) fn blockers(input: &PlanningInput, plan: &Plan, sets: &[PodSet], before: TableLengths) -> Vec<Blocker> {
    // Pods of a set are equal, so the first one without a place stands for the others.
    let mut first: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
    for pod in &plan.unschedulable {
        first.entry(before.pod_set_of(&input.pods[*pod as usize])).or_insert((*pod, 0)).1 += 1;
    }
    let pods: BTreeSet<u32> = first.values().map(|(pod, _)| *pod).collect();
    let mut explained: BTreeMap<u32, _> =
        explain::unschedulable_among(input, plan, pods).into_iter().map(|found| (found.pod, found)).collect();
    let blocker = |(set, (pod, count)): (usize, (u32, u32))| {
        let found = explained.remove(&pod);
        let found = found.map(|found| (found.reasons.to_vec(), found.fits_if.to_vec()));
        let (reasons, fits_if) = found.unwrap_or_default();
        Blocker { pods: Some(PodCount { pod_set: sets[set].name.clone(), pods: count }), reasons, fits_if }
    };
    first.into_iter().map(blocker).collect()
}
