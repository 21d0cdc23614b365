//! The control loop: a coordinator that owns the leases, and a task for each cluster.
//!
//! [`Coordinator`] decides which clusters this process owns and which input concerns which of them,
//! and performs no I/O. Each owned cluster is stepped by a task of its own ([`cluster_task`]), on
//! threads of their own, so that all processors decide and a large cluster delays no other one.
//! Calls to the store and the cloud are separate tasks ([`calls`]), planning runs on its own threads
//! ([`planners`]), and leases are renewed on another ([`lease_renewal`]). This module holds only the
//! timing.
//!
//! Reading order: the crate [`replica`] (what follows from which input), [`ControlLoop::run`],
//! [`clusters`] and [`cluster_task`] (the tasks), [`calls`] (calls to store and cloud), [`records`]
//! (decisions as rows), [`latency`], [`traces`].

pub mod calls;
mod cluster_task;
mod clusters;
mod heartbeat;
mod latency;
pub(crate) mod lease_renewal;
mod planners;
mod records;
mod steps;
mod traces;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use cloud::provider::CloudProvider;
use controller::RegionState;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use model::{Millis, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::agent_service::Sessions;
use calls::{CallRunner, LaunchWarnings, TrustedNames, run_within_limit};
use cluster_task::{CALLS_GRACE, TaskContext};
use clusters::Clusters;
use decision_log::DecisionLog;
use fleet_api::conditions::Conditions;
use fleet_api::questions::{ClusterQuestion, Delivery};
use fleet_api::views::publisher::ViewUpdate;
pub use heartbeat::Heartbeat;
pub(crate) use latency::Latencies;
use lease_renewal::{HeldLeases, LeaseRenewalThread};
pub(crate) use planners::{PlannerThreads, PlanningMode};
use replica::fence::Fence;
use replica::{ADMISSION_LIMIT, Call, ClusterSettings, Coordinator, Input, Output, Step};
use server_settings::LeaseConfig;
use steps::StepTimer;
use store::guardrails::Changes;
use store::lease::{Lease, Scope};
use store::{Store, clock};

/// Interval between polls of the cloud's event queue.
const CLOUD_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Interval between reads of the notices about instances: a spot instance ends two minutes after its notice.
const INTERRUPTION_READ_INTERVAL: Duration = Duration::from_secs(1);

/// Limit for releasing the leases on shutdown. A release takes milliseconds; the limit is generous
/// because an unreleased lease blocks its cluster until it expires.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum interval between ticks. Overdue work that cannot be done yet is retried after it.
const MIN_TICK_INTERVAL: Duration = Duration::from_millis(1);

/// Concurrent `TakeLease` calls. When a thousand agents reconnect at once, they queue here instead
/// of exhausting the store's connection pool, whose acquisition times out. The store has more
/// connections than this, so decisions are still recorded meanwhile. All loops of the process share them.
const CONCURRENT_LEASE_CALLS: usize = 4;

/// The places of concurrent `TakeLease` calls, for all control loops of a process.
pub(crate) fn lease_slots() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(CONCURRENT_LEASE_CALLS))
}

/// How many clusters each of `loops` control loops admits at one time: all together as many as one, and each at least one.
pub(crate) fn admissions_of_each(loops: usize) -> usize {
    (ADMISSION_LIMIT / loops.max(1)).max(1)
}

/// The parts of the control loop.
pub(crate) struct ControlLoop {
    /// What all clusters share, the settings among it.
    pub(crate) region_state: Arc<RegionState>,
    pub(crate) planners: Arc<PlannerThreads>,
    pub(crate) sessions: Sessions,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cloud: Arc<dyn CloudProvider>,
    pub(crate) lease: LeaseConfig,
    /// The account and region that instances are launched in.
    pub(crate) region: Scope,
    pub(crate) views: mpsc::UnboundedSender<ViewUpdate>,
    /// Interval between instance listings; `None` disables them.
    pub(crate) listing: Option<Duration>,
    /// Whether notices about instances are stored, and therefore read.
    pub(crate) reads_interruptions: bool,
    pub(crate) latencies: Arc<Latencies>,
    /// Progress of the loop, for `/healthz` and lease renewal.
    pub(crate) heartbeat: Arc<Heartbeat>,
    /// The threads that the clusters are stepped on.
    pub(crate) threads: Handle,
    /// Places of concurrent `TakeLease` calls.
    pub(crate) lease_slots: Arc<Semaphore>,
    /// How many clusters are admitted at one time.
    pub(crate) admissions: usize,
    /// Whether this loop exchanges the counters of the process with other processes: one of its loops does.
    pub(crate) syncs_counters: bool,
    /// Questions about clusters, which the tasks of the clusters answer.
    pub(crate) questions: mpsc::Receiver<ClusterQuestion>,
    /// Whether what the loop depends on works.
    pub(crate) conditions: Arc<Conditions>,
}

