//! The control loop with all its parts, and a planner that blocks until the test opens a gate.

mod accounts;
mod node_pool;
mod status;

use std::sync::{Condvar, Mutex};

use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use cluster::{ClusterSnapshot, Observation, PodRecord};
use controller::search_allowance::SearchSettings;
use controller::{Event, FleetState, NewPlanner, Planner, Settings, StageKind};
use model::input::PlanningInput;
use model::resources::{CPU, MEMORY, PODS};
use model::{Millis, PodShape, Resources};

use super::*;
use crate::agent_service::{LoopRoute, Routes};
use crate::serve;
use agent_session::{AgentHello, PoolReader, SessionEvent};
use auth::authorizer::Authorizer;
use fleet_api::fleet::FleetApi;
use fleet_api::fleet::directory::Directory;
use fleet_api::views::publisher::{ViewPublisher, publish_views};
use fleet_api::views::{self, ResourceChanges, Views};
use server_settings::{ClusterRules, LeaseConfig};
use store::lease::LeaseOutcome;
use store::memory::MemoryStore;

use node_pool::any_pool;

/// Upper bound of every wait, on the slowest machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A gate that blocks plans of greedy pods.
struct Gate {
    /// Number of arrivals, and whether the gate is open.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    const fn new() -> Self {
        Self { state: Mutex::new((0, false)), changed: Condvar::new() }
    }

    fn wait_until_open(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, open)| !*open).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }

    fn has_waiter(&self) -> bool {
        self.state.lock().unwrap().0 > 0
    }
}

/// The production planner; it waits at the gate before it plans greedy pods.
fn plan_after_gate(gate: &'static Gate) -> Planner {
    let Planner { mut pods, disruption } = serve::new_planner();
    let plan = move |input: &PlanningInput| {
        if input.pods.iter().any(|pod| pod.name.starts_with("greedy")) {
            gate.wait_until_open();
        }
        pods(input)
    };
    Planner { pods: Box::new(plan), disruption }
}

fn snapshot(pod: &str) -> ClusterSnapshot {
    let requests = Resources::from_iter([(CPU, 500), (MEMORY, 1 << 30), (PODS, 1)]);
    let shape = Arc::new(PodShape { requests, ..PodShape::default() });
    let pods = vec![PodRecord::pending("default", pod, shape, Arc::default())];
    ClusterSnapshot { pools: vec![any_pool()], pods, ..ClusterSnapshot::default() }
}

struct Fixture {
    events: mpsc::Sender<Delivery>,
    views: Views,
    directory: Arc<Directory>,
    changes: Arc<ResourceChanges>,
    store: Arc<MemoryStore>,
    heartbeat: Arc<Heartbeat>,
    stop: CancellationToken,
}

/// The threads that clusters are stepped on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    /// The thread of the control loop.
    One,
    /// Two of their own, as in a server with two processors.
    Two,
}

impl Fixture {
    fn start(planner: NewPlanner, planning: PlanningMode, threads: Threads) -> Self {
        let settings = Settings { batch_idle: Millis::new(1), policy: serve::policy(), ..Settings::default() };
        Self::start_with(settings, planner, planning, threads)
    }

    fn fleet_api(&self) -> FleetApi {
        FleetApi::alone(
            self.views.clone(),
            (Arc::clone(&self.directory), Arc::clone(&self.changes)),
            self.store.clone(),
        )
    }

