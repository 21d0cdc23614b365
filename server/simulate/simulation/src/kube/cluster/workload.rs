//! Workloads: pods of one template with a number of replicas.

use std::collections::VecDeque;
use std::sync::Arc;

use cluster::DoNotDisrupt;
use manifests::pod::PodSpec;
use manifests::{Cursor, ObjectLocation, Problems};
use model::{Labels, PodKey, PodShape, Text, Timestamp};
use serde_json::{Value, json};

/// Pods of one template, as managed by a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    pub namespace: Text,
    /// Name, unique in the cluster.
    pub name: Text,
    /// Manifest of the pods as JSON: their spec, as an agent sends it.
    pub manifest: Text,
    /// Scheduling constraints and requests, as the manifest parser reads them.
    pub shape: Arc<PodShape>,
    pub labels: Arc<Labels>,
    /// Whether and how long pods must not be disrupted.
    pub do_not_disrupt: Option<DoNotDisrupt>,
}

impl Workload {
    /// A workload whose pods have this spec and the label `app`, and may be disrupted. A spec that
    /// an API server would refuse makes pods that the server under test reports as invalid.
    #[must_use]
    pub fn new(namespace: &str, name: &str, spec: &Value) -> Self {
        let labels = Labels::from([(Text::from("app"), Text::from(name))]);
        let problems = Problems::default();
        let site = ObjectLocation { source: Text::from(name), document: 0, object: None, problems: &problems };
        let parsed = PodSpec::read(&Cursor::root(spec, &site));
        Self {
            namespace: Text::from(namespace),
            name: Text::from(name),
            manifest: Text::from(json!({ "spec": spec }).to_string()),
            shape: Arc::new(parsed.shape(&labels, parsed.priority.unwrap_or(0))),
            labels: Arc::new(labels),
            do_not_disrupt: None,
        }
    }
}

/// Spec of a pod that requests CPU in millicores and memory in bytes.
#[must_use]
pub(crate) fn pod_spec(cpu: i64, memory: i64) -> Value {
    let requests = json!({ "cpu": format!("{cpu}m"), "memory": memory.to_string() });
    json!({ "containers": [{ "name": "main", "resources": { "requests": requests } }] })
}

#[derive(Debug, Clone)]
pub(super) struct WorkloadState {
    pub(super) workload: Workload,
    pub(super) replicas: usize,
    pub(super) made: u64,
    /// Pods that are not terminating, oldest first.
    pub(super) pods: Vec<PodKey>,
    /// Pods that were evicted and whose successors are not created yet.
    pub(super) evicted: VecDeque<Moves>,
}

/// The evictions of a pod and of those that it succeeds, by the drains of nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Moves {
    /// When, oldest first.
    pub(super) at: Vec<Timestamp>,
    /// Whether the last drain was voluntary.
    pub(super) is_voluntary: bool,
}

impl WorkloadState {
    /// Its pods that are not terminating.
    pub(super) fn pods(&self) -> impl Iterator<Item = &PodKey> {
        self.pods.iter()
    }
}
