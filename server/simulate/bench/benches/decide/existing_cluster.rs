//! Manifests of an existing cluster: its nodes, their pods and the DaemonSet on them.

use serde_json::{Value, json};

/// Node number `at`: 8 vCPU and 32 GiB, initialized.
pub fn node(at: u32) -> Value {
    let zone = ["us-east-1a", "us-east-1b", "us-east-1c"][at as usize % 3];
    let amounts = json!({"cpu": "7910m", "memory": "30Gi", "pods": "58"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node_name(at), "labels": {
            "karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
            "karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/instance-type": "m5.2xlarge",
            "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": node_name(at),
            "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "us-east-1",
        }},
        "spec": {},
        "status": {
            "allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// Pod number `nth` on node number `at`. Twenty request 7.6 of the node's 7.91 cores, one in ten
/// Deployments each.
pub fn pod(at: u32, nth: u32) -> Value {
    let requests = json!({"cpu": "380m", "memory": format!("{}Mi", 256 + 64 * (nth % 10))});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("there-{at}-{nth}"), "namespace": "default", "labels": {"app": format!("app-{}", nth % 10)},
        },
        "spec": {
            "nodeName": node_name(at),
            "containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    })
}

/// A DaemonSet that runs on every node.
pub fn daemon() -> Value {
    let labels = json!({"app": "agent"});
    let requests = json!({"cpu": "100m", "memory": "128Mi"});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}],
            }},
        },
    })
}

/// Name of node number `at`.
pub fn node_name(at: u32) -> String {
    format!("node-{at:03}")
}
