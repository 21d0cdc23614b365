//! gRPC service of the sessions: one task per cluster owns its [`Session`]; one task per stream
//! relays its messages.
//!
//! No task awaits two peers at once. A cluster's task reads no further message until the control
//! loop has accepted the events of the previous one, so a slow control loop applies backpressure to
//! agents and no queue grows. Commands of the control loop are always accepted, so the two cannot
//! deadlock. An agent under backpressure does not count as silent: silence is measured from the
//! last moment at which the server did not read.

mod cluster;
mod connect;
mod routes;
mod stream_auth;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use controller::{Instruction, InstructionId};
use fleetwright_proto::v1;
use fleetwright_proto::v1::connect_request::Message;
use fleetwright_rpc::v1::agent_service_server::AgentService;
use futures::StreamExt;
use futures::stream::Map;
use model::{ClusterName, Text, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};
use trace::InstructionContext;
use tracing::{error, warn};

use agent_session::intern::Interner;
use agent_session::state::{Session, Settings, check_cluster_name};
use auth::authorizer::Authorizer;
use cluster::{BoxedResponse, Command, Incoming, ResponseSender, SessionHandle};
use prost::Message as _;
pub(crate) use routes::{LoopRoute, Routes};
use stream_auth::StreamAuth;

/// A stream without `Hello` in this time is closed.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP/2 keepalive: ping interval and timeout. Without it, a network that drops packets is
/// indistinguishable from an idle agent.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));
/// Maximum clusters per server. An idle cluster task takes about 10 KB; the limit stops
/// unauthenticated peers from inventing names.
const MAX_CLUSTERS: usize = 10_000;
/// Maximum bytes of request headers; a token takes one or two thousand.
const MAX_HEADER_BYTES: u32 = 32 * 1024;
/// Maximum streams per connection: an agent opens one, an API client a few.
const MAX_STREAMS: u32 = 16;
/// Buffered responses per stream; further ones queue in the cluster's task, bounded by the outbox.
const RESPONSE_BUFFER: usize = 64;

/// Transport server with the settings for agents. Other services may be added to it.
#[must_use]
pub fn transport() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1))
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        // Windows start at 64 KiB, the most that an unauthenticated peer can leave unread, and grow
        // with what is read.
        .http2_adaptive_window(Some(true))
        .max_concurrent_streams(MAX_STREAMS)
}

