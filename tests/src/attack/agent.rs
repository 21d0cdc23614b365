//! A fake agent that sends the given objects and acknowledges every instruction.

use std::time::{Duration, Instant};

use agent::link::chunk;
use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::connect_request::Message;
use fleetwright_proto::v1::connect_response::Message as Response;
use fleetwright_proto::v1::instruction::Action;
use fleetwright_rpc::v1::agent_service_client::AgentServiceClient;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::transport::Endpoint;

/// Number of changes in one message.
const CHUNK: usize = 100;

#[derive(Debug)]
pub(super) struct Agent {
    requests: mpsc::Sender<v1::ConnectRequest>,
    /// When the creation of NodeClaims was requested.
    ordered: mpsc::UnboundedReceiver<Instant>,
    sequence: u64,
}

impl Agent {
    /// Connects as `cluster`, which has one NodePool and these objects.
    ///
    /// # Panics
    /// When the server rejects the connection.
    pub(super) async fn join(address: &str, cluster: &str, objects: Vec<v1::Change>) -> Self {
        Self::join_with_token(address, cluster, None, objects).await
    }

    /// The same under this token.
    ///
    /// # Panics
    /// When the server rejects the connection.
    pub(super) async fn join_with_token(
        address: &str,
        cluster: &str,
        token: Option<&str>,
        objects: Vec<v1::Change>,
    ) -> Self {
        let channel = Endpoint::from_shared(address.to_owned()).expect("an address").connect().await;
        let channel = channel.expect("the server accepts connections");
        let (requests, outgoing) = mpsc::channel(4);
        let hello = v1::Hello {
            cluster_name: cluster.to_owned(),
            cluster_uid: format!("uid of {cluster}"),
            ..v1::Hello::default()
        };
        requests.send(request(Message::Hello(hello))).await.expect("the channel is empty");
        let mut stream = Request::new(ReceiverStream::new(outgoing));
        if let Some(token) = token {
            stream.metadata_mut().insert("authorization", format!("Bearer {token}").parse().expect("a token is ASCII"));
        }
        let answer = AgentServiceClient::new(channel).connect(stream).await;
        let mut responses = answer.expect("the server accepts the stream").into_inner();
        let welcome = responses.message().await.expect("the server responds").and_then(|answer| answer.message);
        assert!(matches!(welcome, Some(Response::Welcome(_))), "{cluster}: {welcome:?}");
        let all = manifests().into_iter().chain(objects).collect();
        for part in chunk::snapshot_parts(all, 1) {
            let snapshot = v1::Snapshot { id: 1, part: Some(part) };
            requests.send(request(Message::Snapshot(snapshot))).await.expect("the server listens");
        }
        let (orders, ordered) = mpsc::unbounded_channel();
        // Every instruction is acknowledged, as an agent does; only the creation of NodeClaims is
        // measured.
        let answers = requests.clone();
        tokio::spawn(async move {
            while let Ok(Some(answer)) = responses.message().await {
                let Some(Response::Instruction(instruction)) = answer.message else { continue };
                if matches!(instruction.action, Some(Action::CreateNodeClaim(_))) {
                    let _no_receiver = orders.send(Instant::now());
                }
                let (instruction_id, epoch) = (instruction.id, instruction.epoch);
                let ack = v1::Ack { instruction_id, epoch, outcome: v1::Outcome::Done.into(), detail: String::new() };
                if answers.send(request(Message::Ack(ack))).await.is_err() {
                    return;
                }
            }
        });
        Self { requests, ordered, sequence: 0 }
    }

    /// Sends these changes; returns whether the stream is still open.
    pub(super) async fn send_changes(&mut self, changes: Vec<v1::Change>) -> bool {
        for some in changes.chunks(CHUNK) {
            self.sequence += 1;
            let delta = v1::Delta { sequence: self.sequence, changes: some.to_vec() };
            if self.requests.send(request(Message::Delta(delta))).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Time until the server requests a NodeClaim.
    pub(super) async fn time_until_ordered(&mut self, timeout: Duration) -> Option<Duration> {
        let begun = Instant::now();
        let ordered = tokio::time::timeout(timeout, self.ordered.recv()).await.ok().flatten()?;
        Some(ordered.saturating_duration_since(begun))
    }
}

fn request(message: Message) -> v1::ConnectRequest {
    v1::ConnectRequest { message: Some(message) }
}

pub(super) fn change(change: Change) -> v1::Change {
    v1::Change { change: Some(change) }
}

/// The NodePool `default` and its EC2NodeClass.
fn manifests() -> Vec<v1::Change> {
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
        },
    });
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
    });
    let record = |kind: v1::ObjectKind, object: serde_json::Value| {
        change(Change::Manifest(v1::ManifestRecord {
            kind: kind.into(),
            name: "default".to_owned(),
            json: object.to_string().into_bytes(),
            resource_version: "1".to_owned(),
        }))
    };
    vec![record(v1::ObjectKind::Ec2NodeClass, class), record(v1::ObjectKind::NodePool, pool)]
}
