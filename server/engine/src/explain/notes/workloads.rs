//! Notes about where workloads land: all in one zone, on arm64 unasked, or by a label that nobody defines.

use std::collections::{BTreeMap, BTreeSet};

use crate::explain::ask::{Alternative, alternatives, names_architecture};
use crate::explain::world::Place;
use crate::input::PlanningInput;
use crate::model::labels::{ARCH, ZONE};
use crate::model::{NodePool, PodShape, Text};
use crate::plan::{Plan, PlannedNode};

use super::{Name, Workloads, label, named, tell_about};

/// The notes of this file.
pub(super) fn tell(input: &PlanningInput, plan: &Plan, workloads: &Workloads<'_>, notes: &mut BTreeSet<String>) {
    let mut in_one_zone = Vec::new();
    let mut on_arm = Vec::new();
    for (name, pods) in workloads {
        if let Some(zone) = needless_single_zone(input, plan, pods) {
            in_one_zone.push(named(*name, pods.len(), &format!(", {zone}")));
        }
        let arm = pods.iter().filter(|(pod, place)| lands_on_arm(input, plan, *pod, *place)).count();
        if arm > 0 {
            on_arm.push(named(*name, arm, ""));
        }
    }
    tell_about(
        "whole workloads stand in one zone although their pods could run in others",
        &in_one_zone,
        "; a topology spread constraint, or fleetwright.dev/zone-balance on the NodePool, spreads them",
        notes,
    );
    tell_about(
        "pods without an architecture constraint land on arm64, or may",
        &on_arm,
        "; their images must be built for it, else set kubernetes.io/arch or fleetwright.dev/safe-architectures",
        notes,
    );
    undefined_labels(input, plan, workloads, notes);
}

/// The zone that all pods share although a launch option of one of their new nodes is for sale in another zone that the
/// pods, their volumes and the pool allow. Pods of one new node share its zone, whichever of several it is launched in; the first is
/// told then.
fn needless_single_zone<'i>(input: &'i PlanningInput, plan: &'i Plan, pods: &[(u32, Place)]) -> Option<&'i Text> {
    let first = pods.first()?.1;
    let zone = match (label(input, plan, first, ZONE), first) {
        (Some(zone), _) => zone,
        (None, Place::Planned(at)) => plan.nodes[at as usize].zones.first()?,
        (None, Place::Node(_)) => return None,
    };
    let shares = |place: Place| place == first || label(input, plan, place, ZONE) == Some(zone);
    let certain = label(input, plan, first, ZONE).is_some() || pods.iter().all(|(_, place)| *place == first);
    if pods.len() < 2 || !certain || !pods.iter().all(|(_, place)| shares(*place)) {
        return None;
    }
    let free = pods.iter().any(|(pod, place)| match place {
        Place::Planned(at) => could_leave(input, &plan.nodes[*at as usize], *pod, zone),
        Place::Node(_) => false,
    });
    free.then_some(zone)
}

fn could_leave(input: &PlanningInput, node: &PlannedNode, pod: u32, zone: &Text) -> bool {
    let pod = &input.pods[pod as usize];
    let shape = &input.shapes[pod.shape as usize];
    let pool: &NodePool = &input.pools[node.pool as usize];
    if shape.pod_affinity.iter().any(|term| term.topology_key.as_ref() == ZONE) {
        return false;
    }
    let ways = alternatives(shape);
    let allows = |other: &Text| {
        let way = |way: &Alternative| way.requirements.get(ZONE).is_none_or(|r| r.has(other));
        let volumes = pod.volumes.map(|at| &input.volume_sets[at as usize].any_of);
        let reachable =
            volumes.is_none_or(|any| any.is_empty() || any.iter().any(|v| v.get(ZONE).is_none_or(|r| r.has(other))));
        ways.iter().any(way) && reachable && pool.requirements.get(ZONE).is_none_or(|r| r.has(other))
    };
    node.types.iter().flat_map(|&t| &pool.catalogue.types[t as usize].offerings).any(|offering| {
        offering.available
            && offering.capacity_type == node.capacity_type
            && offering.zone != *zone
            && allows(&offering.zone)
    })
}

fn lands_on_arm(input: &PlanningInput, plan: &Plan, pod: u32, place: Place) -> bool {
    let arm = |value: &str| value == "arm64";
    let there = match place {
        Place::Node(_) => label(input, plan, place, ARCH).is_some_and(|value| arm(value)),
        Place::Planned(at) => match plan.nodes[at as usize].labels.get(ARCH) {
            Some(value) => arm(value),
            None => options_with_arm(input, &plan.nodes[at as usize]),
        },
    };
    there && !names_architecture(&input.shapes[input.pods[pod as usize].shape as usize])
}

fn options_with_arm(input: &PlanningInput, node: &PlannedNode) -> bool {
    let types = &input.pools[node.pool as usize].catalogue.types;
    let values = |t: &u32| types[*t as usize].labels.get(ARCH).and_then(|r| r.finite_values());
    node.types.iter().filter_map(values).flatten().any(|value| value.as_ref() == "arm64")
}

/// Labels that pods on new nodes, or on none, must find there, that are well known, and that neither a pool nor a type
/// defines.
fn undefined_labels(input: &PlanningInput, plan: &Plan, workloads: &Workloads<'_>, notes: &mut BTreeSet<String>) {
    let mut by_key: BTreeMap<Text, BTreeMap<Name<'_>, usize>> = BTreeMap::new();
    let mut known: BTreeMap<Text, bool> = BTreeMap::new();
    let mut of_shape: BTreeMap<u32, Vec<Text>> = BTreeMap::new();
    let new = workloads.values().flatten().filter(|(_, place)| matches!(place, Place::Planned(_))).map(|(pod, _)| pod);
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
        tell_about(&subject, &workloads, "; kube-scheduler binds them only if the node turns out to have it", notes);
    }
}

/// Keys that must be there whichever way the pod is satisfied.
fn required(shape: &PodShape) -> Vec<Text> {
    let strict = |way: &Alternative| -> BTreeSet<Text> {
        way.requirements.iter().filter(|r| !r.allows_absence()).map(|r| r.key().clone()).collect()
    };
    let all = alternatives(shape).iter().map(strict).reduce(|a, b| a.intersection(&b).cloned().collect());
    all.unwrap_or_default().into_iter().collect()
}

fn defined(input: &PlanningInput, key: &Text) -> bool {
    let by_pool = |pool: &NodePool| {
        crate::explain::world::base(pool).get(key).is_some()
            || crate::explain::catalogue::belongs_to_offerings(pool, key)
            || pool.catalogue.types.iter().any(|t| t.labels.get(key).is_some())
    };
    input.pools.iter().any(by_pool)
}
