//! Metrics of single nodes and pods, for the clusters that a scraper names.
//!
//! They are series without end in a large fleet, and are asked for: `/metrics?nodes=shop-*&pods=shop-eu`. Names and labels are
//! Karpenter's, `cluster` besides; what the agent does not report (limits of pods) is left out.

use std::sync::Arc;

use cluster::{ClusterState, NodeRecord, PodPhase, PodRecord};
use model::{ClusterName, Labels as ObjectLabels, Resources, Timestamp, labels};

use super::metric_labels::{base_unit, resource_type, text};
use metrics::{Family, Labels, Value};

/// Labels of nodes that are labels of their series (Karpenter: well-known labels, by the part after the slash).
const NODE_LABELS: [(&str, &str); 36] = [
    ("nodepool", labels::NODEPOOL),
    ("zone", labels::ZONE),
    ("region", labels::REGION),
    ("instance_type", labels::INSTANCE_TYPE),
    ("arch", labels::ARCH),
    ("os", labels::OS),
    ("capacity_type", labels::CAPACITY_TYPE),
    ("windows_build", labels::WINDOWS_BUILD),
    ("zone_id", labels::ZONE_ID),
    ("capacity_reservation_id", labels::RESERVATION_ID),
    ("capacity_reservation_type", "karpenter.k8s.aws/capacity-reservation-type"),
    ("capacity_reservation_interruptible", "karpenter.k8s.aws/capacity-reservation-interruptible"),
    ("placement_group_id", "karpenter.k8s.aws/placement-group-id"),
    ("placement_group_partition", "karpenter.k8s.aws/placement-group-partition"),
    ("instance_hypervisor", "karpenter.k8s.aws/instance-hypervisor"),
    ("instance_encryption_in_transit_supported", "karpenter.k8s.aws/instance-encryption-in-transit-supported"),
    ("instance_category", "karpenter.k8s.aws/instance-category"),
    ("instance_capability_flex", "karpenter.k8s.aws/instance-capability-flex"),
    ("instance_family", "karpenter.k8s.aws/instance-family"),
    ("instance_generation", "karpenter.k8s.aws/instance-generation"),
    ("instance_size", "karpenter.k8s.aws/instance-size"),
    ("instance_local_nvme", "karpenter.k8s.aws/instance-local-nvme"),
    ("instance_cpu", "karpenter.k8s.aws/instance-cpu"),
    ("instance_cpu_manufacturer", "karpenter.k8s.aws/instance-cpu-manufacturer"),
    ("instance_cpu_sustained_clock_speed_mhz", "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"),
    ("instance_memory", "karpenter.k8s.aws/instance-memory"),
    ("instance_ebs_bandwidth", "karpenter.k8s.aws/instance-ebs-bandwidth"),
    ("instance_network_bandwidth", "karpenter.k8s.aws/instance-network-bandwidth"),
    ("instance_gpu_name", "karpenter.k8s.aws/instance-gpu-name"),
    ("instance_gpu_manufacturer", "karpenter.k8s.aws/instance-gpu-manufacturer"),
    ("instance_gpu_count", "karpenter.k8s.aws/instance-gpu-count"),
    ("instance_gpu_memory", "karpenter.k8s.aws/instance-gpu-memory"),
    ("instance_accelerator_name", "karpenter.k8s.aws/instance-accelerator-name"),
    ("instance_accelerator_manufacturer", "karpenter.k8s.aws/instance-accelerator-manufacturer"),
    ("instance_accelerator_count", "karpenter.k8s.aws/instance-accelerator-count"),
    ("instance_tenancy", "karpenter.k8s.aws/instance-tenancy"),
];

/// The labels of a series of a node; those without a value are left out.
const OF_NODE: [&str; NODE_LABELS.len() + 3] = with_node_labels(["cluster", "node_name", "managed"]);
const OF_RESOURCE: [&str; NODE_LABELS.len() + 4] =
    with_node_labels(["cluster", "node_name", "managed", "resource_type"]);
const OF_POD: [&str; 14] = [
    "cluster",
    "name",
    "namespace",
    "owner",
    "node",
    "scheduled",
    "nodepool",
    "zone",
    "arch",
    "capacity_type",
    "instance_type",
    "phase",
    "ready",
    "managed",
];

/// Labels of the node of a pod that its series has.
const NODE_LABELS_OF_PODS: [(&str, &str); 5] = [
    ("nodepool", labels::NODEPOOL),
    ("zone", labels::ZONE),
    ("arch", labels::ARCH),
    ("capacity_type", labels::CAPACITY_TYPE),
    ("instance_type", labels::INSTANCE_TYPE),
];

