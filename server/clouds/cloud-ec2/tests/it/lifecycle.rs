//! Instances after the launch: listing, termination, and events.

use std::collections::BTreeSet;

use cloud::provider::{CloudError, CloudEvent, CloudProvider, InstanceState, Owner};
use cloud_ec2::Ec2Cloud;
use model::{CapacityType, ClusterName, Text};

use super::{NOW, connect, order};

/// UID of the cluster `c1`, which all orders are for.
const UID: &str = "uid-1";

fn c1() -> ClusterName {
    "c1".into()
}

/// Launches instances for claims of these names, and returns their ids.
async fn launch_all<const COUNT: usize>(cloud: &Ec2Cloud, names: [&str; COUNT]) -> [Text; COUNT] {
    let mut ids = names.map(|_| Text::default());
    for (name, id) in names.iter().zip(&mut ids) {
        *id = cloud.launch(&order(name)).await.unwrap().instance.id;
    }
    ids
}

async fn listed(cloud: &Ec2Cloud, cluster: &str) -> BTreeSet<Text> {
    cloud.list(&cluster.into()).await.unwrap().into_iter().map(|instance| instance.id).collect()
}

#[tokio::test]
async fn a_listing_has_every_page_of_one_cluster_s_instances() {
    let (ec2, cloud) = connect().await;
    ec2.page_by(2);
    let of_c1 = launch_all(&cloud, ["a", "b", "c"]).await;
    let mut elsewhere = order("d");
    elsewhere.cluster = "c2".into();
    let of_c2 = cloud.launch(&elsewhere).await.unwrap().instance.id;
    assert_eq!(listed(&cloud, "c1").await, of_c1.into());
    assert_eq!(listed(&cloud, "c2").await, [of_c2].into());
    // Two instances per page: c1 has two pages, c2 has one.
    assert_eq!(ec2.requests("DescribeInstances").len(), 3);
}

#[tokio::test]
async fn an_interrupted_listing_is_an_error() {
    let (ec2, cloud) = connect().await;
    ec2.page_by(2);
    launch_all(&cloud, ["a", "b", "c"]).await;
    ec2.fail("DescribeInstances", 1, "RequestLimitExceeded");
    assert_eq!(cloud.list(&c1()).await, Err(CloudError::RequestLimitExceeded { retry_after_ms: 1_000 }));
}

#[tokio::test]
async fn an_instance_is_described_as_launched() {
    let (ec2, cloud) = connect().await;
    let launched = cloud.launch(&order("a")).await.unwrap().instance;
    ec2.boot();
    let found = cloud.describe(&launched.provider_id).await.unwrap();
    assert_eq!((found.state, found.launched, found.capacity_type), (InstanceState::Running, NOW, CapacityType::Spot));
    assert_eq!((&found.claim, &found.pool, &found.cluster), (&launched.claim, &launched.pool, &launched.cluster));
    let missing = CloudError::NotFound { id: Text::from("i-00000000000000009") };
    assert_eq!(cloud.describe("aws:///eu-west-1a/i-00000000000000009").await, Err(missing));
}

#[tokio::test]
async fn termination_may_be_repeated() {
    let (ec2, cloud) = connect().await;
    let [id] = launch_all(&cloud, ["a"]).await;
    let cluster = c1();
    let owner = Owner { cluster: &cluster, uid: UID };
    cloud.terminate(&format!("aws:///eu-west-1b/{id}"), owner).await.unwrap();
    cloud.terminate(&id, owner).await.unwrap();
    assert_eq!(cloud.describe(&id).await.unwrap().state, InstanceState::ShuttingDown);
    ec2.end(&id);
    let gone = |id: &str| Err(CloudError::NotFound { id: Text::from(id) });
    assert_eq!(cloud.terminate(&id, owner).await, gone(&id));
    assert_eq!(cloud.terminate("i-00000000000000009", owner).await, gone("i-00000000000000009"));
    assert_eq!(listed(&cloud, "c1").await, BTreeSet::new());
}

#[tokio::test]
async fn an_instance_is_terminated_for_its_own_cluster_only() {
    let (ec2, cloud) = connect().await;
    let [id] = launch_all(&cloud, ["a"]).await;
    let foreign = |owner: &str, asked: &str| {
        Err(CloudError::Foreign { id: id.clone(), owner: Text::from(owner), asked: Text::from(asked) })
    };
    let (own, another) = (c1(), ClusterName::from("c2"));
    let (other, anew) = (Owner { cluster: &another, uid: UID }, Owner { cluster: &own, uid: "uid-2" });
    assert_eq!(cloud.terminate(&id, other).await, foreign("c1", "c2"));
    assert_eq!(cloud.terminate(&id, anew).await, foreign("c1 (UID uid-1)", "c1 (UID uid-2)"));
    assert_eq!(ec2.requests("TerminateInstances"), []);
    cloud.terminate(&id, Owner { cluster: &own, uid: UID }).await.unwrap();
}

#[tokio::test]
async fn state_changes_are_reported_and_the_next_listing_is_delayed() {
    let (ec2, cloud) = connect().await;
    let [a, b] = launch_all(&cloud, ["a", "b"]).await;
    ec2.boot();
    ec2.end(&b);
    let mut events = cloud.events().await.unwrap().expect("a listing is due");
    // EC2 lists instances in no order.
    events.sort_by_key(|event| matches!(event, CloudEvent::Terminated(_)));
    let [CloudEvent::Running(up), CloudEvent::Terminated(down)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((&up.id, &down.id), (&a, &b));
    let calls = ec2.calls().len();
    assert_eq!(cloud.events().await, Ok(None), "EC2 is not asked");
    assert_eq!(ec2.calls().len(), calls);
}
