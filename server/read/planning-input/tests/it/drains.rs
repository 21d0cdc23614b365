//! Budgets that block every drain are reported; budgets that allow an eviction are not.

use crate::captured;

fn budget(name: &str, app: &str, threshold: &str) -> String {
    format!(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}}}\nspec: {{{threshold}, selector: {{matchLabels: {{app: {app}}}}}}}\nstatus: {{disruptionsAllowed: 0}}\n---\n"
    )
}

fn deployment(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec: {{replicas: {replicas}, selector: {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}, tier: back}}}}, spec: {{containers: [{{name: a}}]}}}}}}\n---\n"
    )
}

/// A pod of the Deployment `web`, owned by a ReplicaSet.
fn pod(name: &str, status: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: web, pod-template-hash: 5d}}, ownerReferences: [{{kind: ReplicaSet, name: web-5d, controller: true}}]}}\nspec: {{containers: [{{name: a}}]}}\nstatus: {{{status}}}\n---\n"
    )
}

/// The notes about budgets.
fn budget_notes(text: &str) -> Vec<String> {
    let mut notes = captured(text).notes;
    notes.retain(|note| note.contains("PodDisruptionBudget"));
    notes
}

#[test]
fn a_budget_that_allows_no_eviction_is_reported_with_its_workload_and_a_remedy() {
    let of_three = "(Deployment/default/web)";
    for (threshold, expected) in [
        (
            "maxUnavailable: 0",
            format!("maxUnavailable: 0 never lets one of its 3 pods go {of_three}; raise it to 1 or more"),
        ),
        (
            "maxUnavailable: 0%",
            format!("maxUnavailable: 0% never lets one of its 3 pods go {of_three}; raise it to 1 or more"),
        ),
        (
            "minAvailable: 100%",
            format!("minAvailable: 100% never lets one of its 3 pods go {of_three}; write maxUnavailable: 1 instead"),
        ),
        (
            "minAvailable: 3",
            format!("minAvailable: 3 never lets one of its 3 pods go {of_three}; lower it to 2, or run 4 pods or more"),
        ),
        (
            "minAvailable: 7",
            format!("minAvailable: 7 never lets one of its 3 pods go {of_three}; lower it to 2, or run 8 pods or more"),
        ),
        // 67% of 3 is 2.01, rounded up 3. 67% of 4 is 2.68, rounded up 3, which is less than 4.
        (
            "minAvailable: 67%",
            format!(
                "minAvailable: 67% rounded up never lets one of its 3 pods go {of_three}; write maxUnavailable: 1 instead, or run 4 pods or more"
            ),
        ),
    ] {
        let notes = budget_notes(&(deployment("web", 3) + &budget("guard", "web", threshold)));
        assert_eq!(notes, [format!("PodDisruptionBudget/default/guard will block every drain: {expected}")]);
    }
}

#[test]
fn a_budget_that_allows_one_eviction_is_not_reported_for_any_status() {
    // 66% of 3 is 1.98, rounded up 2. 1% of 3 unavailable is rounded up to 1.
    for threshold in
        ["maxUnavailable: 1", "maxUnavailable: 1%", "minAvailable: 2", "minAvailable: 66%", "minAvailable: 0"]
    {
        assert_eq!(budget_notes(&(deployment("web", 3) + &budget("guard", "web", threshold))), [""; 0], "{threshold}");
    }
}

#[test]
fn running_pods_and_missing_replicas_are_counted_together() {
    // Of four replicas one runs, and a failed one is not counted. Three are missing: 1 + 3 = 4.
    let cluster = deployment("web", 4) + &pod("web-5d-a", "phase: Running") + &pod("web-5d-b", "phase: Failed");
    assert_eq!(budget_notes(&(cluster.clone() + &budget("guard", "web", "minAvailable: 3"))), [""; 0]);
    let notes = budget_notes(&(cluster + &budget("guard", "web", "minAvailable: 4")));
    assert_eq!(
        notes,
        [
            "PodDisruptionBudget/default/guard will block every drain: minAvailable: 4 never lets one of its 4 pods go (Deployment/default/web); lower it to 3, or run 5 pods or more"
        ]
    );
}

#[test]
fn a_single_pod_is_reported_as_the_only_one() {
    let text = deployment("web", 1) + &budget("guard", "web", "minAvailable: 1");
    assert_eq!(
        budget_notes(&text),
        [
            "PodDisruptionBudget/default/guard will block every drain: minAvailable: 1 never lets its only pod go (Deployment/default/web); lower it to 0, or run 2 pods or more"
        ]
    );
}

#[test]
fn a_budget_without_pods_is_not_reported() {
    let elsewhere = budget("far", "web", "maxUnavailable: 0").replace("{name: far}", "{name: far, namespace: other}");
    let daemon = "apiVersion: v1\nkind: Pod\nmetadata: {name: d, labels: {app: agent}, ownerReferences: [{kind: DaemonSet, name: agent, controller: true}]}\nspec: {tolerations: [{operator: Exists}], containers: [{name: a}]}\n---\n";
    let early = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: early}\nspec: {maxUnavailable: 0, selector: {}}\n---\n";
    let text = deployment("web", 3)
        + &deployment("idle", 0)
        + daemon
        + &elsewhere
        + early
        + &budget("unmatched", "absent", "maxUnavailable: 0")
        + &budget("asleep", "idle", "maxUnavailable: 0")
        + &budget("daemons", "agent", "maxUnavailable: 0");
    assert_eq!(budget_notes(&text), [""; 0]);
}

#[test]
fn a_budget_of_daemon_pods_holds_the_drains_that_evict_them() {
    let daemon = "apiVersion: v1\nkind: Pod\nmetadata: {name: d, labels: {app: agent}, ownerReferences: [{kind: DaemonSet, name: agent, controller: true}]}\nspec: {containers: [{name: a}]}\n---\n";
    assert_eq!(
        budget_notes(&(daemon.to_owned() + &budget("daemons", "agent", "maxUnavailable: 0"))),
        [
            "PodDisruptionBudget/default/daemons will block every drain: maxUnavailable: 0 never lets its only pod go (DaemonSet/default/agent); raise it to 1 or more"
        ]
    );
}

#[test]
fn pods_that_two_budgets_select_are_reported_once() {
    let tier = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: tier}\nspec: {maxUnavailable: 1, selector: {matchLabels: {tier: back}}}\n---\n";
    let text = deployment("api", 3) + &deployment("web", 3) + tier + &budget("guard", "web", "maxUnavailable: 1");
    assert_eq!(
        budget_notes(&text),
        [
            "PodDisruptionBudget/default/guard, PodDisruptionBudget/default/tier guard the same pods (Deployment/default/web), which blocks every drain: pods with more than one budget are never evicted; keep one, or let their selectors differ"
        ]
    );
}