    fn start_with(settings: Settings, planner: NewPlanner, planning: PlanningMode, threads: Threads) -> Self {
        let (publisher, fleet_views) = views::channel();
        let (events, heard) = mpsc::channel(64);
        let read_pools = PoolReader::new(|_| vec![any_pool()]);
        let route = LoopRoute { events: events.clone(), pool_reader: read_pools, catalogue: None };
        let sessions = Sessions::new(
            agent_session::Settings::default(),
            Routes::new(ClusterRules::all_in_one(), vec![route]),
            Arc::new(Authorizer::allow_all()),
        );
        let store = Arc::new(MemoryStore::new());
        let heartbeat = Arc::<Heartbeat>::default();
        // On a thread of its own: a blocked worker would stop the test's own clock.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let two = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        let latencies = Arc::default();
        let planners = PlannerThreads::start(planner, planning, &settings, &latencies).unwrap();
        let (views, updates) = mpsc::unbounded_channel();
        let (directory, changes) = (Arc::<Directory>::default(), Arc::<ResourceChanges>::default());
        let publisher = ViewPublisher::new(publisher, &directory, &changes);
        runtime.spawn(publish_views(updates, publisher));
        let control = ControlLoop {
            region_state: Arc::new(RegionState::new(settings)),
            planners,
            sessions,
            store: store.clone(),
            cloud: Arc::new(ClockedCloud::new(SimulatedCloud::new(FaultProfile::default(), None), clock::now)),
            lease: LeaseConfig { owner: "me".to_owned(), duration: Duration::from_secs(9) },
            region: Scope::Region { account: "1".to_owned(), region: "here".to_owned() },
            views,
            listing: None,
            reads_interruptions: false,
            latencies,
            heartbeat: Arc::clone(&heartbeat),
            threads: if threads == Threads::One { runtime.handle().clone() } else { two.handle().clone() },
            lease_slots: lease_slots(),
            admissions: admissions_of_each(1),
            syncs_counters: true,
            questions: mpsc::channel(1).1,
            conditions: Arc::default(),
        };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        std::thread::spawn(move || {
            let ended = runtime.block_on(control.run(heard, stopped));
            two.shutdown_background();
            ended
        });
        Self { events, views: fleet_views, directory, changes, store, heartbeat, stop }
    }

    async fn send(&self, event: SessionEvent) {
        self.events.send(event.into()).await.unwrap();
    }

