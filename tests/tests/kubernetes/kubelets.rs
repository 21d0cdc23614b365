//! The test bed itself: a control plane and fake kubelets, without Fleetwright.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::kubernetes::cluster::{Cluster, Poll, is_ready, taints, wait_until};
use e2e::kubernetes::kubelets::{KubeletTiming, Kubelets};
use e2e::kubernetes::machine::Types;
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Three m5.large have 1930 millicores each for pods: six pods of 900 fill them, two on each.
pub(super) async fn machines_register_run_pods_and_stop(test_bed: Arc<TestBed>) -> ScenarioResult {
    let cluster = Cluster::with_namespace(&test_bed.client, "stage").await?;
    let timing = KubeletTiming { forgotten: Duration::from_millis(200), ..KubeletTiming::default() };
    let (types, kubelets) = (Types::builtin("us-east-1")?, Kubelets::new(test_bed.client.clone(), timing));
    cluster.deploy("six", 6, "900m", "100Mi", json!({})).await?;
    let start = Instant::now();
    for id in ["i-1", "i-2", "i-3"] {
        kubelets.boot_machine(types.machine(id, "m5.large", "us-east-1a")?);
    }
    let joined = || async {
        let ready = cluster.nodes().await?.iter().filter(|node| is_ready(node)).count();
        Ok(if ready == 3 { Poll::Ready(start.elapsed()) } else { Poll::Pending(format!("{ready} ready")) })
    };
    let joined = wait_until("three nodes ready", TIMEOUT, joined).await?;
    ensure!(cluster.ready_pods().await?.0 == 0, "pods run in spite of the registration taint");
    // The registration taint excludes pods until it is removed here, as the agent does.
    for node in cluster.nodes().await? {
        ensure!(taints(&node).contains(&"karpenter.sh/unregistered"), "{:?}", taints(&node));
        let untaint = json!({ "spec": { "taints": null } });
        cluster.objects("v1", "Node").patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(untaint)).await?;
    }
    cluster.wait_until_ready(6, TIMEOUT).await?;
    let running = start.elapsed();
    cluster.delete("apps/v1", "Deployment", "six").await?;
    let no_pods = || async {
        let left = cluster.pods().await?.len();
        Ok(if left == 0 { Poll::Ready(()) } else { Poll::Pending(format!("{left} pods")) })
    };
    wait_until("no pods", TIMEOUT, no_pods).await?;
    ["i-1", "i-2", "i-3"].into_iter().for_each(|id| kubelets.lose_machine(id));
    cluster.wait_until_nodes(0, TIMEOUT).await?;
    Ok(format!(
        "three nodes ready after {joined:.1?}, six pods after {running:.1?}, all removed after {:.1?}",
        start.elapsed()
    ))
}
