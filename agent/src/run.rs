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
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;
use tracing::{info, warn};

use crate::config::Credentials;
use crate::credentials::{self, CredentialsError};
use crate::error_chain::error_chain;
use crate::link::{AgentIdentity, Link, Output};
use crate::port::{Cluster, ClusterError, Done, Record};

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
    /// Name of the cluster.
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

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
enum DisconnectReason {
    #[error("the agent is shutting down")]
    Shutdown,
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("the server ended the stream: {0}")]
    Refused(Box<tonic::Status>),
    #[error("the server ended the stream")]
    Ended,
    #[error("{0}")]
    ClosedByAgent(String),
    #[error("cannot read the cluster: {0}")]
    Cluster(#[from] ClusterError),
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
    let epoch = loop {
        match cluster.highest_epoch().await {
            Ok(epoch) => break epoch,
            Err(error) => warn!(%error, "cannot read the highest epoch; retrying"),
        }
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(CONNECT_TIMEOUT) => {}
        }
    };
    let mut agent = Agent {
        link: Link::new(agent_identity(&target, &*cluster), epoch, target.seed),
        credentials: target.credentials.clone(),
        cluster,
        instructions: JoinSet::new(),
        changes: None,
    };
    loop {
        let reason = tokio::select! {
            () = &mut stop => DisconnectReason::Shutdown,
            reason = agent.run_stream(&endpoint) => reason,
        };
        if matches!(reason, DisconnectReason::Shutdown) {
            info!(cluster = target.cluster_name, "agent stopped");
            return Ok(());
        }
        agent.changes = None;
        let wait = Duration::from_millis(agent.link.close_stream());
        warn!(server = target.server, reason = %reason, retry_in_ms = wait.as_millis(), "disconnected from the server");
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(wait) => {}
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
    Finished(String, Done),
    Tick,
}

struct Agent<C> {
    link: Link,
    credentials: Credentials,
    cluster: Arc<C>,
    /// Instructions that are being executed, each with its id.
    instructions: JoinSet<(String, Done)>,
    /// Changes since the last list.
    changes: Option<mpsc::Receiver<Vec<Record>>>,
}

impl<C: Cluster> Agent<C> {
    /// One stream from its beginning to its end.
    async fn run_stream(&mut self, endpoint: &Endpoint) -> DisconnectReason {
        match self.try_run_stream(endpoint).await {
            Ok(()) => DisconnectReason::Ended,
            Err(reason) => reason,
        }
    }

    async fn try_run_stream(&mut self, endpoint: &Endpoint) -> Result<(), DisconnectReason> {
        let endpoint = credentials::encrypt(endpoint.clone(), &self.credentials)?;
        let (requests, mut responses) =
            with_timeout(OPEN_TIMEOUT, "the stream was not open", self.open_stream(&endpoint)).await?;
        let mut ticks = tokio::time::interval(Duration::from_millis(self.link.tick_interval_ms()));
        loop {
            let next = self.next_event(&mut responses, &mut ticks).await;
            let heartbeat_before = self.link.tick_interval_ms();
            let outputs = match next {
                StreamEvent::Response(response) => match *response {
                    Ok(Some(response)) => self.link.handle_response(response, now_ms()),
                    Ok(None) => return Ok(()),
                    Err(status) => return Err(DisconnectReason::Refused(Box::new(status))),
                },
                StreamEvent::Changes(Some(seen)) => self.link.send_changes(seen, now_ms()),
                StreamEvent::Changes(None) => self.request_snapshot(),
                StreamEvent::Finished(id, done) => self.link.finish_instruction(&id, done, now_ms()),
                StreamEvent::Tick => self.link.tick(now_ms()),
            };
            self.execute_outputs(outputs, &requests).await?;
            if self.link.tick_interval_ms() != heartbeat_before {
                ticks = tokio::time::interval(Duration::from_millis(self.link.tick_interval_ms()));
            }
        }
    }

    async fn open_stream(
        &mut self,
        endpoint: &Endpoint,
    ) -> Result<(mpsc::Sender<v1::ConnectRequest>, Streaming<v1::ConnectResponse>), DisconnectReason> {
        let channel = endpoint.connect().await.map_err(|error| DisconnectReason::Connect(error_chain(&error)))?;
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
        Ok((requests, answer.map_err(|status| DisconnectReason::Refused(Box::new(status)))?.into_inner()))
    }

    async fn next_event(
        &mut self,
        responses: &mut Streaming<v1::ConnectResponse>,
        ticks: &mut tokio::time::Interval,
    ) -> StreamEvent {
        tokio::select! {
            response = responses.message() => StreamEvent::Response(Box::new(response)),
            seen = next_changes(&mut self.changes) => StreamEvent::Changes(seen),
            (id, done) = next_finished(&mut self.instructions) => StreamEvent::Finished(id, done),
            _ = ticks.tick() => StreamEvent::Tick,
        }
    }

    fn request_snapshot(&mut self) -> Vec<Output> {
        self.changes = None;
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
                Output::TakeSnapshot => {
                    let observed = self.cluster.list_and_watch().await?;
                    self.changes = Some(observed.changes);
                    queue.extend(self.link.send_snapshot(observed.records, now_ms()));
                }
                Output::RaiseEpoch(epoch) => self.cluster.raise_epoch(epoch).await?,
                Output::Execute(instruction) => self.spawn_instruction(*instruction),
                Output::ClockSkew(ahead_ms) => {
                    warn!(ahead_ms, "clock differs from the server's; synchronize both by NTP")
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
mod tests {
    use super::*;

    fn target(server: &str) -> Target {
        Target {
            server: server.into(),
            credentials: Credentials::default(),
            cluster_name: "blue".into(),
            region: String::new(),
            karpenter_absent: false,
            seed: 1,
        }
    }

    #[tokio::test]
    async fn a_timeout_ends_what_never_completes() {
        let never = std::future::pending::<Result<(), DisconnectReason>>();
        let late = with_timeout(Duration::from_millis(1), "the stream was not open", never).await.unwrap_err();
        assert_eq!(late.to_string(), "the stream was not open after 1ms");
        assert!(matches!(
            with_timeout(OPEN_TIMEOUT, "", async { Err::<(), _>(DisconnectReason::Ended) }).await,
            Err(DisconnectReason::Ended)
        ));
    }

    #[test]
    fn an_invalid_address_is_named_in_the_error() {
        let error = endpoint(&target("not an address")).unwrap_err().to_string();
        assert!(error.contains("\"not an address\"") && error.contains("http://host:port"), "{error}");
        assert!(endpoint(&target("http://127.0.0.1:1")).is_ok());
    }
}
