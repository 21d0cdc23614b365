use cloud::provider::{CloudError, CloudProvider, InstanceState, LaunchRequest, Override, Owner};
use cloud::simulated::FaultProfile;
use fleetwright_proto::simulation::v1;
use model::{CapacityType, ClusterName, Text};
use tokio::sync::oneshot;

use super::remote::{RemoteCloud, client};
use super::*;

/// A cloud in a task, and the sender that stops it.
async fn cloud(latency: Latency) -> (String, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (end, ended) = oneshot::channel();
    let faults = FaultProfile { boot_ms: (0, 0), shutdown_ms: 0, ..FaultProfile::default() };
    let cloud = in_process(faults, "us-east-1", None).unwrap();
    let (_, others) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(serve(listener, Arc::new(cloud), latency, 1, others, async {
        let _ended = ended.await;
    }));
    (address, end)
}

fn request(token: &str) -> LaunchRequest {
    LaunchRequest {
        token: token.into(),
        cluster: "blue".into(),
        cluster_uid: "uid-1".into(),
        claim: "web-abcde".into(),
        pool: "web".into(),
        node_class: "default".into(),
        capacity_type: CapacityType::OnDemand,
        overrides: vec![Override { instance_type: "m5.large".into(), zone: "us-east-1a".into() }],
        reservation: None,
        terms: Text::default(),
        template: None,
    }
}

#[tokio::test]
async fn a_token_launches_one_instance_and_the_ledger_has_both_calls() {
    let (address, _end) = cloud(Latency::default()).await;
    let before = RemoteCloud::new(&address).unwrap().launch(&request("t-1")).await.unwrap();
    let after = RemoteCloud::new(&address).unwrap();
    assert_eq!(after.launch(&request("t-1")).await.unwrap().instance.id, before.instance.id);
    let listed = after.list_all().await.unwrap();
    assert_eq!(listed.iter().map(|one| one.cluster_uid.as_ref()).collect::<Vec<_>>(), ["uid-1"]);
    let ledger = client(&address).unwrap().read_ledger(v1::ReadLedgerRequest {}).await.unwrap().into_inner();
    assert_eq!((ledger.entries.len(), ledger.launches.len()), (1, 2));
    assert!(ledger.launches.iter().all(|call| call.answered_us.is_some_and(|answered| answered >= call.arrived_us)));
}

#[tokio::test]
async fn an_instance_is_terminated_only_for_its_own_cluster() {
    let (address, _end) = cloud(Latency::default()).await;
    let remote = RemoteCloud::new(&address).unwrap();
    let id = remote.launch(&request("t-1")).await.unwrap().instance.id;
    let [blue, green] = ["blue", "green"].map(ClusterName::from);
    for stranger in [Owner { cluster: &green, uid: "uid-1" }, Owner { cluster: &blue, uid: "uid-2" }] {
        let refused = remote.terminate(&id, stranger).await;
        assert!(matches!(&refused, Err(CloudError::Foreign { id: of, .. }) if *of == id), "{refused:?}");
    }
    assert_eq!(remote.list(&blue).await.unwrap().len(), 1);
    remote.terminate(&id, Owner { cluster: &blue, uid: "uid-1" }).await.unwrap();
    assert!(remote.list(&blue).await.unwrap().iter().all(|one| one.state == InstanceState::ShuttingDown));
}

#[tokio::test]
async fn instances_are_added_whole_or_not_at_all_and_are_listed_and_terminated_as_others() {
    let (address, _end) = cloud(Latency::default()).await;
    let mut judge = client(&address).unwrap();
    let instance = |id: &str| v1::Instance {
        id: id.to_owned(),
        provider_id: format!("aws:///us-east-1a/{id}"),
        instance_type: "m5.large".to_owned(),
        zone: "us-east-1a".to_owned(),
        capacity_type: "on-demand".to_owned(),
        cluster: "blue".to_owned(),
        cluster_uid: "uid-1".to_owned(),
        claim: format!("base-{id}"),
        pool: "base".to_owned(),
        ..v1::Instance::default()
    };
    let add = |ids: &[&str]| v1::AddInstancesRequest { instances: ids.iter().map(|id| instance(id)).collect() };
    judge.add_instances(add(&["i-1", "i-2"])).await.unwrap();
    // i-3 is new, but it comes with one that is known; then with itself.
    for refused in [["i-3", "i-1"], ["i-3", "i-3"]] {
        let status = judge.add_instances(add(&refused)).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::AlreadyExists, "{status}");
    }
    let (remote, blue) = (RemoteCloud::new(&address).unwrap(), ClusterName::from("blue"));
    let listed = remote.list(&blue).await.unwrap();
    let states: Vec<_> = listed.iter().map(|one| (one.id.as_ref(), one.state)).collect();
    assert_eq!(states, [("i-1", InstanceState::Running), ("i-2", InstanceState::Running)]);
    remote.terminate("i-1", Owner { cluster: &blue, uid: "uid-1" }).await.unwrap();
    let ledger = judge.read_ledger(v1::ReadLedgerRequest {}).await.unwrap().into_inner();
    // m5.large in us-east-1: $0.096 an hour.
    assert_eq!(ledger.entries.iter().map(|entry| entry.price_micro_usd).collect::<Vec<_>>(), [96_000, 96_000]);
}

#[tokio::test]
async fn a_call_is_executed_although_its_caller_disconnects() {
    let (address, _end) = cloud(Latency { arrival_ms: (1_000, 1_000), answer_ms: (600_000, 600_000) }).await;
    let caller = RemoteCloud::new(&address).unwrap();
    let mut judge = client(&address).unwrap();
    let mut watching = judge.watch(v1::WatchRequest {}).await.unwrap().into_inner();
    let call = tokio::spawn(async move { caller.launch(&request("t-1")).await });
    let on_its_way = async {
        while judge.read_ledger(v1::ReadLedgerRequest {}).await.unwrap().into_inner().calls.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), on_its_way).await.unwrap();
    call.abort();
    let update = tokio::time::timeout(Duration::from_secs(60), watching.message()).await;
    let record_arrival = update.unwrap().unwrap().unwrap().launch.unwrap();
    assert!(!record_arrival.instance.is_empty(), "the instance was launched without a caller");
}

#[tokio::test]
async fn faults_can_be_changed_at_run_time() {
    let (address, _end) = cloud(Latency::default()).await;
    let remote = RemoteCloud::new(&address).unwrap();
    let faults =
        v1::SetFaultProfileRequest { failed_lists_percent: Some(100), no_capacity: Some(true), ..Default::default() };
    client(&address).unwrap().set_fault_profile(faults).await.unwrap();
    assert!(matches!(remote.list_all().await, Err(CloudError::Unknown { .. })));
    assert!(matches!(remote.launch(&request("t-2")).await, Err(CloudError::InsufficientCapacity { .. })));
}

#[tokio::test]
async fn an_unreachable_cloud_leaves_the_outcome_unknown() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let remote = RemoteCloud::new(&format!("http://{closed}")).unwrap();
    assert!(matches!(remote.launch(&request("t-1")).await, Err(CloudError::Unknown { .. })));
}
