//! gRPC around the sessions: one task for each cluster owns its [`Session`]; one for each stream carries its messages there.
//!
//! Nothing here waits for two things at once. A cluster's task reads no further messages while the control loop has not taken
//! what came of the last one, so a slow control loop holds the agents up and nothing piles up; orders of the control loop are
//! always taken, so the two never wait for each other. An agent that is held up is not silent: its silence counts from the last
//! moment at which it was not listened to.

mod cluster;
mod door;
mod visitor;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::control::{ClusterId, Instruction, InstructionId};
use engine::model::Timestamp;
use fleetwright_proto::v1;
use fleetwright_proto::v1::agent_service_server::AgentService;
use fleetwright_proto::v1::connect_request::Message;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};
use tracing::error;

use super::decode::pools::ReadPools;
use super::intern::Interner;
use super::state::{Session, SessionEvent, Settings, check_cluster_name};
use crate::trust::book::Book;
use cluster::{Incoming, Order, Seat};
use door::Door;
use prost::Message as _;
use visitor::Visitor;

/// A stream that does not begin with `Hello` in this time is no agent's.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// A silent connection is probed this often, and ends when a probe is not answered in the other time. Without probes a network
/// that swallows packets looks like an agent with nothing to say.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));
/// Clusters that one server knows. A cluster's task costs some 10 KB when idle; the bound keeps strangers from making up names.
const MOST_CLUSTERS: usize = 10_000;
/// Bytes of a request's headers; a token takes one or two thousand.
const HEADERS_MAX: u32 = 32 * 1024;
/// Streams of one connection: an agent has one, a program a few.
const STREAMS_MAX: u32 = 16;
/// Messages of one agent that wait for its cluster's task.
const INCOMING: usize = 2;
/// Orders that wait for a cluster's task, which takes them as fast as they come.
const ORDERS: usize = 256;
/// Responses that wait for the wire; more of them stay in the cluster's task, bounded by the outbox.
const OUTGOING: usize = 64;

/// A transport server with the settings that agents need. Other services may be added to it.
#[must_use]
pub fn transport() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1))
        .http2_max_header_list_size(HEADERS_MAX)
        // Windows begin at 64 KiB, which is what a stranger can have lie unread, and grow with what is read.
        .http2_adaptive_window(Some(true))
        .max_concurrent_streams(STREAMS_MAX)
}

/// All sessions of a server: the service that agents connect to, and the control loop's way to them. Cloning it costs a counter.
#[derive(Clone)]
pub struct Sessions {
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
    read_pools: ReadPools,
    events: mpsc::Sender<SessionEvent>,
    /// Held only to look a cluster up or to add it, never across a wait.
    clusters: Mutex<BTreeMap<ClusterId, Seat>>,
    book: Arc<Book>,
    next_stream: AtomicU64,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// What a cluster's task died of.
    fault: watch::Sender<Option<String>>,
}

