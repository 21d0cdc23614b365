//! A Node with the taint `karpenter.sh/disrupted` that no drain has set, as a Karpenter leaves it that ended in the middle of a
//! command: it is taken off, and a takeover removes nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Poll, taints, wait_until};
use e2e::kubernetes::environment::{Environment, Options};
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use kube::ResourceExt;
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(90);
const TAKEOVERS: usize = 3;

/// The taint is taken off a running server's Node and after each takeover, and no machine is removed.
pub(super) async fn is_taken_off(test_bed: Arc<TestBed>) -> ScenarioResult {
    let mut environment = Environment::start(&test_bed, "foreign-taint", Options::default()).await?;
    let output = run(&mut environment).await;
    output.with_context(|| environment.log_tails())
}

async fn run(environment: &mut Environment) -> ScenarioResult {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ]);
    environment.apply_pool("default", requirements, json!({ "budgets": [{ "nodes": "0" }] })).await?;
    environment.cluster.deploy("web", 1, "900m", "1Gi", json!({})).await?;
    environment.cluster.wait_until_ready(1, TIMEOUT).await?;
    let node = environment.cluster.wait_until_nodes(1, TIMEOUT).await?.remove(0);
    let (name, pods) = (node.name_any(), pod_ids(environment).await?);
    taint(environment, &name).await?;
    wait_until_untainted(environment, &name).await?;
    let mut longest = Duration::ZERO;
    for _ in 0..TAKEOVERS {
        environment.server.kill()?;
        taint(environment, &name).await?;
        let begun = Instant::now();
        environment.server.start()?;
        wait_until_untainted(environment, &name).await?;
        longest = longest.max(begun.elapsed());
    }
    // A pod that is created now is planned by the server that has taken over, and bound to the Node that is free again.
    environment.cluster.deploy("next", 1, "500m", "512Mi", json!({})).await?;
    environment.cluster.wait_until_ready(2, TIMEOUT).await?;
    let names: Vec<String> = environment.cluster.nodes().await?.iter().map(ResourceExt::name_any).collect();
    ensure!(names == [name.clone()], "{name} had the taint, and there are {names:?}");
    let after = pod_ids(environment).await?;
    ensure!(pods.iter().all(|pod| after.contains(pod)), "pods {pods:?} were moved: {after:?}");
    let launched = environment.ledger.read_ledger().await?.launch_count();
    ensure!(launched == 1, "{launched} machines were launched");
    Ok(format!(
        "{TAKEOVERS} takeovers, 0 removals; the taint was gone {:.1} s after a start at most",
        longest.as_secs_f64()
    ))
}

async fn pod_ids(environment: &Environment) -> anyhow::Result<Vec<String>> {
    Ok(environment.cluster.pods().await?.iter().filter_map(ResourceExt::uid).collect())
}

async fn taint(environment: &Environment, node: &str) -> anyhow::Result<()> {
    let taint = json!({ "spec": { "taints": [{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }] } });
    environment.cluster.patch("v1", "Node", node, taint).await.map(drop)
}

async fn wait_until_untainted(environment: &Environment, name: &str) -> anyhow::Result<()> {
    let poll = || async {
        let nodes = environment.cluster.nodes().await?;
        let node = nodes.iter().find(|node| node.name_any() == name).context("the Node is gone")?;
        let taints = taints(node).join(" ");
        Ok(if taints.is_empty() { Poll::Ready(()) } else { Poll::Pending(taints) })
    };
    wait_until("the taint is taken off", TIMEOUT, poll).await
}
