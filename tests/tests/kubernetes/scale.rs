//! Pods come by the hundred, and go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Seen, until};
use e2e::kubernetes::suite::{Stage, Told};
use e2e::kubernetes::waits::Waits;
use e2e::kubernetes::world::{Options, World};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(280);

/// 200 + 120 + 120 + 20 + 40 = 500 pods, each kind bound by another constraint.
const KINDS: [(&str, u32, &str, &str); 5] = [
    ("spread", 200, "250m", "256Mi"),
    ("arm", 120, "500m", "1Gi"),
    ("spot", 120, "1", "2Gi"),
    ("apart", 20, "1", "4Gi"),
    ("reserved", 40, "500m", "4Gi"),
];

/// What each kind asks for beside room.
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

/// One pool that may buy anything, and one whose nodes are kept for those who tolerate it.
pub(super) async fn pools(world: &World) -> anyhow::Result<()> {
    let any = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"] },
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"] },
        { "key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"] },
    ]);
    // Longer than pods take to find their nodes on a busy machine: a node that is empty for that long is not needed.
    let patient = json!({ "consolidateAfter": "30s" });
    world.pool("default", any.clone(), patient.clone()).await?;
    world.pool("reserved", any, patient).await?;
    let template = json!({ "metadata": { "labels": { "reserved": "yes" } },
                           "spec": { "taints": [{ "key": "reserved", "value": "yes", "effect": "NoSchedule" }] } });
    let pools = world.cluster.objects("karpenter.sh/v1", "NodePool");
    let change = kube::api::Patch::Merge(json!({ "spec": { "template": template } }));
    pools.patch("reserved", &kube::api::PatchParams::default(), &change).await?;
    Ok(())
}

/// Everything runs; then nothing does, and nothing is paid for.
pub(super) async fn up_and_down(stage: Arc<Stage>) -> Told {
    let world = World::start(&stage, "scale", Options::default()).await?;
    let played = play(&world).await;
    played.with_context(|| world.last_words())
}

async fn play(world: &World) -> Told {
    let cluster = &world.cluster;
    pools(world).await?;
    let waits = Waits::watch(cluster);
    let start = Instant::now();
    for (kind, pods, cpu, memory) in KINDS {
        cluster.deploy(kind, pods, cpu, memory, constraint(kind)).await?;
    }
    cluster.until_ready(500, PATIENCE).await?;
    let (up, page) = (start.elapsed(), world.book.read().await?);
    let nodes = cluster.nodes().await?.len();
    ensure!(page.up().count() == nodes, "{} machines are up and there are {nodes} nodes", page.up().count());
    let wait = waits.until_launch(&cluster.pods().await?, &page).context("no pod was seen to wait")?;
    let (sold, cost) = (page.sold(), page.dollars_an_hour());
    let start = Instant::now();
    for (kind, ..) in KINDS {
        cluster.scale(kind, 0).await?;
    }
    cluster.until_nodes(0, PATIENCE).await?;
    until_nothing_is_paid(world).await?;
    let down = start.elapsed();
    world.nothing_doubled().await?;
    Ok(format!(
        "500 pods ready after {:.1} s on {nodes} nodes ({sold} machines sold, {cost:.2} $/h); all gone after {:.1} s, 30 of them by consolidateAfter\n\
         unschedulable to launch call, {} pods: p50 {} ms, p99 {} ms",
        up.as_secs_f64(),
        down.as_secs_f64(),
        wait.count,
        wait.p50,
        wait.p99,
    ))
}

/// The cloud itself says so.
pub(super) async fn until_nothing_is_paid(world: &World) -> anyhow::Result<()> {
    let look = || async {
        let paid = world.book.read().await?.paid().count();
        Ok(if paid == 0 { Seen::Done(()) } else { Seen::NotYet(format!("{paid} machines are paid for")) })
    };
    until("no machine is paid for", PATIENCE, look).await
}
