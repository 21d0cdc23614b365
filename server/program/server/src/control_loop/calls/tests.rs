use std::sync::atomic::{AtomicU64, Ordering};

use cloud::provider::InstanceDetails;
use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use model::{CapacityType, RefusedOption, Timestamp};
use store::lease::ObservedExtent;
use store::memory::MemoryStore;

use super::*;

#[test]
fn a_launch_event_contains_the_unavailable_options() {
    let instance = Instance {
        id: "i-1".into(),
        provider_id: "aws:///z/i-1".into(),
        instance_type: "t.4".into(),
        zone: "z".into(),
        capacity_type: CapacityType::Spot,
        state: InstanceState::Pending,
        cluster: "c1".into(),
        cluster_uid: "uid-1".into(),
        claim: "a".into(),
        pool: "pool".into(),
        launched: Timestamp::default(),
        details: InstanceDetails::default(),
    };
    let unavailable = vec![RefusedOption::without_capacity("t.2".into(), "y".into())];
    let event = launched("a".into(), 1, LaunchOutcome { instance, unavailable: unavailable.clone() });
    let Event::Launched(launched) = event else { panic!("{event:?}") };
    assert_eq!((&**launched.instance_type, &**launched.zone), ("t.4", "z"));
    assert_eq!(launched.unavailable, unavailable);
}

/// A runner of calls whose trust file is `text`; without one nobody is authenticated.
fn runner(store: &Arc<MemoryStore>, text: Option<&str>) -> CallRunner {
    let names = text.map_or_else(TrustedNames::default, |text| {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("fleetwright-names-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("it is written");
        TrustedNames::of(&Arc::new(Authorizer::read(path).expect("a valid file")))
    });
    CallRunner {
        store: Arc::clone(store) as Arc<dyn Store>,
        cloud: Arc::new(ClockedCloud::new(SimulatedCloud::new(FaultProfile::default(), None), clock::now)),
        lease: LeaseConfig { owner: "a".to_owned(), duration: Duration::from_secs(60) },
        fence: Arc::default(),
        held_leases: Arc::default(),
        log: DecisionLog::default(),
        names,
        conditions: Arc::default(),
        launch_warnings: LaunchWarnings::default(),
    }
}

fn entry(cluster: &str, more: &str) -> String {
    format!("[[agents]]\ncluster = '{cluster}'\ncertificate-name = '{cluster}.example'\n{more}\n")
}

#[tokio::test]
async fn an_authenticated_name_gets_the_uid_that_another_one_has_only_stated() {
    let store = Arc::new(MemoryStore::new());
    let file = entry("squatter", "") + &entry("own", "");
    let authenticated = runner(&store, Some(&file));
    let (squatter, own) = (ClusterName::from("squatter"), ClusterName::from("own"));
    authenticated.take_cluster_lease(&squatter, 0, "u-1").await.unwrap();
    let refused = runner(&store, None).take_cluster_lease(&own, 0, "u-1").await;
    assert!(matches!(&refused, Err(StoreError::UidTaken { .. })), "a name that nobody checks: {refused:?}");
    let granted = authenticated.take_cluster_lease(&own, 0, "u-1").await;
    assert!(matches!(&granted, Ok(LeaseOutcome::Granted { .. })), "{granted:?}");
    let back = authenticated.take_cluster_lease(&squatter, 0, "u-1").await;
    assert!(matches!(&back, Err(StoreError::NameTaken { .. })), "{back:?}");
}

#[tokio::test]
async fn a_uid_that_nodes_prove_stays_unless_the_trust_file_gives_it_to_the_other_name() {
    let store = Arc::new(MemoryStore::new());
    let file = entry("known", "") + &entry("own", "");
    let (known, own) = (ClusterName::from("known"), ClusterName::from("own"));
    let first = runner(&store, Some(&file));
    let Ok(LeaseOutcome::Granted { lease, .. }) = first.take_cluster_lease(&known, 0, "u-1").await else { panic!() };
    store.put_extent(&lease, &ObservedExtent { nodes: 3, ..ObservedExtent::default() }).await.unwrap();
    let refused = first.take_cluster_lease(&own, 0, "u-1").await.unwrap_err().to_string();
    assert!(refused.contains("write cluster-uid = \"u-1\" into the entry of own"), "{refused}");
    let named = entry("known", "") + &entry("own", "cluster-uid = 'u-1'");
    let granted = runner(&store, Some(&named)).take_cluster_lease(&own, 0, "u-1").await;
    assert!(matches!(&granted, Ok(LeaseOutcome::Granted { .. })), "{granted:?}");
}

#[test]
fn an_attempt_that_the_store_rejects_ends_its_launch_and_a_store_failure_does_not() {
    let refused = StoreError::AttemptRefused {
        scope: Scope::cluster("blue"),
        claim: "web-1".to_owned(),
        attempt: 2,
        why: "the attempt before it has not failed".to_owned(),
    };
    let Ok(LaunchFailure::Refused { message, retryable, .. }) = attempt_failure(refused) else {
        panic!("the launch must fail, not be retried");
    };
    assert!(!retryable && message.contains("web-1"), "{message}");
    let unreachable = StoreError::Server { what: "begin an attempt", why: "cut".to_owned() };
    assert!(attempt_failure(unreachable).is_err());
}

#[test]
fn a_refusal_ends_a_launch_only_if_no_earlier_call_may_have_launched_the_instance() {
    let refused = CloudError::Refused {
        operation: "CreateFleet".into(),
        code: "UnauthorizedOperation".into(),
        message: "no permission".to_owned(),
    };
    assert!(matches!(launch_failure(&refused, false), Ok(LaunchFailure::Refused { .. })));
    assert!(launch_failure(&refused, true).is_err());
}
