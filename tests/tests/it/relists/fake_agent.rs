//! An agent of a synthetic cluster: six instances with five pods and a DaemonSet pod each. It uses
//! the real protocol state ([`Link`]); the test hides objects from its lists.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agent::link::{AgentIdentity, Link, Output};
use agent::{Done, Record};
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_rpc::v1::agent_service_client::AgentServiceClient;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

use crate::TIMEOUT;

/// Machines of the cluster, and pods on each.
pub(crate) const MACHINES: usize = 6;
pub(crate) const PODS: usize = 5;
/// Interval at which the protocol state is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Kinds that can be hidden from a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Pods,
    Nodes,
    Claims,
    Pools,
}

/// An agent and its synthetic cluster.
pub(crate) struct FakeAgent {
    link: Link,
    requests: Option<mpsc::Sender<v1::ConnectRequest>>,
    responses: Option<Streaming<v1::ConnectResponse>>,
    hidden: BTreeSet<Kind>,
    /// Names of pods that have terminated.
    ended: BTreeSet<String>,
    /// NodeClaims whose drain or deletion was requested.
    pub(crate) removed: Vec<String>,
    /// Status with which the server ended the last stream.
    pub(crate) rejection: Option<Status>,
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl FakeAgent {
    pub(crate) fn new(cluster: &str, uid: &str) -> Self {
        let identity =
            AgentIdentity { cluster_name: cluster.to_owned(), cluster_uid: uid.to_owned(), ..AgentIdentity::default() };
        Self {
            link: Link::new(identity, 0, 1),
            requests: None,
            responses: None,
            hidden: BTreeSet::new(),
            ended: BTreeSet::new(),
            removed: Vec::new(),
            rejection: None,
        }
    }

    pub(crate) async fn connect(&mut self, address: &str) {
        let (requests, outgoing) = mpsc::channel(64);
        requests.send(self.link.open_stream(now())).await.expect("the channel has capacity");
        let channel = Endpoint::from_shared(address.to_owned()).expect("an address").connect().await;
        let mut client = AgentServiceClient::new(channel.expect("a server"));
        match client.connect(ReceiverStream::new(outgoing)).await {
            Ok(responses) => (self.requests, self.responses) = (Some(requests), Some(responses.into_inner())),
            Err(status) => self.rejection = Some(status),
        }
    }

    pub(crate) fn disconnect(&mut self) {
        self.link.close_stream();
        (self.requests, self.responses) = (None, None);
    }

    /// Runs the stream until `find` returns a value.
    pub(crate) async fn wait_until<T>(&mut self, what: &str, mut find: impl FnMut(&Self) -> Option<T>) -> T {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = find(self) {
                return found;
            }
            assert!(Instant::now() < end, "waited for {what}; removed: {:?}", self.removed);
            self.receive_response().await;
        }
    }

    async fn receive_response(&mut self) {
        let Some(responses) = &mut self.responses else { return tokio::time::sleep(POLL_INTERVAL).await };
        let outputs = match tokio::time::timeout(POLL_INTERVAL, responses.message()).await {
            Err(_) => self.link.tick(now()),
            Ok(Ok(Some(response))) => self.link.handle_response(response, now()),
            Ok(ended) => {
                self.rejection = ended.err();
                return self.disconnect();
            }
        };
        self.execute_outputs(outputs).await;
    }

    async fn execute_outputs(&mut self, outputs: Vec<Output>) {
        let mut queue = std::collections::VecDeque::from(outputs);
        while let Some(output) = queue.pop_front() {
            match output {
                Output::Send(request) => {
                    if let Some(requests) = &self.requests {
                        // A stream that the server has ended accepts no more messages.
                        drop(requests.send(request).await);
                    }
                }
                Output::TakeSnapshot => queue.extend(self.link.send_snapshot(self.records(), now())),
                Output::Execute(instruction) => {
                    self.record_instruction(&instruction);
                    queue.extend(self.link.finish_instruction(&instruction.id, Done::ok(), now()));
                }
                Output::RaiseEpoch(_) | Output::ClockSkew(_) | Output::SendSpans(_) => {}
                Output::CloseStream(_) => self.disconnect(),
            }
        }
    }

    fn record_instruction(&mut self, instruction: &v1::Instruction) {
        match &instruction.action {
            Some(v1::instruction::Action::DrainNode(drain)) => self.removed.push(drain.node_claim.clone()),
            Some(v1::instruction::Action::DeleteNodeClaim(delete)) => self.removed.push(delete.node_claim.clone()),
            _ => {}
        }
    }

