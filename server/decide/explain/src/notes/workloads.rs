//! Notes about the placement of workloads: all in one zone, on arm64 without a constraint, or by a
//! label that nothing defines.

use std::collections::{BTreeMap, BTreeSet};

use crate::placed_pods::NodeRef;
use crate::pod_requirements::{Alternative, alternatives};
use model::input::PlanningInput;
use model::labels::{ARCH, ZONE};
use model::plan::{Plan, PlannedNode};
use model::{NodePool, PodShape, Text, Zone};
use verifier::kernel::{allows_zone, may_be_defined, names_architecture};

use super::placed_workloads::{Name, Workloads, add_note, label, named};

/// Adds the notes about workloads.
pub(super) fn add_notes(input: &PlanningInput, plan: &Plan, workloads: &Workloads<'_>, notes: &mut BTreeSet<String>) {
    let mut in_one_zone = Vec::new();
    let mut on_arm = Vec::new();
    for (name, pods) in workloads {
        if let Some(zone) = needless_single_zone(input, plan, pods) {
            in_one_zone.push(named(*name, pods.len(), &format!(", {zone}")));
        }
        let arm = pods.iter().filter(|(pod, node_ref)| runs_on_arm(input, plan, *pod, *node_ref)).count();
        if arm > 0 {
            on_arm.push(named(*name, arm, ""));
        }
    }
    add_note(
        "whole workloads run in one zone although their pods could run in others",
        &in_one_zone,
        "; a topology spread constraint, or fleetwright.dev/zone-balance on the NodePool, spreads them",
        notes,
    );
    add_note(
        "pods without an architecture constraint land on arm64, or may",
        &on_arm,
        "; their images must be built for it, else set kubernetes.io/arch or fleetwright.dev/safe-architectures",
        notes,
    );
    undefined_labels(input, plan, workloads, notes);
}

/// The zone that all pods share although a launch option of one of their new nodes is available in
/// another zone that the pods, their volumes and the pool allow. If all pods are on one new node
/// with several zones, the first zone is returned.
fn needless_single_zone(input: &PlanningInput, plan: &Plan, pods: &[(u32, NodeRef)]) -> Option<Zone> {
    let first = pods.first()?.1;
    let zone = match (label(input, plan, first, ZONE), first) {
        (Some(zone), _) => Zone::from(zone),
        (None, NodeRef::Planned(at)) => plan.nodes[at as usize].zones.first()?.clone(),
        (None, NodeRef::Existing(_)) => return None,
    };
    let shares = |node_ref: NodeRef| node_ref == first || label(input, plan, node_ref, ZONE) == Some(zone.as_text());
    let certain = label(input, plan, first, ZONE).is_some() || pods.iter().all(|(_, node_ref)| *node_ref == first);
    if pods.len() < 2 || !certain || !pods.iter().all(|(_, node_ref)| shares(*node_ref)) {
        return None;
    }
    let free = pods.iter().any(|(pod, node_ref)| match node_ref {
        NodeRef::Planned(at) => could_run_elsewhere(input, &plan.nodes[*at as usize], *pod, &zone),
        NodeRef::Existing(_) => false,
    });
    free.then_some(zone)
}

fn could_run_elsewhere(input: &PlanningInput, node: &PlannedNode, pod: u32, zone: &Zone) -> bool {
    let pod = &input.pods[pod as usize];
    let shape = &input.shapes[pod.shape as usize];
    let pool: &NodePool = &input.pools[node.pool as usize];
    if shape.pod_affinity.iter().any(|term| term.topology_key.as_ref() == ZONE) {
        return false;
    }
    let volumes = pod.volumes.map(|at| &input.volume_sets[at as usize]);
    let allows = |other: &Zone| {
        allows_zone(shape, volumes, other)
            && pool.requirements.get(ZONE).is_none_or(|requirement| requirement.has(other))
    };
    node.types.iter().flat_map(|&t| &pool.catalogue.types[t as usize].offerings).any(|offering| {
        offering.available
            && offering.capacity_type == node.capacity_type
            && offering.zone != *zone
            && allows(&offering.zone)
    })
}

fn runs_on_arm(input: &PlanningInput, plan: &Plan, pod: u32, node_ref: NodeRef) -> bool {
    let arm = |value: &str| value == "arm64";
    let there = match node_ref {
        NodeRef::Existing(_) => label(input, plan, node_ref, ARCH).is_some_and(|value| arm(value)),
        NodeRef::Planned(at) => match plan.nodes[at as usize].labels.get(ARCH) {
            Some(value) => arm(value),
            None => has_arm_option(input, &plan.nodes[at as usize]),
        },
    };
    there && !names_architecture(&input.shapes[input.pods[pod as usize].shape as usize])
}

fn has_arm_option(input: &PlanningInput, node: &PlannedNode) -> bool {
    let types = &input.pools[node.pool as usize].catalogue.types;
    let values = |t: &u32| types[*t as usize].labels.get(ARCH).and_then(|r| r.finite_values());
    node.types.iter().filter_map(values).flatten().any(|value| value.as_ref() == "arm64")
}

/// Adds notes about well-known labels that pods on new nodes, or unschedulable pods, require, and
/// that neither a pool nor an instance type defines.
fn undefined_labels(input: &PlanningInput, plan: &Plan, workloads: &Workloads<'_>, notes: &mut BTreeSet<String>) {
    let mut by_key: BTreeMap<Text, BTreeMap<Name<'_>, usize>> = BTreeMap::new();
    let mut known: BTreeMap<Text, bool> = BTreeMap::new();
    let mut of_shape: BTreeMap<u32, Vec<Text>> = BTreeMap::new();
    let new = workloads
        .values()
        .flatten()
        .filter(|(_, node_ref)| matches!(node_ref, NodeRef::Planned(_)))
        .map(|(pod, _)| pod);
    for pod in new.chain(&plan.unschedulable).map(|pod| &input.pods[*pod as usize]) {
        let keys = of_shape.entry(pod.shape).or_insert_with(|| required(&input.shapes[pod.shape as usize]));
        for key in keys.iter().filter(|key| input.policy.is_well_known(key)) {
            if !*known.entry(key.clone()).or_insert_with(|| defined(input, key)) {
                let name = (&pod.namespace, &pod.workload);
                *by_key.entry(key.clone()).or_default().entry(name).or_insert(0) += 1;
            }
        }
    }
    for (key, workloads) in by_key {
        let workloads: Vec<String> = workloads.iter().map(|(name, pods)| named(*name, *pods, "")).collect();
        let subject =
            format!("the well-known label {key} is required, but no NodePool and no instance type defines it");
        add_note(&subject, &workloads, "; kube-scheduler binds them only if the node turns out to have it", notes);
    }
}

/// Label keys required by every alternative of the pod.
fn required(shape: &PodShape) -> Vec<Text> {
    let strict = |alternative: &Alternative| -> BTreeSet<Text> {
        alternative.requirements.iter().filter(|r| !r.allows_absence()).map(|r| r.key().clone()).collect()
    };
    let all = alternatives(shape).iter().map(strict).reduce(|a, b| a.intersection(&b).cloned().collect());
    all.unwrap_or_default().into_iter().collect()
}

fn defined(input: &PlanningInput, key: &Text) -> bool {
    let by_pool = |pool: &NodePool| crate::snapshot::base(pool).get(key).is_some() || may_be_defined(pool, key);
    input.pools.iter().any(by_pool)
}
