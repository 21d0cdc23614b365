//! Removal of nodes: by users, or because of an interruption. Pods are evicted first, as fast as
//! their budgets allow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Cluster, Poll, wait_until};
use e2e::kubernetes::environment::{Environment, Options};
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::scale::wait_until_nothing_is_paid;

const TIMEOUT: Duration = Duration::from_secs(90);
/// Timeout for an event that repeats after two minutes at the earliest.
const REPEATED: Duration = Duration::from_secs(240);

async fn pool_of_one_kind(environment: &Environment, capacity_type: &str) -> anyhow::Result<()> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ]);
    environment.apply_pool("default", requirements, json!({})).await
}

/// Four pods of 1.5 cores that do not share a node, on a pool of one kind of machine, spot or not.
async fn four_nodes(environment: &Environment, capacity_type: &str) -> anyhow::Result<()> {
    pool_of_one_kind(environment, capacity_type).await?;
    environment.cluster.deploy("web", 4, "1500m", "1Gi", json!({})).await?;
    // m5.large leaves 1930 millicores to pods: one pod of 1500 on each.
    environment.cluster.wait_until_ready(4, TIMEOUT).await?;
    let nodes = environment.wait_until_ledger_matches_cluster(TIMEOUT).await?;
    ensure!(nodes == 4, "4 pods of 1500 millicores need 4 nodes of 1930, and there are {nodes}");
    Ok(())
}

/// The pod on some node, and that node's name.
async fn one_pod(cluster: &Cluster) -> anyhow::Result<(Pod, String)> {
    let pods = cluster.pods().await?;
    let pod = pods.into_iter().find(|pod| pod.metadata.deletion_timestamp.is_none()).context("no pod")?;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("a pod without a node")?;
    Ok((pod, node))
}

/// The NodeClaim of the machine that became `node`.
async fn claim_of(environment: &Environment, node: &str) -> anyhow::Result<String> {
    let ledger = environment.ledger.read_ledger().await?;
    let mut instances = ledger.response.entries.iter().filter_map(|entry| entry.instance.as_ref());
    Ok(instances.find(|one| one.id == node).context("a node without a launched instance")?.claim.clone())
}

async fn clear(environment: &Environment) -> anyhow::Result<()> {
    environment.cluster.scale("web", 0).await?;
    environment.cluster.wait_until_nodes(0, TIMEOUT).await?;
    wait_until_nothing_is_paid(environment).await?;
    environment.ensure_no_double_launches().await
}

/// A budget without disruptions blocks the drain; a budget that allows a disruption unblocks it.
pub(super) async fn budget_holds_and_releases(test_bed: Arc<TestBed>) -> ScenarioResult {
    let environment = Environment::start(&test_bed, "budget", Options::default()).await?;
    run_budget_holds_and_releases(&test_bed, &environment).await.with_context(|| environment.log_tails())
}

async fn run_budget_holds_and_releases(test_bed: &TestBed, environment: &Environment) -> ScenarioResult {
    four_nodes(environment, "on-demand").await?;
    environment.cluster.apply(budget(&environment.cluster, 0)).await?;
    wait_until_budget_counts(&environment.cluster).await?;
    let (pod, node) = one_pod(&environment.cluster).await?;
    let start = Instant::now();
    environment.cluster.delete("v1", "Node", &node).await?;
    // Two rejections, so that the agent has retried.
    let refused = wait_until_eviction_is_refused(test_bed, &pod, 2).await?;
    let counted = wait_until_event_is_counted_up(environment, &node).await?;
    let held = start.elapsed();
    environment.cluster.at(Some(&environment.cluster.namespace), "v1", "Pod").get(&pod.name_any()).await?;
    environment.cluster.apply(budget(&environment.cluster, 1)).await?;
    environment.cluster.wait_until_gone("v1", "Node", &node, TIMEOUT).await?;
    let released = start.elapsed();
    environment.cluster.wait_until_ready(4, TIMEOUT).await?;
    let nodes = environment.wait_until_ledger_matches_cluster(TIMEOUT).await?;
    ensure!(nodes == 4, "{nodes} nodes for four pods");
    // The replacement is empty while the budget blocks the drain, and exists when the pod is
    // evicted.
    let launched = environment.ledger.read_ledger().await?.launch_count();
    ensure!(launched == 5, "4 machines and 1 replacement make 5, and {launched} were launched");
    clear(environment).await?;
    Ok(format!(
        "{refused} evictions refused at first, the Event about it counted up to {counted} within {:.1} s; budget released, node \
         removed after {:.1} s",
        held.as_secs_f64(),
        released.as_secs_f64()
    ))
}

fn budget(cluster: &Cluster, unavailable: u32) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": "web", "namespace": cluster.namespace },
        "spec": { "maxUnavailable": unavailable, "selector": { "matchLabels": { "app": "web" } } },
    })
}

