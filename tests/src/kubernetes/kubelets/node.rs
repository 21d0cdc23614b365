//! One Node, from its machine's launch until its machine is lost.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::kubernetes::machine::Machine;

/// Field manager of the kubelets' writes.
const WRITER: &str = "fake-kubelet";
/// Delay between retries: the API server may be unavailable.
const RETRY: Duration = Duration::from_millis(500);
/// Duration of a node lease, in seconds (kubelet: nodeLeaseDurationSeconds).
const LEASE_SECONDS: i32 = 40;

#[derive(Debug, Clone, Copy)]
pub struct KubeletTiming {
    /// From launch to the registration of the Node; minimum and maximum.
    pub boot: (Duration, Duration),
    /// From the Node's appearance to Ready.
    pub ready: Duration,
    /// Between renewals of a node's lease (kubelet: 10 s).
    pub heartbeat: Duration,
    /// How long a Node outlives its machine before the cloud's controller deletes it.
    pub forgotten: Duration,
}

impl Default for KubeletTiming {
    fn default() -> Self {
        Self {
            boot: (Duration::from_millis(500), Duration::from_millis(2_500)),
            ready: Duration::from_millis(500),
            heartbeat: Duration::from_secs(10),
            forgotten: Duration::from_secs(15),
        }
    }
}

/// Runs until aborted.
pub(super) async fn run_kubelet(client: Client, machine: Machine, timing: KubeletTiming, address: String) {
    tokio::time::sleep(boot_time(&machine.id, timing.boot)).await;
    let nodes = Api::<Node>::all(client.clone());
    while !register_node(&nodes, &machine, &address).await {
        tokio::time::sleep(RETRY).await;
    }
    tokio::time::sleep(timing.ready).await;
    while !become_ready(&nodes, &machine.id).await {
        tokio::time::sleep(RETRY).await;
    }
    let leases = Api::<Lease>::namespaced(client, "kube-node-lease");
    loop {
        let wait = if renew_lease(&leases, &machine.id).await { timing.heartbeat } else { RETRY };
        tokio::time::sleep(wait).await;
    }
}

/// A boot time between the bounds, derived from the machine's name.
fn boot_time(id: &str, (least, most): (Duration, Duration)) -> Duration {
    let spread = id.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 1_000;
    least + most.saturating_sub(least) * spread / 1_000
}

async fn register_node(nodes: &Api<Node>, machine: &Machine, address: &str) -> bool {
    let Ok(node) = serde_json::from_value::<Node>(node(machine, address)) else { return false };
    match nodes.create(&PostParams::default(), &node).await {
        Ok(_) => true,
        Err(kube::Error::Api(refused)) => refused.code == 409,
        Err(_) => false,
    }
}

/// The Node that a kubelet creates when it starts (`--register-with-taints` names the registration
/// taint). Ready is False from the start: without the condition the not-ready taint would be
/// removed.
fn node(machine: &Machine, address: &str) -> Value {
    let mut labels = machine.labels.clone();
    labels.insert("kubernetes.io/hostname".to_owned(), machine.id.clone());
    let taint = json!({ "key": "karpenter.sh/unregistered", "effect": "NoExecute" });
    let taints = if machine.unregistered { vec![taint] } else { Vec::new() };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": machine.id, "labels": labels },
        "spec": {
            "providerID": machine.provider_id,
            "taints": taints,
        },
        "status": {
            "capacity": machine.capacity,
            "allocatable": machine.allocatable,
            "addresses": [{ "type": "InternalIP", "address": address }, { "type": "Hostname", "address": machine.id }],
            "conditions": conditions(false),
            "nodeInfo": {
                "architecture": machine.labels.get("kubernetes.io/arch"), "operatingSystem": "linux",
                "kubeletVersion": "v1.37.1", "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "",
                "kubeProxyVersion": "", "machineID": "", "systemUUID": "", "bootID": "",
            },
        },
    })
}

fn conditions(ready: bool) -> Value {
    let now = super::super::now();
    let (status, reason) = if ready { ("True", "KubeletReady") } else { ("False", "KubeletNotReady") };
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({ "type": kind, "status": status, "reason": reason, "message": "",
                "lastHeartbeatTime": now, "lastTransitionTime": now })
    };
    json!([
        condition("Ready", status, reason),
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID"),
    ])
}

/// Whether it is ready; a deleted Node counts as ready.
async fn become_ready(nodes: &Api<Node>, name: &str) -> bool {
    let status = json!({ "status": { "conditions": conditions(true) } });
    done(nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(status)).await)
}

async fn renew_lease(leases: &Api<Lease>, name: &str) -> bool {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": name },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": super::super::now_micros() },
    });
    done(leases.patch(name, &PatchParams::apply(WRITER).force(), &Patch::Apply(lease)).await)
}

fn done<T>(answer: kube::Result<T>) -> bool {
    match answer {
        Ok(_) => true,
        Err(kube::Error::Api(refused)) => refused.code == 404,
        Err(_) => false,
    }
}

/// Deletes the Node of a lost machine. Finalizers still delay the deletion.
pub(super) async fn delete_node(nodes: &Api<Node>, name: &str) {
    while !done(nodes.delete(name, &DeleteParams::default()).await) {
        tokio::time::sleep(RETRY).await;
    }
}