    /// The agent of `cluster` sends Hello and a snapshot with one pod.
    async fn connect(&self, cluster: &str) {
        self.send(SessionEvent::HelloReceived(AgentHello {
            cluster: cluster.into(),
            cluster_uid: format!("uid of {cluster}"),
            highest_epoch: 0,
            region: String::new(),
            agent_version: String::new(),
            kubernetes_version: String::new(),
            karpenter_absent: false,
        }))
        .await;
        let mut views = self.views.clone();
        // Events before the cluster's lease is acquired are ignored, so they are repeated; the lease
        // may be acquired between the two.
        let accepted = async {
            loop {
                self.send(SessionEvent::ClusterEvent(Event::AgentConnected.of(cluster))).await;
                self.send_snapshot(cluster, &format!("{cluster}-0")).await;
                let seen = views.wait_for(|fleet: &Arc<views::FleetView>| {
                    fleet.clusters.get(cluster).is_some_and(|seen| seen.view.connected && seen.view.synced)
                });
                if tokio::time::timeout(Duration::from_millis(100), seen).await.is_ok() {
                    return;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, accepted).await.expect("the agent is accepted");
    }

    /// The agent of `cluster` sends a snapshot with one pod.
    async fn send_snapshot(&self, cluster: &str, pod: &str) {
        let observation = Observation::Snapshot(Box::new(snapshot(pod)));
        self.send(SessionEvent::ClusterEvent(Event::Observed(observation).of(cluster))).await;
    }

    /// Whether a NodeClaim is ordered in `cluster` in time.
    async fn orders_within(&mut self, cluster: &str, timeout: Duration) -> bool {
        let ordered = self.views.wait_for(|fleet| {
            let view = fleet.view(cluster);
            view.is_some_and(|view| view.machines().any(|machine| machine.stage == StageKind::Creating))
        });
        tokio::time::timeout(timeout, ordered).await.is_ok()
    }

    /// Remaining time of the lease of `cluster`, as another replica sees it.
    async fn lease_remaining(&self, cluster: &str) -> Duration {
        let answer = self.store.acquire_lease(&Scope::cluster(cluster), "another", 0, Duration::from_secs(1)).await;
        let Ok(LeaseOutcome::Held { expires_in, .. }) = answer else { panic!("{answer:?}") };
        expires_in
    }
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("timed out: {what}"));
}

static SLOW: Gate = Gate::new();

#[tokio::test]
async fn an_endless_plan_delays_no_other_cluster_no_lease_and_no_health_check() {
    let mut fixture = Fixture::start(|| plan_after_gate(&SLOW), PlanningMode::Threads, Threads::Two);
    fixture.connect("greedy").await;
    until("its plan has begun", async || SLOW.has_waiter()).await;
    fixture.connect("innocent").await;
    assert!(fixture.orders_within("innocent", TIMEOUT).await);
    let before = fixture.lease_remaining("greedy").await;
    // Leases are renewed every 3 s.
    until("its lease is renewed", async || fixture.lease_remaining("greedy").await > before).await;
    assert_eq!(fixture.heartbeat.stall_reason(), None);
    assert!(!fixture.orders_within("greedy", Duration::ZERO).await, "its plan is still in progress");
    SLOW.open();
    assert!(fixture.orders_within("greedy", TIMEOUT).await);
    fixture.stop.cancel();
}

static BEHIND: Gate = Gate::new();

#[tokio::test]
async fn sabotage_an_endless_plan_inside_the_loop_delays_the_other_cluster() {
    let mut fixture = Fixture::start(|| plan_after_gate(&BEHIND), PlanningMode::Inline, Threads::One);
    // Both clusters are admitted before the plan begins; otherwise the second could not even
    // connect.
    let (greedy, innocent) = ("greedy", "innocent");
    fixture.connect(innocent).await;
    assert!(fixture.orders_within(innocent, TIMEOUT).await);
    // When its pod arrives, the loop blocks at the gate before it can publish a view.
    tokio::select! {
        () = fixture.connect(greedy) => {}
        () = until("its plan has begun", async || BEHIND.has_waiter()) => {}
    }
    until("its plan has begun", async || BEHIND.has_waiter()).await;
    let version = |fixture: &Fixture| fixture.views.borrow().view(innocent).map(|view| view.version);
    let before = version(&fixture);
    fixture.send_snapshot(innocent, "innocent-1").await;
    assert!(!fixture.orders_within(greedy, Duration::from_secs(2)).await);
    assert_eq!(version(&fixture), before, "events of the other cluster are not handled");
    BEHIND.open();
    until("the events are handled", async || version(&fixture) != before).await;
    fixture.stop.cancel();
}

static STEP: Gate = Gate::new();

#[tokio::test]
async fn a_cluster_whose_step_takes_long_delays_no_other_one() {
    let mut fixture = Fixture::start(|| plan_after_gate(&STEP), PlanningMode::Inline, Threads::Two);
    // The plan is made inside the step, which blocks one of two threads.
    tokio::select! {
        () = fixture.connect("greedy") => {}
        () = until("its step has begun", async || STEP.has_waiter()) => {}
    }
    until("its step has begun", async || STEP.has_waiter()).await;
    fixture.connect("innocent").await;
    assert!(!fixture.orders_within("greedy", Duration::ZERO).await);
    STEP.open();
    assert!(fixture.orders_within("greedy", TIMEOUT).await);
    assert!(fixture.orders_within("innocent", TIMEOUT).await);
    fixture.stop.cancel();
}

static SEARCH: Gate = Gate::new();

/// The production planner; it waits at the gate before it searches.
fn search_after_gate() -> Planner {
    let Planner { mut pods, disruption } = serve::new_planner();
    let plan = move |input: &PlanningInput| {
        if input.policy.search_steps > 0 {
            SEARCH.wait_until_open();
        }
        pods(input)
    };
    Planner { pods: Box::new(plan), disruption }
}

#[tokio::test]
async fn an_endless_search_delays_no_plan() {
    // The search begins after half of a second, and the plan is due after two seconds.
    let settings = Settings {
        batch_idle: Millis::from_secs(2),
        search: SearchSettings::with_share(100, 1),
        policy: serve::policy(),
        ..Settings::default()
    };
    let mut fixture = Fixture::start_with(settings, search_after_gate, PlanningMode::Threads, Threads::Two);
    fixture.connect("blue").await;
    until("its search has begun", async || SEARCH.has_waiter()).await;
    assert!(fixture.orders_within("blue", TIMEOUT).await);
    SEARCH.open();
    fixture.stop.cancel();
}

#[tokio::test]
async fn a_cluster_that_was_handed_over_and_acquired_again_has_a_task_again() {
    let mut fixture = Fixture::start(serve::new_planner, PlanningMode::Threads, Threads::Two);
    fixture.connect("blue").await;
    assert!(fixture.orders_within("blue", TIMEOUT).await);
    // Its agent connects to another replica, which requests the lease.
    fixture.send(SessionEvent::ClusterEvent(Event::AgentDisconnected.of("blue"))).await;
    fixture.store.request_lease(&Scope::cluster("blue"), "another").await.unwrap();
    let mut views = fixture.views.clone();
    let lost = views.wait_for(|fleet| !fleet.clusters.contains_key("blue"));
    tokio::time::timeout(TIMEOUT, lost).await.expect("the lease is handed over").unwrap();
    fixture.connect("blue").await;
    fixture.stop.cancel();
}
