//! The task of one cluster: it owns the cluster's controller and steps it for each message and
//! deadline.
//!
//! Clusters share nothing but the region's guardrails and unavailable offerings, so that a large
//! cluster delays no other one, and all processors decide. A task does no I/O: calls to the store
//! and the cloud are tasks of the I/O runtime, and their outcomes return here.

use std::future::pending;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use controller::{Event, PlanAnswer, RegionState};
use model::{ClusterName, Millis, Timestamp};
use replica::{Call, ClusterInput, ClusterSettings, Input, Output, OwnedCluster};
use rustc_hash::FxBuildHasher;
use store::clock;
use store::lease::Lease;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, warn};

use super::calls::{CallRunner, run_within_limit};
use super::heartbeat::Heartbeat;
use super::latency::{Latencies, LatencyTracker};
use super::planners::PlannerThreads;
use super::steps::StepTimer;
use super::traces::Traces;
use crate::agent_service::Sessions;
use fleet_api::fleet::encode::Owner;
use fleet_api::questions::{ClusterQuestion, Subject};
use fleet_api::views::publisher::ViewUpdate;

/// Minimum interval between two steps that no message causes. Overdue work that cannot be done yet
/// is retried after it.
const MIN_TICK_INTERVAL: Duration = Duration::from_millis(1);

/// Time over which the clusters of a process evaluate a listing of instances. It reaches all of them
/// at once, and together they would keep every processor from planning.
const LISTING_SPREAD: Duration = Duration::from_secs(10);

/// Longest wait for a deadline: a task notices within it that the clock was set.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Grace period on shutdown for calls in flight. Agents wait for it.
pub(super) const CALLS_GRACE: Duration = Duration::from_millis(500);

/// Interval between two views of a cluster, and what each cluster of the process adds to it: those of a thousand clusters,
/// which take a few hundredths of a processor, are at most a second old.
const VIEW_INTERVAL: [Duration; 2] = [Duration::from_millis(200), Duration::from_micros(750)];

/// What the tasks of all clusters use.
pub(super) struct TaskContext {
    pub(super) settings: ClusterSettings,
    pub(super) sessions: Sessions,
    pub(super) runner: Arc<CallRunner>,
    pub(super) planners: Arc<PlannerThreads>,
    pub(super) views: mpsc::UnboundedSender<ViewUpdate>,
    pub(super) owner: String,
    pub(super) latencies: Arc<Latencies>,
    pub(super) heartbeat: Arc<Heartbeat>,
    /// Version of the fleet's limits; the tasks of all clusters follow it.
    pub(super) limits: watch::Sender<u64>,
    /// Number of clusters of this process.
    pub(super) clusters: watch::Sender<usize>,
    pub(super) io: Handle,
}

impl TaskContext {
    pub(super) fn region(&self) -> &RegionState {
        &self.settings.region
    }

    /// Has every cluster take a step if the limits of the fleet have changed.
    pub(super) fn publish_limits(&self) {
        let version = self.region().limits_version();
        self.limits.send_if_modified(|known| std::mem::replace(known, version) < version);
    }

    fn view_interval(&self) -> Duration {
        let [least, per_cluster] = VIEW_INTERVAL;
        least + per_cluster * u32::try_from(*self.clusters.borrow()).unwrap_or(u32::MAX)
    }
}

/// A message to a cluster's task.
pub(super) enum Message {
    Lease(Lease),
    /// An input, and the place in the cluster's inbox that it takes.
    Input(ClusterInput, Option<OwnedSemaphorePermit>),
    /// A question about a node, which changes nothing.
    Question(ClusterQuestion),
}

#[derive(Clone)]
pub(super) struct Ends {
    /// Another process owns the cluster: the task takes no further step.
    pub(super) released: CancellationToken,
    /// The process stops: calls in flight are given time to end.
    pub(super) stop: CancellationToken,
}

pub(super) struct ClusterTask {
    cluster: OwnedCluster,
    name: ClusterName,
    context: Arc<TaskContext>,
    inbox: mpsc::UnboundedReceiver<Message>,
    /// Where planning threads answer.
    plans: (mpsc::UnboundedSender<PlanAnswer>, mpsc::UnboundedReceiver<PlanAnswer>),
    calls: JoinSet<Input>,
    latency_tracker: LatencyTracker,
    traces: Traces,
    /// When the last step ended.
    last_step: Instant,
    /// When the view is published; `None` while it is up to date.
    publish_at: Option<Instant>,
    last_view: Option<Instant>,
    /// A listing of instances, and when it is evaluated. A later one replaces it.
    listing: Option<(Instant, ClusterInput)>,
    listing_delay: Duration,
    ends: Ends,
}

