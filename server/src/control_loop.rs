//! The control loop: one task that owns the decisions of this process and picks the next input.
//!
//! [`Replica`] decides what to do and performs no I/O. Calls to the store and the cloud are
//! separate tasks ([`calls`]), planning runs on its own threads ([`planners`]), and leases are
//! renewed on another ([`lease_renewal`]). Each result returns as an [`Input`]. This module holds
//! only the timing.
//!
//! Reading order: the crate [`replica`] (which output follows from which input),
//! [`ControlLoop::run`], [`calls`] (calls to store and cloud), [`records`] (decisions as rows),
//! [`view_publisher`] (dashboard views), [`latency`], [`traces`].

pub mod calls;
mod heartbeat;
mod latency;
pub(crate) mod lease_renewal;
mod planners;
mod records;
mod steps;
mod traces;
mod view_publisher;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use cloud::provider::CloudProvider;
use controller::{NewPlanner, RegionController};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use model::{Millis, Timestamp};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, warn};

use crate::agent_service::Sessions;
use crate::config::LeaseConfig;
use crate::views::Publisher;
use agent_session::SessionEvent;
use calls::CallRunner;
use decision_log::DecisionLog;
pub use heartbeat::Heartbeat;
pub(crate) use latency::Latencies;
use latency::LatencyTracker;
use lease_renewal::{HeldLeases, LeaseRenewalThread};
use planners::Planners;
pub(crate) use planners::PlanningMode;
use replica::fence::Fence;
use replica::{Call, Input, Output, Replica};
use steps::StepTimer;
use store::guardrails::Changes;
use store::lease::{Lease, Scope};
use store::{Store, clock};
use traces::Traces;
use view_publisher::ViewPublisher;

/// Interval between polls of the cloud's event queue.
const CLOUD_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Grace period on shutdown for calls in flight. Agents wait for it.
const CALLS_GRACE: Duration = Duration::from_millis(500);

/// Limit for releasing the leases on shutdown. A release takes milliseconds; the limit is generous
/// because an unreleased lease blocks its cluster until it expires.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// After each tick, events are handled for as long as the tick took, within these bounds. So a
/// stream of events cannot starve ticks, and a tick (at most one plan for one cluster) delays
/// events only briefly. When there is too little time for both, planning gets the larger share
/// because users wait for it.
const EVENT_TIME_BOUNDS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(5)];

/// Minimum interval between ticks. Overdue work that cannot be done yet is retried after it.
const MIN_TICK_INTERVAL: Duration = Duration::from_millis(1);

/// Concurrent `TakeLease` calls. When a thousand agents reconnect at once, they queue here instead
/// of exhausting the store's connection pool, whose acquisition times out. The store has more
/// connections than this, so decisions are still recorded meanwhile.
const CONCURRENT_LEASE_CALLS: usize = 4;

/// The parts of the control loop.
pub(crate) struct ControlLoop<C> {
    pub(crate) controller: RegionController,
    pub(crate) planner: NewPlanner,
    pub(crate) planning: PlanningMode,
    pub(crate) sessions: Sessions,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) cloud: Arc<C>,
    /// Lease owner name and duration.
    pub(crate) lease: LeaseConfig,
    /// The account and region that instances are launched in.
    pub(crate) region: Scope,
    pub(crate) publisher: Publisher,
    /// Interval between instance listings; `None` disables them.
    pub(crate) listing: Option<Duration>,
    pub(crate) latencies: Arc<Latencies>,
    /// Progress of the loop, for `/healthz` and lease renewal.
    pub(crate) heartbeat: Arc<Heartbeat>,
}

/// The next thing that the loop handles.
enum Next {
    Stop,
    /// Boxed: far larger than the other variants.
    Input(Box<Input>),
    Time,
    PublishView,
}

impl Next {
    fn input(input: Input) -> Self {
        Self::Input(Box::new(input))
    }
}

struct LoopState<C> {
    replica: Replica,
    sessions: Sessions,
    runner: Arc<CallRunner<C>>,
    planners: Planners,
    lease_renewal: LeaseRenewalThread,
    heartbeat: Arc<Heartbeat>,
    view_publisher: ViewPublisher,
    calls: JoinSet<Input>,
    latency_tracker: LatencyTracker,
    latencies: Arc<Latencies>,
    traces: Traces,
    /// When the last tick ended.
    last_tick: Instant,
    /// From this moment on a due tick precedes events.
    prefer_time_from: Instant,
    lease_slots: Arc<Semaphore>,
}

