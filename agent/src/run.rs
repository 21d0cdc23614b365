//! The task that runs an agent: connects [`Link`], a [`Cluster`] and a server, and reconnects when
//! the stream ends.
//!
//! One task owns the link. Every instruction runs in a task of its own, so a drain of hours blocks
//! nothing; these tasks outlive the stream, and their results wait for the next one.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleetwright_proto::v1;
use fleetwright_rpc::MAX_MESSAGE_BYTES;
use fleetwright_rpc::v1::agent_service_client::AgentServiceClient;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;
use tracing::{info, warn};

use crate::config::Credentials;
use crate::credentials;
use crate::disconnect::DisconnectReason;
use crate::error_chain::error_chain;
use crate::link::backoff::Backoff;
use crate::link::{AgentIdentity, Link, Output};
use crate::pending_changes::PendingChanges;
use crate::port::{Cluster, Done, Record};

/// Timeout of a connection to the server; the agent retries later.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of HTTP/2 keepalive probes. Without them a network that drops packets is
/// indistinguishable from an idle server.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A probe without an answer for this long ends the connection.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for opening a stream. Keepalive detects the loss of a peer, but a request lost between
/// two connections would never complete.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for sending a message. A server that accepts many clusters at once may read slowly, but
/// never this slowly.
const SEND_TIMEOUT: Duration = Duration::from_secs(300);
/// Timeout for the status of a stream that accepts no more messages: it was sent before the stream
/// closed.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest wait between attempts to read the highest epoch, in milliseconds.
const MAX_EPOCH_RETRY_MS: u64 = 60_000;
/// Messages buffered for sending; when the buffer is full, the agent stops reading changes, which
/// the cluster buffers.
const OUTGOING_CAPACITY: usize = 16;

/// The server to connect to, and the cluster's identity there.
#[derive(Debug, Clone)]
pub struct Target {
    /// The server, as `http://host:port` or `https://host:port`.
    pub server: String,
    /// Credential files of the connection, read again for every connection.
    pub credentials: Credentials,
    pub cluster_name: String,
    /// Region; empty when not known.
    pub region: String,
    /// `agent.karpenter-absent`: the operator states that no Karpenter is active in the cluster.
    pub karpenter_absent: bool,
    /// Makes the waits between connections differ from agent to agent.
    pub seed: u64,
}

/// A permanent error of an agent. After transient errors (no network, no server) the agent retries.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The server's address is none.
    #[error("cannot use {address:?} as the server's address: {reason}; write http://host:port or https://host:port")]
    Address {
        /// The value as written.
        address: String,
        /// Why it is none.
        reason: String,
    },
}