/// The next thing that the loop handles.
enum Next {
    Stop,
    /// Boxed: far larger than the other variants.
    Input(Box<Input>, Option<OwnedSemaphorePermit>),
    Time,
    ClusterFailed(anyhow::Error),
    Question(ClusterQuestion),
}

impl Next {
    fn input(input: Input) -> Self {
        Self::Input(Box::new(input), None)
    }
}

struct LoopState {
    coordinator: Coordinator,
    clusters: Clusters,
    sessions: Sessions,
    runner: Arc<CallRunner>,
    lease_renewal: LeaseRenewalThread,
    calls: JoinSet<Input>,
    latencies: Arc<Latencies>,
    /// When the last tick ended.
    last_tick: Instant,
    lease_slots: Arc<Semaphore>,
    syncs_counters: bool,
}

impl ControlLoop {
    /// Runs until `stop`; then makes no further decision, lets calls in flight end and releases
    /// every lease.
    ///
    /// # Errors
    /// When a call task panicked, because its outcome is unknown, or when the system cannot start a
    /// thread.
    pub(crate) async fn run(
        mut self,
        mut session_events: mpsc::Receiver<Delivery>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let renewal = (self.lease.duration / 3).max(Duration::from_millis(100));
        let mut listings = self.listing.map(tokio::time::interval);
        let mut interruptions = self.reads_interruptions.then(|| tokio::time::interval(INTERRUPTION_READ_INTERVAL));
        if let Some(reads) = &mut interruptions {
            reads.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let mut changes = self.store.changes();
        let mut lease_requests = changes.next().await.unwrap_or_default().leases;
        let heartbeat = Arc::clone(&self.heartbeat);
        let mut questions = std::mem::replace(&mut self.questions, mpsc::channel(1).1);
        let mut running = LoopState::new(self, renewal)?;
        let mut polls = tokio::time::interval(CLOUD_POLL_INTERVAL);
        let mut counter_syncs =
            running.syncs_counters.then(|| tokio::time::interval(::replica::counter_sync::INTERVAL));
        if let Some(syncs) = &mut counter_syncs {
            syncs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let mut renewals = tokio::time::interval(renewal);
        // Two renewals in a row extend nothing that one does not.
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            heartbeat.record_turn();
            // Renewal precedes everything: without its leases this process may not act.
            if renewals.tick().now_or_never().is_some() {
                running.handle_input(Input::RenewalDue, None).await;
            }
            let wakeup = running.wakeup();
            // Rare inputs precede frequent ones so that they are not starved.
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => Next::Stop,
                error = running.clusters.failed() => Next::ClusterFailed(error),
                _ = polls.tick() => Next::input(Input::CloudPoll),
                _ = renewals.tick() => Next::input(Input::RenewalDue),
                Some(number) = next_lease_request(&mut changes, lease_requests) => {
                    lease_requests = number;
                    Next::input(Input::LeaseRequested)
                }
                () = due(counter_syncs.as_mut()) => Next::input(Input::CounterSyncDue),
                () = due(interruptions.as_mut()) => Next::input(Input::InterruptionsDue),
                () = due(listings.as_mut()) => Next::input(Input::ListingDue),
                Some(renewal) = running.lease_renewal.next() => Next::input(Input::Renewed(renewal)),
                () = tokio::time::sleep_until(wakeup) => Next::Time,
                Some(done) = running.calls.join_next() => Next::input(done?),
                Some(question) = questions.recv() => Next::Question(question),
                Some(Delivery { event, place }) = session_events.recv() => {
                    Next::Input(Box::new(Input::Session(event)), place)
                }
            };
            match next {
                Next::Stop => break,
                Next::ClusterFailed(error) => return Err(error),
                Next::Input(input, place) => running.handle_input(*input, place).await,
                Next::Time => running.tick().await,
                Next::Question(question) => running.clusters.ask(question),
            }
        }
        running.shut_down().await;
        Ok(())
    }
}

impl LoopState {
    fn new(parts: ControlLoop, renewal: Duration) -> std::io::Result<Self> {
        let ControlLoop { region_state: shared, planners, sessions, store, cloud, lease, region, views, .. } = parts;
        let (latencies, heartbeat) = (parts.latencies, parts.heartbeat);
        // Differs in each run of the process.
        let generation = clock::now().as_millis().unsigned_abs();
        let settings = ClusterSettings { region: Arc::clone(&shared), scope: region.clone(), seed: generation };
        let (fence, held_leases) = (Arc::<Fence>::default(), Arc::<HeldLeases>::default());
        let (log, names) = (DecisionLog::default(), TrustedNames::of(sessions.authorizer()));
        let (conditions, launch_warnings) = (parts.conditions, LaunchWarnings::default());
        let runner = CallRunner { store, cloud, lease, fence, held_leases, log, names, conditions, launch_warnings };
        let runner = Arc::new(runner);
        let context = TaskContext {
            settings,
            sessions: sessions.clone(),
            owner: runner.lease.owner.clone(),
            runner: Arc::clone(&runner),
            planners,
            views,
            latencies: Arc::clone(&latencies),
            heartbeat: Arc::clone(&heartbeat),
            limits: watch::channel(shared.limits_version()).0,
            clusters: watch::channel(0).0,
            io: Handle::current(),
        };
        Ok(Self {
            coordinator: Coordinator::new(shared, generation, region).with_admission_limit(parts.admissions),
            clusters: Clusters::new(Arc::new(context), parts.threads),
            sessions,
            lease_renewal: LeaseRenewalThread::start(runner.renewer(), renewal, heartbeat)?,
            runner,
            calls: JoinSet::new(),
            latencies,
            last_tick: Instant::now(),
            lease_slots: parts.lease_slots,
            syncs_counters: parts.syncs_counters,
        })
    }