    /// Relists with objects of exactly these kinds hidden; sends the difference.
    pub(crate) async fn relist(&mut self, hidden: &[Kind]) {
        let hidden: BTreeSet<Kind> = hidden.iter().copied().collect();
        let before = std::mem::replace(&mut self.hidden, hidden.clone());
        let mut records = Vec::new();
        for kind in hidden.difference(&before) {
            records.extend(self.objects(*kind).into_iter().map(|(removal, _)| removal));
        }
        for kind in before.difference(&hidden) {
            records.extend(self.objects(*kind).into_iter().map(|(_, object)| object));
        }
        let outputs = self.link.send_changes(records, now());
        self.execute_outputs(outputs).await;
    }

    /// Creates a pod that no instance type has room for.
    pub(crate) async fn create_unschedulable_pod(&mut self) {
        let record = v1::PodRecord {
            namespace: "default".to_owned(),
            name: "large".to_owned(),
            uid: "uid-large".to_owned(),
            phase: v1::PodPhase::Pending.into(),
            scheduled_reason: "Unschedulable".to_owned(),
            created_at_ms: now(),
            ..v1::PodRecord::default()
        };
        let (record, labels) = (Box::new(record), Arc::default());
        let pod = Record::Pod { record, shape: shape("100000"), labels, volume_claims: None };
        let outputs = self.link.send_changes(vec![pod], now());
        self.execute_outputs(outputs).await;
    }

    /// Hides kinds from later lists without sending removals.
    pub(crate) fn hide_objects(&mut self, hidden: &[Kind]) {
        self.hidden = hidden.iter().copied().collect();
    }

    /// Terminates the pods of a machine: they are first terminating and then removed.
    pub(crate) async fn end_pods_on(&mut self, machine: usize) {
        let names: Vec<String> = (0..PODS).map(|n| format!("p{machine}-{n}")).collect();
        for (name, terminating) in names.iter().map(|name| (name, true)).chain(names.iter().map(|name| (name, false))) {
            let records =
                if terminating { pod(name, machine, true) } else { gone(v1::ObjectKind::Pod, "default", name) };
            self.ended.insert(name.clone());
            let outputs = self.link.send_changes(vec![records], now());
            self.execute_outputs(outputs).await;
        }
    }

    fn records(&self) -> Vec<Record> {
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "spec": {
                "role": "nodes",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"fleetwright.dev/simulated": "true"}}],
                "securityGroupSelectorTerms": [{"tags": {"fleetwright.dev/simulated": "true"}}],
            },
        });
        let namespace = v1::NamespaceRecord { name: "default".to_owned(), labels: Vec::new() };
        let daemon = Record::DaemonSet {
            record: v1::DaemonSetRecord {
                namespace: "default".to_owned(),
                name: "proxy".to_owned(),
                uid: "daemon".to_owned(),
                ..v1::DaemonSetRecord::default()
            },
            shape: shape("10m"),
            labels: Arc::default(),
        };
        let around =
            [manifest(v1::ObjectKind::Ec2NodeClass, &class), Record::plain(Change::Namespace(namespace)), daemon];
        let kinds = [Kind::Pools, Kind::Claims, Kind::Nodes, Kind::Pods].into_iter();
        let shown = kinds.filter(|kind| !self.hidden.contains(kind)).flat_map(|kind| self.objects(kind));
        around.into_iter().chain(shown.map(|(_, records)| records)).collect()
    }

    /// Every object of a kind, each with its removal.
    fn objects(&self, kind: Kind) -> Vec<(Record, Record)> {
        let machines = 0..MACHINES;
        match kind {
            Kind::Pools => vec![(gone(v1::ObjectKind::NodePool, "", "default"), pool())],
            Kind::Claims => {
                machines.map(|n| (gone(v1::ObjectKind::NodeClaim, "", &format!("m{n}")), claim(n))).collect()
            }
            Kind::Nodes => machines.map(|n| (gone(v1::ObjectKind::Node, "", &format!("n-m{n}")), node(n))).collect(),
            Kind::Pods => {
                let own = |n: usize| (0..PODS).map(move |pod| (format!("p{n}-{pod}"), n));
                let names = machines.flat_map(|n| own(n).chain([(format!("proxy-{n}"), n)]));
                let there = names.filter(|(name, _)| !self.ended.contains(name));
                there.map(|(name, n)| (gone(v1::ObjectKind::Pod, "default", &name), pod(&name, n, false))).collect()
            }
        }
    }
}