/// All sessions of a server: the gRPC service for agents, and the control loop's handle to them.
/// Clones share the state.
#[derive(Clone)]
pub(crate) struct Sessions {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

struct Shared {
    settings: Settings,
    interner: Arc<Interner>,
    routes: Routes,
    /// Locked only to look up or add a cluster, never across an await.
    clusters: Mutex<BTreeMap<ClusterName, SessionHandle>>,
    authorizer: Arc<Authorizer>,
    next_stream: AtomicU64,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Error of a cluster task that panicked.
    fault: watch::Sender<Option<String>>,
}

impl Sessions {
    /// Sessions that send the events of each cluster by `routes` and authorize agents with `authorizer`.
    #[must_use]
    pub(crate) fn new(settings: Settings, routes: Routes, authorizer: Arc<Authorizer>) -> Self {
        let shared = Shared {
            settings,
            interner: Arc::default(),
            routes,
            clusters: Mutex::default(),
            authorizer,
            next_stream: AtomicU64::new(1),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            fault: watch::channel(None).0,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Answers [`SessionEvent::HelloReceived`](agent_session::SessionEvent::HelloReceived): this server decides for the cluster under `epoch`.
    /// The epoch must be at least the agent's highest, and no other process may ever have held it.
    pub async fn accept(&self, cluster: &ClusterName, epoch: u64) {
        self.send_command(cluster, Command::Accept(epoch)).await;
    }

    /// Answers [`SessionEvent::HelloReceived`](agent_session::SessionEvent::HelloReceived): this server does not decide for the cluster.
    pub async fn refuse(&self, cluster: &ClusterName, reason: String) {
        self.send_command(cluster, Command::Refuse(reason)).await;
    }

    /// Requests a snapshot from the cluster's agent, if it is connected.
    pub async fn resync(&self, cluster: &ClusterName, reason: String) {
        self.send_command(cluster, Command::Resync(reason)).await;
    }

    /// Sends `instruction` to the cluster's agent, now or when it reconnects. The result is an
    /// event: `InstructionAcked`, or `InstructionFailed`, also when `deadline` passes. `context` is the
    /// trace that it is part of.
    pub async fn instruct(
        &self,
        cluster: &ClusterName,
        id: InstructionId,
        instruction: Instruction,
        deadline: Timestamp,
        context: Option<InstructionContext>,
    ) {
        let command = Command::Instruct { id, instruction: Box::new(instruction), deadline, context };
        self.send_command(cluster, command).await;
    }

    /// Completes when a cluster task has panicked, with the error. That cluster's agent is no
    /// longer served, so the process should restart.
    pub(crate) async fn task_failed(&self) -> String {
        let mut faults = self.shared.fault.subscribe();
        loop {
            let fault = faults.borrow_and_update().clone();
            match fault {
                Some(fault) => return fault,
                None if faults.changed().await.is_err() => std::future::pending().await,
                None => {}
            }
        }
    }

    /// Closes all streams and waits until every task has ended. Agents reconnect to another server,
    /// or later.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    async fn send_command(&self, cluster: &ClusterName, command: Command) {
        match self.handle_of(cluster) {
            Ok(handle) => {
                // The task ends only at shutdown, when the command no longer matters.
                drop(handle.commands.send(command).await);
            }
            Err(status) => error!(%cluster, reason = status.message(), "session command dropped"),
        }
    }

    /// Version of the cluster's agent; empty if none has connected to this process.
    pub(crate) fn agent_version(&self, cluster: &ClusterName) -> Text {
        let clusters = self.shared.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let version = clusters.get(cluster).map(|handle| Arc::clone(&handle.agent_version));
        drop(clusters);
        version.map(|version| version.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    /// Whether the cluster's agent said last that its API server does not answer.
    pub(crate) fn is_api_server_unreachable(&self, cluster: &ClusterName) -> bool {
        let clusters = self.shared.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.get(cluster).is_some_and(|handle| handle.api_server_unreachable.load(Ordering::Relaxed))
    }

    /// Handle of the cluster's task; starts it for a new cluster that has an account and region.
    fn handle_of(&self, cluster: &ClusterName) -> Result<SessionHandle, Status> {
        let shared = &self.shared;
        let mut clusters = shared.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = clusters.get(cluster) {
            return Ok(handle.clone());
        }
        if clusters.len() >= MAX_CLUSTERS {
            return Err(Status::resource_exhausted(format!(
                "cluster limit reached: this server serves at most {MAX_CLUSTERS} clusters"
            )));
        }
        let route = shared.routes.of(cluster).map_err(|error| Status::failed_precondition(error.to_string()))?;
        let session = Session::new(
            cluster.clone(),
            shared.settings.clone(),
            Arc::clone(&shared.interner),
            route.pool_reader.clone(),
        );
        let rereads = route.catalogue.as_ref().map(|catalogue| catalogue.rereads_of(cluster));
        let (handle, task) = cluster::Task::new(session, route.events.clone(), rereads, shared.stop.clone());
        let (watched, of) = (Arc::clone(shared), cluster.clone());
        shared.tasks.spawn(async move {
            if let Err(fault) = tokio::spawn(task.run()).await {
                watched.fault.send_replace(Some(format!("task of cluster {of} failed: {fault}")));
            }
        });
        clusters.insert(cluster.clone(), handle.clone());
        Ok(handle)
    }

    /// Relays one stream's messages to its cluster's task.
    async fn relay(self, mut requests: Streaming<v1::ConnectRequest>, auth: StreamAuth, responses: ResponseSender) {
        let stop = self.shared.stop.clone();
        // Cancelled by the cluster's task to end the stream; its final status may not fit into the
        // buffer.
        let cancel = CancellationToken::new();
        let refused = tokio::select! {
            () = stop.cancelled() => Some(Status::unavailable("server is shutting down")),
            () = cancel.cancelled() => None,
            refused = self.try_relay(&mut requests, &auth, &responses, &cancel) => refused.err(),
        };
        if let Some(status) = refused {
            // Best effort: the agent may have disconnected.
            drop(responses.try_send(Err(status)));
        }
    }

    /// What agents are authorized by.
    pub(crate) fn authorizer(&self) -> &Arc<Authorizer> {
        &self.shared.authorizer
    }

    async fn try_relay(
        &self,
        requests: &mut Streaming<v1::ConnectRequest>,
        auth: &StreamAuth,
        responses: &ResponseSender,
        cancel: &CancellationToken,
    ) -> Result<(), Status> {
        let hello = receive_hello(requests).await?;
        let cluster = check_cluster_name(&hello.cluster_name);
        let cluster = cluster.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let expires_at = auth.admit(&self.shared.authorizer, &cluster, &hello.cluster_uid).await?;
        let handle = self.handle_of(&cluster).inspect_err(|status| {
            warn!(%cluster, peer = auth.peer(), reason = status.message(), "cluster rejected");
        })?;
        let stream = self.shared.next_stream.fetch_add(1, Ordering::Relaxed);
        let gone = |_| Status::unavailable("server is shutting down");
        let opened = Incoming::Opened {
            stream,
            hello: Box::new(hello),
            peer: auth.peer(),
            responses: responses.clone(),
            cancel: cancel.clone(),
        };
        handle.incoming.send(opened).await.map_err(gone)?;
        let ended = tokio::select! {
            listened = relay_requests(requests, &handle, stream) => listened,
            ended = auth.revoked(&self.shared.authorizer, &cluster, expires_at) => Err(ended),
        };
        handle.incoming.send(Incoming::Closed { stream }).await.map_err(gone)?;
        ended
    }
}

/// Relays messages as fast as the cluster's rate limit allows. A closed stream and a failed one are
/// equal to the session: the agent is disconnected.
async fn relay_requests(
    requests: &mut Streaming<v1::ConnectRequest>,
    handle: &SessionHandle,
    stream: u64,
) -> Result<(), Status> {
    loop {
        let request = match requests.message().await {
            Ok(Some(request)) => request,
            // The message exceeds the size limit.
            Err(refused) if refused.code() == Code::ResourceExhausted => return Err(refused),
            Ok(None) | Err(_) => return Ok(()),
        };
        let wait = handle.rate_limiter.charge(request.encoded_len());
        let gone = |_| Status::unavailable("server is shutting down");
        handle.incoming.send(Incoming::Received { stream, request: Box::new(request) }).await.map_err(gone)?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

async fn receive_hello(requests: &mut Streaming<v1::ConnectRequest>) -> Result<v1::Hello, Status> {
    let timed_out = |_| Status::deadline_exceeded(format!("no Hello within {} s", HELLO_TIMEOUT.as_secs()));
    let first = tokio::time::timeout(HELLO_TIMEOUT, requests.message()).await.map_err(timed_out)??;
    match first.and_then(|request| request.message) {
        Some(Message::Hello(hello)) => Ok(hello),
        _ => Err(Status::invalid_argument("the first message must be Hello")),
    }
}

#[tonic::async_trait]
impl AgentService for Sessions {
    type ConnectStream = Map<ReceiverStream<BoxedResponse>, fn(BoxedResponse) -> Result<v1::ConnectResponse, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::ConnectRequest>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (responses, outgoing) = mpsc::channel(RESPONSE_BUFFER);
        let sessions = self.clone();
        let auth = StreamAuth::of(&request);
        self.shared.tasks.spawn(sessions.relay(request.into_inner(), auth, responses));
        Ok(Response::new(ReceiverStream::new(outgoing).map(|response| response.map(|response| *response))))
    }
}

#[cfg(test)]
mod tests;
