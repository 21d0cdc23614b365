//! Budgets that will block every drain are told of, those that let a pod go are not.

use crate::captured;

fn budget(name: &str, app: &str, floor: &str) -> String {
    format!(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}}}\nspec: {{{floor}, selector: {{matchLabels: {{app: {app}}}}}}}\nstatus: {{disruptionsAllowed: 0}}\n---\n"
    )
}

fn deployment(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec: {{replicas: {replicas}, selector: {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}, tier: back}}}}, spec: {{containers: [{{name: a}}]}}}}}}\n---\n"
    )
}

/// A pod of the Deployment `web`, by its ReplicaSet.
fn live(name: &str, status: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: web, pod-template-hash: 5d}}, ownerReferences: [{{kind: ReplicaSet, name: web-5d, controller: true}}]}}\nspec: {{containers: [{{name: a}}]}}\nstatus: {{{status}}}\n---\n"
    )
}

/// Notes about budgets.
fn told(text: &str) -> Vec<String> {
    let mut notes = captured(text).notes;
    notes.retain(|note| note.contains("PodDisruptionBudget"));
    notes
}

#[test]
fn a_budget_that_keeps_every_pod_is_told_with_its_workload_and_what_to_do() {
    let of_three = "(Deployment/default/web)";
    for (floor, expected) in [
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
        let notes = told(&(deployment("web", 3) + &budget("guard", "web", floor)));
        assert_eq!(notes, [format!("PodDisruptionBudget/default/guard will block every drain: {expected}")]);
    }
}

#[test]
fn a_budget_that_lets_one_pod_go_is_not_told_whatever_its_status_says() {
    // 66% of 3 is 1.98, rounded up 2. 1% of 3 unavailable is rounded up to 1.
    for floor in ["maxUnavailable: 1", "maxUnavailable: 1%", "minAvailable: 2", "minAvailable: 66%", "minAvailable: 0"]
    {
        assert_eq!(told(&(deployment("web", 3) + &budget("guard", "web", floor))), [""; 0], "{floor}");
    }
}

#[test]
fn pods_that_run_and_replicas_to_come_count_together() {
    // Of four replicas one runs; one has failed and does not count. Three are to come: 1 + 3 = 4.
    let cluster = deployment("web", 4) + &live("web-5d-a", "phase: Running") + &live("web-5d-b", "phase: Failed");
    assert_eq!(told(&(cluster.clone() + &budget("guard", "web", "minAvailable: 3"))), [""; 0]);
    let notes = told(&(cluster + &budget("guard", "web", "minAvailable: 4")));
    assert_eq!(
        notes,
        [
            "PodDisruptionBudget/default/guard will block every drain: minAvailable: 4 never lets one of its 4 pods go (Deployment/default/web); lower it to 3, or run 5 pods or more"
        ]
    );
}

#[test]
fn one_pod_alone_is_called_so() {
    let text = deployment("web", 1) + &budget("guard", "web", "minAvailable: 1");
    assert_eq!(
        told(&text),
        [
            "PodDisruptionBudget/default/guard will block every drain: minAvailable: 1 never lets its only pod go (Deployment/default/web); lower it to 0, or run 2 pods or more"
        ]
    );
}

#[test]
fn a_budget_without_pods_is_not_told() {
    let elsewhere = budget("far", "web", "maxUnavailable: 0").replace("{name: far}", "{name: far, namespace: other}");
    let daemon = "apiVersion: v1\nkind: Pod\nmetadata: {name: d, labels: {app: agent}, ownerReferences: [{kind: DaemonSet, name: agent, controller: true}]}\nspec: {containers: [{name: a}]}\n---\n";
    let early = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: early}\nspec: {maxUnavailable: 0, selector: {}}\n---\n";
    let text = deployment("web", 3)
        + &deployment("idle", 0)
        + daemon
        + &elsewhere
        + early
        + &budget("nobody", "absent", "maxUnavailable: 0")
        + &budget("asleep", "idle", "maxUnavailable: 0")
        + &budget("daemons", "agent", "maxUnavailable: 0");
    assert_eq!(told(&text), [""; 0]);
}

#[test]
fn pods_that_two_budgets_guard_are_told_once_for_all_of_them() {
    let tier = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: tier}\nspec: {maxUnavailable: 1, selector: {matchLabels: {tier: back}}}\n---\n";
    let text = deployment("api", 3) + &deployment("web", 3) + tier + &budget("guard", "web", "maxUnavailable: 1");
    assert_eq!(
        told(&text),
        [
            "PodDisruptionBudget/default/guard, PodDisruptionBudget/default/tier guard the same pods (Deployment/default/web), which blocks every drain: pods with more than one budget are never evicted; keep one, or let their selectors differ"
        ]
    );
}
