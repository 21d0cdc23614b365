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

use crate::machine_records::{self, class, manifest, owner};
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

    fn node(&self, n: usize) -> Record {
        Record::plain(Change::Node(Box::new(machine_records::node(n, &self.machines[n]))))
    }

    fn claim(&self, n: usize) -> Record {
        let claim = machine_records::claim(n, &self.machines[n]);
        Record::plain(Change::NodeClaim(Box::new(v1::NodeClaimRecord { last_pod_event_ms: 1, ..claim })))
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

fn pod(pod: &RunningPod) -> Record {
    let owner = Some(owner("apps/v1", "ReplicaSet", "web"));
    let record = v1::PodRecord { owner, ..machine_records::pod(&pod.name, pod.machine) };
    let requests = json!({"requests": {"cpu": "500m", "memory": "256Mi"}});
    let shape = json!({"spec": {"containers": [{"name": "main", "resources": requests}]}}).to_string().into();
    Record::Pod { record: Box::new(record), shape, labels: Arc::default(), volume_claims: None }
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

pub(super) const CLUSTER: &str = NAME;
