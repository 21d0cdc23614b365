//! Two replicas on one PostgreSQL launch in one account of the simulated EC2, which admits two launches per second.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cloud::conformance::CLUSTER;
use cloud::provider::{CloudError, CloudProvider, LaunchRequest};
use cloud_ec2::{Ec2Cloud, Settings};
use e2e::postgres::Postgres;
use model::{PriorityLane, Timestamp};
use server::api_budget::{CallContext, StoreBudget, within};
use simulated_ec2::{AccountSettings, Call, Outcome, SimulatedEc2, Throttle};
use store::Store;
use store::lease::Scope;
use store_postgres::postgres::PostgresStore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::account::{REGION, Resources, credentials};
use crate::serve_endpoint;

/// Launches for pending pods at each replica, and as many voluntary ones: more than are launched during the test.
const OTHERS: usize = 40;

/// Replacements of interrupted machines at each replica.
const REPLACEMENTS: usize = 5;

/// Other launches that may succeed between the arrival of the 2 x 5 replacements and the last of them. Two lower lanes
/// keep a tenth each, so that 10 replacements are 8 tenths: 10 x 2 / 8 = 2.5 others, 3. A lane may have kept a token
/// before, 2. A replica may have sent one call that has not arrived, 2.
const OTHERS_MEANWHILE: usize = 3 + 2 + 2;

/// Longest time of the test on a busy host.
const DEADLINE: Duration = Duration::from_secs(120);

fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

/// What a launch is for, by the name of its NodeClaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Replacement,
    Other,
}

/// The account, and two replicas that share its budget.
struct Account {
    ec2: SimulatedEc2,
    replicas: [Arc<Ec2Cloud>; 2],
    resources: Resources,
    database: Postgres,
}

impl Account {
    async fn start(test: &str) -> Option<Self> {
        let database = Postgres::start(test)?;
        let mut settings = AccountSettings::new(REGION, CLUSTER);
        settings.instance_profiles.insert("nodes".to_owned(), format!("KarpenterNodeRole-{CLUSTER}"));
        let resources = Resources::of(&settings);
        let ec2 = SimulatedEc2::builder(settings).build();
        let two_per_second = Throttle { burst: 2, refill_ms: 500 };
        ec2.change_faults(|faults| faults.throttles = [("CreateFleet".to_owned(), two_per_second)].into());
        let endpoint = serve_endpoint(&ec2).await;
        let replica = async |name: &str| {
            let store: Arc<dyn Store> = Arc::new(PostgresStore::connect(&database.url()).await.unwrap());
            let scope = Scope::Region { account: "default".to_owned(), region: REGION.to_owned() };
            let budget = Arc::new(StoreBudget::new(store, scope, name.to_owned()));
            let settings =
                Settings { region: REGION.to_owned(), endpoint: Some(endpoint.clone()), ..Settings::default() };
            Arc::new(Ec2Cloud::with_credentials_within(settings, credentials(), system_time, budget))
        };
        let replicas = [replica("replica-a").await, replica("replica-b").await];
        Some(Self { ec2, replicas, resources, database })
    }

    /// Launches `count` instances at each replica in `lane`, all at once.
    fn launch(&self, tasks: &mut JoinSet<()>, name: &str, count: usize, lane: PriorityLane) {
        for (replica, cloud) in self.replicas.iter().enumerate() {
            for number in 0..count {
                let order = self.resources.order(&format!("{name}-{replica}-{number}"));
                tasks.spawn(launched(Arc::clone(cloud), order, lane));
            }
        }
    }

    /// The CreateFleets that EC2 carried out after call `after`, in the order of arrival.
    fn launches_after(&self, after: u64) -> Vec<Purpose> {
        let calls = self.ec2.calls_of("CreateFleet").into_iter().filter(|call| call.number > after);
        calls.filter(is_launch).map(|call| purpose(&call)).collect()
    }

    fn throttled(&self) -> usize {
        let is_throttled = |call: &Call| matches!(&call.outcome, Outcome::Answered { code: Some(code), .. } if code == "RequestLimitExceeded");
        self.ec2.calls_of("CreateFleet").iter().filter(|call| is_throttled(call)).count()
    }

    fn last_call(&self) -> u64 {
        self.ec2.calls().last().map_or(0, |call| call.number)
    }
}

fn is_launch(call: &Call) -> bool {
    matches!(call.outcome, Outcome::Answered { code: None, .. })
        && call.fleet.as_ref().is_some_and(|fleet| !fleet.instances.is_empty())
}

