//! Task of one cluster, which owns its [`Session`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use controller::{Instruction, InstructionId};
use fleetwright_proto::v1;
use model::{Text, Timestamp};
use tokio::sync::mpsc::{self, OwnedPermit, error::SendError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use trace::{InstructionContext, Span};
use tracing::{info, warn};

use crate::pools::Rereads;
use agent_session::state::{IdentityError, Output, Session, SessionEvent};
use auth::rate_limit::{RateLimits, TokenBuckets};
use fleet_api::questions::Delivery;

/// Buffered messages from a stream to its cluster's task.
const INCOMING_BUFFER: usize = 2;
/// Buffered commands to a cluster's task, which always accepts them.
const COMMAND_BUFFER: usize = 256;
/// Tick interval of a session. Silence and deadlines are in tens of seconds.
const TICK: Duration = Duration::from_secs(1);

/// Events of one cluster that are sent and not handled yet. The agent is not read beyond them.
const EVENTS_IN_PROGRESS: usize = 64;

/// Maximum characters that are kept of an agent's version.
const MAX_VERSION_CHARS: usize = 100;

/// A response to an agent. It is boxed, because buffers keep space for as many as they once held.
pub(super) type BoxedResponse = Result<Box<v1::ConnectResponse>, Status>;
pub(super) type ResponseSender = mpsc::Sender<BoxedResponse>;

#[derive(Debug, Clone)]
pub(super) struct SessionHandle {
    pub(super) incoming: mpsc::Sender<Incoming>,
    pub(super) commands: mpsc::Sender<Command>,
    /// Rate limit of the cluster's agent.
    pub(super) rate_limiter: Arc<AgentRateLimiter>,
    /// Version that the agent stated last.
    pub(super) agent_version: Arc<Mutex<Text>>,
    /// Whether the agent said last that its API server does not answer.
    pub(super) api_server_unreachable: Arc<AtomicBool>,
}

/// Rate limit that outlives streams, so that reconnecting does not grant a second burst.
#[derive(Debug)]
pub(super) struct AgentRateLimiter {
    started: Instant,
    buckets: Mutex<TokenBuckets>,
}

impl AgentRateLimiter {
    fn new() -> Self {
        Self { started: Instant::now(), buckets: Mutex::new(TokenBuckets::new(RateLimits::default(), 0)) }
    }

    /// Charges a message of `size` bytes; returns the delay before the next one is read.
    pub(super) fn charge(&self, size: usize) -> Duration {
        let passed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = buckets.charge(i64::try_from(size).unwrap_or(i64::MAX), passed);
        Duration::from_millis(wait.unsigned_abs())
    }
}

#[derive(Debug)]
pub(super) enum Incoming {
    /// A stream and its first message. Cancelling `cancel` ends it.
    Opened { stream: u64, hello: Box<v1::Hello>, peer: String, responses: ResponseSender, cancel: CancellationToken },
    /// A message of the agent.
    Received { stream: u64, request: Box<v1::ConnectRequest> },
    /// The stream has ended.
    Closed { stream: u64 },
}

#[derive(Debug)]
pub(super) enum Command {
    Accept(u64),
    Refuse(String),
    Resync(String),
    Instruct {
        id: InstructionId,
        instruction: Box<Instruction>,
        deadline: Timestamp,
        /// The trace that it is part of.
        context: Option<InstructionContext>,
    },
}

#[derive(Debug)]
struct Stream {
    number: u64,
    peer: String,
    responses: ResponseSender,
    cancel: CancellationToken,
    /// Responses that wait for buffer space.
    waiting: VecDeque<Box<v1::ConnectResponse>>,
}

impl Stream {
    /// Ends the stream. The status reaches an agent that still reads.
    fn end(self, status: Status) {
        drop(self.responses.try_send(Err(status)));
        self.cancel.cancel();
    }
}

pub(super) struct Task {
    session: Session,
    incoming: mpsc::Receiver<Incoming>,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Delivery>,
    /// Places of events that were sent and are not handled yet.
    places: Arc<Semaphore>,
    /// Events that wait for the control loop. No message is read while there is one.
    pending_events: VecDeque<SessionEvent>,
    stream: Option<Stream>,
    agent_version: Arc<Mutex<Text>>,
    api_server_unreachable: Arc<AtomicBool>,
    /// When the NodePools are parsed again; `None` when their catalogue stays as it is.
    rereads: Option<Rereads>,
    stop: CancellationToken,
}

enum Next {
    Stop,
    Incoming(Incoming),
    Command(Command),
    EventPermit(Option<EventPermit>),
    ResponsePermit(Option<OwnedPermit<BoxedResponse>>),
    RereadPools(OwnedSemaphorePermit),
    Tick,
}

impl Task {
    pub(super) fn new(
        session: Session,
        events: mpsc::Sender<Delivery>,
        rereads: Option<Rereads>,
        stop: CancellationToken,
    ) -> (SessionHandle, Self) {
        let (incoming, arriving) = mpsc::channel(INCOMING_BUFFER);
        let (commands, received) = mpsc::channel(COMMAND_BUFFER);
        let task = Self {
            session,
            incoming: arriving,
            commands: received,
            events,
            places: Arc::new(Semaphore::new(EVENTS_IN_PROGRESS)),
            pending_events: VecDeque::new(),
            stream: None,
            agent_version: Arc::new(Mutex::new(Text::from(""))),
            api_server_unreachable: Arc::default(),
            rereads,
            stop,
        };
        let handle = SessionHandle {
            incoming,
            commands,
            rate_limiter: Arc::new(AgentRateLimiter::new()),
            agent_version: Arc::clone(&task.agent_version),
            api_server_unreachable: Arc::clone(&task.api_server_unreachable),
        };
        (handle, task)
    }

    /// Runs until the server stops or the control loop has ended.
    pub(super) async fn run(mut self) {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            let outputs = match self.next(&mut ticks).await {
                Next::Stop | Next::EventPermit(None) => {
                    return self.end(Status::unavailable("server is shutting down"));
                }
                Next::Incoming(incoming) => self.handle_incoming(incoming),
                Next::Command(command) => self.handle_command(command),
                Next::EventPermit(Some(permit)) => {
                    self.send_event(permit);
                    Vec::new()
                }
                Next::ResponsePermit(permit) => self.send_response(permit),
                Next::RereadPools(_turn) => self.session.reread_pools(),
                Next::Tick => self.handle_tick(),
            };
            // Before the event of the stream's end, with which the reason is read.
            self.api_server_unreachable.store(self.session.is_api_server_unreachable(), Ordering::Relaxed);
            self.apply_outputs(outputs);
        }
    }

    async fn next(&mut self, ticks: &mut tokio::time::Interval) -> Next {
        let has_events = !self.pending_events.is_empty();
        let (events, places) = (self.events.clone(), Arc::clone(&self.places));
        let sender =
            self.stream.as_ref().filter(|stream| !stream.waiting.is_empty()).map(|stream| stream.responses.clone());
        tokio::select! {
            () = self.stop.cancelled() => Next::Stop,
            permit = reserve_event(events, places), if has_events => Next::EventPermit(permit),
            Some(command) = self.commands.recv() => Next::Command(command),
            permit = reserve(sender) => Next::ResponsePermit(granted(permit)),
            Some(incoming) = self.incoming.recv(), if !has_events => Next::Incoming(incoming),
            turn = reread_turn(self.rereads.as_mut()), if !has_events => Next::RereadPools(turn),
            _ = ticks.tick() => Next::Tick,
        }
    }

    fn handle_incoming(&mut self, incoming: Incoming) -> Vec<Output> {
        match incoming {
            Incoming::Opened { stream, hello, peer, responses, cancel } => {
                let opened = Stream { number: stream, peer, responses, cancel, waiting: VecDeque::new() };
                if let Err(error) = self.session.check_identity(&hello) {
                    log_rejection(&error, &opened.peer);
                    opened.end(Status::already_exists(error.to_string()));
                    return Vec::new();
                }
                self.end_replaced(&hello.cluster_name, &opened.peer);
                self.stream = Some(opened);
                let version: String = hello.agent_version.chars().take(MAX_VERSION_CHARS).collect();
                *self.agent_version.lock().unwrap_or_else(PoisonError::into_inner) = version.into();
                self.session.handle_hello(*hello)
            }
            Incoming::Received { stream, request } if self.is_current(stream) => {
                self.session.handle_request(*request, now())
            }
            Incoming::Closed { stream } if self.is_current(stream) => self.handle_stream_end(),
            // Late messages of a replaced stream are dropped.
            Incoming::Received { .. } | Incoming::Closed { .. } => Vec::new(),
        }
    }

    fn handle_command(&mut self, command: Command) -> Vec<Output> {
        match command {
            Command::Accept(epoch) => self.session.accept(epoch, now()),
            Command::Refuse(reason) => self.session.refuse(&reason),
            Command::Resync(reason) => self.session.request_resync(reason),
            Command::Instruct { id, instruction, deadline, context } => {
                if let Some(context) = context {
                    self.session.trace_instruction(id, context);
                }
                self.session.instruct(id, *instruction, deadline, now())
            }
        }
    }

    /// The agent is read again once no event is pending; its silence restarts then.
    fn send_event(&mut self, (permit, place): EventPermit) {
        if let Some(event) = self.pending_events.pop_front() {
            permit.send(Delivery { event, place: Some(place) });
        }
        if self.pending_events.is_empty() {
            self.session.reset_silence(now());
        }
    }

    /// Unread messages do not count as silence of the agent.
    fn handle_tick(&mut self) -> Vec<Output> {
        if !self.pending_events.is_empty() || !self.incoming.is_empty() {
            self.session.reset_silence(now());
        }
        self.session.tick(now())
    }

    fn send_response(&mut self, permit: Option<OwnedPermit<BoxedResponse>>) -> Vec<Output> {
        let Some(permit) = permit else { return self.handle_stream_end() };
        if let Some(response) = self.stream.as_mut().and_then(|stream| stream.waiting.pop_front()) {
            permit.send(Ok(response));
        }
        Vec::new()
    }

    fn handle_stream_end(&mut self) -> Vec<Output> {
        self.stream = None;
        self.session.handle_close()
    }

    fn apply_outputs(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send(response) => {
                    if let Some(stream) = &mut self.stream {
                        stream.waiting.push_back(response);
                    }
                }
                Output::Notify(event) => self.pending_events.push_back(event),
                Output::Export(spans) => export(spans),
                Output::Close(reason) => {
                    warn!(reason, "closing agent stream");
                    self.end(Status::failed_precondition(reason));
                }
            }
        }
    }

    /// Ends the current stream, if any.
    fn end(&mut self, status: Status) {
        if let Some(stream) = self.stream.take() {
            stream.end(status);
        }
    }

    /// Ends the current stream, if any, because the agent at `peer` has opened another one.
    fn end_replaced(&mut self, cluster: &str, peer: &str) {
        if let Some(replaced) = self.stream.take() {
            info!(cluster, peer, replaced_peer = replaced.peer, "agent stream replaced");
            replaced.end(Status::aborted(format!("replaced by a newer stream of this cluster, from {peer}")));
        }
    }

    fn is_current(&self, stream: u64) -> bool {
        self.stream.as_ref().is_some_and(|current| current.number == stream)
    }
}

