use cloud::provider::{CloudError, CloudProvider, InstanceState, LaunchRequest, Override, Owner};
use cloud::simulated::FaultProfile;
use engine::model::{CapacityType, Text};
use fleetwright_proto::simulation::v1;
use tokio::sync::oneshot;

use super::*;
use crate::clouds;
use crate::clouds::remote::{RemoteCloud, client};

/// A cloud in a task, and what ends it.
async fn cloud(latency: Latency) -> (String, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (end, ended) = oneshot::channel();
    let weather = FaultProfile { boot_ms: (0, 0), shutdown_ms: 0, ..FaultProfile::default() };
    let cloud = clouds::simulated(weather, "us-east-1", None).unwrap();
    tokio::spawn(serve(listener, cloud, latency, 1, async {
        let _ended = ended.await;
    }));
    (address, end)
}

fn request(token: &str) -> LaunchRequest {
    let text = Text::from;
    LaunchRequest {
        token: text(token),
        cluster: text("blue"),
        cluster_uid: text("uid-1"),
        claim: text("web-abcde"),
        pool: text("web"),
        node_class: text("default"),
        capacity_type: CapacityType::OnDemand,
        overrides: vec![Override { instance_type: text("m5.large"), zone: text("us-east-1a") }],
        reservation: None,
        terms: Text::default(),
    }
}

#[tokio::test]
async fn a_token_buys_one_machine_whoever_sends_it_and_the_book_knows_both_calls() {
    let (address, _end) = cloud(Latency::default()).await;
    let before = RemoteCloud::at(&address).unwrap().launch(&request("t-1")).await.unwrap();
    let after = RemoteCloud::at(&address).unwrap();
    assert_eq!(after.launch(&request("t-1")).await.unwrap().instance.id, before.instance.id);
    let listed = after.list_all().await.unwrap();
    assert_eq!(listed.iter().map(|one| one.cluster_uid.as_ref()).collect::<Vec<_>>(), ["uid-1"]);
    let book = client(&address).unwrap().book(v1::BookRequest {}).await.unwrap().into_inner();
    assert_eq!((book.sales.len(), book.launches.len()), (1, 2));
    assert!(book.launches.iter().all(|call| call.answered_us.is_some_and(|answered| answered >= call.arrived_us)));
}

#[tokio::test]
async fn a_machine_is_given_back_for_its_own_cluster_and_not_for_another_of_that_name() {
    let (address, _end) = cloud(Latency::default()).await;
    let remote = RemoteCloud::at(&address).unwrap();
    let id = remote.launch(&request("t-1")).await.unwrap().instance.id;
    for stranger in [Owner { cluster: "green", uid: "uid-1" }, Owner { cluster: "blue", uid: "uid-2" }] {
        let refused = remote.terminate(&id, stranger).await;
        assert!(matches!(&refused, Err(CloudError::Foreign { id: of, .. }) if *of == id), "{refused:?}");
    }
    assert_eq!(remote.list("blue").await.unwrap().len(), 1);
    remote.terminate(&id, Owner { cluster: "blue", uid: "uid-1" }).await.unwrap();
    assert!(remote.list("blue").await.unwrap().iter().all(|one| one.state == InstanceState::ShuttingDown));
}

#[tokio::test]
async fn a_call_whose_caller_has_gone_is_carried_out_all_the_same() {
    let (address, _end) = cloud(Latency { arrival_ms: (1_000, 1_000), answer_ms: (600_000, 600_000) }).await;
    let caller = RemoteCloud::at(&address).unwrap();
    let mut judge = client(&address).unwrap();
    let mut watching = judge.watch(v1::WatchRequest {}).await.unwrap().into_inner();
    let call = tokio::spawn(async move { caller.launch(&request("t-1")).await });
    let on_its_way = async {
        while judge.book(v1::BookRequest {}).await.unwrap().into_inner().calls.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), on_its_way).await.unwrap();
    call.abort();
    let moved = tokio::time::timeout(Duration::from_secs(60), watching.message()).await;
    let arrived = moved.unwrap().unwrap().unwrap().launch.unwrap();
    assert!(!arrived.instance.is_empty(), "a machine was bought for nobody");
}

#[tokio::test]
async fn weather_can_be_changed_while_the_cloud_runs() {
    let (address, _end) = cloud(Latency::default()).await;
    let remote = RemoteCloud::at(&address).unwrap();
    let weather = v1::WeatherRequest { failed_lists_percent: Some(100), no_capacity: Some(true), ..Default::default() };
    client(&address).unwrap().weather(weather).await.unwrap();
    assert!(matches!(remote.list_all().await, Err(CloudError::Unknown { .. })));
    assert!(matches!(remote.launch(&request("t-2")).await, Err(CloudError::NoCapacity { .. })));
}

#[tokio::test]
async fn a_cloud_that_cannot_be_reached_leaves_the_outcome_open() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let remote = RemoteCloud::at(&format!("http://{nobody}")).unwrap();
    assert!(matches!(remote.launch(&request("t-1")).await, Err(CloudError::Unknown { .. })));
}