fn purpose(call: &Call) -> Purpose {
    let tags = call.fleet.as_ref().map(|fleet| &fleet.tags);
    let is_replacement = tags.is_some_and(|tags| tags.values().any(|value| value.starts_with("replacement-")));
    if is_replacement { Purpose::Replacement } else { Purpose::Other }
}

/// Sends the same request until it is answered, as the executor does.
async fn launched(cloud: Arc<Ec2Cloud>, order: LaunchRequest, lane: PriorityLane) {
    loop {
        let context = CallContext::new(lane, Instant::now() + DEADLINE);
        match within(context, cloud.launch(&order)).await {
            Ok(_) => return,
            Err(CloudError::RequestLimitExceeded { .. } | CloudError::Unknown { .. }) => {}
            Err(error) => panic!("{}: {error}", order.claim),
        }
    }
}

/// Polls `condition` until it holds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Launches others, then replacements in `lane`. Returns what EC2 launched from then on, up to the last replacement or until
/// more others than permitted.
async fn launches_from_the_interruption_on(account: &Account, lane: PriorityLane) -> Vec<Purpose> {
    // The first launch of each replica creates the launch template.
    let mut first = JoinSet::new();
    account.launch(&mut first, "first", 1, PriorityLane::Pending);
    first.join_all().await;
    let mut tasks = JoinSet::new();
    account.launch(&mut tasks, "pending", OTHERS, PriorityLane::Pending);
    let others = if lane == PriorityLane::Pending { lane } else { PriorityLane::Voluntary };
    account.launch(&mut tasks, "voluntary", OTHERS, others);
    let queued = account.last_call();
    until("others are launched", || account.launches_after(queued).len() >= 4).await;
    let (begun, interrupted) = (Instant::now(), account.last_call());
    account.launch(&mut tasks, "replacement", REPLACEMENTS, lane);
    until("replacements are launched, or too many others", || {
        let launches = account.launches_after(interrupted);
        let replacements = launches.iter().filter(|purpose| **purpose == Purpose::Replacement).count();
        replacements == 2 * REPLACEMENTS || launches.len() - replacements > OTHERS_MEANWHILE
    })
    .await;
    let launches = account.launches_after(interrupted);
    let (all, throttled) = (account.ec2.calls_of("CreateFleet").len(), account.throttled());
    println!(
        "{} ms; {all} CreateFleets, {throttled} throttled; from the interruption on: {launches:?}",
        begun.elapsed().as_millis()
    );
    tasks.shutdown().await;
    let last = launches.iter().rposition(|purpose| *purpose == Purpose::Replacement).map_or(0, |last| last + 1);
    let is_complete = launches.iter().filter(|purpose| **purpose == Purpose::Replacement).count() == 2 * REPLACEMENTS;
    if is_complete { launches[..last].to_vec() } else { launches }
}

fn others(launches: &[Purpose]) -> usize {
    launches.iter().filter(|purpose| **purpose == Purpose::Other).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interruption_replacements_of_two_replicas_go_before_all_other_launches() {
    let test = "interruption_replacements_of_two_replicas_go_before_all_other_launches";
    let Some(account) = Account::start(test).await else { return };
    let launches = launches_from_the_interruption_on(&account, PriorityLane::Interruption).await;
    assert_eq!(launches.len() - others(&launches), 2 * REPLACEMENTS, "{launches:?}");
    assert!(others(&launches) <= OTHERS_MEANWHILE, "{launches:?}");
    // Every halving is caused by a few calls in flight; without the budget, all 170 launches would be tried at once.
    let (all, throttled) = (account.ec2.calls_of("CreateFleet").len(), account.throttled());
    assert!(2 * throttled <= all, "{throttled} of {all} CreateFleets were throttled");
}

/// The guard switched off: without lanes, replacements wait behind the launches that came before them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_priority_lanes_other_launches_go_before_interruption_replacements() {
    let test = "without_priority_lanes_other_launches_go_before_interruption_replacements";
    let Some(account) = Account::start(test).await else { return };
    let launches = launches_from_the_interruption_on(&account, PriorityLane::Pending).await;
    assert!(others(&launches) > OTHERS_MEANWHILE, "{launches:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn launches_go_on_while_the_database_is_down() {
    let Some(mut account) = Account::start("launches_go_on_while_the_database_is_down").await else { return };
    account.database.kill();
    let mut tasks = JoinSet::new();
    account.launch(&mut tasks, "first", 2, PriorityLane::Pending);
    let all = tokio::time::timeout(DEADLINE, tasks.join_all()).await;
    assert_eq!(all.map(|launched| launched.len()).ok(), Some(4));
    assert_eq!(account.launches_after(0).len(), 4);
}
