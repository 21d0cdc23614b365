//! Pods that another scheduler places.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::kubernetes::cluster::{Poll, wait_until};
use e2e::kubernetes::environment::{Environment, Options};
use e2e::kubernetes::suite::{ScenarioResult, TestBed};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(90);

/// No scheduler of that name runs: the scenario reports for it that no node fits.
const SCHEDULER: &str = "volcano";

/// Nothing is bought for the pods of another scheduler, unless it is named, and none is nominated.
pub(super) async fn is_not_planned_for(test_bed: Arc<TestBed>) -> ScenarioResult {
    let environment = Environment::start(&test_bed, "other-scheduler", Options::default()).await?;
    let output = unnamed(&environment).await;
    output.with_context(|| environment.log_tails())?;
    drop(environment);
    let server = format!("[control]\nschedulers = \"{SCHEDULER}\"\n");
    let options = Options { server, ..Options::default() };
    let environment = Environment::start(&test_bed, "named-scheduler", options).await?;
    let output = named(&environment).await;
    output.with_context(|| environment.log_tails())
}

async fn unnamed(environment: &Environment) -> anyhow::Result<()> {
    prepare(environment).await?;
    // A pod of kube-scheduler that is created later is planned and bound: the others were seen before.
    environment.cluster.deploy("web", 1, "1500m", "1Gi", json!({})).await?;
    let bound = || async {
        let pods = environment.cluster.pods().await?;
        let web = pods.iter().find(|pod| pod.labels().get("app").is_some_and(|app| app == "web"));
        let node = web.and_then(|pod| pod.spec.as_ref()?.node_name.clone());
        Ok(if node.is_some() { Poll::Ready(()) } else { Poll::Pending("not bound".to_owned()) })
    };
    wait_until("the pod of kube-scheduler is bound", TIMEOUT, bound).await?;
    let launched = environment.ledger.read_ledger().await?.launch_count();
    ensure!(launched == 1, "{launched} machines were launched for one pod of kube-scheduler");
    ensure_none_is_nominated(environment).await
}

async fn named(environment: &Environment) -> ScenarioResult {
    prepare(environment).await?;
    let poll = || async {
        let launched = environment.ledger.read_ledger().await?.launch_count();
        let nodes = environment.cluster.nodes().await?;
        let initialized = nodes.iter().filter(|node| node.labels().contains_key("karpenter.sh/initialized")).count();
        Ok(if (launched, initialized) == (2, 2) {
            Poll::Ready(())
        } else {
            Poll::Pending(format!("{launched} launched, {initialized} initialized"))
        })
    };
    wait_until("a machine for each pod of the named scheduler", TIMEOUT, poll).await?;
    ensure_none_is_nominated(environment).await?;
    Ok(format!(
        "two Unschedulable pods of {SCHEDULER}: nothing bought; named in control.schedulers: 2 machines, 0 nominations"
    ))
}

/// A NodePool, and two pods of another scheduler that are reported as unschedulable; a node has room for one.
async fn prepare(environment: &Environment) -> anyhow::Result<()> {
    let requirements = json!([
        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
        { "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"] },
    ]);
    // A node whose pods nobody binds is empty; it stays for the time of the scenario.
    environment.apply_pool("default", requirements, json!({ "consolidateAfter": "1h" })).await?;
    environment.cluster.deploy("batch", 2, "1500m", "1Gi", json!({ "schedulerName": SCHEDULER })).await?;
    let two = || async {
        let pods = environment.cluster.pods().await?;
        Ok(if pods.len() == 2 { Poll::Ready(pods) } else { Poll::Pending(format!("{} pods", pods.len())) })
    };
    let pods = Api::<Pod>::namespaced(environment.cluster.client.clone(), &environment.cluster.namespace);
    for pod in wait_until("two pods", TIMEOUT, two).await? {
        let condition =
            json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes" });
        let status = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
        pods.patch_status(&pod.name_any(), &PatchParams::default(), &status).await?;
    }
    Ok(())
}

async fn ensure_none_is_nominated(environment: &Environment) -> anyhow::Result<()> {
    let pods = environment.cluster.pods().await?;
    let of_other =
        pods.iter().filter(|pod| pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref()) == Some(SCHEDULER));
    let nominated: Vec<String> = of_other
        .filter(|pod| pod.status.as_ref().is_some_and(|status| status.nominated_node_name.is_some()))
        .map(ResourceExt::name_any)
        .collect();
    ensure!(nominated.is_empty(), "{nominated:?} are nominated");
    Ok(())
}
