//! The task of one cluster: the owner of its [`Session`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::control::{Instruction, InstructionId};
use engine::model::Timestamp;
use fleetwright_proto::v1;
use tokio::sync::mpsc;
use tokio::sync::mpsc::{OwnedPermit, error::SendError};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::warn;

use super::{INCOMING, ORDERS};
use crate::session::state::{Output, Session, SessionEvent};
use crate::trust::budget::{Budget, Limits};

/// How often a session is told the time. Silence and deadlines are counted in tens of seconds.
const TICK: Duration = Duration::from_secs(1);

type Say = mpsc::Sender<Result<v1::ConnectResponse, Status>>;

/// The ways to a cluster's task.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    /// From streams.
    pub(super) incoming: mpsc::Sender<Incoming>,
    /// From the control loop.
    pub(super) orders: mpsc::Sender<Order>,
    /// What the cluster's agent may say.
    pub(super) allowance: Arc<Allowance>,
}

/// A budget that outlives streams.
#[derive(Debug)]
pub(super) struct Allowance {
    begun: Instant,
    budget: Mutex<Budget>,
}

impl Allowance {
    fn new() -> Self {
        Self { begun: Instant::now(), budget: Mutex::new(Budget::new(Limits::default(), 0)) }
    }

    /// Takes a message of `size` bytes into account. How long to wait before the next one is read.
    pub(super) fn spend(&self, size: usize) -> Duration {
        let passed = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = budget.spend(i64::try_from(size).unwrap_or(i64::MAX), passed);
        Duration::from_millis(wait.unsigned_abs())
    }
}

/// What streams bring.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A stream and its first message. Cancelling `over` ends it.
    Opened { stream: u64, hello: Box<v1::Hello>, say: Say, over: CancellationToken },
    /// A message.
    Said { stream: u64, request: Box<v1::ConnectRequest> },
    /// The stream has ended.
    Closed { stream: u64 },
}

/// What the control loop wants.
#[derive(Debug)]
pub(super) enum Order {
    Accept(u64),
    Refuse(String),
    Resync(String),
    Instruct { id: InstructionId, instruction: Box<Instruction>, deadline: Timestamp },
}

/// The stream that the session speaks on.
#[derive(Debug)]
struct Stream {
    number: u64,
    say: Say,
    over: CancellationToken,
    /// What waits for the wire.
    waiting: VecDeque<v1::ConnectResponse>,
}

impl Stream {
    /// Ends the stream. The reason reaches an agent that still reads.
    fn end(self, status: Status) {
        drop(self.say.try_send(Err(status)));
        self.over.cancel();
    }
}

pub(super) struct Task {
    session: Session,
    incoming: mpsc::Receiver<Incoming>,
    orders: mpsc::Receiver<Order>,
    events: mpsc::Sender<SessionEvent>,
    /// What waits for the control loop. No message is read while there is something.
    to_tell: VecDeque<SessionEvent>,
    stream: Option<Stream>,
    stop: CancellationToken,
}

/// What happens next.
enum Next {
    Stop,
    Came(Incoming),
    Ordered(Order),
    MayTell(Option<OwnedPermit<SessionEvent>>),
    MaySay(Option<OwnedPermit<Result<v1::ConnectResponse, Status>>>),
    Time,
}

impl Task {
    pub(super) fn new(session: Session, events: mpsc::Sender<SessionEvent>, stop: CancellationToken) -> (Seat, Self) {
        let (incoming, comes) = mpsc::channel(INCOMING);
        let (orders, ordered) = mpsc::channel(ORDERS);
        let task =
            Self { session, incoming: comes, orders: ordered, events, to_tell: VecDeque::new(), stream: None, stop };
        (Seat { incoming, orders, allowance: Arc::new(Allowance::new()) }, task)
    }