const fn with_node_labels<const N: usize, const M: usize>(first: [&'static str; N]) -> [&'static str; M] {
    let mut all = [""; M];
    let mut at = 0;
    while at < M {
        all[at] = if at < N { first[at] } else { NODE_LABELS[at - N].0 };
        at += 1;
    }
    all
}

/// The state of a cluster whose nodes, or pods, a scraper asks for.
#[derive(Debug)]
pub struct ObservedCluster {
    pub(crate) cluster: ClusterName,
    pub(crate) state: Arc<ClusterState>,
    pub(crate) nodes: bool,
    pub(crate) pods: bool,
}

/// The metrics of all nodes of these clusters that are asked for.
pub fn nodes(clusters: &[ObservedCluster], now: Timestamp) -> Vec<Family> {
    let of_resources = |name, help| Family::gauge(name, help).labelled(&OF_RESOURCE);
    let mut amounts = [
        of_resources("karpenter_nodes_allocatable", "What the node can allocate, in cores, bytes and pods."),
        of_resources(
            "karpenter_nodes_total_pod_requests",
            "Requests of the pods of the node, those of DaemonSets included.",
        ),
        of_resources("karpenter_nodes_total_daemon_requests", "Requests of the DaemonSet pods of the node."),
        of_resources(
            "karpenter_nodes_system_overhead",
            "What the node reserves: its capacity without what it can allocate.",
        ),
    ];
    let mut lifetimes = Family::gauge("karpenter_nodes_current_lifetime_seconds", "Time since the node was created.")
        .labelled(&OF_NODE);
    for ObservedCluster { cluster, state, .. } in clusters.iter().filter(|of| of.nodes) {
        for node in state.nodes() {
            let labels = labels_of_node(cluster, node, state.claim_of_node(node).is_some());
            if let Some(created) = node.created {
                lifetimes.push(labels.clone(), seconds(created, now));
            }
            for (family, amounts) in amounts.iter_mut().zip(amounts_of(node, state)) {
                for (resource, amount) in amounts.iter() {
                    let mut labels = labels.clone();
                    labels.insert(3, ("resource_type", resource_type(resource)));
                    family.push(labels, base_unit(resource, amount).into());
                }
            }
        }
    }
    amounts.into_iter().chain([lifetimes]).collect()
}

/// What the node can allocate, what its pods and its DaemonSet pods request, and what it reserves. A resource that no pod
/// requests has requests of 0.
fn amounts_of(node: &NodeRecord, state: &ClusterState) -> [Resources; 4] {
    let none = || Resources::from_iter(node.allocatable.iter().map(|(resource, _)| (resource.as_ref(), 0)));
    let (mut requests, mut daemons) = (none(), none());
    for pod in state.pods_on(&node.name).filter(|pod| !pod.is_terminal()) {
        requests.add(&pod.shape.requests);
        if pod.daemon.is_some() {
            daemons.add(&pod.shape.requests);
        }
    }
    let reserved =
        node.capacity.iter().map(|(resource, amount)| (resource.as_ref(), amount - node.allocatable.get(resource)));
    [node.allocatable.clone(), requests, daemons, Resources::from_iter(reserved)]
}

fn labels_of_node(cluster: &ClusterName, node: &NodeRecord, is_managed: bool) -> Labels {
    let mut labels =
        vec![("cluster", text(cluster)), ("node_name", text(&node.name)), ("managed", is_managed.to_string())];
    labels.extend(values_of(&node.labels, &NODE_LABELS));
    labels
}

/// Those of `wanted` that have a value.
fn values_of<'l>(
    labels: &'l ObjectLabels,
    wanted: &'l [(&'static str, &'static str)],
) -> impl Iterator<Item = (&'static str, String)> + 'l {
    let values = wanted.iter().filter_map(|(label, key)| Some((*label, labels.get(*key)?)));
    values.filter(|(_, value)| !value.is_empty()).map(|(label, value)| (label, text(value)))
}

/// The metrics of all pods of these clusters that are asked for.
pub fn pods(clusters: &[ObservedCluster], now: Timestamp) -> Vec<Family> {
    let help = "State of the pod, always 1; the owner is written Kind/name.";
    let mut states = Family::gauge("karpenter_pods_state", help).labelled(&OF_POD);
    let help = "Time since the creation of a pod that is not bound to a node.";
    let mut unbound =
        Family::gauge("karpenter_pods_unbound_time_seconds", help).labelled(&["cluster", "name", "namespace"]);
    for ObservedCluster { cluster, state, .. } in clusters.iter().filter(|of| of.pods) {
        for pod in state.pods() {
            let node = pod.node.as_ref().and_then(|node| state.node(node));
            states.push(labels_of_pod(cluster, pod, node), Value::from(1_usize));
            let is_unbound = pod.phase == PodPhase::Pending && pod.node.is_none();
            if let Some(created) = pod.created.filter(|_| is_unbound) {
                unbound.push(name_of(cluster, pod), seconds(created, now));
            }
        }
    }
    vec![states, unbound]
}

fn name_of(cluster: &ClusterName, pod: &PodRecord) -> Labels {
    vec![("cluster", text(cluster)), ("name", text(&pod.key.name)), ("namespace", text(&pod.key.namespace))]
}

fn labels_of_pod(cluster: &ClusterName, pod: &PodRecord, node: Option<&NodeRecord>) -> Labels {
    let mut labels = name_of(cluster, pod);
    labels.push(("owner", text(&pod.workload)));
    labels.extend(pod.node.iter().map(|node| ("node", text(node))));
    labels.push(("scheduled", pod.node.is_some().to_string()));
    labels.extend(node.into_iter().flat_map(|node| values_of(&node.labels, &NODE_LABELS_OF_PODS)));
    let phase = match pod.phase {
        PodPhase::Pending => "Pending",
        PodPhase::Running => "Running",
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
    };
    let is_managed = node.is_some_and(|node| node.labels.contains_key(labels::NODEPOOL));
    labels.extend([("phase", phase.to_owned()), ("ready", pod.ready.to_string()), ("managed", is_managed.to_string())]);
    labels
}

fn seconds(from: Timestamp, to: Timestamp) -> Value {
    (to.duration_since(from).get() as f64 / 1_000.0).into()
}

#[cfg(test)]
mod tests;
