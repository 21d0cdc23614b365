//! Pods are created by the hundred, and deleted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Poll, wait_until};
use e2e::kubernetes::environment::{Environment, Options};
use e2e::kubernetes::launch_latency::LaunchLatency;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(280);

/// 200 + 120 + 120 + 20 + 40 = 500 pods, each kind bound by another constraint.
const KINDS: [(&str, u32, &str, &str); 5] = [
    ("spread", 200, "250m", "256Mi"),
    ("arm", 120, "500m", "1Gi"),
    ("spot", 120, "1", "2Gi"),
    ("apart", 20, "1", "4Gi"),
    ("reserved", 40, "500m", "4Gi"),
];

/// Constraint of each kind of pod, in addition to its requests.
fn constraint(kind: &str) -> Value {
    let selector = json!({ "matchLabels": { "app": kind } });
    match kind {
        "spread" => json!({ "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }] }),
        "arm" => json!({ "nodeSelector": { "kubernetes.io/arch": "arm64" } }),
        "spot" => json!({ "nodeSelector": { "karpenter.sh/capacity-type": "spot" } }),
        "apart" => json!({ "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": "kubernetes.io/hostname", "labelSelector": selector }] } } }),
        _ => {
            json!({ "tolerations": [{ "key": "reserved", "operator": "Exists" }], "nodeSelector": { "reserved": "yes" } })
        }
    }
}

/// One pool without constraints, and one whose nodes are tainted.
pub(super) async fn pools(environment: &Environment) -> anyhow::Result<()> {
    let any = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"] },
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"] },
        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
    ]);
    // Longer than the binding of pods takes on a busy machine: a node that is empty for that long
    // is not needed.
    let disruption = json!({ "consolidateAfter": "30s" });
    environment.apply_pool("default", any.clone(), disruption.clone()).await?;
    environment.apply_pool("reserved", any, disruption).await?;
    let template = json!({ "metadata": { "labels": { "reserved": "yes" } },
                           "spec": { "taints": [{ "key": "reserved", "value": "yes", "effect": "NoSchedule" }] } });
    let pools = environment.cluster.objects("karpenter.sh/v1", "NodePool");
    let change = kube::api::Patch::Merge(json!({ "spec": { "template": template } }));
    pools.patch("reserved", &kube::api::PatchParams::default(), &change).await?;
    Ok(())
}

/// All pods run; then none do, and no instance incurs cost.
pub(super) async fn up_and_down(test_bed: Arc<TestBed>) -> ScenarioResult {
    let environment = Environment::start(&test_bed, "scale", Options::default()).await?;
    let played = run(&environment).await;
    played.with_context(|| environment.log_tails())
}

async fn run(environment: &Environment) -> ScenarioResult {
    let cluster = &environment.cluster;
    pools(environment).await?;
    let waits = LaunchLatency::watch(cluster);
    let start = Instant::now();
    for (kind, pods, cpu, memory) in KINDS {
        cluster.deploy(kind, pods, cpu, memory, constraint(kind)).await?;
    }
    cluster.wait_until_ready(500, TIMEOUT).await?;
    // The ledger is read before pods are deleted: it has the launches and the cost of all pods.
    let (up, ledger) = (start.elapsed(), environment.ledger.read_ledger().await?);
    let nodes = cluster.nodes().await?.len();
    ensure!(
        ledger.running().count() == nodes,
        "{} instances are running and there are {nodes} nodes",
        ledger.running().count()
    );
    let wait = waits.wait_until_launch(&cluster.pods().await?, &ledger).context("no pod was unschedulable")?;
    let (launched, cost) = (ledger.launch_count(), ledger.dollars_an_hour());
    let start = Instant::now();
    for (kind, ..) in KINDS {
        cluster.scale(kind, 0).await?;
    }
    cluster.wait_until_nodes(0, TIMEOUT).await?;
    wait_until_nothing_is_paid(environment).await?;
    let down = start.elapsed();
    environment.ensure_no_double_launches().await?;
    Ok(format!(
        "500 pods ready after {:.1} s on {nodes} nodes ({launched} instances launched, {cost:.2} $/h); all removed after {:.1} s, 30 of them by consolidateAfter\n\
         unschedulable to launch call, {} pods: p50 {} ms, p99 {} ms",
        up.as_secs_f64(),
        down.as_secs_f64(),
        wait.count,
        wait.p50,
        wait.p99,
    ))
}

/// Waits until the cloud's ledger has no instance that incurs cost.
pub(super) async fn wait_until_nothing_is_paid(environment: &Environment) -> anyhow::Result<()> {
    let poll = || async {
        let paid = environment.ledger.read_ledger().await?.paid().count();
        Ok(if paid == 0 { Poll::Ready(()) } else { Poll::Pending(format!("{paid} machines are paid for")) })
    };
    wait_until("no machine is paid for", TIMEOUT, poll).await
}
