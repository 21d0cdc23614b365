//! Nodes that have to go: by hand, or because the cloud wants the machine back. Pods move first, as fast as their budgets allow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Cluster, Seen, until};
use e2e::kubernetes::suite::{Stage, Told};
use e2e::kubernetes::world::{Options, World};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::scale::until_nothing_is_paid;

const PATIENCE: Duration = Duration::from_secs(90);
/// For what is said again after two minutes at the earliest.
const REPEATED: Duration = Duration::from_secs(240);

async fn pool_of_one_kind(world: &World, capacity_type: &str) -> anyhow::Result<()> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ]);
    world.pool("default", requirements, json!({})).await
}

/// Four pods of 1.5 cores that do not share a node, on a pool of one kind of machine, spot or not.
async fn four_nodes(world: &World, capacity_type: &str) -> anyhow::Result<()> {
    pool_of_one_kind(world, capacity_type).await?;
    world.cluster.deploy("web", 4, "1500m", "1Gi", json!({})).await?;
    // m5.large leaves 1930 millicores to pods: one pod of 1500 on each.
    world.cluster.until_ready(4, PATIENCE).await?;
    let nodes = world.until_book_and_cluster_agree(PATIENCE).await?;
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
async fn claim_of(world: &World, node: &str) -> anyhow::Result<String> {
    let page = world.book.read().await?;
    let mut instances = page.told.sales.iter().filter_map(|sale| sale.instance.as_ref());
    Ok(instances.find(|one| one.id == node).context("a node that nobody sold")?.claim.clone())
}

async fn clear(world: &World) -> anyhow::Result<()> {
    world.cluster.scale("web", 0).await?;
    world.cluster.until_nodes(0, PATIENCE).await?;
    until_nothing_is_paid(world).await?;
    world.nothing_doubled().await
}

/// A budget that allows nothing holds the drain; one that allows a pod lets it go on.
pub(super) async fn budget_holds_and_releases(stage: Arc<Stage>) -> Told {
    let world = World::start(&stage, "budget", Options::default()).await?;
    play_budget_holds_and_releases(&stage, &world).await.with_context(|| world.last_words())
}

async fn play_budget_holds_and_releases(stage: &Stage, world: &World) -> Told {
    four_nodes(world, "on-demand").await?;
    world.cluster.apply(budget(&world.cluster, 0)).await?;
    until_budget_counts(&world.cluster).await?;
    let (pod, node) = one_pod(&world.cluster).await?;
    let start = Instant::now();
    world.cluster.delete("v1", "Node", &node).await?;
    // Twice, so that the agent is known to have tried again.
    let refused = until_eviction_is_refused(stage, &pod, 2).await?;
    let counted = until_event_is_counted_up(world, &node).await?;
    let held = start.elapsed();
    world.cluster.at(Some(&world.cluster.namespace), "v1", "Pod").get(&pod.name_any()).await?;
    world.cluster.apply(budget(&world.cluster, 1)).await?;
    world.cluster.until_gone("v1", "Node", &node, PATIENCE).await?;
    let released = start.elapsed();
    world.cluster.until_ready(4, PATIENCE).await?;
    let nodes = world.until_book_and_cluster_agree(PATIENCE).await?;
    ensure!(nodes == 4, "{nodes} nodes for four pods");
    // The replacement stands empty for as long as the budget holds, and is there when the pod comes.
    let sold = world.book.read().await?.sold();
    ensure!(sold == 5, "4 machines and 1 replacement make 5, and {sold} were sold");
    clear(world).await?;
    Ok(format!(
        "{refused} evictions refused at first, the Event about it counted up to {counted} within {:.1} s; budget released, node \
         gone after {:.1} s",
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

/// A budget that no controller has looked at yet refuses every eviction, whatever it says.
async fn until_budget_counts(cluster: &Cluster) -> anyhow::Result<()> {
    let budgets = cluster.objects("policy/v1", "PodDisruptionBudget");
    let look = || async {
        let budget = budgets.get("web").await?;
        let healthy = budget.data.pointer("/status/currentHealthy").and_then(Value::as_i64);
        Ok(if healthy == Some(4) { Seen::Done(()) } else { Seen::NotYet(format!("{healthy:?} healthy")) })
    };
    until("the budget counts four pods", PATIENCE, look).await
}

/// What is refused again and again in the same words is one Event, which is counted up: every two minutes, as Karpenter's are.
/// Returns the count.
async fn until_event_is_counted_up(world: &World, node: &str) -> anyhow::Result<i64> {
    // Those about objects without a namespace are kept here.
    let events = world.cluster.at(Some("default"), "events.k8s.io/v1", "Event");
    let look = || async {
        let all = events.list(&ListParams::default()).await?.items;
        let told = all.iter().filter(|event| {
            event.data["reason"] == "FailedDraining" && event.data.pointer("/regarding/name") == Some(&json!(node))
        });
        let counts: Vec<Option<i64>> =
            told.map(|event| event.data.pointer("/series/count").and_then(Value::as_i64)).collect();
        let highest = counts.iter().flatten().max();
        Ok(highest.map_or_else(|| Seen::NotYet(format!("Events with counts {counts:?}")), |count| Seen::Done(*count)))
    };
    until("an Event about the drain is counted up", REPEATED, look).await
}

/// Returns how often it was, at least `times`.
async fn until_eviction_is_refused(stage: &Stage, pod: &Pod, times: usize) -> anyhow::Result<usize> {
    let look = || async {
        let events = stage.audit().await?;
        let refused =
            events.iter().filter(|event| event.is_about("pods/eviction", &pod.name_any()) && event.code == 429);
        let refused = refused.count();
        Ok(if refused >= times { Seen::Done(refused) } else { Seen::NotYet(format!("{refused} refused")) })
    };
    until("evictions are refused", PATIENCE, look).await
}

/// `kubectl delete node`, then `kubectl delete nodeclaim`: each drains, ends its machine, and is replaced.
pub(super) async fn deleted_by_hand(stage: Arc<Stage>) -> Told {
    let world = World::start(&stage, "by-hand", Options::default()).await?;
    play_deleted_by_hand(&stage, &world).await.with_context(|| world.last_words())
}

async fn play_deleted_by_hand(stage: &Stage, world: &World) -> Told {
    four_nodes(world, "on-demand").await?;
    let mut told = Vec::new();
    for (api_version, kind) in [("v1", "Node"), ("karpenter.sh/v1", "NodeClaim")] {
        let (pod, node) = one_pod(&world.cluster).await?;
        let claim = claim_of(world, &node).await?;
        let start = Instant::now();
        let name = if kind == "Node" { &node } else { &claim };
        world.cluster.delete(api_version, kind, name).await?;
        world.cluster.until_gone("v1", "Node", &node, PATIENCE).await?;
        world.cluster.until_gone("karpenter.sh/v1", "NodeClaim", &claim, PATIENCE).await?;
        let gone = start.elapsed();
        was_evicted(stage, &pod).await?;
        world.cluster.until_ready(4, PATIENCE).await?;
        let nodes = world.until_book_and_cluster_agree(PATIENCE).await?;
        ensure!(nodes == 4, "{nodes} nodes for four pods");
        told.push(format!("{kind} deleted: drained and gone after {:.1} s", gone.as_secs_f64()));
    }
    let sold = world.book.read().await?.sold();
    ensure!(sold == 6, "4 machines and 2 replacements make 6, and {sold} were sold");
    clear(world).await?;
    Ok(told.join("; "))
}

/// The pod left by the eviction API, not because its node was taken from under it.
async fn was_evicted(stage: &Stage, pod: &Pod) -> anyhow::Result<()> {
    if !stage.plane.lock().await.is_own() {
        return Ok(());
    }
    let events = stage.audit().await?;
    let evicted = events.iter().any(|event| event.is_about("pods/eviction", &pod.name_any()) && event.code == 201);
    ensure!(evicted, "pod {} was never evicted", pod.name_any());
    Ok(())
}

/// A spot machine is wanted back: its node is drained within the two minutes, and replaced.
pub(super) async fn interruption(stage: Arc<Stage>) -> Told {
    let world = World::start(&stage, "interruption", Options::default()).await?;
    play_interruption(&world).await.with_context(|| world.last_words())
}

async fn play_interruption(world: &World) -> Told {
    four_nodes(world, "spot").await?;
    let (_, node) = one_pod(&world.cluster).await?;
    let start = Instant::now();
    world.book.interrupt(&node).await?;
    world.cluster.until_gone("v1", "Node", &node, PATIENCE).await?;
    let gone = start.elapsed();
    world.cluster.until_ready(4, PATIENCE).await?;
    let ready = start.elapsed();
    let nodes = world.until_book_and_cluster_agree(PATIENCE).await?;
    ensure!(nodes == 4, "{nodes} nodes for four pods");
    let sold = world.book.read().await?.sold();
    ensure!(sold == 5, "4 machines and 1 replacement make 5, and {sold} were sold");
    clear(world).await?;
    Ok(format!(
        "node gone {:.1} s after the warning, four pods ready after {:.1} s",
        gone.as_secs_f64(),
        ready.as_secs_f64()
    ))
}

/// A budget that never allows anything holds a drain until the deadline of its NodeClaim, and no longer.
pub(super) async fn deadline(stage: Arc<Stage>) -> Told {
    let world = World::start(&stage, "deadline", Options::default()).await?;
    play_deadline(&stage, &world).await.with_context(|| world.last_words())
}

async fn play_deadline(stage: &Stage, world: &World) -> Told {
    let limit = json!({ "spec": { "template": { "spec": { "terminationGracePeriod": "8s" } } } });
    pool_of_one_kind(world, "on-demand").await?;
    world.cluster.change("karpenter.sh/v1", "NodePool", "default", limit).await?;
    world.cluster.deploy("web", 4, "1500m", "1Gi", json!({})).await?;
    world.cluster.until_ready(4, PATIENCE).await?;
    world.cluster.apply(budget(&world.cluster, 0)).await?;
    until_budget_counts(&world.cluster).await?;
    let (pod, node) = one_pod(&world.cluster).await?;
    let start = Instant::now();
    world.cluster.delete("v1", "Node", &node).await?;
    let refused = until_eviction_is_refused(stage, &pod, 1).await?;
    world.cluster.until_gone("v1", "Node", &node, PATIENCE).await?;
    let gone = start.elapsed();
    world.cluster.until_ready(4, PATIENCE).await?;
    world.cluster.delete("policy/v1", "PodDisruptionBudget", "web").await?;
    clear(world).await?;
    Ok(format!(
        "{refused} evictions refused; node gone {:.1} s after it was deleted, by force after 8 s",
        gone.as_secs_f64()
    ))
}
