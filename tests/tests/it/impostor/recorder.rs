//! A proxy between an agent and the server that adds a token and records the agent's messages.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fleetwright_proto::v1;
use fleetwright_rpc::v1::agent_service_client::AgentServiceClient;
use fleetwright_rpc::v1::agent_service_server::{AgentService, AgentServiceServer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

/// Capacity of the channel in either direction, in messages.
const CHANNEL_CAPACITY: usize = 64;

#[derive(Debug, Clone)]
pub(super) struct Recorder {
    server: String,
    token: String,
    messages: Arc<Mutex<Vec<v1::ConnectRequest>>>,
    ended_count: Arc<AtomicUsize>,
}

impl Recorder {
    /// Listens in front of `server` until the runtime ends; returns its address.
    pub(super) async fn listen(server: &str, token: &str) -> (Self, String) {
        let recorder = Self {
            server: server.to_owned(),
            token: token.to_owned(),
            messages: Arc::default(),
            ended_count: Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("a listener has an address"));
        let service = AgentServiceServer::new(recorder.clone());
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener)));
        (recorder, address)
    }

    pub(super) fn messages(&self) -> Vec<v1::ConnectRequest> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of streams that the server has ended.
    pub(super) fn ended_streams(&self) -> usize {
        self.ended_count.load(Ordering::Relaxed)
    }

    async fn forward_requests(
        self,
        mut responses: Streaming<v1::ConnectRequest>,
        onward: mpsc::Sender<v1::ConnectRequest>,
    ) {
        while let Ok(Some(message)) = responses.message().await {
            self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message.clone());
            if onward.send(message).await.is_err() {
                return;
            }
        }
    }

    async fn forward_responses(
        self,
        mut answers: Streaming<v1::ConnectResponse>,
        back: mpsc::Sender<Result<v1::ConnectResponse, Status>>,
    ) {
        loop {
            let answer = answers.message().await;
            let over = !matches!(answer, Ok(Some(_)));
            if over {
                self.ended_count.fetch_add(1, Ordering::Relaxed);
            }
            let sent = match answer.transpose() {
                Some(answer) => back.send(answer).await.is_ok(),
                None => false,
            };
            if over || !sent {
                return;
            }
        }
    }
}

#[tonic::async_trait]
impl AgentService for Recorder {
    type ConnectStream = ReceiverStream<Result<v1::ConnectResponse, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::ConnectRequest>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (onward, outgoing) = mpsc::channel(CHANNEL_CAPACITY);
        tokio::spawn(self.clone().forward_requests(request.into_inner(), onward));
        let answers = open_stream(&self.server, &self.token, ReceiverStream::new(outgoing)).await?;
        let (back, returned) = mpsc::channel(CHANNEL_CAPACITY);
        tokio::spawn(self.clone().forward_responses(answers, back));
        Ok(Response::new(ReceiverStream::new(returned)))
    }
}

/// Opens a stream to the server under a token and sends `what`.
pub(super) async fn open_stream(
    server: &str,
    token: &str,
    what: impl futures::Stream<Item = v1::ConnectRequest> + Send + 'static,
) -> Result<Streaming<v1::ConnectResponse>, Status> {
    let unreachable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
    let channel =
        Endpoint::from_shared(server.to_owned()).map_err(unreachable)?.connect().await.map_err(unreachable)?;
    let mut request = Request::new(what);
    let bearer = format!("Bearer {token}").parse().map_err(|_| Status::invalid_argument("no token"))?;
    request.metadata_mut().insert("authorization", bearer);
    Ok(AgentServiceClient::new(channel).connect(request).await?.into_inner())
}