impl<C: CloudProvider + 'static> ControlLoop<C> {
    /// Runs until `stop`; then makes no further decision, lets calls in flight end and releases
    /// every lease.
    ///
    /// # Errors
    /// When a call task panicked, because its outcome is unknown, or when the system cannot start a
    /// thread.
    pub(crate) async fn run(
        self,
        mut session_events: mpsc::Receiver<SessionEvent>,
        stop: CancellationToken,
    ) -> anyhow::Result<()> {
        let renewal = (self.lease.duration / 3).max(Duration::from_millis(100));
        let mut listings = self.listing.map(tokio::time::interval);
        let mut changes = self.store.changes();
        let mut lease_requests = changes.next().await.unwrap_or_default().leases;
        let mut running = LoopState::new(self, renewal)?;
        let mut polls = tokio::time::interval(CLOUD_POLL_INTERVAL);
        let mut counter_syncs = tokio::time::interval(::replica::counter_sync::INTERVAL);
        counter_syncs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewals = tokio::time::interval(renewal);
        // Two renewals in a row extend nothing that one does not.
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            running.heartbeat.record_turn();
            // Renewal precedes everything: without its leases this process may not act.
            if renewals.tick().now_or_never().is_some() {
                running.handle_input(Input::RenewalDue).await;
            }
            let wakeup = running.wakeup();
            if wakeup.max(running.prefer_time_from) <= Instant::now() {
                running.tick().await;
                continue;
            }
            // Rare inputs precede frequent ones so that they are not starved; ticks come last here
            // because a due tick is handled above.
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => Next::Stop,
                _ = polls.tick() => Next::input(Input::CloudPoll),
                _ = renewals.tick() => Next::input(Input::RenewalDue),
                Some(number) = next_lease_request(&mut changes, lease_requests) => {
                    lease_requests = number;
                    Next::input(Input::LeaseRequested)
                }
                _ = counter_syncs.tick() => Next::input(Input::CounterSyncDue),
                () = due(listings.as_mut()) => Next::input(Input::ListingDue),
                () = running.view_publisher.due() => Next::PublishView,
                Some(renewal) = running.lease_renewal.next() => Next::input(Input::Renewed(renewal)),
                Some(answer) = running.planners.next() => Next::input(Input::Planned(Box::new(answer))),
                Some(done) = running.calls.join_next() => Next::input(done?),
                Some(event) = session_events.recv() => Next::input(Input::Session(event)),
                () = tokio::time::sleep_until(wakeup) => Next::Time,
            };
            match next {
                Next::Stop => break,
                Next::Input(input) => running.handle_input(*input).await,
                Next::Time => running.tick().await,
                Next::PublishView => {
                    let timer = StepTimer::begin("the view for people");
                    running.view_publisher.publish_next(running.replica.controller(), clock::now());
                    timer.end(&running.latencies.step_times);
                }
            }
        }
        running.shut_down().await;
        Ok(())
    }
}

