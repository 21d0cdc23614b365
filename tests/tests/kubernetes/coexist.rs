//! Other autoscalers in the same cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Cluster, Poll, wait_until};
use e2e::kubernetes::environment::{Environment, Options, REGION};
use e2e::kubernetes::machine::Types;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(90);

/// The Lease of Karpenter's leader election.
const LEASE: &str = "karpenter-leader-election";

/// A separate namespace, as in many installations of Karpenter.
const NAMESPACE: &str = "karpenter";

fn leases(cluster: &Cluster) -> Api<DynamicObject> {
    cluster.at(Some(NAMESPACE), "coordination.k8s.io/v1", "Lease")
}

fn any_m5() -> Value {
    json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ])
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Nothing is launched while a Karpenter is active: it would launch a second instance for each
/// NodeClaim.
pub(super) async fn karpenter(test_bed: Arc<TestBed>) -> ScenarioResult {
    let environment = Environment::prepare_environment(&test_bed, "karpenter", Options::default()).await?;
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    environment.cluster.apply(namespace).await?;
    let held = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": LEASE, "namespace": NAMESPACE },
        "spec": { "holderIdentity": "karpenter-0", "leaseDurationSeconds": 600, "acquireTime": now(), "renewTime": now() },
    });
    environment.cluster.apply(held).await?;
    environment.cluster.apply(program(1)).await?;
    let mut environment = environment;
    environment.start_processes().await?;
    let output = run_karpenter(&environment).await;
    // Also after a failure: the next scenario must not find a Karpenter.
    let _gone_already = leases(&environment.cluster).delete(LEASE, &DeleteParams::default()).await;
    let _gone_already = deployments(&environment.cluster).delete("karpenter", &DeleteParams::default()).await;
    output.with_context(|| environment.log_tails())
}

fn deployments(cluster: &Cluster) -> Api<DynamicObject> {
    cluster.at(Some(NAMESPACE), "apps/v1", "Deployment")
}

/// Karpenter's Deployment; no process runs.
fn program(replicas: u32) -> Value {
    let labels = json!({ "app.kubernetes.io/name": "karpenter" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "karpenter", "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "replicas": replicas, "paused": true, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels },
                          "spec": { "schedulerName": "none", "containers": [{ "name": "controller", "image": "none" }] } },
        },
    })
}

async fn run_karpenter(environment: &Environment) -> ScenarioResult {
    environment.apply_pool("annotated", any_m5(), json!({})).await?;
    environment.apply_pool("plain", any_m5(), json!({})).await?;
    let managed = json!({ "metadata": { "annotations": { "fleetwright.dev/managed": "true" } },
                          "spec": { "template": { "metadata": { "labels": { "pool": "annotated" } } } } });
    environment.cluster.patch("karpenter.sh/v1", "NodePool", "annotated", managed).await?;
    let plain = json!({ "spec": { "template": { "metadata": { "labels": { "pool": "plain" } } } } });
    environment.cluster.patch("karpenter.sh/v1", "NodePool", "plain", plain).await?;
    environment.cluster.deploy("one", 2, "1500m", "1Gi", json!({ "nodeSelector": { "pool": "annotated" } })).await?;
    environment.cluster.deploy("two", 2, "1500m", "1Gi", json!({ "nodeSelector": { "pool": "plain" } })).await?;
    // The pods are planned, and each pool states why it is excluded.
    verify_no_launch(environment, "its Lease karpenter/karpenter-leader-election is renewed").await?;
    // Without a Lease, Karpenter is recognized by its Deployment.
    leases(&environment.cluster).delete(LEASE, &DeleteParams::default()).await?;
    verify_no_launch(environment, "Deployment karpenter/karpenter has 1 replicas").await?;
    for pool in ["annotated", "plain"] {
        let finalizers =
            environment.cluster.objects("karpenter.sh/v1", "NodePool").get(pool).await?.finalizers().to_vec();
        ensure!(finalizers.is_empty(), "the pool {pool} was given finalizers {finalizers:?}");
    }
    // Karpenter is scaled to zero, so every pool is managed.
    let start = Instant::now();
    environment.cluster.apply(program(0)).await?;
    environment.cluster.wait_until_ready(4, TIMEOUT).await?;
    Ok(format!(
        "nothing launched beside a live Karpenter; all pods run {:.1} s after it is removed",
        start.elapsed().as_secs_f64()
    ))
}

