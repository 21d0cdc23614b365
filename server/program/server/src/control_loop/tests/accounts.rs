//! Two accounts and regions in one process, on one store, with one lease owner.

use controller::RegionEvent;
use controller::guardrails::{Bound, Freeze, GuardrailSettings, RateLimitRule};
use model::MicroUsd;
use store::counters::CounterValues;

use super::*;
use crate::serve::RegionComponents;
use crate::serve::loops::{self, Common, Inbox, Loops};

/// A lease is renewed every third of this.
const LEASE: Duration = Duration::from_secs(3);

/// Listings are half as far apart.
const COLLECT_AFTER: Millis = Millis::new(400);

fn scope(account: &str) -> Scope {
    Scope::Region { account: account.to_owned(), region: "here".to_owned() }
}

/// The control loops of two accounts, each with the agents of its own clusters.
struct TwoAccounts {
    accounts: [Fixture; 2],
    heartbeats: Vec<Arc<Heartbeat>>,
    ended: CancellationToken,
    _tasks: JoinSet<anyhow::Result<()>>,
}

impl TwoAccounts {
    fn start(settings: Settings) -> Self {
        let (publisher, fleet_views) = views::channel();
        let (events, heard): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel(64)).unzip();
        let route = |events: &mpsc::Sender<Delivery>| LoopRoute {
            events: events.clone(),
            pool_reader: PoolReader::new(|_| vec![any_pool()]),
            catalogue: None,
        };
        // Agents send their events by hand here, so that no rule is asked.
        let routes = Routes::new(ClusterRules::all_in_one(), events.iter().map(route).collect());
        let authorizer = Arc::new(Authorizer::allow_all());
        let store = Arc::new(MemoryStore::new());
        let common = Common {
            planner: serve::new_planner,
            settings: Settings {
                policy: serve::policy(),
                batch_idle: Millis::new(1),
                gc_after: Some(COLLECT_AFTER),
                ..settings
            },
            sessions: Sessions::new(agent_session::Settings::default(), routes, authorizer),
            store: store.clone(),
            lease: LeaseConfig { owner: "me".to_owned(), duration: LEASE },
            reads_interruptions: false,
            conditions: Arc::default(),
        };
        let region = |account: &str| {
            let cloud = ClockedCloud::new(SimulatedCloud::new(FaultProfile::default(), None), clock::now);
            RegionComponents::new(scope(account), Arc::new(cloud))
        };
        let inboxes = heard.into_iter().map(|events| Inbox { events, questions: mpsc::channel(1).1 });
        let regions = ["1", "2"].map(region).into_iter().zip(inboxes);
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let mut tasks = JoinSet::new();
        let (directory, changes) = (Arc::<Directory>::default(), Arc::<ResourceChanges>::default());
        let publisher = ViewPublisher::new(publisher, &directory, &changes);
        let Loops { heartbeats, .. } =
            loops::start(common, regions, publisher, &mut tasks, &(stop.clone(), ended.clone())).unwrap();
        let account = |number: usize| Fixture {
            events: events[number].clone(),
            views: fleet_views.clone(),
            directory: Arc::clone(&directory),
            changes: Arc::clone(&changes),
            store: store.clone(),
            heartbeat: Arc::clone(&heartbeats[number]),
            stop: stop.clone(),
        };
        Self { accounts: [0, 1].map(account), heartbeats, ended, _tasks: tasks }
    }

    fn store(&self) -> &MemoryStore {
        &self.accounts[0].store
    }

    /// Number of the latest listing of an account.
    async fn listing(&self, account: &str) -> Option<u64> {
        let listing = self.store().latest_listing(&scope(account), &[]).await.unwrap();
        listing.map(|listing| listing.number)
    }

    /// Who holds the lease of an account, as another replica sees it.
    async fn holder(&self, account: &str) -> Option<String> {
        match self.store().acquire_lease(&scope(account), "another", 0, LEASE).await.unwrap() {
            LeaseOutcome::Held { owner, .. } => Some(owner),
            LeaseOutcome::Granted { .. } => None,
        }
    }

    async fn is_launch_held(&self, cluster: &str) -> bool {
        let view = self.accounts[0].views.borrow().clone();
        view.view(cluster).is_some_and(|view| view.guardrails.held_launches.is_some())
    }
}

