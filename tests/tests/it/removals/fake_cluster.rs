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

/// Name of the cluster.
pub(crate) const NAME: &str = "shop";
/// UID of the cluster.
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
    /// Whether the NodePool is deleted.
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

    /// Lists all Nodes again.
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

    fn labels(&self, n: usize) -> Vec<v1::StringPair> {
        let machine = &self.machines[n];
        let label = |key: &str, value: &str| v1::StringPair { key: key.to_owned(), value: value.to_owned() };
        vec![
            label("karpenter.sh/nodepool", "default"),
            label("karpenter.sh/registered", "true"),
            label("karpenter.sh/initialized", "true"),
            label("karpenter.sh/capacity-type", &machine.capacity_type),
            label("node.kubernetes.io/instance-type", &machine.instance_type),
            label("topology.kubernetes.io/zone", &machine.zone),
        ]
    }

    fn node(&self, n: usize) -> Record {
        let ready = if self.not_ready.contains(&n) { "Unknown" } else { "True" };
        Record::plain(Change::Node(Box::new(v1::NodeRecord {
            name: format!("n-{n}"),
            uid: format!("uid of n-{n}"),
            provider_id: self.machines[n].provider_id.clone(),
            labels: self.labels(n),
            capacity: amounts(),
            allocatable: amounts(),
            conditions: vec![condition("Ready", ready)],
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
            deleted_at_ms: i64::from(self.deleting.contains(&n)),
            conditions: ["Launched", "Registered", "Initialized"].map(|kind| condition(kind, "True")).into(),
            owner: Some(v1::Owner {
                api_version: "karpenter.sh/v1".to_owned(),
                kind: "NodePool".to_owned(),
                name: "default".to_owned(),
                uid: String::new(),
            }),
            ..v1::NodeClaimRecord::default()
        })))
    }
}

fn condition(kind: &str, status: &str) -> v1::Condition {
    v1::Condition { r#type: kind.to_owned(), status: status.to_owned(), ..v1::Condition::default() }
}

fn amounts() -> Vec<v1::Quantity> {
    let amount = |name: &str, value: &str| v1::Quantity { resource: name.to_owned(), amount: value.to_owned() };
    vec![amount("cpu", "2"), amount("memory", "8Gi"), amount("pods", "30")]
}

/// A pod that runs on the machine of this number.
fn pod(n: usize) -> Record {
    let record = v1::PodRecord {
        namespace: "default".to_owned(),
        name: format!("p-{n}"),
        uid: format!("uid of p-{n}"),
        node_name: format!("n-{n}"),
        phase: v1::PodPhase::Running.into(),
        created_at_ms: 1,
        started_at_ms: 1,
        ready: true,
        ..v1::PodRecord::default()
    };
    let shape = json!({"spec": {"containers": [{"name": "main"}]}}).to_string().into();
    Record::Pod { record: Box::new(record), shape, labels: Arc::default(), volume_claims: None }
}

fn manifests() -> Vec<v1::ManifestRecord> {
    let any = json!([{"tags": {"a": "b"}}]);
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": any,
                 "securityGroupSelectorTerms": any},
    });
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
    let record = |kind: v1::ObjectKind, object: &serde_json::Value| v1::ManifestRecord {
        kind: kind.into(),
        name: "default".to_owned(),
        json: object.to_string().into_bytes(),
        resource_version: "1".to_owned(),
    };
    vec![record(v1::ObjectKind::Ec2NodeClass, &class), record(v1::ObjectKind::NodePool, &pool)]
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
