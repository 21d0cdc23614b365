//! The task that runs an agent: connects [`Link`], a [`Cluster`] and a server, and connects again when the stream ends.
//!
//! One task owns the link. Instructions are carried out in tasks of their own, so that a drain of hours holds nothing up;
//! they live on when the stream ends, and their results wait for the next one.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fleetwright_proto::v1::agent_service_client::AgentServiceClient;
use fleetwright_proto::{MAX_MESSAGE_BYTES, v1};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;
use tracing::{info, warn};

use crate::causes::in_full;
use crate::config::Credentials;
use crate::credentials::{self, CredentialsError};
use crate::link::{Link, Output, Speaker};
use crate::port::{Cluster, ClusterError, Done, Seen};

/// A server that does not complete a connection in this time is tried again later.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A silent connection is probed this often. Without probes a network that swallows packets looks like a server with nothing
/// to say.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A probe without an answer for this long ends the connection.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// A stream that is not open after this long never will be. Probes end a connection whose other side is gone; a request that
/// was lost between a connection that ends and the next would be waited for without end.
const OPENING: Duration = Duration::from_secs(30);
/// A message that nobody takes for this long is on no stream that lives. A server that takes many clusters in at once may be
/// slow to read; it is never this slow.
const TAKING: Duration = Duration::from_secs(300);
/// Messages that wait for the wire; more of them hold up the reading of changes, which the cluster buffers.
const OUTGOING: usize = 16;

/// Where and as whom an agent speaks.
#[derive(Debug, Clone)]
pub struct Target {
    /// The server, as `http://host:port` or `https://host:port`.
    pub server: String,
    /// Files by which server and agent know each other, read again for every connection.
    pub credentials: Credentials,
    /// Name of the cluster.
    pub cluster_name: String,
    /// Region; empty when not known.
    pub region: String,
    /// A person has said that no Karpenter is at work in the cluster.
    pub karpenter_absent: bool,
    /// Makes the waits between connections differ from agent to agent.
    pub seed: u64,
}

/// Why an agent cannot run at all. What may pass (no network, no server) is waited for instead.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The server's address is none.
    #[error("cannot use {address:?} as the server's address: {reason}; write http://host:port or https://host:port")]
    Address {
        /// What was given.
        address: String,
        /// Why it is none.
        reason: String,
    },
}

/// Why a conversation ended.
#[derive(Debug, thiserror::Error)]
enum Parting {
    #[error("the agent is asked to stop")]
    Stop,
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("the server ended the stream: {0}")]
    Refused(Box<tonic::Status>),
    #[error("the server ended the stream")]
    Ended,
    #[error("{0}")]
    HungUp(String),
    #[error("the cluster does not answer: {0}")]
    Cluster(#[from] ClusterError),
}

