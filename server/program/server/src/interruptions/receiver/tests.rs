//! The receiver against the queue of a simulated account, over HTTP.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use cloud::provider::Override;
use cloud::simulated::{ClockedCloud, FaultProfile, Placement, SimulatedCloud};
use cloud_ec2::{Credentials, Ec2Cloud, Settings};
use model::interruption::InterruptionKind;
use model::{CapacityType, Millis, Timestamp};
use simulated_ec2::{AccountSettings, Delivery as DeliveryFaults, Effect, FaultRule, SimulatedEc2};
use store::memory::MemoryStore;

use super::*;

const QUEUE: &str = "fleet";

/// The account, and its time in milliseconds.
struct Account {
    ec2: SimulatedEc2,
    adapter: Ec2Cloud,
    time: Arc<AtomicI64>,
}

impl Account {
    /// An account with the queue and its rules.
    async fn start() -> Self {
        let account = Self::without_queue().await;
        account.set_up().await;
        account
    }

    async fn set_up(&self) {
        self.adapter.queue_setup(QUEUE).apply(|_| {}).await.unwrap();
    }

    async fn without_queue() -> Self {
        let time = Arc::new(AtomicI64::new(clock::now().as_millis()));
        let clock = Arc::clone(&time);
        let cloud = SimulatedCloud::new(FaultProfile::default(), None);
        let cloud = ClockedCloud::new(cloud, move || Timestamp::from_millis(clock.load(Ordering::SeqCst)));
        let ec2 = SimulatedEc2::builder(AccountSettings::new("eu-west-1", "c1")).cloud(Arc::new(cloud)).build();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Some(format!("http://{}", listener.local_addr().unwrap()));
        let served = ec2.clone();
        tokio::spawn(async move { served.serve(listener, std::future::pending()).await });
        let settings = Settings { region: "eu-west-1".to_owned(), endpoint, ..Settings::default() };
        let credentials = Credentials::new("AKIDTEST", "secret", None, None, "test");
        let adapter = Ec2Cloud::with_credentials(settings, credentials, clock::now);
        Self { ec2, adapter, time }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.time.load(Ordering::SeqCst))
    }

    /// Launches spot instances, and returns their ids.
    fn launch(&self, count: usize) -> BTreeSet<String> {
        let now = self.now();
        let mut cloud = self.ec2.cloud().cloud();
        let launch = |number: usize| {
            let name = format!("m{number}");
            let placement = Placement {
                token: name.as_str().into(),
                cluster: "c1".into(),
                cluster_uid: "u".into(),
                claim: name.as_str().into(),
                pool: "web".into(),
                option: Override { instance_type: "m5.large".into(), zone: "eu-west-1a".into() },
                capacity_type: CapacityType::Spot,
                price: None,
            };
            cloud.launch_placement(&placement, now).id.to_string()
        };
        (0..count).map(launch).collect()
    }

    fn interrupt(&self, ids: &BTreeSet<String>) {
        let now = self.now();
        let mut cloud = self.ec2.cloud().cloud();
        assert!(ids.iter().all(|id| cloud.interrupt(id, InterruptionKind::SpotInterrupted, now)));
    }

    fn receiver(&self, store: &Arc<MemoryStore>) -> Arc<Receiver> {
        let store = Arc::clone(store) as Arc<dyn Store>;
        Receiver::new(self.adapter.interruption_queue(QUEUE), store, scope(), Arc::default())
    }
}

fn scope() -> Scope {
    Scope::Region { account: "1".to_owned(), region: "eu-west-1".to_owned() }
}

/// The instances of all stored notices; each has one.
async fn stored(store: &MemoryStore) -> BTreeSet<String> {
    let rows = store.interruptions(&scope(), 0, Duration::from_secs(3_600)).await.unwrap();
    let count = rows.len();
    let instances: BTreeSet<String> = rows.into_iter().map(|stored| stored.row.instance).collect();
    assert_eq!(instances.len(), count, "a notice was stored twice");
    instances
}

