//! Other autoscalers live in the same cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Cluster, Seen, until};
use e2e::kubernetes::machine::Types;
use e2e::kubernetes::suite::{Stage, Told};
use e2e::kubernetes::world::{Options, REGION, World};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(90);

/// Where a Karpenter says that it is at work.
const LEASE: &str = "karpenter-leader-election";

/// A namespace of its own, as many installations of Karpenter have.
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

/// While a Karpenter lives nothing is bought, whatever NodePools say: it would buy a second machine for each NodeClaim.
pub(super) async fn karpenter(stage: Arc<Stage>) -> Told {
    let world = World::prepare(&stage, "karpenter", Options::default()).await?;
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    world.cluster.apply(namespace).await?;
    let held = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": LEASE, "namespace": NAMESPACE },
        "spec": { "holderIdentity": "karpenter-0", "leaseDurationSeconds": 600, "acquireTime": now(), "renewTime": now() },
    });
    world.cluster.apply(held).await?;
    world.cluster.apply(program(1)).await?;
    let mut world = world;
    world.begin().await?;
    let told = play_karpenter(&world).await;
    // Whatever happened: the next scenario has no Karpenter.
    let _gone_already = leases(&world.cluster).delete(LEASE, &DeleteParams::default()).await;
    let _gone_already = deployments(&world.cluster).delete("karpenter", &DeleteParams::default()).await;
    told.with_context(|| world.last_words())
}

fn deployments(cluster: &Cluster) -> Api<DynamicObject> {
    cluster.at(Some(NAMESPACE), "apps/v1", "Deployment")
}

/// Karpenter's Deployment; nothing runs it.
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

async fn play_karpenter(world: &World) -> Told {
    world.pool("annotated", any_m5(), json!({})).await?;
    world.pool("plain", any_m5(), json!({})).await?;
    let managed = json!({ "metadata": { "annotations": { "fleetwright.dev/managed": "true" } },
                          "spec": { "template": { "metadata": { "labels": { "pool": "annotated" } } } } });
    world.cluster.change("karpenter.sh/v1", "NodePool", "annotated", managed).await?;
    let plain = json!({ "spec": { "template": { "metadata": { "labels": { "pool": "plain" } } } } });
    world.cluster.change("karpenter.sh/v1", "NodePool", "plain", plain).await?;
    world.cluster.deploy("one", 2, "1500m", "1Gi", json!({ "nodeSelector": { "pool": "annotated" } })).await?;
    world.cluster.deploy("two", 2, "1500m", "1Gi", json!({ "nodeSelector": { "pool": "plain" } })).await?;
    // The pods are looked at, and each pool says why it takes no part.
    nothing_is_bought(world, "its Lease karpenter/karpenter-leader-election is renewed").await?;
    // Without its Lease it is known by its Deployment.
    leases(&world.cluster).delete(LEASE, &DeleteParams::default()).await?;
    nothing_is_bought(world, "Deployment karpenter/karpenter has 1 replicas").await?;
    for pool in ["annotated", "plain"] {
        let finalizers = world.cluster.objects("karpenter.sh/v1", "NodePool").get(pool).await?.finalizers().to_vec();
        ensure!(finalizers.is_empty(), "the pool {pool} was given finalizers {finalizers:?}");
    }
    // Karpenter is scaled to zero, so every pool is ours.
    let start = Instant::now();
    world.cluster.apply(program(0)).await?;
    world.cluster.until_ready(4, PATIENCE).await?;
    Ok(format!(
        "nothing bought beside a live Karpenter; all pods run {:.1} s after it is gone",
        start.elapsed().as_secs_f64()
    ))
}

/// The events of pods that wait name Karpenter, with this evidence, and no machine was asked for.
async fn nothing_is_bought(world: &World, evidence: &str) -> anyhow::Result<()> {
    let told = || async {
        let events = world.cluster.at(Some(&world.cluster.namespace), "events.k8s.io/v1", "Event");
        let events = events.list(&Default::default()).await?.items;
        let notes: Vec<&str> = events.iter().filter_map(|event| event.data["note"].as_str()).collect();
        let names = |note: &&str| note.contains("Karpenter is at work in this cluster") && note.contains(evidence);
        Ok(if notes.iter().any(names) { Seen::Done(()) } else { Seen::NotYet(notes.join("\n")) })
    };
    until("pools are left to Karpenter", PATIENCE, told).await?;
    let launches = world.book.read().await?.told.launches.len();
    ensure!(launches == 0, "{launches} launches were asked for beside a live Karpenter");
    let claims = world.cluster.objects("karpenter.sh/v1", "NodeClaim").list(&Default::default()).await?.items.len();
    ensure!(claims == 0, "{claims} NodeClaims were made beside a live Karpenter");
    Ok(())
}

/// Pods for which Cluster Autoscaler has said that it buys are left to it; its node comes, and none of ours does.
pub(super) async fn cluster_autoscaler(stage: Arc<Stage>) -> Told {
    let mut world = World::prepare(&stage, "cluster-autoscaler", Options::default()).await?;
    world.pool("default", any_m5(), json!({})).await?;
    world.cluster.deploy("web", 2, "900m", "1Gi", json!({})).await?;
    let two = || async {
        let pods = world.cluster.pods().await?;
        Ok(if pods.len() == 2 { Seen::Done(pods) } else { Seen::NotYet(format!("{} pods", pods.len())) })
    };
    for pod in until("two pods", PATIENCE, two).await? {
        world.cluster.apply(triggered_scale_up(&pod)).await?;
    }
    world.begin().await?;
    play_cluster_autoscaler(&world).await.with_context(|| world.last_words())
}

async fn play_cluster_autoscaler(world: &World) -> Told {
    // The agent is at work: it has said so to the server, and the pool has its status.
    let accepted = || async {
        let pool = world.cluster.objects("karpenter.sh/v1", "NodePool").get("default").await?;
        Ok(if pool.data["status"].is_object() { Seen::Done(()) } else { Seen::NotYet("no status".to_owned()) })
    };
    until("the pool has a status", PATIENCE, accepted).await?;
    // The node of the other's: m5.large leaves 1930 millicores, enough for both.
    let mut machine = Types::builtin(REGION)?.machine("i-asg", "m5.large", "us-east-1a")?;
    machine.unregistered = false;
    world.kubelets.boot(machine);
    world.cluster.until_ready(2, PATIENCE).await?;
    let node = world.cluster.until_nodes(1, PATIENCE).await?.remove(0);
    ensure!(node.finalizers().is_empty(), "a node of another's was given finalizers {:?}", node.finalizers());
    let ours: Vec<&String> = node.labels().keys().filter(|key| key.starts_with("karpenter.sh/")).collect();
    ensure!(ours.is_empty(), "a node of another's was given labels {ours:?}");
    let launches = world.book.read().await?.told.launches.len();
    ensure!(launches == 0, "{launches} launches were asked for beside Cluster Autoscaler's");
    // Pods that it says nothing about are ours all the same.
    world.cluster.deploy("more", 1, "1500m", "1Gi", json!({})).await?;
    world.cluster.until_ready(3, PATIENCE).await?;
    let sold = world.book.read().await?.sold();
    ensure!(sold == 1, "{sold} machines were sold for one pod");
    Ok("two pods left to Cluster Autoscaler: no launch; its node untouched; a third pod: one machine".to_owned())
}

/// As Cluster Autoscaler writes it.
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