    /// When the next tick is due.
    fn wakeup(&self) -> Instant {
        let wait = self.coordinator.next_wakeup().map_or(Millis::MAX, |due| due.duration_since(clock::now()));
        // The cap of one second lets the loop notice a clock that was set.
        let wait = clock::duration(wait).min(Duration::from_secs(1));
        (Instant::now() + wait).max(self.last_tick + MIN_TICK_INTERVAL)
    }

    async fn tick(&mut self) {
        self.handle_input(Input::Time, None).await;
        self.last_tick = Instant::now();
    }

    /// Handles `input`, whose place is taken until the cluster that it is passed to has handled it.
    async fn handle_input(&mut self, input: Input, mut place: Option<OwnedSemaphorePermit>) {
        let now = clock::now();
        let timer = StepTimer::for_input(&input);
        let steps = self.coordinator.handle(input, now);
        timer.end(&self.latencies.step_times);
        // The order matters: an agent is accepted after its cluster's task has begun, and a task
        // ends before its lease is released.
        for step in steps {
            match step {
                Step::Own(cluster, lease) => self.clusters.own(cluster, lease),
                Step::Release(cluster, lease) => {
                    // The cluster's task may be in a step, or about to begin a call.
                    self.runner.end_lease(&lease);
                    self.clusters.release(&cluster);
                }
                Step::Deliver(cluster, input) => self.clusters.deliver(&cluster, input, place.take()),
                Step::Output(Output::Accept { cluster, epoch }) => self.sessions.accept(&cluster, epoch).await,
                Step::Output(Output::Refuse { cluster, reason }) => self.sessions.refuse(&cluster, reason).await,
                Step::Output(Output::Call(Call::RenewLeases(leases))) => self.lease_renewal.request_renewal(leases),
                Step::Output(Output::Call(call)) => self.call(call, now),
                // The task of a cluster publishes its views, and that it has ended.
                Step::Output(Output::PublishView(_)) => {}
                Step::Output(Output::Plan(_) | Output::Instruct { .. } | Output::Resync { .. }) => {
                    debug_assert!(false, "only clusters plan and instruct");
                }
            }
        }
        self.clusters.context().publish_limits();
    }

    fn call(&mut self, call: Call, now: Timestamp) {
        let runner = Arc::clone(&self.runner);
        let lease_slots = matches!(call, Call::TakeLease { .. }).then(|| Arc::clone(&self.lease_slots));
        self.calls.spawn(async move {
            let _slot = match lease_slots {
                // The semaphore is never closed.
                Some(lease_slots) => lease_slots.acquire_owned().await.ok(),
                None => None,
            };
            run_within_limit(runner, call, now).await
        });
    }

    /// Ends the tasks of the clusters and lets launches in flight be recorded, so that the next
    /// owner of a cluster need not query the cloud for them.
    async fn shut_down(mut self) {
        let calls = async { while self.calls.join_next().await.is_some() {} };
        let ended = async { tokio::join!(self.clusters.stop(), calls) };
        // A task may be in a step.
        if tokio::time::timeout(2 * CALLS_GRACE, ended).await.is_err() {
            warn!("abandoning clusters or calls in progress on shutdown; the next owners repeat them");
        }
        let update = self.syncs_counters.then(|| self.coordinator.final_counters(clock::now())).flatten();
        if let Some(update) = update {
            let published = self.runner.publish_counters(self.coordinator.generation(), &update);
            if tokio::time::timeout(CALLS_GRACE, published).await.is_err() {
                warn!("could not publish counters on shutdown; fleet limits undercount");
            }
        }
        let leases: Vec<Lease> = self.coordinator.leases().cloned().collect();
        if tokio::time::timeout(RELEASE_TIMEOUT, self.runner.release(&leases)).await.is_err() {
            warn!(leases = leases.len(), "could not release leases on shutdown; they expire");
        }
    }
}

/// Completes when the number of lease requests differs from `known`.
async fn next_lease_request(changes: &mut BoxStream<'static, Changes>, known: u64) -> Option<u64> {
    let mut numbers = changes.map(|changes| changes.leases).skip_while(|number| ready(*number == known));
    numbers.next().await
}

/// Completes at the next tick of `ticks`; never, without a ticker.
async fn due(ticks: Option<&mut Interval>) {
    match ticks {
        Some(ticks) => {
            ticks.tick().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