/// Runs the agent of `cluster` until `stop` completes. Instructions in progress are abandoned then;
/// executing them again after a restart changes nothing.
///
/// # Errors
/// [`RunError`] when the configuration can never work.
pub async fn run<C: Cluster>(cluster: Arc<C>, target: Target, stop: impl Future<Output = ()>) -> Result<(), RunError> {
    let endpoint = endpoint(&target)?;
    tokio::pin!(stop);
    // The stored epoch comes first: a link without it would accept a server that has lost the
    // cluster.
    let epoch = tokio::select! {
        () = &mut stop => return Ok(()),
        epoch = read_epoch(&*cluster, target.seed) => epoch,
    };
    let mut agent = Agent::new(cluster, &target, epoch);
    loop {
        let reason = tokio::select! {
            () = &mut stop => DisconnectReason::Shutdown,
            reason = agent.run_stream(&endpoint) => reason,
        };
        if matches!(reason, DisconnectReason::Shutdown) {
            info!(cluster = target.cluster_name, "agent stopped");
            return Ok(());
        }
        let wait = agent.close_stream(&reason);
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// The highest epoch that the cluster has stored, retried until it can be read.
async fn read_epoch<C: Cluster>(cluster: &C, seed: u64) -> u64 {
    let mut backoff = Backoff::with_longest(MAX_EPOCH_RETRY_MS, seed);
    loop {
        match cluster.highest_epoch().await {
            Ok(epoch) => return epoch,
            Err(error) => {
                let retry_in_ms = backoff.next_wait_ms();
                warn!(%error, retry_in_ms, "cannot read the highest epoch; retrying");
                tokio::time::sleep(Duration::from_millis(retry_in_ms)).await;
            }
        }
    }
}

/// Completes on SIGTERM or SIGINT. The handlers are installed by the call, not by the first poll,
/// so a process that receives a signal while it starts still shuts down in order.
pub fn shutdown_signal() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    let caught =
        signal(SignalKind::terminate()).and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
    async move {
        let Ok((mut terminate, mut interrupt)) = caught else {
            // Without a handler the signal ends the process at once, as requested.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

fn agent_identity<C: Cluster>(target: &Target, cluster: &C) -> AgentIdentity {
    let identity = cluster.identity();
    AgentIdentity {
        cluster_name: target.cluster_name.clone(),
        cluster_uid: identity.uid,
        kubernetes_version: identity.kubernetes_version,
        region: target.region.clone(),
        karpenter_absent: target.karpenter_absent,
    }
}

fn endpoint(target: &Target) -> Result<Endpoint, RunError> {
    let refuse = |error: tonic::transport::Error| RunError::Address {
        address: target.server.clone(),
        reason: error_chain(&error),
    };
    let endpoint = Endpoint::from_shared(target.server.clone()).map_err(refuse)?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// Milliseconds since 1970.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The next event of a stream.
enum StreamEvent {
    Response(Box<Result<Option<v1::ConnectResponse>, tonic::Status>>),
    Changes(Option<Vec<Record>>),
    /// Changes that were added earlier are to be sent.
    Due,
    Finished(String, Done),
    Tick,
}

struct Agent<C> {
    link: Link,
    /// The server's address and the cluster's name, for log lines.
    names: (String, String),
    credentials: Credentials,
    cluster: Arc<C>,
    /// Instructions that are being executed, each with its id.
    instructions: JoinSet<(String, Done)>,
    /// Changes since the last list.
    changes: Option<mpsc::Receiver<Vec<Record>>>,
    /// Those that are not sent yet.
    pending: PendingChanges,
    /// When the server admitted the present stream.
    connected_at: Option<Instant>,
}

impl<C: Cluster> Agent<C> {
    fn new(cluster: Arc<C>, target: &Target, epoch: u64) -> Self {
        Self {
            link: Link::new(agent_identity(target, &*cluster), epoch, target.seed),
            names: (target.server.clone(), target.cluster_name.clone()),
            credentials: target.credentials.clone(),
            cluster,
            instructions: JoinSet::new(),
            changes: None,
            pending: PendingChanges::default(),
            connected_at: None,
        }
    }

    /// One stream from its beginning to its end.
    async fn run_stream(&mut self, endpoint: &Endpoint) -> DisconnectReason {
        match self.try_run_stream(endpoint).await {
            Ok(()) => DisconnectReason::Ended,
            Err(reason) => reason,
        }
    }

    async fn try_run_stream(&mut self, endpoint: &Endpoint) -> Result<(), DisconnectReason> {
        let endpoint = credentials::encrypt(endpoint.clone(), &self.credentials)?;
        self.link.set_facts(self.cluster.facts().await);
        let (requests, mut responses) =
            with_timeout(OPEN_TIMEOUT, "the stream was not open", self.open_stream(&endpoint)).await?;
        let mut ticks = tokio::time::interval(Duration::from_millis(self.link.tick_interval_ms()));
        // Ends with the stream.
        let mut reports = JoinSet::new();
        loop {
            let next = self.next_event(&mut responses, &mut ticks).await;
            let heartbeat_before = self.link.tick_interval_ms();
            let outputs = match next {
                StreamEvent::Response(response) => match *response {
                    Ok(Some(response)) => self.handle_response(response),
                    Ok(None) => return Ok(()),
                    Err(status) => return Err(DisconnectReason::Status(Box::new(status))),
                },
                StreamEvent::Changes(Some(seen)) => {
                    self.pending.add(seen);
                    self.send_due_changes()
                }
                StreamEvent::Due => self.send_due_changes(),
                StreamEvent::Changes(None) => self.request_snapshot(),
                StreamEvent::Finished(id, done) => self.link.finish_instruction(&id, done, now_ms()),
                StreamEvent::Tick => self.link.tick(now_ms()),
            };
            if reports.is_empty()
                && self.link.is_established()
                && let Some(unreachable) = self.cluster.api_server_unreachable()
            {
                reports.spawn(report_api_server(unreachable, requests.clone()));
            }
            if let Err(reason) = self.execute_outputs(outputs, &requests).await {
                return Err(with_status(reason, &mut responses).await);
            }
            if self.link.tick_interval_ms() != heartbeat_before {
                ticks = tokio::time::interval(Duration::from_millis(self.link.tick_interval_ms()));
            }
        }
    }

    fn send_due_changes(&mut self) -> Vec<Output> {
        self.pending.take(Instant::now()).map_or_else(Vec::new, |changes| self.link.send_changes(changes, now_ms()))
    }

    fn handle_response(&mut self, response: v1::ConnectResponse) -> Vec<Output> {
        let outputs = self.link.handle_response(response, now_ms());
        if self.connected_at.is_none() && self.link.is_established() {
            self.connected_at = Some(Instant::now());
            let (server, cluster) = &self.names;
            info!(server, cluster, epoch = self.link.highest_epoch(), "connected to the server");
        }
        outputs
    }

    /// Closes the stream that ended for this reason; returns the wait before the next one.
    fn close_stream(&mut self, reason: &DisconnectReason) -> Duration {
        self.changes = None;
        self.pending.clear();
        let retry_in_ms =
            if reason.is_replacement() { self.link.close_replaced_stream() } else { self.link.close_stream() };
        let (server, cluster) = &self.names;
        let remedy = reason.remedy(server);
        match self.connected_at.take().map(|since| since.elapsed().as_secs()) {
            Some(connected_s) => {
                warn!(server, cluster, %reason, remedy, connected_s, retry_in_ms, "disconnected from the server");
            }
            None => warn!(server, cluster, %reason, remedy, retry_in_ms, "cannot connect to the server"),
        }
        Duration::from_millis(retry_in_ms)
    }

    async fn open_stream(
        &mut self,
        endpoint: &Endpoint,
    ) -> Result<(mpsc::Sender<v1::ConnectRequest>, Streaming<v1::ConnectResponse>), DisconnectReason> {
        let channel = endpoint.connect().await.map_err(DisconnectReason::Connect)?;
        let (requests, outgoing) = mpsc::channel(OUTGOING_CAPACITY);
        let mut client = AgentServiceClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let hello = self.link.open_stream(now_ms());
        requests.send(hello).await.map_err(|_| DisconnectReason::Ended)?;
        let mut request = tonic::Request::new(ReceiverStream::new(outgoing));
        if let Some(token) = credentials::bearer(&self.credentials)? {
            request.metadata_mut().insert("authorization", token);
        }
        let answer = client.connect(request).await;
        Ok((requests, answer.map_err(|status| DisconnectReason::Status(Box::new(status)))?.into_inner()))
    }

    async fn next_event(
        &mut self,
        responses: &mut Streaming<v1::ConnectResponse>,
        ticks: &mut tokio::time::Interval,
    ) -> StreamEvent {
        tokio::select! {
            response = responses.message() => StreamEvent::Response(Box::new(response)),
            seen = next_changes(&mut self.changes) => StreamEvent::Changes(seen),
            () = self.pending.wait() => StreamEvent::Due,
            (id, done) = next_finished(&mut self.instructions) => StreamEvent::Finished(id, done),
            _ = ticks.tick() => StreamEvent::Tick,
        }
    }

    fn request_snapshot(&mut self) -> Vec<Output> {
        self.changes = None;
        self.pending.clear();
        self.link.request_snapshot()
    }

    async fn execute_outputs(
        &mut self,
        outputs: Vec<Output>,
        requests: &mpsc::Sender<v1::ConnectRequest>,
    ) -> Result<(), DisconnectReason> {
        let mut queue = std::collections::VecDeque::from(outputs);
        while let Some(output) = queue.pop_front() {
            match output {
                Output::Send(request) => {
                    let sent = async { requests.send(request).await.map_err(|_| DisconnectReason::Ended) };
                    with_timeout(SEND_TIMEOUT, "the server read no message", sent).await?;
                }
                // Dropped while the stream is busy or has ended.
                Output::SendSpans(request) if requests.capacity() > OUTGOING_CAPACITY / 2 => {
                    drop(requests.try_send(request));
                }
                Output::SendSpans(_) => {}
                Output::TakeSnapshot => {
                    let observed = self.cluster.list_and_watch().await?;
                    // The list has what waits, and may have what came later.
                    self.pending.clear();
                    self.changes = Some(observed.changes);
                    queue.extend(self.link.send_snapshot(observed.records, now_ms()));
                }
                Output::RaiseEpoch(epoch) => self.cluster.raise_epoch(epoch).await?,
                Output::Execute(instruction) => self.spawn_instruction(*instruction),
                Output::ClockSkew(ahead_ms) => {
                    warn!(ahead_ms, "clock differs from the server's; synchronize both")
                }
                Output::CloseStream(reason) => return Err(DisconnectReason::ClosedByAgent(reason)),
            }
        }
        Ok(())
    }

    fn spawn_instruction(&mut self, instruction: v1::Instruction) {
        let cluster = Arc::clone(&self.cluster);
        let id = instruction.id.clone();
        // A panic in the implementation of the cluster must not leave the instruction without a
        // result.
        let work = tokio::spawn(async move { cluster.execute_instruction(instruction).await });
        self.instructions.spawn(async move {
            let done = work.await.unwrap_or_else(|fault| Done::failed(v1::Outcome::Failed, fault));
            (id, done)
        });
    }
}

/// The output of `work`, or a disconnect reason when the limit elapses.
async fn with_timeout<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = Result<T, DisconnectReason>>,
) -> Result<T, DisconnectReason> {
    let late = |_| DisconnectReason::ClosedByAgent(format!("{what} after {limit:?}"));
    tokio::time::timeout(limit, work).await.map_err(late)?
}

/// The status that the server sent for a stream that accepts no more messages; it has the cause. Any
/// other reason is its own cause.
async fn with_status(reason: DisconnectReason, responses: &mut Streaming<v1::ConnectResponse>) -> DisconnectReason {
    if !matches!(reason, DisconnectReason::Ended) {
        return reason;
    }
    let status = async {
        loop {
            match responses.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return reason,
                Err(status) => return DisconnectReason::Status(Box::new(status)),
            }
        }
    };
    tokio::time::timeout(STATUS_TIMEOUT, status).await.unwrap_or(DisconnectReason::Ended)
}

/// Sends whether the API server does not answer, at each change and first if it does not. This is a task of its own, because
/// the stream's task waits for the cluster when it lists it.
async fn report_api_server(mut status: watch::Receiver<bool>, requests: mpsc::Sender<v1::ConnectRequest>) {
    let mut reported = false;
    loop {
        let unreachable = *status.borrow_and_update();
        if unreachable != reported {
            let message = v1::connect_request::Message::ApiServerStatus(v1::ApiServerStatus { unreachable });
            if requests.send(v1::ConnectRequest { message: Some(message) }).await.is_err() {
                return;
            }
            reported = unreachable;
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// The next changes; pending for ever while no list is active.
async fn next_changes(changes: &mut Option<mpsc::Receiver<Vec<Record>>>) -> Option<Vec<Record>> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

/// The next result; pending for ever while no instruction is in progress.
async fn next_finished(instructions: &mut JoinSet<(String, Done)>) -> (String, Done) {
    loop {
        match instructions.join_next().await {
            Some(Ok(result)) => return result,
            // The wrapping tasks cannot fail, and they are aborted only with the agent.
            Some(Err(_)) => {}
            None => return std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
