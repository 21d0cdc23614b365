//! Pods that are planned, and pods that use capacity of nodes.

use model::schedulers::PlannedSchedulers;
use planning_input::Options;

use crate::{captured, captured_with, nodes, planned};

const NODES: &str = "
apiVersion: v1
kind: Node
metadata: {name: stays}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '58'}}
---
apiVersion: v1
kind: Node
metadata: {name: goes, deletionTimestamp: '2026-01-01T00:00:00Z'}
spec: {taints: [{key: karpenter.sh/disrupted, effect: NoSchedule}]}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '58'}}
---
";

fn pod(name: &str, meta: &str, spec: &str, status: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}, {meta}}}\nspec: {{containers: [{{name: a}}], {spec}}}\nstatus: {{{status}}}\n---\n"
    )
}

fn owner(kind: &str) -> String {
    format!("ownerReferences: [{{apiVersion: x/v1, kind: {kind}, name: o, controller: true}}]")
}

const DELETED: &str = "deletionTimestamp: '2026-01-01T00:00:00Z'";

#[test]
fn bound_pods_use_capacity_and_finished_pods_do_not() {
    let text = NODES.to_owned()
        + &pod("bound", "", "nodeName: stays", "phase: Running")
        + &pod("done", "", "nodeName: stays", "phase: Succeeded")
        + &pod("failed", "", "", "phase: Failed")
        + &pod("dying", DELETED, "nodeName: stays", "phase: Running")
        + &pod("gone", DELETED, "", "")
        + &pod("daemon", &owner("DaemonSet"), "nodeName: stays", "phase: Running")
        + &pod("daemon-waits", &owner("DaemonSet"), "", "")
        + &pod("mirror", &owner("Node"), "nodeName: stays", "phase: Running")
        + &pod("waits", "", "", "phase: Pending");
    let input = captured(&text).input;
    assert_eq!(planned(&input), "default/waits Pod/waits");
    assert_eq!(
        nodes(&input),
        "goes deleting taints [\"karpenter.sh/disrupted\"] pods []\nstays initialized taints [] pods [bound, daemon daemon, dying terminating, mirror]"
    );
}

#[test]
fn pods_of_a_node_that_is_being_removed_move_unless_their_eviction_is_blocked() {
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {maxUnavailable: 0, selector: {matchLabels: {app: guarded}}}\n---\n";
    let text = NODES.to_owned()
        + budget
        + &pod("moves", "", "nodeName: goes", "phase: Running")
        + &pod("kept", "annotations: {karpenter.sh/do-not-disrupt: 'true'}", "nodeName: goes", "phase: Running")
        // The time of the plan is 0: one is protected until 10 minutes after its start, the other was until a minute ago.
        + &pod("later", "annotations: {karpenter.sh/do-not-disrupt: 10m}", "nodeName: goes", "phase: Running")
        + &pod("over", "annotations: {karpenter.sh/do-not-disrupt: 10m}", "nodeName: goes", "phase: Running, startTime: '1969-12-31T23:49:00Z'")
        + &pod("guarded", "", "nodeName: goes", "phase: Running")
        + &pod("dying", DELETED, "nodeName: goes", "phase: Running")
        + &pod("returns", &format!("{DELETED}, {}", owner("StatefulSet")), "nodeName: goes", "phase: Running")
        + &pod("daemon", &owner("DaemonSet"), "nodeName: goes", "phase: Running");
    let captured = captured(&text);
    assert_eq!(
        planned(&captured.input),
        "default/moves Pod/moves leaves goes\ndefault/over Pod/over leaves goes\ndefault/returns StatefulSet/o leaves goes"
    );
    assert_eq!(
        nodes(&captured.input).lines().next(),
        Some(
            "goes deleting taints [\"karpenter.sh/disrupted\"] pods [daemon daemon, dying terminating, guarded, kept, later, moves leaving, over leaving, returns terminating leaving]"
        )
    );
    let blocked: Vec<&String> = captured.notes.iter().filter(|note| note.contains("held by")).collect();
    assert_eq!(blocked.len(), 2, "one for each cause: {blocked:?}");
}

#[test]
fn nominated_pods_use_the_capacity_of_their_node() {
    let text = NODES.to_owned()
        + &pod("a", "", "", "nominatedNodeName: stays")
        + &pod("b", "", "", "nominatedNodeName: goes")
        + &pod("c", "", "", "nominatedNodeName: unknown");
    let captured = captured(&text);
    assert_eq!(planned(&captured.input), "default/b Pod/b\ndefault/c Pod/c");
    assert!(nodes(&captured.input).ends_with("stays initialized taints [] pods [a]"));
    let nominated = captured
        .notes
        .iter()
        .filter(|note| note.contains("are nominated for a node (status.nominatedNodeName)"))
        .count();
    assert_eq!(nominated, 1, "{:?}", captured.notes);
}

