//! Launch templates that nothing uses any more.

use std::sync::atomic::{AtomicI64, Ordering};

use cloud::provider::CloudProvider;
use cloud_ec2::Ec2Cloud;
use model::Timestamp;

use super::endpoint::Endpoint;
use super::node_class::with_spec;
use super::{NOW, adapter_at, order};

/// Minutes since [`NOW`] in this test.
static MINUTES: AtomicI64 = AtomicI64::new(0);

fn clock() -> Timestamp {
    NOW + model::Millis::from_mins(MINUTES.load(Ordering::SeqCst))
}

async fn collected(cloud: &Ec2Cloud, minutes: i64) -> usize {
    MINUTES.store(minutes, Ordering::SeqCst);
    cloud.collect_launch_templates().await.unwrap().len()
}

/// A process makes a template and dies. Its successor deletes it once it owns the cluster and has not used the template
/// for an hour; a process that does not own the cluster leaves it.
#[tokio::test]
async fn templates_of_an_earlier_process_are_deleted_by_the_owner_of_the_cluster() {
    let ec2 = Endpoint::start().await;
    let [first, owner, other] = [(); 3].map(|()| adapter_at(ec2.url(), clock));
    first.launch(&order("a")).await.unwrap();
    assert_eq!((collected(&owner, 0).await, collected(&other, 0).await), (0, 0));
    MINUTES.store(61, Ordering::SeqCst);
    let query = model::node_class::NodeClassQuery { cluster_uid: "uid-1".into(), ..with_spec(|_| ()) };
    owner.resolve_node_class(&query).await;
    assert_eq!(collected(&other, 61).await, 0, "it does not serve the cluster");
    assert_eq!(collected(&owner, 61).await, 1);
    // The next launch makes it again, and it is idle an hour later.
    owner.launch(&order("b")).await.unwrap();
    assert_eq!(collected(&owner, 120).await, 0);
    assert_eq!(collected(&owner, 121).await, 1);
}