async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let reached = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), reached).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_notices_are_stored_within_a_minute_although_a_receiver_is_killed() {
    let (account, store) = (Account::without_queue().await, Arc::new(MemoryStore::new()));
    // The queue has no messages about their launch and boot.
    let interrupted = account.launch(5_000);
    account.time.fetch_add(60_000, Ordering::SeqCst);
    account.set_up().await;
    // One message in ten is delivered twice.
    account.ec2.change_faults(|faults| {
        faults.delivery = DeliveryFaults { duplicated_percent: 10, ..DeliveryFaults::default() };
    });
    account.interrupt(&interrupted);
    let begun = Instant::now();
    let killed = tokio::spawn(account.receiver(&store).run(CancellationToken::new()));
    until("a fifth is stored", async || stored(&store).await.len() >= 1_000).await;
    killed.abort();
    assert!(killed.await.is_err_and(|ended| ended.is_cancelled()));
    let at_kill = stored(&store).await.len();
    assert!(at_kill < 5_000, "the receiver was killed too late: {at_kill}");
    let stop = CancellationToken::new();
    let running = tokio::spawn(account.receiver(&store).run(stop.clone()));
    // What the killed receiver had received and not deleted is visible again after 10 s. One of its calls may still be
    // executed, so the time goes on in steps.
    until("all are stored", async || {
        account.time.fetch_add(200, Ordering::SeqCst);
        stored(&store).await.len() >= 5_000
    })
    .await;
    let took = begun.elapsed();
    eprintln!("5,000 notices stored in {took:?}, {at_kill} of them before the receiver was killed");
    assert_eq!(stored(&store).await, interrupted);
    assert!(took < Duration::from_secs(60), "{took:?}");
    let queue = account.adapter.interruption_queue(QUEUE);
    account.time.fetch_add(31_000, Ordering::SeqCst);
    until("the queue is empty", async || queue.receive(Duration::ZERO).await.is_ok_and(|left| left.is_empty())).await;
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_message_is_deleted_after_its_notice_is_stored() {
    let (account, store) = (Account::start().await, Arc::new(MemoryStore::new()));
    let receiver = account.receiver(&store);
    let instances = account.launch(1);
    until("the launch is received", async || receiver.round(Duration::from_secs(1)).await == Some(1)).await;
    // The queue deletes, and its answer takes a minute.
    let late = Effect::Delay { before_ms: (0, 0), after_ms: (60_000, 60_000) };
    account.ec2.add_fault(FaultRule::always("DeleteMessageBatch", late));
    let before = account.ec2.calls_of("DeleteMessageBatch").len();
    account.interrupt(&instances);
    let killed = tokio::spawn(receiver.run(CancellationToken::new()));
    until("the message is deleted", async || account.ec2.calls_of("DeleteMessageBatch").len() > before).await;
    killed.abort();
    assert_eq!(stored(&store).await, instances);
}

#[tokio::test]
async fn a_message_without_a_notice_is_deleted_and_a_failure_ends_nothing() {
    let (account, store) = (Account::start().await, Arc::new(MemoryStore::new()));
    account.ec2.add_fault(FaultRule::times("ReceiveMessage", 1, Effect::error("AccessDenied")));
    let receiver = account.receiver(&store);
    assert_eq!(receiver.round(Duration::ZERO).await, None);
    // One failure is no outage: it must last.
    let works = |after| receiver.conditions.works(&Dependency::Queue(scope()), clock::now() + Millis::from_secs(after));
    assert_eq!((works(5), works(60)), (true, false));
    account.launch(1);
    until("the message is received", async || receiver.round(Duration::from_secs(1)).await == Some(1)).await;
    assert!(works(60));
    // The first message does not return. Another one says that the instance has booted, which is no notice either.
    account.time.fetch_add(31_000, Ordering::SeqCst);
    assert_eq!(receiver.round(Duration::from_secs(1)).await, Some(1));
    account.time.fetch_add(31_000, Ordering::SeqCst);
    assert_eq!(receiver.round(Duration::ZERO).await, Some(0));
    assert_eq!(stored(&store).await, BTreeSet::new());
}