#[test]
fn pods_of_other_schedulers_are_excluded_with_one_note() {
    let text = pod("a", "", "schedulerName: foo", "")
        + &pod("b", "", "schedulerName: foo", "")
        + &pod("c", "", "schedulingGates: [{name: g}]", "");
    let captured = captured(&text);
    assert_eq!(planned(&captured.input), "");
    let expected = "pods of another scheduler (foo) are not planned: default/a, default/b";
    assert!(captured.notes.iter().any(|note| note == expected), "{:?}", captured.notes);
    assert!(captured.notes.iter().any(|note| note.contains("gated") && note.contains("default/c")));
}

#[test]
fn pods_of_schedulers_that_the_operator_names_are_planned() {
    let text = pod("a", "", "schedulerName: foo", "") + &pod("b", "", "schedulerName: bar", "");
    let options = Options { schedulers: PlannedSchedulers::beside_default("foo,other"), ..Options::default() };
    assert_eq!(planned(&captured_with(&text, &options).input), "default/a Pod/a");
}

/// As the API server: a pod is ready only if its condition says so, and one that is not may be evicted regardless of a
/// budget that says so.
#[test]
fn a_pod_without_the_condition_ready_is_not_ready() {
    let planned_with = |policy: &str, conditions: &str| {
        let budget = format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: b}}\nspec: {{maxUnavailable: 0, unhealthyPodEvictionPolicy: {policy}, selector: {{matchLabels: {{app: a}}}}}}\n---\n"
        );
        let status = format!("phase: Running, conditions: [{conditions}]");
        let text = NODES.to_owned() + &budget + &pod("a", "", "nodeName: goes", &status);
        planned(&captured(&text).input)
    };
    let moves = "default/a Pod/a leaves goes";
    assert_eq!(planned_with("AlwaysAllow", ""), moves);
    assert_eq!(planned_with("AlwaysAllow", "{type: Ready, status: 'False'}"), moves);
    assert_eq!(planned_with("AlwaysAllow", "{type: Ready, status: 'True'}"), "");
    assert_eq!(planned_with("IfHealthyBudget", ""), "");
}

/// A pod that several budgets select is never evicted, whatever they say of pods that are not ready.
#[test]
fn a_pod_with_several_budgets_that_is_not_ready_is_not_planned() {
    let budget = |name: &str| {
        format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}}}\nspec: {{maxUnavailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {{}}}}\n---\n"
        )
    };
    let with = |budgets: &str| {
        planned(&captured(&(NODES.to_owned() + budgets + &pod("a", "", "nodeName: goes", "phase: Running"))).input)
    };
    assert_eq!(with(&budget("b")), "default/a Pod/a leaves goes");
    assert_eq!(with(&(budget("b") + &budget("c"))), "");
}

#[test]
fn namespaces_keep_their_labels_and_gain_their_name() {
    let input = captured("apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {tier: a}}\n").input;
    let labels: Vec<String> = input.namespaces["team"].iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(labels, ["kubernetes.io/metadata.name=team", "tier=a"]);
}

#[test]
fn a_pod_resized_in_place_uses_the_larger_of_request_and_allocation() {
    let resized = |conditions: &str, requested: &str| {
        let text = NODES.to_owned()
            + &format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  nodeName: stays\n  containers: [{{name: a, resources: {{requests: {{cpu: {requested}, memory: 1Gi}}}}}}]\n  initContainers: [{{name: s, restartPolicy: Always, resources: {{requests: {{cpu: 100m}}}}}}]\nstatus:\n  phase: Running\n  conditions: [{conditions}]\n  containerStatuses: [{{name: a, allocatedResources: {{cpu: '2', memory: 512Mi}}, resources: {{requests: {{cpu: 1500m, memory: 768Mi}}}}}}]\n  initContainerStatuses: [{{name: s, allocatedResources: {{cpu: 300m}}}}]\n---\n"
            );
        let input = captured(&text).input;
        let pod = input.nodes.iter().find(|node| node.name.as_ref() == "stays").unwrap().pods[0].shape;
        let requests = &input.shapes[pod as usize].requests;
        (requests.get("cpu"), requests.get("memory"))
    };
    // The container shrinks from 2 cores to 1 and grows from 768Mi to 1Gi; the sidecar shrinks from
    // 300m to 100m.
    assert_eq!(resized("", "'1'"), (2_300, 1 << 30));
    // The container grows to 3 cores.
    assert_eq!(resized("", "'3'"), (3_300, 1 << 30));
    // The requests of an infeasible resize are ignored.
    let infeasible = "{type: PodResizePending, status: 'True', reason: Infeasible}";
    assert_eq!(resized(infeasible, "'3'"), (2_300, 768 << 20));
}
