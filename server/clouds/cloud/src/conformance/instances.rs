//! Descriptions, listings, terminations and events.

use std::collections::BTreeSet;

use model::{ClusterName, Text};

use super::{CLUSTER, CLUSTER_UID, FaultyFixture, Fixture, cluster, launched, owner, settle};
use crate::provider::{CloudError, CloudEvent, Instance, InstanceState, LaunchRequest, Owner};

/// An id that no cloud has given.
const UNKNOWN: &str = "i-0fedcba9876543210";

/// Id, type, zone and tags are those of the order and of the launch's answer, by instance id and by provider id.
pub async fn an_instance_is_described_as_it_was_ordered<F: Fixture>(fixture: &F) {
    let order = fixture.order("a");
    let launched = launched(fixture, "a").await;
    for id in [&*launched.id, &*launched.provider_id] {
        let found = fixture.provider().describe(id).await.expect("a launched instance");
        assert_eq!((&found.id, &found.provider_id), (&launched.id, &launched.provider_id));
        assert_eq!((&found.instance_type, &found.zone), (&launched.instance_type, &launched.zone));
        assert_eq!((&found.cluster, &found.cluster_uid), (&order.cluster, &order.cluster_uid));
        assert_eq!((&found.claim, &found.pool), (&order.claim, &order.pool));
        assert_eq!(found.capacity_type, order.capacity_type);
        assert!(matches!(found.state, InstanceState::Pending | InstanceState::Running), "{found:?}");
    }
    let first = &order.overrides[0];
    assert_eq!((&launched.instance_type, &launched.zone), (&first.instance_type, &first.zone));
    assert_eq!(launched.provider_id.as_ref(), format!("aws:///{}/{}", first.zone, launched.id));
}

/// To be described or terminated.
pub async fn an_unknown_instance_is_not_found<F: Fixture>(fixture: &F) {
    let provider = fixture.provider();
    assert_eq!(provider.describe(UNKNOWN).await, Err(not_found(UNKNOWN)));
    assert_eq!(provider.terminate(UNKNOWN, owner(&cluster())).await, Err(not_found(UNKNOWN)));
}

/// Each cluster's own, all clusters', and no ended instance.
pub async fn listings_show_the_live_instances_of_one_cluster_and_of_all<F: Fixture>(fixture: &F) {
    let (provider, elsewhere) = (fixture.provider(), ClusterName::from("c2"));
    let (a, b) = (launched(fixture, "a").await, launched(fixture, "b").await);
    let order = LaunchRequest { cluster: elsewhere.clone(), cluster_uid: Text::from("uid-2"), ..fixture.order("a") };
    let c = provider.launch(&order).await.expect("an order of another cluster").instance;
    assert_eq!(ids(provider.list(&cluster()).await), set(&[&a, &b]));
    assert_eq!(ids(provider.list(&elsewhere).await), set(&[&c]));
    assert_eq!(ids(provider.list(&"c3".into()).await), BTreeSet::new());
    assert_eq!(ids(provider.list_all().await), set(&[&a, &b, &c]));
    provider.terminate(&a.id, owner(&cluster())).await.expect("an instance of its own");
    settle(fixture).await;
    assert_eq!(ids(provider.list(&cluster()).await), set(&[&b]));
    assert_eq!(ids(provider.list_all().await), set(&[&b, &c]));
}

/// An empty listing would say that there are no instances.
pub async fn a_listing_without_an_answer_is_an_error<F: FaultyFixture>(fixture: &F) {
    launched(fixture, "a").await;
    fixture.cut_off();
    let of_cluster = fixture.provider().list(&cluster()).await;
    assert!(matches!(of_cluster, Err(CloudError::Unknown { .. })), "{of_cluster:?}");
    let of_all = fixture.provider().list_all().await;
    assert!(matches!(of_all, Err(CloudError::Unknown { .. })), "{of_all:?}");
}

