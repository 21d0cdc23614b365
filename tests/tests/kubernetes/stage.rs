//! The stage itself: a control plane and kubelets, without Fleetwright.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::kubernetes::cluster::{Cluster, Seen, is_ready, taints, until};
use e2e::kubernetes::kubelets::{Kubelets, Pace};
use e2e::kubernetes::machine::Types;
use e2e::kubernetes::suite::{Stage, Told};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(60);

/// Three m5.large have 1930 millicores each for pods: six pods of 900 fill them, two on each.
pub(super) async fn machines_join_run_pods_and_leave(stage: Arc<Stage>) -> Told {
    let cluster = Cluster::with_namespace(&stage.client, "stage").await?;
    let pace = Pace { forgotten: Duration::from_millis(200), ..Pace::default() };
    let (types, kubelets) = (Types::builtin("us-east-1")?, Kubelets::new(stage.client.clone(), pace));
    cluster.deploy("six", 6, "900m", "100Mi", json!({})).await?;
    let start = Instant::now();
    for id in ["i-1", "i-2", "i-3"] {
        kubelets.boot(types.machine(id, "m5.large", "us-east-1a")?);
    }
    let joined = || async {
        let ready = cluster.nodes().await?.iter().filter(|node| is_ready(node)).count();
        Ok(if ready == 3 { Seen::Done(start.elapsed()) } else { Seen::NotYet(format!("{ready} ready")) })
    };
    let joined = until("three nodes ready", PATIENCE, joined).await?;
    ensure!(cluster.ready().await?.0 == 0, "pods run in spite of the registration taint");
    for node in cluster.nodes().await? {
        ensure!(taints(&node).contains(&"karpenter.sh/unregistered"), "{:?}", taints(&node));
        let untaint = json!({ "spec": { "taints": null } });
        cluster.objects("v1", "Node").patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(untaint)).await?;
    }
    cluster.until_ready(6, PATIENCE).await?;
    let running = start.elapsed();
    cluster.delete("apps/v1", "Deployment", "six").await?;
    let gone = || async {
        let left = cluster.pods().await?.len();
        Ok(if left == 0 { Seen::Done(()) } else { Seen::NotYet(format!("{left} pods")) })
    };
    until("no pods", PATIENCE, gone).await?;
    ["i-1", "i-2", "i-3"].into_iter().for_each(|id| kubelets.lose(id));
    cluster.until_nodes(0, PATIENCE).await?;
    Ok(format!(
        "three nodes ready after {joined:.1?}, six pods after {running:.1?}, all gone after {:.1?}",
        start.elapsed()
    ))
}
