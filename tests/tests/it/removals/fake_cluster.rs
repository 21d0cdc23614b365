//! A fake cluster: its instances are in the simulated cloud's ledger, the test sets its objects,
//! and executed instructions are recorded.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::{Cluster, ClusterError, Done, Identity, ListWatch, Record};
use fleetwright_proto::simulation::v1 as cloud;
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::instruction::Action;
use serde_json::json;
use tokio::sync::mpsc;

use crate::machine_records::{self, class, condition, manifest};

pub(crate) const NAME: &str = "shop";
pub(crate) const UID: &str = "uid of shop";

/// The objects of the fake cluster, and the executed instructions.
#[derive(Default)]
struct FakeState {
    machines: Vec<cloud::Instance>,
    /// Machines whose Nodes are not ready, by number.
    not_ready: BTreeSet<usize>,
    /// Machines whose Nodes are hidden, by number.
    nodeless: BTreeSet<usize>,
    /// Machines whose NodeClaims are being deleted, by number.
    deleting: BTreeSet<usize>,
    poolless: bool,
    changes: Option<mpsc::Sender<Vec<Record>>>,
    drained: BTreeSet<String>,
    removed: BTreeSet<String>,
}

/// The cluster of the fake agent.
#[derive(Default)]
pub(super) struct FakeCluster {
    state: Mutex<FakeState>,
}

impl FakeCluster {
    /// A cluster of these machines, each with a ready Node and a pod.
    pub(super) fn new(machines: Vec<cloud::Instance>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(FakeState { machines, ..FakeState::default() }) })
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kubelets of these instances stop reporting.
    pub(super) fn mark_not_ready(&self, machines: impl IntoIterator<Item = usize>) {
        let mut state = self.state();
        let machines: Vec<usize> = machines.into_iter().collect();
        state.not_ready.extend(&machines);
        let records = machines.iter().map(|n| state.node(*n)).collect();
        state.publish(records);
    }

    /// Hides the Nodes of these machines; their pods are still listed.
    pub(super) fn hide_nodes(&self, machines: impl IntoIterator<Item = usize>) {
        let mut state = self.state();
        let machines: Vec<usize> = machines.into_iter().collect();
        state.nodeless.extend(&machines);
        let gone = |n: &usize| Record::removed(v1::ObjectKind::Node, "", format!("n-{n}"));
        state.publish(machines.iter().map(gone).collect());
    }

    pub(super) fn show_nodes(&self) {
        let mut state = self.state();
        let again = std::mem::take(&mut state.nodeless);
        let records = again.iter().map(|n| state.node(*n)).collect();
        state.publish(records);
    }

    /// A user deletes these NodeClaims, after the NodePool if `with_pool`.
    pub(super) fn delete_claims(&self, machines: impl IntoIterator<Item = usize>, with_pool: bool) {
        let mut state = self.state();
        let machines: Vec<usize> = machines.into_iter().collect();
        state.deleting.extend(&machines);
        state.poolless |= with_pool;
        let pool = with_pool.then(|| Record::removed(v1::ObjectKind::NodePool, "", "default"));
        let records: Vec<Record> = pool.into_iter().chain(machines.iter().map(|n| state.claim(*n))).collect();
        state.publish(records);
    }

    /// NodeClaims whose drain was requested, and those whose deletion was.
    pub(super) fn executed(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let state = self.state();
        (state.drained.clone(), state.removed.clone())
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
        let all = 0..self.machines.len();
        let nodes = all.clone().filter(|n| !self.nodeless.contains(n)).map(|n| self.node(n));
        let claims = all.clone().map(|n| self.claim(n));
        let pods = all.map(pod);
        let pools = manifests().into_iter().filter(|one| !self.poolless || one.kind() != v1::ObjectKind::NodePool);
        let pools = pools.map(|manifest| Record::plain(Change::Manifest(manifest)));
        pools.chain(claims).chain(nodes).chain(pods).collect()
    }

    fn node(&self, n: usize) -> Record {
        let ready = if self.not_ready.contains(&n) { "Unknown" } else { "True" };
        let conditions = vec![condition("Ready", ready)];
        let node = v1::NodeRecord { conditions, ..machine_records::node(n, &self.machines[n]) };
        Record::plain(Change::Node(Box::new(node)))
    }

    fn claim(&self, n: usize) -> Record {
        let deleted_at_ms = i64::from(self.deleting.contains(&n));
        let claim = v1::NodeClaimRecord { deleted_at_ms, ..machine_records::claim(n, &self.machines[n]) };
        Record::plain(Change::NodeClaim(Box::new(claim)))
    }
}

/// A pod that runs on the machine of this number.
fn pod(n: usize) -> Record {
    let record = machine_records::pod(&format!("p-{n}"), n);
    let shape = json!({"spec": {"containers": [{"name": "main"}]}}).to_string().into();
    Record::Pod { record: Box::new(record), shape, labels: Arc::default(), volume_claims: None }
}

fn manifests() -> Vec<v1::ManifestRecord> {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
            }},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "10%"}]},
        },
    });
    vec![class(), manifest(v1::ObjectKind::NodePool, &pool)]
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

    /// Drains complete at once, because nothing evicts the pods of this cluster.
    async fn execute_instruction(&self, instruction: v1::Instruction) -> Done {
        let mut state = self.state();
        match instruction.action {
            Some(Action::DrainNode(drain)) => state.drained.insert(drain.node_claim),
            Some(Action::DeleteNodeClaim(delete)) => state.removed.insert(delete.node_claim),
            _ => false,
        };
        Done::ok()
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        Ok(0)
    }

    async fn raise_epoch(&self, _epoch: u64) -> Result<(), ClusterError> {
        Ok(())
    }
}