impl<C: CloudProvider + 'static> LoopState<C> {
    fn new(parts: ControlLoop<C>, renewal: Duration) -> std::io::Result<Self> {
        let ControlLoop { controller, planner, planning, sessions, store, cloud, lease, region, publisher, .. } = parts;
        let (latencies, heartbeat) = (parts.latencies, parts.heartbeat);
        let replica = Replica::new(controller, clock::now().as_millis().unsigned_abs(), region);
        let (fence, held_leases) = (Arc::<Fence>::default(), Arc::<HeldLeases>::default());
        let runner = Arc::new(CallRunner { store, cloud, lease, fence, held_leases, log: DecisionLog::default() });
        Ok(Self {
            replica,
            sessions,
            lease_renewal: LeaseRenewalThread::start(runner.renewer(), renewal, Arc::clone(&heartbeat))?,
            heartbeat,
            planners: Planners::start(planner, planning)?,
            runner,
            view_publisher: ViewPublisher::new(publisher),
            calls: JoinSet::new(),
            latency_tracker: LatencyTracker::new(Arc::clone(&latencies)),
            latencies,
            traces: Traces::default(),
            last_tick: Instant::now(),
            prefer_time_from: Instant::now(),
            lease_slots: Arc::new(Semaphore::new(CONCURRENT_LEASE_CALLS)),
        })
    }

    /// When the next tick is due.
    fn wakeup(&self) -> Instant {
        let wait = self.replica.next_wakeup().map_or(Millis::MAX, |due| due.duration_since(clock::now()));
        // The cap of one second lets the loop notice a clock that was set.
        let wait = clock::duration(wait).min(Duration::from_secs(1));
        (Instant::now() + wait).max(self.last_tick + MIN_TICK_INTERVAL)
    }

    async fn tick(&mut self) {
        let begun = Instant::now();
        self.handle_input(Input::Time).await;
        self.last_tick = Instant::now();
        let [least, most] = EVENT_TIME_BOUNDS;
        self.prefer_time_from = self.last_tick + begun.elapsed().clamp(least, most);
    }

    async fn handle_input(&mut self, input: Input) {
        let now = clock::now();
        self.traces.finish_launch(&input);
        let timer = StepTimer::for_input(&input);
        let outputs = self.replica.handle(input, now);
        timer.end(&self.latencies.step_times);
        let timer = StepTimer::begin("passing on what follows");
        self.latency_tracker.observe_outputs(&outputs, clock::now());
        for output in outputs {
            match output {
                Output::Accept { cluster, epoch } => self.sessions.accept(&cluster, epoch).await,
                Output::Refuse { cluster, reason } => self.sessions.refuse(&cluster, reason).await,
                Output::Instruct { cluster, id, instruction, deadline } => {
                    self.traces.begin_create(&cluster, &instruction);
                    self.sessions.instruct(&cluster, id, *instruction, deadline).await;
                }
                Output::Call(Call::RenewLeases(leases)) => self.lease_renewal.request_renewal(leases),
                Output::Call(call) => self.call(call, now),
                Output::Plan(request) => self.planners.submit(*request),
                Output::Resync { cluster, reason } => self.sessions.resync(&cluster, reason.to_string()).await,
                Output::PublishView(cluster) => self.view_publisher.mark_changed(cluster),
            }
        }
        timer.end(&self.latencies.step_times);
    }

    fn call(&mut self, call: Call, now: Timestamp) {
        let runner = Arc::clone(&self.runner);
        let lease_slots = matches!(call, Call::TakeLease { .. }).then(|| Arc::clone(&self.lease_slots));
        let span = self.traces.span_for(&call, now);
        let task = async move {
            let _slot = match lease_slots {
                // The semaphore is never closed.
                Some(lease_slots) => lease_slots.acquire_owned().await.ok(),
                None => None,
            };
            let Some((by, late)) = call.limit() else { return runner.run(call).await };
            let timeout = clock::duration(by.duration_since(now));
            let done = tokio::time::timeout(timeout, runner.run(call)).await.unwrap_or(late);
            traces::record_outcome(&done);
            done
        };
        self.calls.spawn(task.instrument(span));
    }

    /// Lets launches in flight be recorded, so that the next owner of the cluster need not query
    /// the cloud for them.
    async fn shut_down(mut self) {
        let calls = async { while self.calls.join_next().await.is_some() {} };
        if tokio::time::timeout(CALLS_GRACE, calls).await.is_err() {
            warn!(calls = self.calls.len(), "abandoning calls in flight on shutdown; the next owner repeats them");
        }
        if tokio::time::timeout(CALLS_GRACE, self.flush_final_counters()).await.is_err() {
            warn!("could not publish counters on shutdown; fleet limits undercount");
        }
        let leases: Vec<Lease> = self.replica.leases().cloned().collect();
        if tokio::time::timeout(RELEASE_TIMEOUT, self.runner.release(&leases)).await.is_err() {
            warn!(leases = leases.len(), "could not release leases on shutdown; they expire");
        }
    }

    async fn flush_final_counters(&mut self) {
        if let Some(update) = self.replica.final_counters(clock::now()) {
            self.runner.publish_counters(self.replica.generation(), &update).await;
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
