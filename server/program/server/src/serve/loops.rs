//! Starts the control loops of a server: one for each account and region, on the threads that all of them share.
//!
//! A loop has leases of its own. The loops share sessions, store, views, the threads for decisions and for plans, and [`FleetState`].

use std::sync::Arc;

use anyhow::Context;
use controller::{ClassFacts, FleetState, NewPlanner, RegionState, Settings};
use model::Millis;
use replica::offerings::region_and_account;
use store::lease::Scope;
use store::{Store, clock};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::regions::RegionComponents;
use crate::agent_service::Sessions;
use crate::clouds::measured::MeasuredCloud;
use crate::control_loop::{
    ControlLoop, Heartbeat, Latencies, PlannerThreads, PlanningMode, admissions_of_each, lease_slots,
};
use fleet_api::capacity::learning::TaughtRegion;
use fleet_api::conditions::{Conditions, Dependency};
use fleet_api::questions::{ClusterQuestion, Delivery};
use fleet_api::views::publisher::{ViewPublisher, publish_views};
use server_settings::LeaseConfig;

/// What the control loops have in common.
pub(crate) struct Common {
    pub(crate) planner: NewPlanner,
    pub(crate) settings: Settings,
    pub(crate) sessions: Sessions,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) lease: LeaseConfig,
    pub(crate) reads_interruptions: bool,
    pub(crate) conditions: Arc<Conditions>,
}

/// Intervals of listings within which one must succeed, or the instances count as not listed.
const LISTINGS_MISSED: u32 = 4;

/// Shortest time without a listing that counts: a listing may be handed over to another replica.
const LISTING_AGE: Millis = Millis::from_mins(2);

/// What a control loop is sent.
pub(crate) struct Inbox {
    pub(crate) events: mpsc::Receiver<Delivery>,
    pub(crate) questions: mpsc::Receiver<ClusterQuestion>,
}

pub(crate) struct Loops {
    /// What the clusters of all of them share.
    pub(crate) fleet: Arc<FleetState>,
    /// What the clusters of each account and region share, in the order of the loops.
    pub(crate) regions: Vec<TaughtRegion>,
    pub(crate) heartbeats: Vec<Arc<Heartbeat>>,
    pub(crate) latencies: Arc<Latencies>,
}

/// Threads that step the clusters of all control loops. They end when the last loop has.
struct DecisionThreads(Option<Runtime>);

impl DecisionThreads {
    /// One thread for each processor. A step may take long, so it would block a runtime worker and its I/O.
    fn start() -> anyhow::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let threads = builder.thread_name("decisions").enable_time().build();
        Ok(Self(Some(threads.context("no threads for decisions")?)))
    }

    fn handle(&self) -> anyhow::Result<Handle> {
        self.0.as_ref().map(|threads| threads.handle().clone()).context("no threads for decisions")
    }
}

impl Drop for DecisionThreads {
    /// A task that is still in a step ends with it.
    fn drop(&mut self) {
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}

/// Starts a control loop for each account and region; each ends one of `tasks`. The first token stops them, the second is
/// cancelled when all have ended.
///
/// # Errors
/// A thread could not start.
pub(crate) fn start(
    common: Common,
    loops: impl ExactSizeIterator<Item = (RegionComponents, Inbox)>,
    publisher: ViewPublisher,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    (stop, ended): &(CancellationToken, CancellationToken),
) -> anyhow::Result<Loops> {
    let Common { planner, settings, sessions, store, lease, reads_interruptions, conditions } = common;
    // Half the garbage collection delay, so that an orphan is observed twice within it.
    let listing = settings.gc_after.map(|after| clock::duration(after / 2));
    let latencies = Arc::new(Latencies::default());
    let fleet = Arc::new(FleetState::new(&settings));
    let planners = PlannerThreads::start(planner, PlanningMode::Threads, &settings, &latencies)?;
    let threads = Arc::new(DecisionThreads::start()?);
    let all_ended = Arc::new(ended.clone().drop_guard());
    let (views, updates) = mpsc::unbounded_channel();
    tokio::spawn(publish_views(updates, publisher));
    let (lease_slots, admissions) = (lease_slots(), admissions_of_each(loops.len()));
    let (mut heartbeats, mut regions) = (Vec::new(), Vec::new());
    for (region, inbox) in loops {
        let heartbeat = Arc::new(Heartbeat::default());
        let state = Arc::new(region_state(&settings, &fleet, &region.scope));
        if let Some(interval) = listing {
            let max_age = LISTING_AGE.max(clock::millis(interval.saturating_mul(LISTINGS_MISSED)));
            conditions.expect(Dependency::Listing(region.scope.clone()), max_age, clock::now());
        }
        let account = region_and_account(&region.scope).1.to_owned();
        regions.push(TaughtRegion { state: Arc::clone(&state), account });
        let control = ControlLoop {
            region_state: state,
            planners: Arc::clone(&planners),
            sessions: sessions.clone(),
            store: Arc::clone(&store),
            cloud: Arc::new(MeasuredCloud::new(region.cloud, region.scope.clone(), Arc::clone(&conditions))),
            lease: lease.clone(),
            region: region.scope,
            views: views.clone(),
            listing,
            reads_interruptions,
            latencies: Arc::clone(&latencies),
            heartbeat: Arc::clone(&heartbeat),
            threads: threads.handle()?,
            lease_slots: Arc::clone(&lease_slots),
            admissions,
            // The counters are those of the process.
            syncs_counters: heartbeats.is_empty(),
            questions: inbox.questions,
            conditions: Arc::clone(&conditions),
        };
        let result = spawn(control, inbox.events, stop.clone(), (Arc::clone(&threads), Arc::clone(&all_ended)))?;
        tasks.spawn(async move { result.await.context("a control loop panicked")? });
        heartbeats.push(heartbeat);
    }
    Ok(Loops { fleet, regions, heartbeats, latencies })
}

/// State of an account and region. The zones of a simulated cloud are those of its catalogue, whatever its region.
fn region_state(settings: &Settings, fleet: &Arc<FleetState>, scope: &Scope) -> RegionState {
    let state = RegionState::with_fleet(settings.clone(), Arc::clone(fleet));
    match settings.class_facts {
        ClassFacts::Resolved => state.in_region(region_and_account(scope).0.into()),
        ClassFacts::Simulated => state,
    }
}

/// Runs a control loop on a thread of its own, until `stop`. What `held` holds is dropped when it has ended.
fn spawn(
    control: ControlLoop,
    events: mpsc::Receiver<Delivery>,
    stop: CancellationToken,
    held: (Arc<DecisionThreads>, Arc<DropGuard>),
) -> std::io::Result<oneshot::Receiver<anyhow::Result<()>>> {
    let (runtime, (result_sender, result)) = (Handle::current(), oneshot::channel());
    std::thread::Builder::new().name("control-loop".to_owned()).spawn(move || {
        let _held = held;
        // The receiver is gone once the server has been dropped.
        let _sent = result_sender.send(runtime.block_on(control.run(events, stop)));
    })?;
    Ok(result)
}