/// Waits until the disruption controller has observed the budget; before that every eviction is
/// rejected.
async fn wait_until_budget_counts(cluster: &Cluster) -> anyhow::Result<()> {
    let budgets = cluster.objects("policy/v1", "PodDisruptionBudget");
    let poll = || async {
        let budget = budgets.get("web").await?;
        let healthy = budget.data.pointer("/status/currentHealthy").and_then(Value::as_i64);
        Ok(if healthy == Some(4) { Poll::Ready(()) } else { Poll::Pending(format!("{healthy:?} healthy")) })
    };
    wait_until("the budget counts four pods", TIMEOUT, poll).await
}

/// Waits until the count of the Event about rejected evictions increases, which it does every two
/// minutes, as Karpenter's. Returns the count.
async fn wait_until_event_is_counted_up(environment: &Environment, node: &str) -> anyhow::Result<i64> {
    // Events about objects without a namespace are written here.
    let events = environment.cluster.at(Some("default"), "events.k8s.io/v1", "Event");
    let poll = || async {
        let all = events.list(&ListParams::default()).await?.items;
        let output = all.iter().filter(|event| {
            event.data["reason"] == "FailedDraining" && event.data.pointer("/regarding/name") == Some(&json!(node))
        });
        let counts: Vec<Option<i64>> =
            output.map(|event| event.data.pointer("/series/count").and_then(Value::as_i64)).collect();
        let highest = counts.iter().flatten().max();
        Ok(highest.map_or_else(|| Poll::Pending(format!("Events with counts {counts:?}")), |count| Poll::Ready(*count)))
    };
    wait_until("an Event about the drain is counted up", REPEATED, poll).await
}

/// Waits until the eviction was rejected `times` times; returns the number of rejections.
async fn wait_until_eviction_is_refused(test_bed: &TestBed, pod: &Pod, times: usize) -> anyhow::Result<usize> {
    let poll = || async {
        let events = test_bed.audit().await?;
        let refused =
            events.iter().filter(|event| event.is_about("pods/eviction", &pod.name_any()) && event.code == 429);
        let refused = refused.count();
        Ok(if refused >= times { Poll::Ready(refused) } else { Poll::Pending(format!("{refused} refused")) })
    };
    wait_until("evictions are refused", TIMEOUT, poll).await
}

/// `kubectl delete node`, then `kubectl delete nodeclaim`: each is drained, terminated and
/// replaced.
pub(super) async fn deleted_by_hand(test_bed: Arc<TestBed>) -> ScenarioResult {
    let environment = Environment::start(&test_bed, "by-hand", Options::default()).await?;
    run_deleted_by_hand(&test_bed, &environment).await.with_context(|| environment.log_tails())
}

async fn run_deleted_by_hand(test_bed: &TestBed, environment: &Environment) -> ScenarioResult {
    four_nodes(environment, "on-demand").await?;
    let mut output = Vec::new();
    for (api_version, kind) in [("v1", "Node"), ("karpenter.sh/v1", "NodeClaim")] {
        let (pod, node) = one_pod(&environment.cluster).await?;
        let claim = claim_of(environment, &node).await?;
        let start = Instant::now();
        let name = if kind == "Node" { &node } else { &claim };
        environment.cluster.delete(api_version, kind, name).await?;
        environment.cluster.wait_until_gone("v1", "Node", &node, TIMEOUT).await?;
        environment.cluster.wait_until_gone("karpenter.sh/v1", "NodeClaim", &claim, TIMEOUT).await?;
        let gone = start.elapsed();
        was_evicted(test_bed, &pod).await?;
        environment.cluster.wait_until_ready(4, TIMEOUT).await?;
        let nodes = environment.wait_until_ledger_matches_cluster(TIMEOUT).await?;
        ensure!(nodes == 4, "{nodes} nodes for four pods");
        output.push(format!("{kind} deleted: drained and removed after {:.1} s", gone.as_secs_f64()));
    }
    let launched = environment.ledger.read_ledger().await?.launch_count();
    ensure!(launched == 6, "4 machines and 2 replacements make 6, and {launched} were launched");
    clear(environment).await?;
    Ok(output.join("; "))
}

/// Whether the pod was evicted through the API rather than lost with its node.
async fn was_evicted(test_bed: &TestBed, pod: &Pod) -> anyhow::Result<()> {
    if !test_bed.control_plane.lock().await.is_own() {
        return Ok(());
    }
    let events = test_bed.audit().await?;
    let evicted = events.iter().any(|event| event.is_about("pods/eviction", &pod.name_any()) && event.code == 201);
    ensure!(evicted, "pod {} was never evicted", pod.name_any());
    Ok(())
}

/// An interruption of a spot instance: its node is drained within two minutes, and replaced.
pub(super) async fn interruption(test_bed: Arc<TestBed>) -> ScenarioResult {
    let environment = Environment::start(&test_bed, "interruption", Options::default()).await?;
    run_interruption(&environment).await.with_context(|| environment.log_tails())
}

