//! Notices about instances from a simulated account: EventBridge rules, the queue, and the status of instances.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cloud::notice::Notice;
use cloud::provider::CloudProvider;
use cloud::simulated::{ClockedCloud, FaultProfile, Placement, SimulatedCloud};
use cloud_ec2::Ec2Cloud;
use cloud_ec2::interruption::message::Message;
use cloud_ec2::interruption::queue::{Delivery, Queue};
use model::interruption::InterruptionKind;
use model::{CapacityType, Millis, Text, Timestamp};
use simulated_ec2::{AccountSettings, Effect, FaultRule, SimulatedEc2};

use super::{NOW, adapter_at, option};

const BOOT_MS: i64 = 20_000;
const QUEUE: &str = "fleet";

/// An account whose time the test sets; its task ends with the test's runtime.
struct Account {
    ec2: SimulatedEc2,
    url: String,
    time: Arc<AtomicI64>,
}

impl Account {
    async fn start() -> Self {
        let time = Arc::new(AtomicI64::new(NOW.as_millis()));
        let clock = Arc::clone(&time);
        let faults = FaultProfile { boot_ms: (BOOT_MS, BOOT_MS), ..FaultProfile::default() };
        let cloud = ClockedCloud::new(SimulatedCloud::new(faults, None), move || {
            Timestamp::from_millis(clock.load(Ordering::SeqCst))
        });
        let ec2 = SimulatedEc2::builder(AccountSettings::new("eu-west-1", "c1")).cloud(Arc::new(cloud)).build();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = ec2.clone();
        tokio::spawn(async move { served.serve(listener, std::future::pending()).await });
        Self { ec2, url, time }
    }

    fn adapter(&self) -> Ec2Cloud {
        self.adapter_at(|| NOW)
    }

    fn adapter_at(&self, clock: fn() -> Timestamp) -> Ec2Cloud {
        adapter_at(self.url.clone(), clock)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.time.load(Ordering::SeqCst))
    }

    fn wait(&self, time: Millis) {
        self.time.fetch_add(time.get(), Ordering::SeqCst);
    }

    /// Launches a spot instance, which boots.
    fn launch(&self, token: &str) -> String {
        let placement = Placement {
            token: token.into(),
            cluster: "c1".into(),
            cluster_uid: "uid-1".into(),
            claim: token.into(),
            pool: "web".into(),
            option: option("m5.large", "eu-west-1a"),
            capacity_type: CapacityType::Spot,
            price: None,
        };
        let now = self.now();
        let id = self.ec2.cloud().cloud().launch_placement(&placement, now).id.to_string();
        self.wait(Millis::new(BOOT_MS));
        id
    }

    fn interrupt(&self, id: &str, kind: InterruptionKind) {
        let now = self.now();
        assert!(self.ec2.cloud().cloud().interrupt(id, kind, now), "{kind:?} does not concern {id}");
    }
}

