//! The missing replicas of workloads are planned.

use crate::{captured, input, planned};

/// A StatefulSet with three replicas and a claim for each; its class binds on the first consumer.
pub const STATEFUL: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: a}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {storageClassName: gp3}}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
";

fn workload(kind: &str, name: &str, spec: &str) -> String {
    let version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    let selector =
        if kind == "Job" { String::new() } else { format!("  selector: {{matchLabels: {{app: {name}}}}}\n") };
    format!(
        "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n{selector}  template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{containers: [{{name: a}}]}}}}\n---\n"
    )
}

fn owned(name: &str, kind: &str, owner: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {owner}, controller: true}}]\nspec: {{containers: [{{name: a}}]}}\n{more}\n---\n"
    )
}

#[test]
fn replicas_are_named_from_zero_and_share_everything() {
    let input = input(&workload("Deployment", "web", "replicas: 3"));
    assert_eq!(
        planned(&input),
        "default/web-0 Deployment/web\ndefault/web-1 Deployment/web\ndefault/web-2 Deployment/web"
    );
    assert_eq!((input.shapes.len(), input.label_sets.len(), input.volume_sets.len()), (1, 1, 0));
}

#[test]
fn replicas_default_to_one_and_zero_means_none() {
    let text = workload("Deployment", "one", "paused: false") + &workload("Deployment", "none", "replicas: 0");
    assert_eq!(planned(&input(&text)), "default/one-0 Deployment/one");
}

#[test]
fn live_pods_count_through_their_replica_sets() {
    let set = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web-77, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, controller: true}]}\nspec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a}]}}}\n---\n";
    let text = workload("Deployment", "web", "replicas: 4")
        + set
        + &owned("web-77-a", "ReplicaSet", "web-77", "")
        + &owned("web-77-b", "ReplicaSet", "web-77", "status: {phase: Failed}")
        + &owned("web-0", "ReplicaSet", "web-77", "");
    // Four desired, two active (one has failed): two are missing, and the name web-0 is taken.
    let expected = "default/web-0 Deployment/web\ndefault/web-1 Deployment/web\ndefault/web-2 Deployment/web\ndefault/web-77-a Deployment/web";
    assert_eq!(planned(&input(&text)), expected);
}

#[test]
fn a_replica_set_without_its_deployment_expands_by_itself() {
    assert_eq!(planned(&input(&workload("ReplicaSet", "web", "replicas: 1"))), "default/web-0 ReplicaSet/web");
}

#[test]
fn a_replica_set_whose_deployment_is_not_in_the_input_counts_its_live_pods() {
    let set = workload("ReplicaSet", "web-77", "replicas: 3").replace(
        "metadata: {name: web-77}",
        "metadata: {name: web-77, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, controller: true}]}",
    );
    let text = set + &owned("web-77-a", "ReplicaSet", "web-77", "") + &owned("web-77-b", "ReplicaSet", "web-77", "");
    // Three desired, two active: one is missing.
    let expected =
        "default/web-77-0 ReplicaSet/web-77\ndefault/web-77-a ReplicaSet/web-77\ndefault/web-77-b ReplicaSet/web-77";
    assert_eq!(planned(&input(&text)), expected);
}

#[test]
fn a_replica_set_that_is_not_in_the_input_is_recognized_by_its_hash() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web-5d-x, labels: {pod-template-hash: 5d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d, controller: true}]}\nspec: {containers: [{name: a}]}\n---\n";
    let text = workload("Deployment", "web", "replicas: 1") + pod;
    assert_eq!(planned(&input(&text)), "default/web-5d-x Deployment/web");
}

#[test]
fn jobs_desire_the_smaller_of_parallelism_and_remaining_completions() {
    let text = workload("Job", "a", "parallelism: 5\n  completions: 3")
        + &workload("Job", "b", "parallelism: 5\n  suspend: true")
        + &workload("Job", "c", "completions: 3").replace("\n---\n", "\nstatus: {succeeded: 3}\n---\n")
        + &workload("Job", "d", "parallelism: 2\n  completions: 9")
            .replace("\n---\n", "\nstatus: {succeeded: 8}\n---\n");
    assert_eq!(planned(&input(&text)), "default/a-0 Job/a\ndefault/a-1 Job/a\ndefault/a-2 Job/a\ndefault/d-0 Job/d");
}

#[test]
fn a_stateful_set_creates_a_claim_for_each_replica() {
    let text = STATEFUL.to_owned() + &owned("db-1", "StatefulSet", "db", "");
    let input = input(&text);
    assert_eq!(
        planned(&input),
        "default/db-0 StatefulSet/db\ndefault/db-1 StatefulSet/db\ndefault/db-2 StatefulSet/db"
    );
    let claims =
        input.pods.iter().map(|pod| &input.volume_sets[pod.volumes.expect("a claim") as usize].attachments[0].1);
    let claims: Vec<&str> = claims.map(AsRef::as_ref).collect();
    assert_eq!(claims, ["default/data-db-0", "default/data-db-1", "default/data-db-2"]);
}

#[test]
fn two_workloads_of_one_name_do_not_share_pod_names() {
    let text = workload("Deployment", "web", "replicas: 1") + &workload("ReplicaSet", "web", "replicas: 1");
    assert_eq!(planned(&input(&text)), "default/web-0 Deployment/web\ndefault/web-1 ReplicaSet/web");
}

#[test]
fn what_is_not_planned_is_noted_by_group() {
    let text = workload("Deployment", "gated", "replicas: 2")
        .replace("spec: {containers", "spec: {schedulingGates: [{name: x}], containers")
        + &workload("Deployment", "other", "replicas: 2")
            .replace("spec: {containers", "spec: {schedulerName: foo, containers")
        + "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n";
    let captured = captured(&text);
    assert_eq!(planned(&captured.input), "");
    let has = |part: &str| {
        assert!(captured.notes.iter().any(|note| note.contains(part)), "{part} is not in {:?}", captured.notes)
    };
    has("Deployment/default/gated (2 replicas)");
    has("pods of another scheduler (foo) are not planned: Deployment/default/other (2 replicas)");
    has("default/nightly");
    has("not read: kind Thing (example.com/v1): t");
}