async fn run_interruption(environment: &Environment) -> ScenarioResult {
    four_nodes(environment, "spot").await?;
    let (_, node) = one_pod(&environment.cluster).await?;
    let start = Instant::now();
    environment.ledger.interrupt(&node).await?;
    environment.cluster.wait_until_gone("v1", "Node", &node, TIMEOUT).await?;
    let gone = start.elapsed();
    environment.cluster.wait_until_ready(4, TIMEOUT).await?;
    let ready = start.elapsed();
    let nodes = environment.wait_until_ledger_matches_cluster(TIMEOUT).await?;
    ensure!(nodes == 4, "{nodes} nodes for four pods");
    let launched = environment.ledger.read_ledger().await?.launch_count();
    ensure!(launched == 5, "4 machines and 1 replacement make 5, and {launched} were launched");
    clear(environment).await?;
    Ok(format!(
        "node removed {:.1} s after the warning, four pods ready after {:.1} s",
        gone.as_secs_f64(),
        ready.as_secs_f64()
    ))
}

/// Machines of a NodePool with `expireAfter` are replaced when they are older, although its disruption budget allows
/// no removal.
pub(super) async fn expiration(test_bed: Arc<TestBed>) -> ScenarioResult {
    let environment = Environment::start(&test_bed, "expiration", Options::default()).await?;
    run_expiration(&environment).await.with_context(|| environment.log_tails())
}

async fn run_expiration(environment: &Environment) -> ScenarioResult {
    pool_of_one_kind(environment, "on-demand").await?;
    let expiry = |after: &str| {
        let disruption = json!({ "budgets": [{ "nodes": "0" }] });
        json!({ "spec": { "disruption": disruption, "template": { "spec": { "expireAfter": after } } } })
    };
    environment.cluster.patch("karpenter.sh/v1", "NodePool", "default", expiry("40s")).await?;
    environment.cluster.deploy("web", 4, "1500m", "1Gi", json!({})).await?;
    environment.cluster.wait_until_ready(4, TIMEOUT).await?;
    let pods = environment.cluster.pods().await?;
    let expiring: BTreeSet<String> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
    ensure!(expiring.len() == 4, "4 pods of 1500 millicores need 4 nodes of 1930, and are on {expiring:?}");
    // The replacements do not expire.
    environment.cluster.patch("karpenter.sh/v1", "NodePool", "default", expiry("Never")).await?;
    let start = Instant::now();
    for node in &expiring {
        environment.cluster.wait_until_gone("v1", "Node", node, TIMEOUT).await?;
    }
    let gone = start.elapsed();
    environment.cluster.wait_until_ready(4, TIMEOUT).await?;
    let nodes = environment.wait_until_ledger_matches_cluster(TIMEOUT).await?;
    ensure!(nodes == 4, "{nodes} nodes for four pods");
    let launched = environment.ledger.read_ledger().await?.launch_count();
    ensure!(launched == 8, "4 machines and 4 replacements make 8, and {launched} were launched");
    let budgets = json!({ "spec": { "disruption": { "budgets": [{ "nodes": "100%" }] } } });
    environment.cluster.patch("karpenter.sh/v1", "NodePool", "default", budgets).await?;
    clear(environment).await?;
    Ok(format!("four machines that expire after 40 s were replaced within {:.1} s", gone.as_secs_f64()))
}

/// A budget that never allows an eviction blocks a drain until the deadline of its NodeClaim.
pub(super) async fn deadline(test_bed: Arc<TestBed>) -> ScenarioResult {
    let environment = Environment::start(&test_bed, "deadline", Options::default()).await?;
    run_deadline(&test_bed, &environment).await.with_context(|| environment.log_tails())
}

async fn run_deadline(test_bed: &TestBed, environment: &Environment) -> ScenarioResult {
    let limit = json!({ "spec": { "template": { "spec": { "terminationGracePeriod": "8s" } } } });
    pool_of_one_kind(environment, "on-demand").await?;
    environment.cluster.patch("karpenter.sh/v1", "NodePool", "default", limit).await?;
    environment.cluster.deploy("web", 4, "1500m", "1Gi", json!({})).await?;
    environment.cluster.wait_until_ready(4, TIMEOUT).await?;
    environment.cluster.apply(budget(&environment.cluster, 0)).await?;
    wait_until_budget_counts(&environment.cluster).await?;
    let (pod, node) = one_pod(&environment.cluster).await?;
    let start = Instant::now();
    environment.cluster.delete("v1", "Node", &node).await?;
    let refused = wait_until_eviction_is_refused(test_bed, &pod, 1).await?;
    environment.cluster.wait_until_gone("v1", "Node", &node, TIMEOUT).await?;
    let gone = start.elapsed();
    environment.cluster.wait_until_ready(4, TIMEOUT).await?;
    environment.cluster.delete("policy/v1", "PodDisruptionBudget", "web").await?;
    clear(environment).await?;
    Ok(format!(
        "{refused} evictions refused; node removed {:.1} s after it was deleted, by force after 8 s",
        gone.as_secs_f64()
    ))
}