/// The next thing that a task does.
enum Next {
    End,
    Message(Message),
    Planned(PlanAnswer),
    CallEnded(Result<Input, JoinError>),
    Time,
    Listing,
    PublishView,
}

impl ClusterTask {
    /// Runs until the cluster is released or the process stops. `alone` is held meanwhile: the task
    /// of a cluster that was lost and acquired again begins after the previous one has ended.
    ///
    /// # Errors
    /// When a call panicked, because its outcome is unknown.
    pub(super) async fn run(
        (name, lease): (ClusterName, Lease),
        context: Arc<TaskContext>,
        inbox: mpsc::UnboundedReceiver<Message>,
        alone: Arc<Mutex<()>>,
        ends: Ends,
    ) -> Result<(), JoinError> {
        let _alone = alone.lock_owned().await;
        let listing_delay = LISTING_SPREAD.mul_f64(FxBuildHasher.hash_one(&name) as f64 / u64::MAX as f64);
        let mut task = Self {
            cluster: OwnedCluster::new(name.clone(), lease, &context.settings),
            latency_tracker: LatencyTracker::new(Arc::clone(&context.latencies)),
            inbox,
            plans: mpsc::unbounded_channel(),
            calls: JoinSet::new(),
            traces: Traces::new(&name, &context.settings.scope),
            last_step: Instant::now(),
            publish_at: None,
            last_view: None,
            listing: None,
            listing_delay,
            ends,
            name,
            context,
        };
        let mut limits = task.context.limits.subscribe();
        loop {
            match task.next(&mut limits).await {
                Next::End => break,
                Next::Message(Message::Question(question)) => task.answer(question.subject),
                Next::Message(Message::Lease(lease)) => task.cluster.replace_lease(lease),
                Next::Message(Message::Input(listing @ ClusterInput::Event(Event::Listed(_)), _)) => {
                    let at = task.listing.take().map_or_else(|| Instant::now() + task.listing_delay, |(at, _)| at);
                    task.listing = Some((at, listing));
                }
                Next::Message(Message::Input(input, place)) => {
                    task.step(input).await;
                    drop(place);
                }
                Next::Planned(answer) => {
                    task.step(ClusterInput::Event(Event::Planned(Box::new(answer)))).await;
                }
                Next::CallEnded(ended) => match ended? {
                    Input::CommandEnded { id, outcome, .. } => {
                        task.traces.end_command(id, &outcome, clock::now());
                        task.step(ClusterInput::CommandEnded { id, outcome }).await;
                    }
                    Input::ClusterEvent(event) => task.step(ClusterInput::Event(event.event)).await,
                    _ => {}
                },
                Next::Listing => {
                    if let Some((_, listing)) = task.listing.take() {
                        task.step(listing).await;
                    }
                }
                Next::Time => task.step(ClusterInput::Time).await,
                Next::PublishView => task.publish_view(),
            }
        }
        task.end().await;
        Ok(())
    }

    fn answer(&self, subject: Subject) {
        let now = clock::now();
        match subject {
            Subject::Node { name, answer } => drop(answer.send(self.cluster.step_view(now).node_report(&name))),
            Subject::Pod { key, answer } => drop(answer.send(self.cluster.step_view(now).pod_report(&key))),
            Subject::Planning { known, answer } => {
                drop(answer.send(self.cluster.step_view(now).planning_facts(known.as_deref())));
            }
            Subject::State { answer } => drop(answer.send(self.cluster.step_view(now).observed_state())),
        }
    }

    fn owner(&self) -> Owner {
        Owner {
            replica: self.context.owner.clone(),
            epoch: self.cluster.epoch(),
            uid: self.cluster.uid().clone(),
            agent_version: self.context.sessions.agent_version(&self.name),
            api_server_unreachable: self.context.sessions.is_api_server_unreachable(&self.name),
        }
    }

