use super::*;
use model::CapacityType;
use store::clock;
use store::guardrails::FreezeOrder;
use store::lease::Scope;
use store::memory::MemoryStore;
use store::offerings::{OfferingChange, OfferingKey, OfferingRow};

async fn next(events: &mut mpsc::Receiver<Delivery>) -> RegionEvent {
    let event = tokio::time::timeout(Duration::from_secs(30), events.recv()).await.unwrap().unwrap().event;
    let SessionEvent::RegionEvent(event) = event else { panic!("{event:?}") };
    event
}

async fn frozen(events: &mut mpsc::Receiver<Delivery>) -> Vec<String> {
    let RegionEvent::FreezesChanged(freezes) = next(events).await else { panic!("another topic") };
    freezes.iter().map(ToString::to_string).collect()
}

fn followed(topic: Topic, store: &Arc<dyn Store>, stop: &CancellationToken) -> mpsc::Receiver<Delivery> {
    let (sender, events) = mpsc::channel(8);
    tokio::spawn(follow(topic, Arc::clone(store), vec![sender], stop.clone()));
    events
}

#[tokio::test]
async fn every_replica_receives_all_freezes_and_thaws() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let stop = CancellationToken::new();
    let mut replicas = [(), ()].map(|()| followed(Topic::Freezes { known: KnownFreezes::new() }, &store, &stop));
    for replica in &mut replicas {
        assert!(frozen(replica).await.is_empty());
    }
    let scope = FreezeScope::Pool { cluster: "c".to_owned(), pool: "p".to_owned() };
    let order =
        FreezeOrder { scope, only_disruption: false, by: "alice".to_owned(), reason: "why".to_owned(), until_ms: None };
    let id = store.freeze(&order).await.unwrap();
    let sentence = format!("NodePool p of cluster c is frozen by alice: why (freeze {id})");
    for replica in &mut replicas {
        assert_eq!(frozen(replica).await, std::slice::from_ref(&sentence));
    }
    let mut late = followed(Topic::Freezes { known: KnownFreezes::new() }, &store, &stop);
    assert_eq!(frozen(&mut late).await, [sentence]);
    store.thaw(id, "bob").await.unwrap();
    for replica in replicas.iter_mut().chain([&mut late]) {
        assert!(frozen(replica).await.is_empty());
    }
    stop.cancel();
}

#[tokio::test]
async fn refused_offerings_and_their_successes_reach_every_replica_and_later_ones() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let stop = CancellationToken::new();
    let scope = Scope::Region { account: "123".to_owned(), region: "here".to_owned() };
    let topic = || Topic::Offerings { scope: scope.clone() };
    let mut replica = followed(topic(), &store, &stop);
    assert_eq!(next(&mut replica).await, RegionEvent::OfferingsUnavailable(Vec::new()));
    let now = clock::now().as_millis();
    let row = |capacity_type: &str, account: Option<&str>| OfferingRow {
        key: OfferingKey {
            account: account.map(str::to_owned),
            instance_type: "m5.large".to_owned(),
            zone: "use1-az1".to_owned(),
            capacity_type: capacity_type.to_owned(),
            size: 1,
        },
        failures: 2,
        refused_ms: now,
        until_ms: now + 60_000,
        reason: "InsufficientInstanceCapacity".to_owned(),
        version: 0,
    };
    let refused = |row| OfferingChange::Refused(row);
    store.change_offerings("elsewhere", &[refused(row("spot", None))]).await.unwrap();
    assert_eq!(next(&mut replica).await, RegionEvent::OfferingsUnavailable(Vec::new()));
    // A capacity type that this version does not know, and the quota of another account.
    let other = [row("barter", None), row("on-demand", Some("456")), row("spot", None)];
    store.change_offerings("here", &other.map(refused)).await.unwrap();
    let read = async |replica: &mut mpsc::Receiver<Delivery>| {
        let RegionEvent::OfferingsUnavailable(refusals) = next(replica).await else { panic!("another event") };
        let [only] = refusals.try_into().expect("one offering");
        only
    };
    let first = read(&mut replica).await;
    assert_eq!(
        (&*first.key.zone, first.key.capacity_type, first.key.is_shared),
        ("use1-az1", CapacityType::Spot, true)
    );
    assert_eq!((first.failures, first.until), (2, Timestamp::from_millis(now + 60_000)));
    assert_eq!(read(&mut followed(topic(), &store, &stop)).await, first);
    store.change_offerings("here", &[OfferingChange::Cleared(row("spot", None).key)]).await.unwrap();
    let cleared = read(&mut replica).await;
    assert!(cleared.failures == 0 && cleared.version > first.version, "{cleared:?}");
    stop.cancel();
}

#[tokio::test]
async fn a_quarantine_release_is_received_once_and_not_by_later_replicas() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    for cluster in ["blue", "green"] {
        let _lease = store.acquire_lease(&Scope::cluster(cluster), "a", 0, Duration::from_secs(60)).await.unwrap();
    }
    assert!(store.release_quarantine("green", "alice").await.unwrap());
    let mut topic = Topic::Releases { known: None };
    assert!(topic.read(&*store).await.unwrap().is_empty(), "it is older than the feed");
    assert!(store.release_quarantine("blue", "alice").await.unwrap());
    let expected = vec![SessionEvent::ClusterEvent(Event::QuarantineReleased.of("blue"))];
    assert_eq!(topic.read(&*store).await.unwrap(), expected);
    assert!(topic.read(&*store).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_confirmation_is_received_once_and_not_by_later_replicas() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let _lease = store.acquire_lease(&Scope::cluster("blue"), "a", 0, Duration::from_secs(60)).await.unwrap();
    assert!(store.confirm_removals("blue", "alice").await.unwrap());
    let mut topic = Topic::Confirmations { known: None };
    assert!(topic.read(&*store).await.unwrap().is_empty(), "it is older than the feed");
    assert!(store.confirm_removals("blue", "alice").await.unwrap());
    let expected = vec![SessionEvent::ClusterEvent(Event::RemovalsConfirmed.of("blue"))];
    assert_eq!(topic.read(&*store).await.unwrap(), expected);
    assert!(topic.read(&*store).await.unwrap().is_empty());
}