/// Receives until a message has notices of one of `kinds`, and deletes other messages.
async fn receive(queue: &Queue, kinds: &[InterruptionKind]) -> (Delivery, Vec<Notice>) {
    let received = async {
        loop {
            for delivery in queue.receive(Duration::from_secs(1)).await.unwrap() {
                match &delivery.message {
                    Message::Notices(notices) if kinds.contains(&notices[0].kind) => {
                        let notices = notices.clone();
                        return (delivery, notices);
                    }
                    _ => assert_eq!(queue.delete(&[delivery]).await.unwrap(), 1),
                }
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), received).await.expect("a notice in time")
}

async fn lines(adapter: &Ec2Cloud) -> Vec<String> {
    adapter.queue_setup(QUEUE).pending().await.unwrap().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_spot_warning_arrives_through_the_rules_and_the_queue_that_setup_made() {
    let account = Account::start().await;
    let adapter = account.adapter();
    // The queue, its three attributes, five rules, and the target of each.
    assert_eq!(lines(&adapter).await.len(), 14);
    assert!(account.ec2.calls_of("CreateQueue").is_empty(), "showing changes nothing");
    let mut made = 0;
    adapter.queue_setup(QUEUE).apply(|_| made += 1).await.unwrap();
    assert_eq!((made, lines(&adapter).await), (14, Vec::new()));

    let id = account.launch("m0");
    account.interrupt(&id, InterruptionKind::SpotInterrupted);
    let sent = account.now();
    let queue = adapter.interruption_queue(QUEUE);
    let (_, notices) = receive(&queue, &[InterruptionKind::SpotInterrupted]).await;
    let ends = Some(sent + Millis::from_mins(2));
    let expected = Notice { instance: id.as_str().into(), kind: InterruptionKind::SpotInterrupted, sent, ends };
    assert_eq!(notices, std::slice::from_ref(&expected));
    // It was not deleted, and is delivered again after the visibility timeout of 10 s.
    account.wait(Millis::from_secs(11));
    let (delivery, notices) = receive(&queue, &[InterruptionKind::SpotInterrupted]).await;
    assert_eq!(notices, [expected]);
    assert_eq!(queue.delete(&[delivery]).await.unwrap(), 1);
    account.wait(Millis::from_secs(11));
    assert_eq!(queue.receive(Duration::ZERO).await.unwrap(), []);
}

#[tokio::test]
async fn maintenance_and_a_rebalance_recommendation_arrive_as_such() {
    let account = Account::start().await;
    let adapter = account.adapter();
    adapter.queue_setup(QUEUE).apply(|_| {}).await.unwrap();
    let id = account.launch("m0");
    let queue = adapter.interruption_queue(QUEUE);
    account.interrupt(&id, InterruptionKind::RebalanceRecommendation);
    let (_, notices) = receive(&queue, &[InterruptionKind::RebalanceRecommendation]).await;
    assert_eq!((notices[0].instance.as_ref(), notices[0].ends), (id.as_str(), None));
    account.interrupt(&id, InterruptionKind::ScheduledChange);
    let (_, notices) = receive(&queue, &[InterruptionKind::ScheduledChange]).await;
    // The simulated cloud announces maintenance half an hour ahead.
    assert_eq!((notices.len(), notices[0].ends), (1, Some(account.now() + Millis::from_mins(30))));
}

#[tokio::test]
async fn an_interrupted_setup_is_completed_and_undo_removes_what_it_made() {
    let account = Account::start().await;
    let adapter = account.adapter();
    let setup = adapter.queue_setup(QUEUE);
    account.ec2.add_fault(FaultRule::once_after("PutTargets", 2, Effect::error("InternalException")));
    let mut made = 0;
    let failed = setup.apply(|_| made += 1).await.unwrap_err();
    assert!(failed.to_string().contains("events:PutTargets"), "{failed}");
    // Queue, three attributes, two rules with their targets, and the third rule.
    assert_eq!(made, 9);
    setup.apply(|_| made += 1).await.unwrap();
    assert_eq!((made, setup.pending().await.unwrap().len()), (14, 0));
    // Five rules and the queue.
    assert_eq!(setup.removable().await.unwrap().len(), 6);
    setup.undo(|_| {}).await.unwrap();
    assert_eq!((setup.removable().await.unwrap().len(), setup.pending().await.unwrap().len()), (0, 14));
}

#[tokio::test]
async fn a_missing_queue_and_a_missing_right_are_told_apart() {
    let account = Account::start().await;
    let adapter = account.adapter();
    let queue = adapter.interruption_queue(QUEUE);
    let missing = queue.receive(Duration::ZERO).await.unwrap_err();
    assert_eq!(missing.reason(), "QueueMissing");
    assert!(missing.to_string().contains("create it with `fleetwright ec2 setup`"), "{missing}");
    adapter.queue_setup(QUEUE).apply(|_| {}).await.unwrap();
    assert_eq!(queue.receive(Duration::ZERO).await.unwrap(), [], "it is found without a restart");
    account.ec2.add_fault(FaultRule::times("ReceiveMessage", 1, Effect::error("AccessDenied")));
    let denied = queue.receive(Duration::ZERO).await.unwrap_err();
    assert_eq!(denied.reason(), "AccessDenied");
    assert!(denied.to_string().contains("lack the right sqs:ReceiveMessage"), "{denied}");
    // Deleted and made again meanwhile.
    adapter.queue_setup(QUEUE).undo(|_| {}).await.unwrap();
    assert_eq!(queue.receive(Duration::ZERO).await.unwrap_err().reason(), "QueueMissing");
    adapter.queue_setup(QUEUE).apply(|_| {}).await.unwrap();
    assert_eq!(queue.receive(Duration::ZERO).await.unwrap(), []);
}

#[tokio::test]
async fn failed_checks_and_scheduled_events_are_polled() {
    const FAILED: Timestamp = Timestamp::from_millis(NOW.as_millis() + 2 * BOOT_MS);
    let account = Account::start().await;
    let (failing, retired) = (account.launch("m0"), account.launch("m1"));
    assert_eq!(account.adapter().status_notices().await.unwrap(), []);
    account.interrupt(&failing, InterruptionKind::StatusCheckFailed);
    account.interrupt(&retired, InterruptionKind::ScheduledChange);
    // 119 s and 120 s after the check has failed.
    let early = account.adapter_at(|| FAILED + Millis::from_secs(119)).status_notices().await.unwrap();
    let kinds: Vec<InterruptionKind> = early.iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [InterruptionKind::ScheduledChange]);
    assert_eq!((early[0].instance.as_ref(), early[0].ends), (retired.as_str(), Some(FAILED + Millis::from_mins(30))));
    let later = account.adapter_at(|| FAILED + Millis::from_secs(120)).status_notices().await.unwrap();
    let check = Notice {
        instance: failing.as_str().into(),
        kind: InterruptionKind::StatusCheckFailed,
        sent: FAILED,
        ends: None,
    };
    assert!(later.contains(&check) && later.len() == 2, "{later:?}");
}

#[tokio::test]
async fn ec2_is_asked_what_it_shows_of_instances_that_notices_name() {
    let account = Account::start().await;
    let ids: Vec<String> = ["m0", "m1", "m2", "m3"].iter().map(|token| account.launch(token)).collect();
    let (warned, quiet, ended, retired) = (&ids[0], &ids[1], &ids[2], &ids[3]);
    account.interrupt(warned, InterruptionKind::SpotInterrupted);
    account.interrupt(ended, InterruptionKind::InstanceTerminated);
    account.interrupt(retired, InterruptionKind::ScheduledChange);
    let adapter = account.adapter();
    let shown = async |kind: InterruptionKind| {
        let asked: Vec<(Text, InterruptionKind)> = ids.iter().map(|id| (id.as_str().into(), kind)).collect();
        let shown = adapter.shown_notices(&asked).await.unwrap().unwrap();
        let of_kind = shown.into_iter().filter(|notice| notice.kind == kind);
        let mut found: Vec<String> = of_kind.map(|notice| notice.instance.to_string()).collect();
        found.dedup();
        found
    };
    assert_eq!(shown(InterruptionKind::SpotInterrupted).await, std::slice::from_ref(warned));
    assert_eq!(shown(InterruptionKind::InstanceTerminated).await, std::slice::from_ref(ended));
    assert_eq!(shown(InterruptionKind::ScheduledChange).await, std::slice::from_ref(retired));
    let running = shown(InterruptionKind::RebalanceRecommendation).await;
    assert!(running.contains(quiet), "no call contradicts a recommendation: {running:?}");
    assert_eq!(account.ec2.calls_of("DescribeSpotInstanceRequests").len(), 1, "only where it is asked for");
}