    /// No kind of input waits for another one: which of those that are ready comes first is random.
    async fn next(&mut self, limits: &mut watch::Receiver<u64>) -> Next {
        let wakeup = self.wakeup();
        let listing_at = self.listing.as_ref().map(|(at, _)| *at);
        let Self { inbox, plans: (_, plans), calls, ends, publish_at, .. } = self;
        if ends.released.is_cancelled() || ends.stop.is_cancelled() {
            return Next::End;
        }
        tokio::select! {
            () = ends.released.cancelled() => Next::End,
            () = ends.stop.cancelled() => Next::End,
            message = inbox.recv() => message.map_or(Next::End, Next::Message),
            Some(answer) = plans.recv() => Next::Planned(answer),
            Some(ended) = calls.join_next() => Next::CallEnded(ended),
            Ok(()) = limits.changed() => Next::Time,
            () = sleep_until(wakeup) => Next::Time,
            () = due(listing_at) => Next::Listing,
            () = due(*publish_at) => Next::PublishView,
        }
    }

    /// When the next step is due without a message.
    fn wakeup(&self) -> Instant {
        let wait = self.cluster.next_wakeup().map_or(Millis::MAX, |due| due.duration_since(clock::now()));
        let wait = clock::duration(wait).min(MAX_WAIT);
        (Instant::now() + wait).max(self.last_step + MIN_TICK_INTERVAL)
    }

    async fn step(&mut self, input: ClusterInput) {
        let now = clock::now();
        let timer = StepTimer::for_cluster_input(&input);
        let in_step = self.context.heartbeat.begin_step();
        self.traces.observe(&input, now);
        let outputs = self.cluster.handle(input, now);
        drop(in_step);
        timer.end(&self.context.latencies.step_times);
        self.last_step = Instant::now();
        self.context.publish_limits();
        self.latency_tracker.observe_outputs(&outputs, clock::now());
        for output in outputs {
            // Another process may own the cluster by now.
            if self.ends.released.is_cancelled() {
                return;
            }
            self.carry_out(output, now).await;
        }
    }

    async fn carry_out(&mut self, output: Output, now: Timestamp) {
        let sessions = &self.context.sessions;
        match output {
            Output::Call(call) => self.call(call, now),
            Output::Plan(job) => self.context.planners.submit(*job, &self.plans.0),
            Output::Accept { cluster, epoch } => sessions.accept(&cluster, epoch).await,
            Output::Refuse { cluster, reason } => sessions.refuse(&cluster, reason).await,
            Output::Resync { cluster, reason } => sessions.resync(&cluster, reason.to_string()).await,
            Output::Instruct { cluster, id, instruction, deadline } => {
                let context = self.traces.instruct(id, &instruction, now);
                self.context.sessions.instruct(&cluster, id, *instruction, deadline, context).await;
            }
            Output::PublishView(_) => {
                let earliest = self.last_view.map(|last| last + self.context.view_interval());
                self.publish_at.get_or_insert(earliest.unwrap_or_else(Instant::now));
            }
        }
    }

    fn call(&mut self, call: Call, now: Timestamp) {
        let span = self.traces.begin_call(&call, now);
        let task = run_within_limit(Arc::clone(&self.context.runner), call, now).instrument(span);
        self.calls.spawn_on(task, &self.context.io);
    }

    fn publish_view(&mut self) {
        let timer = StepTimer::begin("view");
        let (now, at) = (clock::now(), Instant::now());
        (self.publish_at, self.last_view) = (None, Some(at));
        let view = Some(Box::new((self.cluster.step_view(now).cluster_view(), self.owner())));
        // The receiver is gone once the process stops.
        let _sent = self.context.views.send(ViewUpdate::new(self.name.clone(), view, now));
        timer.end(&self.context.latencies.step_times);
    }

    /// Lets calls in flight end. Their outcomes are recorded by the calls themselves, so that the
    /// next owner of the cluster need not query the cloud for them.
    async fn end(mut self) {
        self.traces.close();
        if self.ends.released.is_cancelled() {
            self.calls.detach_all();
            let gone = ViewUpdate::new(self.name.clone(), None, clock::now());
            let _sent = self.context.views.send(gone);
            return;
        }
        let calls = async { while self.calls.join_next().await.is_some() {} };
        if timeout(CALLS_GRACE, calls).await.is_err() {
            let calls = self.calls.len();
            warn!(cluster = %self.name, calls, "abandoning calls in flight on shutdown; the next owner repeats them");
        }
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