fn gone(kind: v1::ObjectKind, namespace: &str, name: &str) -> Record {
    Record::removed(kind, namespace, name)
}

fn pair(key: &str, value: &str) -> v1::StringPair {
    v1::StringPair { key: key.to_owned(), value: value.to_owned() }
}

fn amounts() -> Vec<v1::Quantity> {
    let amount =
        |resource: &str, amount: &str| v1::Quantity { resource: resource.to_owned(), amount: amount.to_owned() };
    vec![amount("cpu", "4"), amount("memory", "16Gi"), amount("pods", "50")]
}

fn shape(cpu: &str) -> Arc<str> {
    let container = json!({"name": "main", "resources": {"requests": {"cpu": cpu}}});
    json!({"spec": {"containers": [container]}}).to_string().into()
}

fn pod(name: &str, machine: usize, terminating: bool) -> Record {
    let kind = if name.starts_with("proxy") { "DaemonSet" } else { "ReplicaSet" };
    let owner = v1::Owner {
        api_version: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: "proxy".to_owned(),
        uid: "owner".to_owned(),
    };
    let record = v1::PodRecord {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        node_name: format!("n-m{machine}"),
        phase: v1::PodPhase::Running.into(),
        created_at_ms: 1,
        started_at_ms: 1,
        deleted_at_ms: i64::from(terminating),
        owner: Some(owner),
        ready: true,
        ..v1::PodRecord::default()
    };
    Record::Pod { record: Box::new(record), shape: shape("100m"), labels: Arc::default(), volume_claims: None }
}

fn labels() -> Vec<v1::StringPair> {
    vec![
        pair("karpenter.sh/nodepool", "default"),
        pair("karpenter.sh/capacity-type", "on-demand"),
        pair("node.kubernetes.io/instance-type", "m7g.xlarge"),
        pair("topology.kubernetes.io/zone", "us-east-1a"),
        pair("karpenter.sh/registered", "true"),
        pair("karpenter.sh/initialized", "true"),
    ]
}

fn node(machine: usize) -> Record {
    let ready = v1::Condition { r#type: "Ready".to_owned(), status: "True".to_owned(), ..v1::Condition::default() };
    Record::plain(Change::Node(Box::new(v1::NodeRecord {
        name: format!("n-m{machine}"),
        uid: format!("node-{machine}"),
        provider_id: format!("aws:///us-east-1a/i-{machine}"),
        labels: labels(),
        capacity: amounts(),
        allocatable: amounts(),
        conditions: vec![ready],
        created_at_ms: 1,
        ..v1::NodeRecord::default()
    })))
}

fn claim(machine: usize) -> Record {
    let class = v1::NodeClassReference {
        group: "karpenter.k8s.aws".to_owned(),
        kind: "EC2NodeClass".to_owned(),
        name: "default".to_owned(),
    };
    let owner = v1::Owner {
        api_version: "karpenter.sh/v1".to_owned(),
        kind: "NodePool".to_owned(),
        name: "default".to_owned(),
        uid: String::new(),
    };
    Record::plain(Change::NodeClaim(Box::new(v1::NodeClaimRecord {
        name: format!("m{machine}"),
        uid: format!("claim-{machine}"),
        labels: labels(),
        annotations: vec![pair("fleetwright.dev/managed", "true")],
        node_class: Some(class),
        provider_id: format!("aws:///us-east-1a/i-{machine}"),
        capacity: amounts(),
        allocatable: amounts(),
        expire_after: "Never".to_owned(),
        created_at_ms: 1,
        owner: Some(owner),
        ..v1::NodeClaimRecord::default()
    })))
}

fn pool() -> Record {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [],
            }},
            "disruption": {
                "consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}],
            },
        },
    });
    manifest(v1::ObjectKind::NodePool, &pool)
}

fn manifest(kind: v1::ObjectKind, object: &Value) -> Record {
    Record::plain(Change::Manifest(v1::ManifestRecord {
        kind: kind.into(),
        name: "default".to_owned(),
        json: object.to_string().into_bytes(),
        resource_version: "1".to_owned(),
    }))
}
