//! What becomes of the pods of removed nodes: each that must run again has a place, and no workload
//! loses its last ready pod.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;

use model::removal::{RemovalInput, RemovalPlan, RemovalPod, RemovalReason, ReplicaCount};
use model::{NodeName, Text};

use super::eviction::is_held_from_eviction;
use super::membership::Removed;
use super::violation::{RemovalFindings, RemovalRule};

pub(super) fn check_room(
    input: &RemovalInput,
    plan: &RemovalPlan,
    removals: &[Removed<'_>],
    findings: &mut RemovalFindings,
) {
    let leaving: BTreeSet<&NodeName> = removals.iter().map(|removed| &removed.node.node).collect();
    let destinations: FxHashSet<&NodeName> = input.destinations.iter().filter(|to| !leaving.contains(to)).collect();
    // The verifier's own list: the one that removals are made by may be wrong.
    let is_empty = |reason| matches!(reason, RemovalReason::Empty | RemovalReason::HoldEnded);
    let judged =
        removals.iter().filter(|removed| removed.voluntary_reason().is_some() || is_empty(removed.removal.reason));
    for removed in judged {
        for pod in removed.node.pods.iter().filter(|pod| remains(pod)) {
            let key = &pod.key;
            if is_empty(removed.removal.reason) {
                findings.report_pod(RemovalRule::Room, removed.node, key, "runs on a node that is removed as empty");
                continue;
            }
            if !needs_room(input, pod) {
                continue;
            }
            match plan.placements.get(key) {
                None => findings.report_pod(RemovalRule::Room, removed.node, key, "has no place after the removal"),
                Some(to) if !destinations.contains(to) => {
                    let what = format!("is moved to {to}, which is no node that stays or is launched");
                    findings.report_pod(RemovalRule::Room, removed.node, key, &what);
                }
                Some(_) => {}
            }
        }
    }
}

/// Whether the pod runs, or runs again, while the node exists (Karpenter: reschedulable pods).
fn remains(pod: &RemovalPod) -> bool {
    !pod.node_bound && (!pod.terminating || pod.workload.starts_with("StatefulSet/"))
}

/// Whether a plan must place a pod that [remains](remains): nothing recreates a pod without an owner, and a pod held
/// from eviction runs until the node ends.
fn needs_room(input: &RemovalInput, pod: &RemovalPod) -> bool {
    !pod.workload.starts_with("Pod/") && !is_held_from_eviction(input, pod)
}

/// Pods of a workload on removed nodes.
#[derive(Default)]
struct Taken {
    /// Number of all its pods on removed nodes.
    pods: usize,
    ready: usize,
    /// Number of the ready ones on the nodes judged so far.
    judged: usize,
}

/// The only ready pod of a workload stays. One node may have all of several ready pods, as a single
/// node needs one eviction that a PodDisruptionBudget allows; several nodes are judged together.
pub(super) fn check_last_ready_pods(input: &RemovalInput, removals: &[Removed<'_>], findings: &mut RemovalFindings) {
    let mut workloads: BTreeMap<(&Text, &Text), Taken> = BTreeMap::new();
    for pod in removals.iter().flat_map(|removed| &removed.node.pods).filter(|pod| has_replicas(pod)) {
        let taken = workloads.entry(workload_of(pod)).or_default();
        taken.pods += 1;
        taken.ready += usize::from(pod.ready);
    }
    for removed in removals {
        // Number of ready pods, and one that no PodDisruptionBudget is in charge of.
        let mut here: BTreeMap<(&Text, &Text), (usize, Option<&RemovalPod>)> = BTreeMap::new();
        for pod in removed.node.pods.iter().filter(|pod| pod.ready && has_replicas(pod)) {
            let (ready, unprotected) = here.entry(workload_of(pod)).or_default();
            *ready += 1;
            *unprotected = unprotected.or(pod.pod_budgets.is_empty().then_some(pod));
        }
        for (workload, (ready, unprotected)) in here {
            let Some(taken) = workloads.get_mut(&workload) else { continue };
            let elsewhere = elsewhere(input, workload);
            let before = taken.judged;
            taken.judged += ready;
            let left = elsewhere.ready + taken.ready - taken.judged;
            let replicas = elsewhere.pods + taken.pods;
            let Some(pod) = unprotected.filter(|_| removed.voluntary_reason().is_some()) else { continue };
            if replicas > 1 && left == 0 && (ready == 1 || before > 0) {
                let what = format!("is the last ready one of {replicas} pods of {}", pod.workload);
                findings.report_pod(RemovalRule::LastReadyPod, removed.node, &pod.key, &what);
            }
        }
    }
}

/// Whether the pod is one of the replicas of a workload that are meant to be ready at the same
/// time. Jobs run to completion.
fn has_replicas(pod: &RemovalPod) -> bool {
    let alone = ["Pod/", "Job/"].iter().any(|kind| pod.workload.starts_with(kind));
    !pod.node_bound && !pod.terminating && !alone
}

fn workload_of(pod: &RemovalPod) -> (&Text, &Text) {
    (&pod.key.namespace, &pod.workload)
}

fn elsewhere(input: &RemovalInput, (namespace, workload): (&Text, &Text)) -> ReplicaCount {
    input.elsewhere.get(&(namespace.clone(), workload.clone())).copied().unwrap_or_default()
}
