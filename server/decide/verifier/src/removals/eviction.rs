//! What protects a node or its pods: do-not-disrupt, and PodDisruptionBudgets.

use std::collections::BTreeMap;

use model::removal::{DoNotDisrupt, PodBudget, RemovalInput, RemovalPod};
use model::{PodKey, Text, Timestamp};

use super::membership::Removed;
use super::violation::{RemovalFindings, RemovalRule};

/// DaemonSet and static pods protect their node as well; terminating pods do not.
pub(super) fn check_do_not_disrupt(input: &RemovalInput, removals: &[Removed<'_>], findings: &mut RemovalFindings) {
    for removed in removals.iter().filter(|removed| removed.voluntary_reason().is_some()) {
        let node = removed.node;
        if is_do_not_disrupt_active(node.do_not_disrupt, node.created, input.now) {
            let message = "the Node has karpenter.sh/do-not-disrupt".to_owned();
            findings.report(RemovalRule::DoNotDisrupt, node, message);
        }
        if removed.ignores_pod_protection() {
            continue;
        }
        for pod in node.pods.iter().filter(|pod| is_protected(pod, input.now)) {
            findings.report_pod(RemovalRule::DoNotDisrupt, node, &pod.key, "has karpenter.sh/do-not-disrupt");
        }
    }
}

/// Pods of one node are evicted one after another as their budget allows, so one allowed eviction
/// is enough for a node; each further node needs allowed evictions for all its pods.
pub(super) fn check_pod_budgets(input: &RemovalInput, removals: &[Removed<'_>], findings: &mut RemovalFindings) {
    let mut planned: BTreeMap<&Text, usize> = BTreeMap::new();
    for removed in removals {
        let mut needed: BTreeMap<&Text, (usize, &PodKey)> = BTreeMap::new();
        for pod in removed.node.pods.iter().filter(|pod| is_evicted(pod, input.now)) {
            match pod.pod_budgets.as_slice() {
                [] => {}
                [name] if evicts_unhealthy(input, name, pod) => {}
                [name] => needed.entry(name).or_insert((0, &pod.key)).0 += 1,
                [one, other, ..] if !removed.ignores_pod_protection() => {
                    let what = format!("has the PodDisruptionBudgets {one} and {other}: it is never evicted");
                    findings.report_pod(RemovalRule::PodDisruptionBudget, removed.node, &pod.key, &what);
                }
                [_, _, ..] => {}
            }
        }
        for (name, (pods, first)) in needed {
            let allowed = input.pod_budgets.get(name).map_or(0, |budget| budget.allowed);
            let earlier = planned.entry(name).or_insert(0);
            let fits = if *earlier == 0 { allowed > 0 } else { *earlier + pods <= allowed };
            if !fits && !removed.ignores_pod_protection() {
                let what = format!(
                    "must not be evicted: PodDisruptionBudget {name} allows {allowed} evictions, and removals before \
                     this one need {earlier}"
                );
                findings.report_pod(RemovalRule::PodDisruptionBudget, removed.node, first, &what);
            }
            *earlier += pods;
        }
    }
}

/// Whether the pod stays until the deadline of a drain: it has do-not-disrupt, several
/// PodDisruptionBudgets, or one that allows no eviction. A terminating pod ends without an eviction.
pub(super) fn is_held_from_eviction(input: &RemovalInput, pod: &RemovalPod) -> bool {
    !pod.terminating && (is_blocked_by_budgets(input, pod) || is_protected(pod, input.now))
}

/// Whether several PodDisruptionBudgets select the pod, or one that allows no eviction.
fn is_blocked_by_budgets(input: &RemovalInput, pod: &RemovalPod) -> bool {
    match pod.pod_budgets.as_slice() {
        [] => false,
        [name] if evicts_unhealthy(input, name, pod) => false,
        [name] => input.pod_budgets.get(name).is_none_or(|budget| budget.allowed == 0),
        [_, _, ..] => true,
    }
}

/// Whether a drain evicts the pod (Karpenter: evictable pods).
fn is_evicted(pod: &RemovalPod, now: Timestamp) -> bool {
    !pod.terminating && !pod.tolerates_drain && !is_protected(pod, now)
}

fn evicts_unhealthy(input: &RemovalInput, budget: &Text, pod: &RemovalPod) -> bool {
    let always = |budget: &PodBudget| budget.evicts_unhealthy_always;
    !pod.ready && input.pod_budgets.get(budget).is_some_and(always)
}

/// Whether `karpenter.sh/do-not-disrupt` protects the pod, and so its node, at `now`.
pub(super) fn is_protected(pod: &RemovalPod, now: Timestamp) -> bool {
    !pod.terminating && is_do_not_disrupt_active(pod.do_not_disrupt, pod.started, now)
}

/// Whether do-not-disrupt, which counts from `since`, is active: the start of the pod, or the
/// creation of the Node.
fn is_do_not_disrupt_active(do_not_disrupt: Option<DoNotDisrupt>, since: Option<Timestamp>, now: Timestamp) -> bool {
    match do_not_disrupt {
        None => false,
        Some(DoNotDisrupt::Always) => true,
        Some(DoNotDisrupt::For(duration)) => since.is_none_or(|since| now < since + duration),
    }
}
