//! A cluster that is played: its machines stand in the simulated cloud's book, its objects are what a test says, and what the agent is
//! told to do is written down.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::{Cluster, ClusterError, Done, Identity, Observed, Seen};
use fleetwright_proto::simulation::v1 as cloud;
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::instruction::Action;
use serde_json::json;
use tokio::sync::mpsc;

/// Name of the cluster.
pub(super) const NAME: &str = "shop";
/// Its UID.
pub(super) const UID: &str = "uid of shop";

/// What is to be seen, and what was done.
#[derive(Default)]
struct Scene {
    machines: Vec<cloud::Instance>,
    /// Machines whose Nodes are not ready, by number.
    not_ready: BTreeSet<usize>,
    /// Machines whose Nodes are not shown.
    nodeless: BTreeSet<usize>,
    /// Machines whose NodeClaims are being deleted.
    deleting: BTreeSet<usize>,
    /// The NodePool is gone.
    poolless: bool,
    changes: Option<mpsc::Sender<Vec<Seen>>>,
    drained: BTreeSet<String>,
    removed: BTreeSet<String>,
}

/// The cluster.
#[derive(Default)]
pub(super) struct Played {
    scene: Mutex<Scene>,
}

impl Played {
    /// A cluster of these machines, each with a ready Node and a pod.
    pub(super) fn new(machines: Vec<cloud::Instance>) -> Arc<Self> {
        Arc::new(Self { scene: Mutex::new(Scene { machines, ..Scene::default() }) })
    }

    fn scene(&self) -> MutexGuard<'_, Scene> {
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kubelets of these machines report nothing any more.
    pub(super) fn silence(&self, machines: impl IntoIterator<Item = usize>) {
        let mut scene = self.scene();
        let machines: Vec<usize> = machines.into_iter().collect();
        scene.not_ready.extend(&machines);
        let seen = machines.iter().map(|n| scene.node(*n)).collect();
        scene.tell(seen);
    }

    /// The Nodes of these machines are not shown any more; their pods are.
    pub(super) fn lose_nodes(&self, machines: impl IntoIterator<Item = usize>) {
        let mut scene = self.scene();
        let machines: Vec<usize> = machines.into_iter().collect();
        scene.nodeless.extend(&machines);
        let gone = |n: &usize| Seen::removed(v1::ObjectKind::Node, "", format!("n-{n}"));
        scene.tell(machines.iter().map(gone).collect());
    }

    /// The Nodes are shown again.
    pub(super) fn show_nodes(&self) {
        let mut scene = self.scene();
        let again = std::mem::take(&mut scene.nodeless);
        let seen = again.iter().map(|n| scene.node(*n)).collect();
        scene.tell(seen);
    }

    /// Somebody deletes these NodeClaims, after the NodePool if that goes as well.
    pub(super) fn delete(&self, machines: impl IntoIterator<Item = usize>, with_pool: bool) {
        let mut scene = self.scene();
        let machines: Vec<usize> = machines.into_iter().collect();
        scene.deleting.extend(&machines);
        scene.poolless |= with_pool;
        let pool = with_pool.then(|| Seen::removed(v1::ObjectKind::NodePool, "", "default"));
        let seen: Vec<Seen> = pool.into_iter().chain(machines.iter().map(|n| scene.claim(*n))).collect();
        scene.tell(seen);
    }

    /// NodeClaims whose Nodes the agent was told to drain, and those that it was told to remove.
    pub(super) fn done(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let scene = self.scene();
        (scene.drained.clone(), scene.removed.clone())
    }
}

impl Scene {
    fn tell(&self, seen: Vec<Seen>) {
        if let Some(changes) = &self.changes {
            // Nobody listens between two connections; the next picture has it.
            let _full_or_closed = changes.try_send(seen);
        }
    }

    fn picture(&self) -> Vec<Seen> {
        let all = 0..self.machines.len();
        let nodes = all.clone().filter(|n| !self.nodeless.contains(n)).map(|n| self.node(n));
        let claims = all.clone().map(|n| self.claim(n));
        let pods = all.map(pod);
        let pools = manifests().into_iter().filter(|one| !self.poolless || one.kind() != v1::ObjectKind::NodePool);
        let pools = pools.map(|manifest| Seen::plain(Change::Manifest(manifest)));
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

    fn node(&self, n: usize) -> Seen {
        let ready = if self.not_ready.contains(&n) { "Unknown" } else { "True" };
        Seen::plain(Change::Node(v1::NodeRecord {
            name: format!("n-{n}"),
            uid: format!("uid of n-{n}"),
            provider_id: self.machines[n].provider_id.clone(),
            labels: self.labels(n),
            capacity: amounts(),
            allocatable: amounts(),
            conditions: vec![condition("Ready", ready)],
            created_at_ms: 1,
            ..v1::NodeRecord::default()
        }))
    }

    fn claim(&self, n: usize) -> Seen {
        Seen::plain(Change::NodeClaim(v1::NodeClaimRecord {
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
        }))
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
fn pod(n: usize) -> Seen {
    let container = v1::Container { name: "main".to_owned(), ..v1::Container::default() };
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
    let shape = Arc::new(v1::PodShape { containers: vec![container], ..v1::PodShape::default() });
    Seen::Pod { record: Box::new(record), shape, labels: Arc::default(), volume_claims: None }
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

impl Cluster for Played {
    fn identity(&self) -> Identity {
        Identity { uid: UID.to_owned(), ..Identity::default() }
    }

    async fn observe(&self) -> Result<Observed, ClusterError> {
        let (tell, changes) = mpsc::channel(64);
        let mut scene = self.scene();
        scene.changes = Some(tell);
        Ok(Observed { records: scene.picture(), changes })
    }

    /// Drains end at once, since nobody asks what became of the pods of this cluster.
    async fn carry_out(&self, instruction: v1::Instruction) -> Done {
        let mut scene = self.scene();
        match instruction.action {
            Some(Action::DrainNode(drain)) => scene.drained.insert(drain.node_claim),
            Some(Action::DeleteNodeClaim(delete)) => scene.removed.insert(delete.node_claim),
            _ => false,
        };
        Done::well()
    }

    async fn highest_epoch(&self) -> Result<u64, ClusterError> {
        Ok(0)
    }

    async fn raise_epoch(&self, _epoch: u64) -> Result<(), ClusterError> {
        Ok(())
    }
}