    /// Runs until the server stops or the control loop is gone.
    pub(super) async fn run(mut self) {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            let outputs = match self.next(&mut ticks).await {
                Next::Stop | Next::MayTell(None) => return self.end(Status::unavailable("the server stops")),
                Next::Came(incoming) => self.came(incoming),
                Next::Ordered(order) => self.ordered(order),
                Next::MayTell(Some(permit)) => {
                    self.tell_next(permit);
                    Vec::new()
                }
                Next::MaySay(permit) => self.say_next(permit),
                Next::Time => self.time_passed(),
            };
            self.perform(outputs);
        }
    }

    async fn next(&mut self, ticks: &mut tokio::time::Interval) -> Next {
        let telling = !self.to_tell.is_empty();
        let events = self.events.clone();
        let saying = self.stream.as_ref().filter(|stream| !stream.waiting.is_empty()).map(|stream| stream.say.clone());
        tokio::select! {
            () = self.stop.cancelled() => Next::Stop,
            permit = events.reserve_owned(), if telling => Next::MayTell(granted(permit)),
            Some(order) = self.orders.recv() => Next::Ordered(order),
            permit = reserve(saying) => Next::MaySay(granted(permit)),
            Some(incoming) = self.incoming.recv(), if !telling => Next::Came(incoming),
            _ = ticks.tick() => Next::Time,
        }
    }

    fn came(&mut self, incoming: Incoming) -> Vec<Output> {
        match incoming {
            Incoming::Opened { stream, hello, say, over } => {
                let opened = Stream { number: stream, say, over, waiting: VecDeque::new() };
                if let Err(reason) = self.session.admits(&hello) {
                    opened.end(Status::already_exists(reason));
                    return Vec::new();
                }
                self.end(Status::aborted("another agent has connected for this cluster"));
                self.stream = Some(opened);
                self.session.opened(*hello)
            }
            Incoming::Said { stream, request } if self.is_current(stream) => self.session.heard(*request, now()),
            Incoming::Closed { stream } if self.is_current(stream) => self.stream_is_gone(),
            // A stream that was replaced has nothing to say any more.
            Incoming::Said { .. } | Incoming::Closed { .. } => Vec::new(),
        }
    }

    fn ordered(&mut self, order: Order) -> Vec<Output> {
        match order {
            Order::Accept(epoch) => self.session.accept(epoch, now()),
            Order::Refuse(reason) => self.session.refuse(&reason),
            Order::Resync(reason) => self.session.ask_again(reason),
            Order::Instruct { id, instruction, deadline } => self.session.instruct(id, *instruction, deadline, now()),
        }
    }

    /// From when there is nothing left to tell, the agent is listened to again.
    fn tell_next(&mut self, permit: OwnedPermit<SessionEvent>) {
        if let Some(event) = self.to_tell.pop_front() {
            permit.send(event);
        }
        if self.to_tell.is_empty() {
            self.session.deaf(now());
        }
    }

    /// Whatever waits here unread is no silence of the agent's.
    fn time_passed(&mut self) -> Vec<Output> {
        if !self.to_tell.is_empty() || !self.incoming.is_empty() {
            self.session.deaf(now());
        }
        self.session.tick(now())
    }

    fn say_next(&mut self, permit: Option<OwnedPermit<Result<v1::ConnectResponse, Status>>>) -> Vec<Output> {
        let Some(permit) = permit else { return self.stream_is_gone() };
        if let Some(response) = self.stream.as_mut().and_then(|stream| stream.waiting.pop_front()) {
            permit.send(Ok(response));
        }
        Vec::new()
    }

    fn stream_is_gone(&mut self) -> Vec<Output> {
        self.stream = None;
        self.session.closed()
    }

    fn perform(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Say(response) => {
                    if let Some(stream) = &mut self.stream {
                        stream.waiting.push_back(*response);
                    }
                }
                Output::Tell(event) => self.to_tell.push_back(event),
                Output::HangUp(reason) => {
                    warn!(reason, "an agent's stream is ended");
                    self.end(Status::failed_precondition(reason));
                }
            }
        }
    }

    /// Ends the stream, if there is one.
    fn end(&mut self, status: Status) {
        if let Some(stream) = self.stream.take() {
            stream.end(status);
        }
    }

    fn is_current(&self, stream: u64) -> bool {
        self.stream.as_ref().is_some_and(|current| current.number == stream)
    }
}

/// A place on the wire; never, while there is nothing to say.
async fn reserve(say: Option<Say>) -> Result<OwnedPermit<Result<v1::ConnectResponse, Status>>, SendError<()>> {
    match say {
        Some(say) => say.reserve_owned().await,
        None => std::future::pending().await,
    }
}

fn granted<T>(permit: Result<OwnedPermit<T>, SendError<()>>) -> Option<OwnedPermit<T>> {
    permit.ok()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
