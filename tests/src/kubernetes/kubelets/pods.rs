//! Pods on machines whose kubelets run: they start, stop, and become ready again after their node
//! was unreachable.

use std::sync::atomic::{AtomicU32, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::running::{RunningKubelets, lock};

/// An annotation of tests: a pod that has it does not terminate until it is deleted by force.
pub const STUCK: &str = "fleetwright.test/stuck";
const CONCURRENCY: usize = 16;

/// The next action of a kubelet for a pod.
#[derive(Debug, PartialEq, Eq)]
enum PodAction {
    Nothing,
    Run,
    Remove,
}

/// Runs until aborted.
pub(super) async fn run_pods(client: Client, running: RunningKubelets) {
    let bound = watcher::Config::default().fields("spec.nodeName!=").page_size(500);
    let pods = watcher(Api::<Pod>::all(client.clone()), bound).default_backoff().applied_objects();
    let (client, running, addresses) = (&client, &running, &AtomicU32::new(1));
    let acts = pods.filter_map(|seen| async move { seen.ok() }).for_each_concurrent(CONCURRENCY, |pod| async move {
        let Some(host) = node_address(running, &pod) else { return };
        // Most failures are retried when the object changes; these two are retried until they
        // succeed.
        let _given_up = match pod_action(&pod) {
            PodAction::Nothing => Ok(()),
            PodAction::Run => start_pod(client, &pod, &host, addresses.fetch_add(1, Ordering::Relaxed)).await,
            PodAction::Remove => remove_pod(client, &pod).await,
        };
    });
    acts.await;
}

/// The address of the machine that the pod is bound to, if its kubelet runs.
fn node_address(running: &RunningKubelets, pod: &Pod) -> Option<String> {
    let node = pod.spec.as_ref()?.node_name.as_ref()?;
    lock(running).get(node).map(|kubelet| kubelet.address.clone())
}

fn pod_action(pod: &Pod) -> PodAction {
    if pod.metadata.deletion_timestamp.is_some() {
        return if pod.annotations().contains_key(STUCK) { PodAction::Nothing } else { PodAction::Remove };
    }
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    match phase {
        "Pending" => PodAction::Run,
        // The node controller clears Ready on pods of an unreachable node; only the kubelet sets it
        // again.
        "Running" if !ready => PodAction::Run,
        _ => PodAction::Nothing,
    }
}

async fn start_pod(client: &Client, pod: &Pod, host: &str, number: u32) -> kube::Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), pod.namespace().as_deref().unwrap_or("default"));
    let status = json!({ "status": running(pod, host, number) });
    let name = pod.name_any();
    retry_until_done(|| async {
        pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&status)).await.map(drop)
    })
    .await
}

fn running(pod: &Pod, host: &str, number: u32) -> Value {
    let now = super::super::now();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
        json!({ "name": container.name, "image": container.image, "imageID": "", "ready": true, "started": true,
                "restartCount": 0, "state": { "running": { "startedAt": now } } })
    });
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now });
    let mut status = json!({
        "phase": "Running",
        "startTime": now,
        "hostIP": host,
        "conditions": [condition("Initialized"), condition("ContainersReady"), condition("Ready")],
        "containerStatuses": containers.collect::<Vec<_>>(),
    });
    // A running pod keeps its address. podIPs is omitted: the API server fills it in, and two lists
    // would be merged.
    if pod.status.as_ref().is_none_or(|status| status.pod_ip.is_none()) {
        status["podIP"] = json!(format!("10.{}.{}.{}", 100 + (number >> 16) % 100, (number >> 8) % 256, number % 256));
    }
    status
}

async fn remove_pod(client: &Client, pod: &Pod) -> kube::Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), pod.namespace().as_deref().unwrap_or("default"));
    let same = Preconditions { uid: pod.uid(), resource_version: None };
    let now = DeleteParams { grace_period_seconds: Some(0), preconditions: Some(same), ..DeleteParams::default() };
    let name = pod.name_any();
    retry_until_done(|| async { pods.delete(&name, &now).await.map(drop) }).await
}

/// Retries until the API server has responded; a rejection is a response.
async fn retry_until_done<F: Future<Output = kube::Result<()>>>(call: impl Fn() -> F) -> kube::Result<()> {
    const RETRY: std::time::Duration = std::time::Duration::from_millis(500);
    loop {
        match call().await {
            Err(error) if !matches!(&error, kube::Error::Api(refused) if refused.code < 500 && refused.code != 429) => {
                tokio::time::sleep(RETRY).await;
            }
            answered => return answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_pod_is_started_removed_and_made_ready_again() {
        let ready = |status: &str| json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": status }] });
        assert_eq!(pod_action(&pod(json!({ "metadata": {}, "status": { "phase": "Pending" } }))), PodAction::Run);
        assert_eq!(pod_action(&pod(json!({ "metadata": {}, "status": ready("True") }))), PodAction::Nothing);
        assert_eq!(pod_action(&pod(json!({ "metadata": {}, "status": ready("False") }))), PodAction::Run);
        let deleted = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert_eq!(pod_action(&pod(json!({ "metadata": deleted, "status": ready("True") }))), PodAction::Remove);
        let stuck = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": { STUCK: "true" } });
        assert_eq!(pod_action(&pod(json!({ "metadata": stuck, "status": ready("True") }))), PodAction::Nothing);
    }
}
