//! The loop with everything around it, and a planner that waits until the test lets it go on.

mod status;

use std::sync::{Condvar, Mutex};

use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use engine::cluster::{ClusterSnapshot, Observation, PodRecord};
use engine::control::{Event, Settings, Stage};
use engine::input::PlanningInput;
use engine::model::resources::{CPU, MEMORY, PODS};
use engine::model::{PodShape, Resources};
use engine::plan::{Plan, PlanReport};
use engine::schedule::CompileCache;

use super::*;
use crate::session::{self, Greeting, ReadPools};
use crate::simulation::setup::any_pool;
use crate::store::lease::LeaseAnswer;
use crate::store::memory::MemoryStore;
use crate::trust::book::Book;
use crate::views::{self, Views};
use crate::{config::LeaseConfig, serve};

/// Whatever is waited for comes within this, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A door that planners of greedy pods stand before.
struct Door {
    /// How many have come to it, and whether it is open.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Door {
    const fn new() -> Self {
        Self { state: Mutex::new((0, false)), changed: Condvar::new() }
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, open)| !*open).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }

    fn somebody_waits(&self) -> bool {
        self.state.lock().unwrap().0 > 0
    }
}

/// The planner of servers; before it plans greedy pods it waits at the door.
fn plan_behind(door: &Door, input: &PlanningInput, memo: &mut CompileCache) -> Result<(Plan, PlanReport), String> {
    if input.pods.iter().any(|pod| pod.name.starts_with("greedy")) {
        door.pass();
    }
    serve::plan(input, memo)
}

fn snapshot(pod: &str) -> ClusterSnapshot {
    let requests = Resources::from_iter([(CPU, 500), (MEMORY, 1 << 30), (PODS, 1)]);
    let shape = Arc::new(PodShape { requests, ..PodShape::default() });
    let pods = vec![PodRecord::pending("default", pod, shape, Arc::default())];
    ClusterSnapshot { pools: vec![any_pool()], pods, ..ClusterSnapshot::default() }
}

struct World {
    events: mpsc::Sender<SessionEvent>,
    views: Views,
    store: Arc<MemoryStore>,
    heartbeat: Arc<Heartbeat>,
    stop: CancellationToken,
}

impl World {
    fn start(planner: Planner, place: Place) -> Self {
        let (publisher, views) = views::channel();
        let (events, heard) = mpsc::channel(64);
        let read_pools = ReadPools::new(|_| vec![any_pool()]);
        let sessions = Sessions::new(session::Settings::default(), read_pools, events.clone(), Arc::new(Book::open()));
        let store = Arc::new(MemoryStore::new());
        let heartbeat = Arc::<Heartbeat>::default();
        let settings = Settings { batch_idle_ms: 1, policy: serve::policy(), ..Settings::default() };
        let control = ControlLoop {
            controller: RegionController::new(settings),
            planner,
            place,
            sessions,
            store: store.clone(),
            cloud: Arc::new(ClockedCloud::new(SimulatedCloud::new(FaultProfile::default(), None), clock::now)),
            lease: LeaseConfig { owner: "me".to_owned(), duration: Duration::from_secs(9) },
            region: Scope::Region { account: "1".to_owned(), region: "here".to_owned() },
            publisher,
            listing: None,
            latencies: Arc::default(),
            heartbeat: Arc::clone(&heartbeat),
        };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        // On a thread of its own: a worker that stands still would keep the test's own clock from going on.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(control.run(heard, stopped))
        });
        Self { events, views, store, heartbeat, stop }
    }

    async fn tell(&self, event: SessionEvent) {
        self.events.send(event).await.unwrap();
    }

    /// The agent of `cluster` greets, and shows one pod.
    async fn join(&self, cluster: &str) {
        self.tell(SessionEvent::Greeted(Greeting {
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
        // What an agent says before its cluster's lease is taken is not heard.
        let heard = async {
            loop {
                self.tell(SessionEvent::Happened(Event::AgentConnected { cluster: cluster.into() })).await;
                self.show(cluster, &format!("{cluster}-0")).await;
                let seen = views.wait_for(|fleet: &Arc<views::FleetView>| {
                    fleet.clusters.get(cluster).is_some_and(|view| view.synced)
                });
                if tokio::time::timeout(Duration::from_millis(100), seen).await.is_ok() {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.expect("it is welcome");
    }

    /// The agent of `cluster` shows everything: one pod.
    async fn show(&self, cluster: &str, pod: &str) {
        let observation = Observation::Snapshot(Box::new(snapshot(pod)));
        self.tell(SessionEvent::Happened(Event::Observed { cluster: cluster.into(), observation })).await;
    }

    /// Whether a NodeClaim is ordered in `cluster` within that time.
    async fn orders_within(&mut self, cluster: &str, patience: Duration) -> bool {
        let ordered = self.views.wait_for(|fleet| {
            let view = fleet.clusters.get(cluster);
            view.is_some_and(|view| view.machines.iter().any(|machine| machine.stage == Stage::Creating))
        });
        tokio::time::timeout(patience, ordered).await.is_ok()
    }

    /// How long the lease of `cluster` lasts, as another replica is told that asks for it.
    async fn lasts(&self, cluster: &str) -> Duration {
        let answer = self.store.take_lease(&Scope::cluster(cluster), "another", 0, Duration::from_secs(1)).await;
        let Ok(LeaseAnswer::Held { expires_in, .. }) = answer else { panic!("{answer:?}") };
        expires_in
    }
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

static SLOW: Door = Door::new();

#[tokio::test]
async fn a_plan_that_takes_for_ever_keeps_no_other_cluster_no_lease_and_no_health_check_waiting() {
    let mut world = World::start(|input, memo| plan_behind(&SLOW, input, memo), Place::Apart);
    world.join("greedy").await;
    until("its plan is begun", async || SLOW.somebody_waits()).await;
    world.join("innocent").await;
    assert!(world.orders_within("innocent", PATIENCE).await);
    let before = world.lasts("greedy").await;
    // Leases are renewed every 3 s.
    until("its lease is renewed", async || world.lasts("greedy").await > before).await;
    assert_eq!(world.heartbeat.fault(), None);
    assert!(!world.orders_within("greedy", Duration::ZERO).await, "its plan is still under way");
    SLOW.open();
    assert!(world.orders_within("greedy", PATIENCE).await);
    world.stop.cancel();
}

static BEHIND: Door = Door::new();

#[tokio::test]
async fn sabotage_planned_in_the_loop_it_keeps_the_other_cluster_waiting() {
    let mut world = World::start(|input, memo| plan_behind(&BEHIND, input, memo), Place::InTheLoop);
    // Both are in before the plan is begun, or the second would not even be welcome.
    let (greedy, innocent) = ("greedy", "innocent");
    world.join(innocent).await;
    assert!(world.orders_within(innocent, PATIENCE).await);
    // When its pod is seen, the loop stands behind the door before it can show that.
    tokio::select! {
        () = world.join(greedy) => {}
        () = until("its plan is begun", async || BEHIND.somebody_waits()) => {}
    }
    until("its plan is begun", async || BEHIND.somebody_waits()).await;
    let version = |world: &World| world.views.borrow().clusters.get(innocent).map(|view| view.version);
    let before = version(&world);
    world.show(innocent, "innocent-1").await;
    assert!(!world.orders_within(greedy, Duration::from_secs(2)).await);
    assert_eq!(version(&world), before, "nothing of the other cluster is heard");
    BEHIND.open();
    until("it is heard", async || version(&world) != before).await;
    world.stop.cancel();
}
