//! An agent that says Hello, and shows what a test wants of its cluster.

use fleetwright_proto::v1;
use fleetwright_proto::v1::change::Change;
use fleetwright_proto::v1::connect_request::Message;
use fleetwright_proto::v1::connect_response::Message as Answer;
use fleetwright_proto::v1::snapshot::Part;
use fleetwright_rpc::v1::agent_service_client::AgentServiceClient;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

use crate::TIMEOUT;

/// A stream of an agent, open until it is dropped.
pub(crate) struct AgentStream {
    requests: tokio::sync::mpsc::Sender<v1::ConnectRequest>,
    responses: Streaming<v1::ConnectResponse>,
}

impl AgentStream {
    /// The agent of the one cluster says Hello under `name`.
    pub(crate) async fn open(server: &str, name: &str) -> Self {
        Self::open_as(server, name, "uid-of-the-one-cluster").await
    }

    /// The agent of the cluster with this UID says Hello under `name`.
    pub(crate) async fn open_as(server: &str, name: &str, uid: &str) -> Self {
        let (requests, outgoing) = tokio::sync::mpsc::channel(1);
        let (cluster_name, cluster_uid) = (name.to_owned(), uid.to_owned());
        let hello = v1::Hello { cluster_name, cluster_uid, ..v1::Hello::default() };
        let hello = v1::ConnectRequest { message: Some(Message::Hello(hello)) };
        requests.send(hello).await.expect("the channel has capacity");
        let channel = Endpoint::from_shared(server.to_owned()).expect("an address").connect_lazy();
        let mut client = AgentServiceClient::new(channel);
        let opened = client.connect(ReceiverStream::new(outgoing)).await;
        let responses = opened.expect("the server accepts the stream").into_inner();
        Self { requests, responses }
    }

    /// Sends a snapshot with these definitions and records.
    pub(crate) async fn show(&self, changes: Vec<Change>) {
        let change_count = changes.len() as u64;
        let changes = changes.into_iter().map(|change| v1::Change { change: Some(change) }).collect();
        for part in [
            Part::Begin(v1::SnapshotBegin::default()),
            Part::Chunk(v1::SnapshotChunk { changes, index: 0 }),
            Part::End(v1::SnapshotEnd { chunk_count: 1, change_count }),
        ] {
            let snapshot = Message::Snapshot(v1::Snapshot { id: 1, part: Some(part) });
            let sent = self.requests.send(v1::ConnectRequest { message: Some(snapshot) });
            sent.await.expect("the stream is open");
        }
    }

    /// The first answer of the server.
    pub(crate) async fn answer(&mut self) -> Result<Answer, Status> {
        let answer = tokio::time::timeout(TIMEOUT, self.responses.message()).await.expect("an answer in time")?;
        Ok(answer.and_then(|answer| answer.message).expect("an answer"))
    }
}