impl Sessions {
    /// Sessions that tell the control loop at the other end of `events` what happens, have NodePools read by `read_pools`, and
    /// let in whom `book` trusts.
    #[must_use]
    pub(crate) fn new(
        settings: Settings,
        read_pools: ReadPools,
        events: mpsc::Sender<SessionEvent>,
        book: Arc<Book>,
    ) -> Self {
        let shared = Shared {
            settings,
            interner: Arc::default(),
            read_pools,
            events,
            clusters: Mutex::default(),
            book,
            next_stream: AtomicU64::new(1),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            fault: watch::channel(None).0,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The service, to be added to [`transport`].
    #[must_use]
    pub(crate) fn service(&self) -> Door {
        Door(self.clone())
    }

    /// Answers [`SessionEvent::Greeted`]: this server decides for the cluster under `epoch`. The epoch must be at least the
    /// greeting's highest, and no other process may ever have held it.
    pub async fn accept(&self, cluster: &ClusterId, epoch: u64) {
        self.order(cluster, Order::Accept(epoch)).await;
    }

    /// Answers [`SessionEvent::Greeted`]: this server does not decide for the cluster.
    pub async fn refuse(&self, cluster: &ClusterId, reason: String) {
        self.order(cluster, Order::Refuse(reason)).await;
    }

    /// Has the cluster's agent, if it is there, send a snapshot.
    pub async fn resync(&self, cluster: &ClusterId, reason: String) {
        self.order(cluster, Order::Resync(reason)).await;
    }

    /// Has `instruction` carried out in the cluster, now or when its agent is back. The answer comes as an event
    /// (`InstructionAcked`, or `InstructionFailed`, also when `deadline` passes without one).
    pub async fn instruct(
        &self,
        cluster: &ClusterId,
        id: InstructionId,
        instruction: Instruction,
        deadline: Timestamp,
    ) {
        self.order(cluster, Order::Instruct { id, instruction: Box::new(instruction), deadline }).await;
    }

    /// Completes when the task of a cluster has died, with what it died of. Nobody hears that cluster's agent any more, so the
    /// process had better end and begin anew.
    pub async fn broken(&self) -> String {
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

    /// Ends all streams and waits until every task has ended. Agents connect to another server, or again later.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    async fn order(&self, cluster: &ClusterId, order: Order) {
        match self.seat(cluster) {
            Ok(seat) => {
                // The task ends only with the server, and then nobody waits for the answer.
                drop(seat.orders.send(order).await);
            }
            Err(status) => error!(%cluster, reason = status.message(), "an order for a cluster is lost"),
        }
    }

    /// The cluster's task, which is started when the cluster is not known.
    fn seat(&self, cluster: &ClusterId) -> Result<Seat, Status> {
        let shared = &self.shared;
        let mut clusters = shared.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seat) = clusters.get(cluster) {
            return Ok(seat.clone());
        }
        if clusters.len() >= MOST_CLUSTERS {
            return Err(Status::resource_exhausted(format!(
                "this server knows {MOST_CLUSTERS} clusters and takes no more"
            )));
        }
        let session = Session::new(
            Arc::clone(cluster),
            shared.settings.clone(),
            Arc::clone(&shared.interner),
            shared.read_pools.clone(),
        );
        let (seat, task) = cluster::Task::new(session, shared.events.clone(), shared.stop.clone());
        let (watched, of) = (Arc::clone(shared), Arc::clone(cluster));
        shared.tasks.spawn(async move {
            if let Err(fault) = tokio::spawn(task.run()).await {
                watched.fault.send_replace(Some(format!("the task of cluster {of} failed: {fault}")));
            }
        });
        clusters.insert(Arc::clone(cluster), seat.clone());
        Ok(seat)
    }

    /// Carries one stream's messages to its cluster's task.
    async fn carry(
        self,
        mut heard: Streaming<v1::ConnectRequest>,
        visitor: Visitor,
        say: mpsc::Sender<Result<v1::ConnectResponse, Status>>,
    ) {
        let stop = self.shared.stop.clone();
        // The cluster's task ends the stream by it; the status that it sends before may find no room.
        let over = CancellationToken::new();
        let refused = tokio::select! {
            () = stop.cancelled() => Some(Status::unavailable("the server stops")),
            () = over.cancelled() => None,
            refused = self.try_carry(&mut heard, &visitor, &say, &over) => refused.err(),
        };
        if let Some(status) = refused {
            // An agent that has left does not want to know why.
            drop(say.try_send(Err(status)));
        }
    }

    async fn try_carry(
        &self,
        heard: &mut Streaming<v1::ConnectRequest>,
        visitor: &Visitor,
        say: &mpsc::Sender<Result<v1::ConnectResponse, Status>>,
        over: &CancellationToken,
    ) -> Result<(), Status> {
        let hello = first(heard).await?;
        let cluster = check_cluster_name(&hello.cluster_name).map_err(Status::invalid_argument)?;
        let until = visitor.admit(&self.shared.book, &cluster).await?;
        let seat = self.seat(&cluster)?;
        let stream = self.shared.next_stream.fetch_add(1, Ordering::Relaxed);
        let gone = |_| Status::unavailable("the server stops");
        let opened = Incoming::Opened { stream, hello: Box::new(hello), say: say.clone(), over: over.clone() };
        seat.incoming.send(opened).await.map_err(gone)?;
        let ended = tokio::select! {
            listened = listen(heard, &seat, stream) => listened,
            ended = visitor.ends(&self.shared.book, &cluster, until) => Err(ended),
        };
        seat.incoming.send(Incoming::Closed { stream }).await.map_err(gone)?;
        ended
    }
}

/// Carries messages as they come, as fast as the cluster's allowance allows. The end of a stream and its failure are the same
/// to the session: the agent is gone.
async fn listen(heard: &mut Streaming<v1::ConnectRequest>, seat: &Seat, stream: u64) -> Result<(), Status> {
    loop {
        let request = match heard.message().await {
            Ok(Some(request)) => request,
            // More than may be sent in one message.
            Err(refused) if refused.code() == Code::ResourceExhausted => return Err(refused),
            Ok(None) | Err(_) => return Ok(()),
        };
        let wait = seat.allowance.spend(request.encoded_len());
        let gone = |_| Status::unavailable("the server stops");
        seat.incoming.send(Incoming::Said { stream, request: Box::new(request) }).await.map_err(gone)?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

async fn first(heard: &mut Streaming<v1::ConnectRequest>) -> Result<v1::Hello, Status> {
    let silent = |_| Status::deadline_exceeded(format!("no Hello came in {} s", HELLO_TIMEOUT.as_secs()));
    let first = tokio::time::timeout(HELLO_TIMEOUT, heard.message()).await.map_err(silent)??;
    match first.and_then(|request| request.message) {
        Some(Message::Hello(hello)) => Ok(hello),
        _ => Err(Status::invalid_argument("a stream begins with Hello")),
    }
}

#[tonic::async_trait]
impl AgentService for Sessions {
    type ConnectStream = ReceiverStream<Result<v1::ConnectResponse, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::ConnectRequest>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (say, said) = mpsc::channel(OUTGOING);
        let sessions = self.clone();
        let visitor = Visitor::of(&request);
        self.shared.tasks.spawn(sessions.carry(request.into_inner(), visitor, say));
        Ok(Response::new(ReceiverStream::new(said)))
    }
}

#[cfg(test)]
mod tests;
