//! A cluster to which an example was applied: its agent, and a pod for each NodePool.

use std::sync::Arc;

use agent::Record;
use agent_kubernetes::records::manifest::{parse_class, parse_pool};
use agent_kubernetes::records::shape::ShapeInterner;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::{ManifestRecord, ObjectKind};
use model::{ClusterName, Timestamp};
use serde_json::{Value, json};
use simulation::demo::agent::SimulatedApi;
use simulation::kube::SimulatedCluster;
use simulation::kube::cluster::{ClusterSettings, Workload};
use tokio::task::JoinHandle;

use super::module::Example;

/// The running cluster; its task ends with the test's runtime.
pub(super) struct ExampleCluster {
    api: Arc<SimulatedApi>,
    classes: Vec<String>,
    _task: JoinHandle<()>,
}

impl ExampleCluster {
    /// Applies `example` to a cluster of this name, with a pending pod for each of `node_selectors`.
    pub(super) fn start(name: &str, example: &Example, node_selectors: &[Value], server: &str, now: Timestamp) -> Self {
        let mut cluster = SimulatedCluster::new(ClusterSettings::default());
        for (number, node_selector) in node_selectors.iter().enumerate() {
            let requests = json!({ "cpu": "500m", "memory": "1Gi" });
            let containers = json!([{ "name": "main", "resources": { "requests": requests } }]);
            let spec = json!({ "nodeSelector": node_selector, "containers": containers });
            cluster.scale(&Workload::new("default", &format!("web-{number}"), &spec), 1, now);
        }
        let manifests = example.objects.iter().map(|(kind, object)| manifest(*kind, object)).collect();
        let api = Arc::new(SimulatedApi::new(&ClusterName::from(name), cluster, manifests));
        let task = tokio::spawn(Arc::clone(&api).run_with_agent(server.to_owned(), 1));
        let classes = example.objects.iter().filter(|(kind, _)| *kind == ObjectKind::Ec2NodeClass);
        let classes = classes.map(|(_, object)| object["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        Self { api, classes, _task: task }
    }

    /// Statuses of the EC2NodeClasses.
    pub(super) fn statuses(&self) -> Vec<Value> {
        let status = |name: &String| self.api.manifest(ObjectKind::Ec2NodeClass, name).unwrap()["status"].clone();
        self.classes.iter().map(status).collect()
    }

    /// Reasons and messages of conditions that are not met.
    pub(super) fn unmet_conditions(&self) -> Vec<String> {
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let statuses = self.statuses();
        let conditions = statuses.iter().flat_map(|status| status["conditions"].as_array().into_iter().flatten());
        let unmet = conditions.filter(|condition| condition["status"] == "False");
        unmet.map(|one| format!("{}: {}", text(one, "reason"), text(one, "message"))).collect()
    }
}

/// The record that the agent makes of an object, which the API server has given a UID and a generation.
pub(crate) fn manifest(kind: ObjectKind, object: &Value) -> ManifestRecord {
    let mut object = object.clone();
    object["metadata"]["uid"] = format!("uid-{}", object["metadata"]["name"].as_str().unwrap()).into();
    object["metadata"]["generation"] = 1.into();
    object["metadata"]["resourceVersion"] = "1".into();
    let parse = if kind == ObjectKind::NodePool { parse_pool } else { parse_class };
    let parsed = parse(&object.to_string(), &mut ShapeInterner::default()).unwrap();
    match parsed.record {
        Record::Plain(change) => match *change {
            Change::Manifest(manifest) => manifest,
            other => panic!("the agent sends {other:?}"),
        },
        other => panic!("the agent sends {other:?}"),
    }
}