/// One machine for the whole fleet.
fn one_launch() -> Settings {
    let none = Bound { machines: 0, percent: 0, free: 0, usd_per_hour: MicroUsd(0) };
    let launches = RateLimitRule { window: Millis::from_mins(10), cluster: none, fleet: Bound { machines: 1, ..none } };
    Settings { guardrails: GuardrailSettings { launches, ..GuardrailSettings::default() }, ..Settings::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_account_keeps_its_own_leases_and_lists_its_own_instances() {
    let server = TwoAccounts::start(Settings::default());
    server.accounts[0].connect("a").await;
    server.accounts[1].connect("b").await;
    // Listings are stored for other replicas only.
    let other = Scope::cluster("other");
    let held = server.store().acquire_lease(&other, "another", 0, Duration::from_secs(3_600)).await;
    assert!(matches!(held, Ok(LeaseOutcome::Granted { .. })), "{held:?}");
    until("both accounts are listed", async || {
        server.listing("1").await.is_some() && server.listing("2").await.is_some()
    })
    .await;
    let begun = Instant::now();
    // Longer than a lease lasts without renewal, both loops renew theirs, and neither drops the other's.
    until("leases would have expired", async || begun.elapsed() > 2 * LEASE).await;
    for account in ["1", "2"] {
        assert_eq!(server.holder(account).await.as_deref(), Some("me"), "account {account}");
    }
    for (fixture, cluster) in server.accounts.iter().zip(["a", "b"]) {
        assert!(fixture.lease_remaining(cluster).await > Duration::ZERO, "{cluster}");
        assert_eq!(fixture.heartbeat.stall_reason(), None);
    }
    assert_eq!(server.heartbeats.len(), 2);
    server.accounts[0].stop.cancel();
    let ended = tokio::time::timeout(TIMEOUT, server.ended.cancelled()).await;
    assert!(ended.is_ok(), "both loops end");
    for account in ["1", "2"] {
        assert_eq!(server.holder(account).await, None, "the lease of account {account} was released");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_the_fleet_holds_for_both_accounts_together_and_is_published_once() {
    let mut server = TwoAccounts::start(one_launch());
    server.accounts[0].connect("a").await;
    assert!(server.accounts[0].orders_within("a", TIMEOUT).await);
    server.accounts[1].connect("b").await;
    until("the launch of the other account is held", async || server.is_launch_held("b").await).await;
    assert!(!server.accounts[1].orders_within("b", Duration::ZERO).await);
    // The counters of the process reach other processes once, although it has two loops.
    let launched = async || {
        let remote = server.store().remote_counters("another", Duration::from_secs(600)).await.unwrap();
        remote.buckets.iter().map(|(_, CounterValues { launched, .. })| *launched).sum::<i64>()
    };
    until("the launch is published", async || launched().await > 0).await;
    assert_eq!(launched().await, 1);
    server.accounts[0].stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sabotage_accounts_that_share_no_counts_exceed_the_limit_of_the_fleet() {
    // Two processes that cannot see each other's counts: each launches the one machine of the fleet.
    let mut servers = [one_launch(), one_launch()].map(TwoAccounts::start);
    servers[0].accounts[0].connect("a").await;
    servers[1].accounts[1].connect("b").await;
    assert!(servers[0].accounts[0].orders_within("a", TIMEOUT).await);
    assert!(servers[1].accounts[1].orders_within("b", TIMEOUT).await);
    servers.iter().for_each(|server| server.accounts[0].stop.cancel());
}

#[test]
fn the_loops_of_a_process_admit_no_more_clusters_than_one_would() {
    assert_eq!([1, 2, 3, 16, 40].map(admissions_of_each), [16, 8, 5, 1, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_freeze_of_the_fleet_holds_both_accounts_before_any_agent_connects() {
    let server = TwoAccounts::start(Settings::default());
    let freeze = Freeze {
        id: 1,
        cluster: None,
        pool: None,
        only_disruption: false,
        by: "op".into(),
        reason: "test".into(),
        since: Timestamp::from_millis(0),
        until: None,
    };
    let loops = server.accounts.each_ref().map(|fixture| fixture.events.clone());
    let frozen = SessionEvent::RegionEvent(RegionEvent::FreezesChanged(vec![freeze]));
    assert!(fleet_api::fleet::change_feed::send_to_all(&loops, &frozen).await);
    for (fixture, cluster) in server.accounts.iter().zip(["a", "b"]) {
        fixture.connect(cluster).await;
        let frozen = async || {
            let view = fixture.views.borrow().clone();
            view.view(cluster).is_some_and(|view| view.guardrails.freezes.len() == 1)
        };
        until("the cluster is frozen", frozen).await;
        let view = fixture.views.borrow().clone();
        assert!(view.clusters[cluster].view.nodes.is_empty(), "{cluster}");
    }
    server.accounts[0].stop.cancel();
}