/// Another cluster, and another cluster of the same name, do not end it.
pub async fn an_instance_is_terminated_for_its_owner_by_name_and_uid_only<F: Fixture>(fixture: &F) {
    let (provider, own, other) = (fixture.provider(), cluster(), ClusterName::from("c2"));
    let instance = launched(fixture, "a").await;
    let strangers = [
        Owner { cluster: &other, uid: CLUSTER_UID },
        Owner { cluster: &own, uid: "uid-2" },
        Owner { cluster: &own, uid: "" },
    ];
    for stranger in strangers {
        let refused = provider.terminate(&instance.id, stranger).await;
        assert!(
            matches!(&refused, Err(CloudError::Foreign { id, .. }) if *id == instance.id),
            "{stranger:?}: {refused:?}"
        );
    }
    settle(fixture).await;
    assert_eq!(provider.describe(&instance.id).await.expect("an instance").state, InstanceState::Running);
    provider.terminate(&instance.provider_id, owner(&own)).await.expect("an instance of its own");
}

/// It shuts down meanwhile.
pub async fn a_termination_may_be_repeated_until_the_instance_has_ended<F: Fixture>(fixture: &F) {
    let (provider, cluster) = (fixture.provider(), cluster());
    let instance = launched(fixture, "a").await;
    for _ in 0..2 {
        assert_eq!(provider.terminate(&instance.id, owner(&cluster)).await, Ok(()));
    }
    assert_eq!(provider.describe(&instance.id).await.expect("an instance").state, InstanceState::ShuttingDown);
}

/// Its termination is not found, its description is that of the end or not found, and listings lack it.
pub async fn an_instance_that_has_ended_is_not_found<F: Fixture>(fixture: &F) {
    let (provider, cluster) = (fixture.provider(), cluster());
    let instance = launched(fixture, "a").await;
    provider.terminate(&instance.id, owner(&cluster)).await.expect("an instance of its own");
    settle(fixture).await;
    assert_eq!(provider.terminate(&instance.id, owner(&cluster)).await, Err(not_found(&instance.id)));
    match provider.describe(&instance.id).await {
        Ok(found) => assert_eq!(found.state, InstanceState::Terminated),
        Err(error) => assert_eq!(error, not_found(&instance.id)),
    }
    assert_eq!(ids(provider.list(&CLUSTER.into()).await), BTreeSet::new());
}

/// Each change once, with the instance's tags.
pub async fn events_report_what_runs_and_what_has_ended<F: Fixture>(fixture: &F) {
    let (a, b) = (launched(fixture, "a").await, launched(fixture, "b").await);
    assert_eq!(summary(&settle(fixture).await), [("running", &*a.id, "a"), ("running", &*b.id, "b")].into());
    fixture.provider().terminate(&b.id, owner(&cluster())).await.expect("an instance of its own");
    assert_eq!(summary(&settle(fixture).await), [("terminated", &*b.id, "b")].into());
    assert_eq!(settle(fixture).await, []);
}

/// Kind, instance id and claim of each event.
fn summary(events: &[CloudEvent]) -> BTreeSet<(&'static str, &str, &str)> {
    let split = events.iter().map(|event| match event {
        CloudEvent::Running(instance) => ("running", instance),
        CloudEvent::Terminated(instance) => ("terminated", instance),
        CloudEvent::Interrupted { instance, .. } => ("interrupted", instance),
    });
    split.map(|(kind, instance)| (kind, instance.id.as_ref(), instance.claim.as_ref())).collect()
}

fn not_found(id: &str) -> CloudError {
    CloudError::NotFound { id: Text::from(id) }
}

fn ids(listed: Result<Vec<Instance>, CloudError>) -> BTreeSet<Text> {
    listed.expect("a listing of a cloud that answers").into_iter().map(|instance| instance.id).collect()
}

fn set(instances: &[&Instance]) -> BTreeSet<Text> {
    instances.iter().map(|instance| instance.id.clone()).collect()
}
