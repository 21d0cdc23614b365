//! The missing replicas of workloads are planned.

use planning_input::{AutoscaledReplicas, Options};

use crate::{POOL, captured, input, planned, refused, source};

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

/// An autoscaler of `kind`/`name` with these bounds.
fn autoscaler(name: &str, target: &str, bounds: &str) -> String {
    format!(
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: {name}}}\nspec:\n  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {target}}}\n  {bounds}\n---\n"
    )
}

#[test]
fn an_autoscaler_states_the_replicas_that_its_workload_leaves_open() {
    let api = workload("Deployment", "api", "paused: false");
    let bounds = "minReplicas: 2\n  maxReplicas: 3";
    let captured = captured(&(api.clone() + &autoscaler("hpa", "api", bounds)));
    assert_eq!(planned(&captured.input), "default/api-0 Deployment/api\ndefault/api-1 Deployment/api");
    let note = "minReplicas of a HorizontalPodAutoscaler is planned (--hpa max: maxReplicas): Deployment/default/api has 2 (2 to 3)";
    assert!(captured.notes.iter().any(|line| line == note), "{:?}", captured.notes);
    // Without minReplicas, the API server sets 1.
    let one = input(&(api.clone() + &autoscaler("hpa", "api", "maxReplicas: 9")));
    assert_eq!(one.pods.len(), 1);
    // The highest of several counts, and stated replicas count more than any.
    let two = autoscaler("a", "api", "minReplicas: 4\n  maxReplicas: 5") + &autoscaler("b", "api", bounds);
    assert_eq!(input(&(api + &two)).pods.len(), 4);
    let stated = workload("Deployment", "api", "replicas: 1") + &autoscaler("hpa", "api", bounds);
    assert_eq!(input(&stated).pods.len(), 1);
}

#[test]
fn max_replicas_are_planned_on_demand() {
    let text = workload("StatefulSet", "db", "podManagementPolicy: Parallel")
        + &autoscaler("hpa", "db", "maxReplicas: 3").replace("kind: Deployment", "kind: StatefulSet");
    let options = Options { autoscaled_replicas: AutoscaledReplicas::Max, ..Options::default() };
    let captured = planning_input::read(&[source(POOL), source(&text)], &options).expect("valid objects");
    assert_eq!(
        planned(&captured.input),
        "default/db-0 StatefulSet/db\ndefault/db-1 StatefulSet/db\ndefault/db-2 StatefulSet/db"
    );
}

#[test]
fn an_autoscaler_of_a_missing_workload_is_told_with_the_nearest_name() {
    let text = workload("Deployment", "checkout", "paused: false")
        + &workload("Deployment", "chekout", "replicas: 2")
        + &autoscaler("hpa", "chekcout", "maxReplicas: 3");
    let note = "a HorizontalPodAutoscaler scales a workload that is not in the input: default/hpa (Deployment chekcout, did you mean checkout?)";
    let notes = captured(&text).notes;
    assert!(notes.iter().any(|line| line == note), "{notes:?}");
}

#[test]
fn bounds_of_autoscalers_are_checked() {
    let lines = |bounds: &str| refused(&autoscaler("hpa", "api", bounds));
    let line = |path: &str, what: &str| {
        vec![format!("in.yaml, document 1, HorizontalPodAutoscaler/default/hpa, spec.{path}: {what}")]
    };
    assert_eq!(lines("minReplicas: 1"), line("maxReplicas", "missing, but required"));
    assert_eq!(lines("minReplicas: 4\n  maxReplicas: 3"), line("minReplicas", "found \"4\", allowed: 0 to 3"));
}