/// Exports spans of an agent. Without a collector it was not asked for any.
fn export(spans: Vec<Span>) {
    if let Some(exporter) = telemetry::exporter() {
        exporter.export_of_agent(spans);
    }
}

fn log_rejection(error: &IdentityError, peer: &str) {
    match error {
        IdentityError::NameTaken { cluster, known, shown } => {
            warn!(%cluster, uid = shown, known_uid = known, peer, "cluster rejected: name taken");
        }
        error => warn!(peer, reason = %error, "cluster rejected"),
    }
}

/// Space for an event in the control loop's inbox, and a place among the events of the cluster.
type EventPermit = (OwnedPermit<Delivery>, OwnedSemaphorePermit);

/// A permit for an event; `None` once the control loop has ended. The place comes first, so that a
/// cluster whose task is behind takes no space from the others.
async fn reserve_event(events: mpsc::Sender<Delivery>, places: Arc<Semaphore>) -> Option<EventPermit> {
    // The semaphore is never closed.
    let place = places.acquire_owned().await.ok()?;
    Some((events.reserve_owned().await.ok()?, place))
}

/// The turn to parse NodePools again; pending while their catalogue stays as it is.
async fn reread_turn(rereads: Option<&mut Rereads>) -> OwnedSemaphorePermit {
    match rereads {
        Some(rereads) => rereads.turn().await,
        None => std::future::pending().await,
    }
}

/// Buffer space for a response; pending while there is none to send.
async fn reserve(responses: Option<ResponseSender>) -> Result<OwnedPermit<BoxedResponse>, SendError<()>> {
    match responses {
        Some(responses) => responses.reserve_owned().await,
        None => std::future::pending().await,
    }
}

fn granted<T>(permit: Result<OwnedPermit<T>, SendError<()>>) -> Option<OwnedPermit<T>> {
    permit.ok()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
