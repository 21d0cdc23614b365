//! Nodes and Pods as a disruption changes them, in the order in which the API server stored the changes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;
use model::quantity;

use super::capacity::Amount;
use crate::kubernetes::cluster::{is_ready, taints};

/// Taint of a node that is drained (Karpenter).
const DISRUPTED: &str = "karpenter.sh/disrupted";
/// Label of a node whose initialization is complete (Karpenter).
const INITIALIZED: &str = "karpenter.sh/initialized";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// Whether it carries the label of initialized nodes.
    pub is_initialized: bool,
    pub is_ready: bool,
    /// Whether it has the taint of disrupted nodes, or is deleted and waits for its finalizers.
    pub is_disrupted: bool,
    pub allocatable: Amount,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// Its label `app`: the Deployment.
    pub app: String,
    /// The Node that it is bound to.
    pub node: Option<String>,
    pub is_ready: bool,
    /// Whether it is deleted and terminates.
    pub is_leaving: bool,
    pub requests: Amount,
}

/// An object after a change; `None` once it does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Node(Option<NodeState>),
    Pod(Option<PodState>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Resource version. One etcd orders the changes of all kinds by it.
    pub revision: u64,
    /// When the watch received it, for messages.
    pub received: Timestamp,
    pub name: String,
    /// The object after it.
    pub object: Object,
}

impl NodeState {
    /// The state of a Node.
    ///
    /// # Errors
    /// When a quantity cannot be read.
    pub fn of(node: &Node) -> anyhow::Result<Self> {
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        Ok(Self {
            is_initialized: node.labels().get(INITIALIZED).is_some_and(|value| value == "true"),
            is_ready: is_ready(node),
            is_disrupted: taints(node).contains(&DISRUPTED) || node.metadata.deletion_timestamp.is_some(),
            allocatable: Amount { pods: read("pods", allocatable)?, ..amount(allocatable)? },
        })
    }

    /// Whether pods may be bound to it from now on.
    #[must_use]
    pub fn accepts_pods(&self) -> bool {
        self.is_initialized && self.is_ready && !self.is_disrupted
    }
}

impl PodState {
    /// The state of a Pod.
    ///
    /// # Errors
    /// When a quantity cannot be read.
    pub fn of(pod: &Pod) -> anyhow::Result<Self> {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let mut requests = Amount { pods: 1, ..Amount::default() };
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            requests += amount(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))?;
        }
        Ok(Self {
            app: pod.labels().get("app").cloned().unwrap_or_default(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            is_ready: conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True"),
            is_leaving: pod.metadata.deletion_timestamp.is_some(),
            requests,
        })
    }
}

fn amount(quantities: Option<&BTreeMap<String, Quantity>>) -> anyhow::Result<Amount> {
    Ok(Amount { millicores: read("cpu", quantities)?, bytes: read("memory", quantities)?, pods: 0 })
}

fn read(resource: &str, quantities: Option<&BTreeMap<String, Quantity>>) -> anyhow::Result<i64> {
    let Some(written) = quantities.and_then(|quantities| quantities.get(resource)) else { return Ok(0) };
    Ok(quantity::parse(resource, &written.0)?)
}
