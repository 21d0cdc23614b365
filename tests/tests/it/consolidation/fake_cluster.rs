//! A fake cluster with two machines that are half empty. A drain moves the pods of its Node to the other one, as
//! eviction and kube-scheduler would.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::{Cluster, ClusterError, Done, Identity, ListWatch, Record};
use fleetwright_proto::simulation::v1 as cloud;
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::instruction::Action;
use serde_json::json;
use tokio::sync::mpsc;

use crate::removals::{NAME, UID};

/// A pod of 500 millicores that runs on the machine of this number.
#[derive(Debug, Clone)]
struct RunningPod {
    name: String,
    machine: usize,
}

#[derive(Default)]
struct FakeState {
    machines: Vec<cloud::Instance>,
    pods: Vec<RunningPod>,
    /// `spec.disruption` of the NodePool.
    disruption: serde_json::Value,
    removed: BTreeSet<usize>,
    changes: Option<mpsc::Sender<Vec<Record>>>,
}

/// The cluster of the fake agent.
#[derive(Default)]
pub(super) struct FakeCluster {
    state: Mutex<FakeState>,
}

impl FakeCluster {
    /// A cluster of these machines, each with a ready Node and a pod.
    pub(super) fn new(machines: Vec<cloud::Instance>, disruption: serde_json::Value) -> Arc<Self> {
        let pods = (0..machines.len()).map(|machine| RunningPod { name: format!("web-{machine}"), machine }).collect();
        Arc::new(Self { state: Mutex::new(FakeState { machines, pods, disruption, ..FakeState::default() }) })
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces `spec.disruption` of the NodePool.
    pub(super) fn set_disruption(&self, disruption: serde_json::Value) {
        let mut state = self.state();
        state.disruption = disruption;
        let pool = Record::plain(Change::Manifest(state.pool()));
        state.publish(vec![pool]);
    }

    /// A user deletes this machine's NodeClaim and Node, with its finalizers: nothing is drained.
    pub(super) fn remove_by_hand(&self, machine: usize) {
        self.state().remove(machine);
    }

    /// Numbers of the machines that are there.
    pub(super) fn machines(&self) -> Vec<usize> {
        let state = self.state();
        (0..state.machines.len()).filter(|n| !state.removed.contains(n)).collect()
    }
}

impl FakeState {
    fn publish(&self, records: Vec<Record>) {
        if let Some(changes) = &self.changes {
            // Without a subscriber the next list contains the change.
            let _full_or_closed = changes.try_send(records);
        }
    }

    fn records(&self) -> Vec<Record> {
        let there = || (0..self.machines.len()).filter(|n| !self.removed.contains(n));
        let pools = [class(), self.pool()].into_iter().map(|manifest| Record::plain(Change::Manifest(manifest)));
        let claims = there().map(|n| self.claim(n));
        let nodes = there().map(|n| self.node(n));
        pools.chain(claims).chain(nodes).chain(self.pods.iter().map(pod)).collect()
    }

    /// Evicts the pods of this machine; their successors run on the other one.
    fn drain(&mut self, machine: usize) {
        let other = (0..self.machines.len()).find(|n| *n != machine && !self.removed.contains(n));
        let Some(other) = other else { return };
        let mut records = Vec::new();
        for running in self.pods.iter_mut().filter(|pod| pod.machine == machine) {
            records.push(Record::removed(v1::ObjectKind::Pod, "default", running.name.clone()));
            *running = RunningPod { name: format!("{}-again", running.name), machine: other };
            records.push(pod(running));
        }
        self.publish(records);
    }

    fn remove(&mut self, machine: usize) {
        self.removed.insert(machine);
        let gone = [(v1::ObjectKind::Node, format!("n-{machine}")), (v1::ObjectKind::NodeClaim, format!("m{machine}"))];
        self.publish(gone.map(|(kind, name)| Record::removed(kind, "", name)).into());
    }

    fn labels(&self, n: usize) -> Vec<v1::StringPair> {
        let machine = &self.machines[n];
        let label = |key: &str, value: &str| v1::StringPair { key: key.to_owned(), value: value.to_owned() };
        vec![
            label("karpenter.sh/nodepool", "default"),
            label("karpenter.sh/registered", "true"),
            label("karpenter.sh/initialized", "true"),
            label("karpenter.sh/capacity-type", &machine.capacity_type),
            label("kubernetes.io/arch", "amd64"),
            label("kubernetes.io/os", "linux"),
            label("kubernetes.io/hostname", &format!("n-{n}")),
            label("node.kubernetes.io/instance-type", &machine.instance_type),
            label("topology.kubernetes.io/zone", &machine.zone),
        ]
    }