/// Events of the pending pods name Karpenter with this evidence, and no instance was requested.
async fn verify_no_launch(environment: &Environment, evidence: &str) -> anyhow::Result<()> {
    let output = || async {
        let events = environment.cluster.at(Some(&environment.cluster.namespace), "events.k8s.io/v1", "Event");
        let events = events.list(&Default::default()).await?.items;
        let notes: Vec<&str> = events.iter().filter_map(|event| event.data["note"].as_str()).collect();
        let names = |note: &&str| note.contains("Karpenter is active in this cluster") && note.contains(evidence);
        Ok(if notes.iter().any(names) { Poll::Ready(()) } else { Poll::Pending(notes.join("\n")) })
    };
    wait_until("pools are unmanaged", TIMEOUT, output).await?;
    let launches = environment.ledger.read_ledger().await?.response.launches.len();
    ensure!(launches == 0, "{launches} launches were requested beside a live Karpenter");
    let claims =
        environment.cluster.objects("karpenter.sh/v1", "NodeClaim").list(&Default::default()).await?.items.len();
    ensure!(claims == 0, "{claims} NodeClaims were created beside a live Karpenter");
    Ok(())
}

/// Pods that Cluster Autoscaler scales up for are not planned; its node joins, and Fleetwright
/// launches none.
pub(super) async fn cluster_autoscaler(test_bed: Arc<TestBed>) -> ScenarioResult {
    let mut environment = Environment::prepare_environment(&test_bed, "cluster-autoscaler", Options::default()).await?;
    environment.apply_pool("default", any_m5(), json!({})).await?;
    environment.cluster.deploy("web", 2, "900m", "1Gi", json!({})).await?;
    let two = || async {
        let pods = environment.cluster.pods().await?;
        Ok(if pods.len() == 2 { Poll::Ready(pods) } else { Poll::Pending(format!("{} pods", pods.len())) })
    };
    for pod in wait_until("two pods", TIMEOUT, two).await? {
        environment.cluster.apply(triggered_scale_up(&pod)).await?;
    }
    environment.start_processes().await?;
    run_cluster_autoscaler(&environment).await.with_context(|| environment.log_tails())
}

async fn run_cluster_autoscaler(environment: &Environment) -> ScenarioResult {
    // The agent has reported it, and the pool's status is written.
    let accepted = || async {
        let pool = environment.cluster.objects("karpenter.sh/v1", "NodePool").get("default").await?;
        Ok(if pool.data["status"].is_object() { Poll::Ready(()) } else { Poll::Pending("no status".to_owned()) })
    };
    wait_until("the pool has a status", TIMEOUT, accepted).await?;
    // The node of Cluster Autoscaler: m5.large has 1930 allocatable millicores, enough for both
    // pods.
    let mut machine = Types::builtin(REGION)?.machine("i-asg", "m5.large", "us-east-1a")?;
    machine.unregistered = false;
    environment.kubelets.boot_machine(machine);
    environment.cluster.wait_until_ready(2, TIMEOUT).await?;
    let node = environment.cluster.wait_until_nodes(1, TIMEOUT).await?.remove(0);
    ensure!(node.finalizers().is_empty(), "a node of another autoscaler was given finalizers {:?}", node.finalizers());
    let ours: Vec<&String> = node.labels().keys().filter(|key| key.starts_with("karpenter.sh/")).collect();
    ensure!(ours.is_empty(), "a node of another autoscaler was given labels {ours:?}");
    let launches = environment.ledger.read_ledger().await?.response.launches.len();
    ensure!(launches == 0, "{launches} launches were asked for beside Cluster Autoscaler's");
    // Pods without its scale-up event are planned.
    environment.cluster.deploy("more", 1, "1500m", "1Gi", json!({})).await?;
    environment.cluster.wait_until_ready(3, TIMEOUT).await?;
    let launched = environment.ledger.read_ledger().await?.launch_count();
    ensure!(launched == 1, "{launched} instances were launched for one pod");
    Ok("two pods of Cluster Autoscaler: no launch; its node untouched; a third pod: one machine".to_owned())
}

/// The event that Cluster Autoscaler writes.
fn triggered_scale_up(pod: &Pod) -> Value {
    let (name, namespace) = (pod.name_any(), pod.namespace());
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": format!("{name}.1"), "namespace": namespace },
        "involvedObject": { "apiVersion": "v1", "kind": "Pod", "name": name, "namespace": namespace, "uid": pod.uid() },
        "reason": "TriggeredScaleUp", "type": "Normal",
        "message": "pod triggered scale-up: [{nodes 0->1 (max: 10)}]",
        "source": { "component": "cluster-autoscaler" }, "reportingComponent": "cluster-autoscaler",
        "firstTimestamp": seconds(), "lastTimestamp": seconds(), "count": 1,
    })
}

fn seconds() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