/// Runs the agent of `cluster` until `stop` completes. Instructions under way are abandoned then; carrying them out again
/// after a restart changes nothing.
///
/// # Errors
/// [`RunError`] when the configuration can never work.
pub async fn run<C: Cluster>(cluster: Arc<C>, target: Target, stop: impl Future<Output = ()>) -> Result<(), RunError> {
    let endpoint = endpoint(&target)?;
    tokio::pin!(stop);
    let epoch = loop {
        match cluster.highest_epoch().await {
            Ok(epoch) => break epoch,
            Err(error) => warn!(%error, "cannot read the highest epoch from the cluster; trying again"),
        }
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(CONNECT_TIMEOUT) => {}
        }
    };
    let mut agent = Agent {
        link: Link::new(speaker(&target, &*cluster), epoch, target.seed),
        credentials: target.credentials.clone(),
        cluster,
        works: JoinSet::new(),
        changes: None,
    };
    loop {
        let parting = tokio::select! {
            () = &mut stop => Parting::Stop,
            parting = agent.converse(&endpoint) => parting,
        };
        if matches!(parting, Parting::Stop) {
            info!(cluster = target.cluster_name, "agent stops");
            return Ok(());
        }
        agent.changes = None;
        let wait = Duration::from_millis(agent.link.disconnected());
        warn!(server = target.server, reason = %parting, retry_in_ms = wait.as_millis(), "no conversation with the server");
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Completes when the process is asked to stop (SIGTERM or SIGINT). Both are caught from the call on, not from the first
/// time that somebody waits: a process that is asked to stop while it starts still ends in order.
pub fn asked_to_stop() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    let caught =
        signal(SignalKind::terminate()).and_then(|terminate| Ok((terminate, signal(SignalKind::interrupt())?)));
    async move {
        let Ok((mut terminate, mut interrupt)) = caught else {
            // Without a handler the signal ends the process at once, which is what was asked for.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

fn speaker<C: Cluster>(target: &Target, cluster: &C) -> Speaker {
    let identity = cluster.identity();
    Speaker {
        cluster_name: target.cluster_name.clone(),
        cluster_uid: identity.uid,
        kubernetes_version: identity.kubernetes_version,
        region: target.region.clone(),
        karpenter_absent: target.karpenter_absent,
    }
}

fn endpoint(target: &Target) -> Result<Endpoint, RunError> {
    let refuse =
        |error: tonic::transport::Error| RunError::Address { address: target.server.clone(), reason: in_full(&error) };
    let endpoint = Endpoint::from_shared(target.server.clone()).map_err(refuse)?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// Milliseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// What may happen next in a conversation.
enum Next {
    Heard(Box<Result<Option<v1::ConnectResponse>, tonic::Status>>),
    Changed(Option<Vec<Seen>>),
    Finished(String, Done),
    Time,
}

struct Agent<C> {
    link: Link,
    credentials: Credentials,
    cluster: Arc<C>,
    /// Instructions that are being carried out, each with its id.
    works: JoinSet<(String, Done)>,
    /// Changes that follow the last picture.
    changes: Option<mpsc::Receiver<Vec<Seen>>>,
}

impl<C: Cluster> Agent<C> {
    /// One stream from its beginning to its end.
    async fn converse(&mut self, endpoint: &Endpoint) -> Parting {
        match self.try_converse(endpoint).await {
            Ok(()) => Parting::Ended,
            Err(parting) => parting,
        }
    }

    async fn try_converse(&mut self, endpoint: &Endpoint) -> Result<(), Parting> {
        let endpoint = credentials::encrypt(endpoint.clone(), &self.credentials)?;
        let (say, mut hear) = within(OPENING, "the stream was not open", self.open(&endpoint)).await?;
        let mut ticks = tokio::time::interval(Duration::from_millis(self.link.tick_interval_ms()));
        loop {
            let next = self.next(&mut hear, &mut ticks).await;
            let heartbeat_before = self.link.tick_interval_ms();
            let outputs = match next {
                Next::Heard(heard) => match *heard {
                    Ok(Some(response)) => self.link.heard(response, now()),
                    Ok(None) => return Ok(()),
                    Err(status) => return Err(Parting::Refused(Box::new(status))),
                },
                Next::Changed(Some(seen)) => self.link.changed(seen, now()),
                Next::Changed(None) => self.lost_sight(),
                Next::Finished(id, done) => self.link.finished(&id, done, now()),
                Next::Time => self.link.tick(now()),
            };
            self.perform(outputs, &say).await?;
            if self.link.tick_interval_ms() != heartbeat_before {
                ticks = tokio::time::interval(Duration::from_millis(self.link.tick_interval_ms()));
            }
        }
    }

    async fn open(
        &mut self,
        endpoint: &Endpoint,
    ) -> Result<(mpsc::Sender<v1::ConnectRequest>, Streaming<v1::ConnectResponse>), Parting> {
        let channel = endpoint.connect().await.map_err(|error| Parting::Connect(in_full(&error)))?;
        let (say, said) = mpsc::channel(OUTGOING);
        let mut client = AgentServiceClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let hello = self.link.connected(now());
        say.send(hello).await.map_err(|_| Parting::Ended)?;
        let mut request = tonic::Request::new(ReceiverStream::new(said));
        if let Some(token) = credentials::bearer(&self.credentials)? {
            request.metadata_mut().insert("authorization", token);
        }
        let answer = client.connect(request).await;
        Ok((say, answer.map_err(|status| Parting::Refused(Box::new(status)))?.into_inner()))
    }

    async fn next(&mut self, hear: &mut Streaming<v1::ConnectResponse>, ticks: &mut tokio::time::Interval) -> Next {
        tokio::select! {
            heard = hear.message() => Next::Heard(Box::new(heard)),
            seen = receive(&mut self.changes) => Next::Changed(seen),
            (id, done) = finished(&mut self.works) => Next::Finished(id, done),
            _ = ticks.tick() => Next::Time,
        }
    }

    fn lost_sight(&mut self) -> Vec<Output> {
        self.changes = None;
        self.link.lost_sight()
    }

    async fn perform(&mut self, outputs: Vec<Output>, say: &mpsc::Sender<v1::ConnectRequest>) -> Result<(), Parting> {
        let mut queue = std::collections::VecDeque::from(outputs);
        while let Some(output) = queue.pop_front() {
            match output {
                Output::Say(request) => {
                    let sent = async { say.send(request).await.map_err(|_| Parting::Ended) };
                    within(TAKING, "the server took nothing", sent).await?;
                }
                Output::TakeSnapshot => {
                    let observed = self.cluster.observe().await?;
                    self.changes = Some(observed.changes);
                    queue.extend(self.link.snapshot(observed.records, now()));
                }
                Output::RaiseEpoch(epoch) => self.cluster.raise_epoch(epoch).await?,
                Output::CarryOut(instruction) => self.begin(*instruction),
                Output::ClockDiffers(ahead_ms) => warn!(
                    ahead_ms,
                    "the agent's clock differs from the server's; set both by NTP (instructions are judged by the time left)"
                ),
                Output::HangUp(reason) => return Err(Parting::HungUp(reason)),
            }
        }
        Ok(())
    }

    fn begin(&mut self, instruction: v1::Instruction) {
        let cluster = Arc::clone(&self.cluster);
        let id = instruction.id.clone();
        // A panic in the cluster's code must not leave the instruction without a result for ever.
        let work = tokio::spawn(async move { cluster.carry_out(instruction).await });
        self.works.spawn(async move {
            let done = work.await.unwrap_or_else(|fault| Done::not(v1::Outcome::Failed, fault));
            (id, done)
        });
    }
}

/// What `work` comes to, if it comes to anything in time.
async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = Result<T, Parting>>) -> Result<T, Parting> {
    let late = |_| Parting::HungUp(format!("{what} after {limit:?}"));
    tokio::time::timeout(limit, work).await.map_err(late)?
}

/// The next changes; never, while nothing is observed.
async fn receive(changes: &mut Option<mpsc::Receiver<Vec<Seen>>>) -> Option<Vec<Seen>> {
    match changes {
        Some(changes) => changes.recv().await,
        None => std::future::pending().await,
    }
}

/// The next result; never, while nothing is under way.
async fn finished(works: &mut JoinSet<(String, Done)>) -> (String, Done) {
    loop {
        match works.join_next().await {
            Some(Ok(result)) => return result,
            // The wrapping tasks do nothing that could fail, and they are aborted only with the agent.
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
    async fn what_never_comes_about_is_given_up() {
        let never = std::future::pending::<Result<(), Parting>>();
        let late = within(Duration::from_millis(1), "the stream was not open", never).await.unwrap_err();
        assert_eq!(late.to_string(), "the stream was not open after 1ms");
        assert!(matches!(within(OPENING, "", async { Err::<(), _>(Parting::Ended) }).await, Err(Parting::Ended)));
    }

    #[test]
    fn an_address_that_is_none_is_named() {
        let error = endpoint(&target("not an address")).unwrap_err().to_string();
        assert!(error.contains("\"not an address\"") && error.contains("http://host:port"), "{error}");
        assert!(endpoint(&target("http://127.0.0.1:1")).is_ok());
    }
}