    fn node(&self, n: usize) -> Record {
        Record::plain(Change::Node(Box::new(v1::NodeRecord {
            name: format!("n-{n}"),
            uid: format!("uid of n-{n}"),
            provider_id: self.machines[n].provider_id.clone(),
            labels: self.labels(n),
            capacity: amounts(),
            allocatable: amounts(),
            conditions: vec![condition("Ready")],
            created_at_ms: 1,
            ..v1::NodeRecord::default()
        })))
    }

    fn claim(&self, n: usize) -> Record {
        Record::plain(Change::NodeClaim(Box::new(v1::NodeClaimRecord {
            name: format!("m{n}"),
            uid: format!("uid of m{n}"),
            labels: self.labels(n),
            annotations: vec![v1::StringPair { key: "fleetwright.dev/managed".to_owned(), value: "true".to_owned() }],
            node_class: Some(v1::NodeClassReference {
                group: "karpenter.k8s.aws".to_owned(),
                kind: "EC2NodeClass".to_owned(),
                name: "default".to_owned(),
            }),
            provider_id: self.machines[n].provider_id.clone(),
            capacity: amounts(),
            allocatable: amounts(),
            expire_after: "Never".to_owned(),
            created_at_ms: 1,
            last_pod_event_ms: 1,
            conditions: ["Launched", "Registered", "Initialized"].map(condition).into(),
            owner: Some(owner("karpenter.sh/v1", "NodePool", "default")),
            ..v1::NodeClaimRecord::default()
        })))
    }

    fn pool(&self) -> v1::ManifestRecord {
        let pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {
                "template": {"spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [
                        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    ],
                }},
                "disruption": self.disruption,
            },
        });
        manifest(v1::ObjectKind::NodePool, &pool)
    }
}

fn condition(kind: &str) -> v1::Condition {
    v1::Condition { r#type: kind.to_owned(), status: "True".to_owned(), ..v1::Condition::default() }
}

fn amounts() -> Vec<v1::Quantity> {
    let amount = |name: &str, value: &str| v1::Quantity { resource: name.to_owned(), amount: value.to_owned() };
    vec![amount("cpu", "2"), amount("memory", "8Gi"), amount("pods", "30")]
}

fn owner(api_version: &str, kind: &str, name: &str) -> v1::Owner {
    v1::Owner { api_version: api_version.to_owned(), kind: kind.to_owned(), name: name.to_owned(), uid: String::new() }
}

fn pod(pod: &RunningPod) -> Record {
    let record = v1::PodRecord {
        namespace: "default".to_owned(),
        name: pod.name.clone(),
        uid: format!("uid of {}", pod.name),
        node_name: format!("n-{}", pod.machine),
        phase: v1::PodPhase::Running.into(),
        owner: Some(owner("apps/v1", "ReplicaSet", "web")),
        created_at_ms: 1,
        started_at_ms: 1,
        ready: true,
        ..v1::PodRecord::default()
    };
    let requests = json!({"requests": {"cpu": "500m", "memory": "256Mi"}});
    let shape = json!({"spec": {"containers": [{"name": "main", "resources": requests}]}}).to_string().into();
    Record::Pod { record: Box::new(record), shape, labels: Arc::default(), volume_claims: None }
}

fn manifest(kind: v1::ObjectKind, object: &serde_json::Value) -> v1::ManifestRecord {
    v1::ManifestRecord {
        kind: kind.into(),
        name: "default".to_owned(),
        json: object.to_string().into_bytes(),
        resource_version: "1".to_owned(),
    }
}

fn class() -> v1::ManifestRecord {
    let any = json!([{"tags": {"a": "b"}}]);
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": any,
                 "securityGroupSelectorTerms": any},
    });
    manifest(v1::ObjectKind::Ec2NodeClass, &class)
}

/// The number of the machine of this NodeClaim.
fn number(claim: &str) -> Option<usize> {
    claim.strip_prefix('m')?.parse().ok()
}

impl Cluster for FakeCluster {
    fn identity(&self) -> Identity {
        Identity { uid: UID.to_owned(), ..Identity::default() }
    }

    async fn list_and_watch(&self) -> Result<ListWatch, ClusterError> {
        let (sender, changes) = mpsc::channel(64);
        let mut state = self.state();
        state.changes = Some(sender);
        Ok(ListWatch { records: state.records(), changes })
    }

    async fn execute_instruction(&self, instruction: v1::Instruction) -> Done {
        let mut state = self.state();
        match instruction.action {
            Some(Action::DrainNode(drain)) => number(&drain.node_claim).into_iter().for_each(|n| state.drain(n)),
            Some(Action::DeleteNodeClaim(delete)) => {
                number(&delete.node_claim).into_iter().for_each(|n| state.remove(n));
            }
            _ => {}
        }
        Done::ok()
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        Ok(0)
    }

    async fn raise_epoch(&self, _epoch: u64) -> Result<(), ClusterError> {
        Ok(())
    }
}

/// The name of the cluster.
pub(super) const CLUSTER: &str = NAME;
