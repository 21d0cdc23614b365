//! Tokens, lost answers and capacity.

use model::{RefusalCause, Text};

use super::{CLUSTER, FaultyFixture, Fixture, launched};
use crate::provider::{CloudError, LaunchRequest, MAX_OVERRIDES, Override};

/// The same order, sent three times, is one instance.
pub async fn one_token_launches_one_instance_however_often_it_is_sent<F: Fixture>(fixture: &F) {
    let first = launched(fixture, "a").await;
    for _ in 0..2 {
        assert_eq!(launched(fixture, "a").await.id, first.id);
    }
    assert_eq!(fixture.launched_count().await, 1);
}

/// A token identifies an order: a changed one is refused, or leads to the instance of the first.
pub async fn another_order_with_the_token_launches_no_second_instance<F: Fixture>(fixture: &F) {
    let first = launched(fixture, "a").await;
    let mut other = fixture.order("a");
    other.overrides.truncate(1);
    match fixture.provider().launch(&other).await {
        Ok(outcome) => assert_eq!(outcome.instance.id, first.id),
        Err(error) => assert_eq!(error, CloudError::IdempotentParameterMismatch { token: other.token }),
    }
    assert_eq!(fixture.launched_count().await, 1);
}

/// Two NodeClaims have two instances.
pub async fn orders_with_tokens_of_their_own_launch_an_instance_each<F: Fixture>(fixture: &F) {
    let (a, b) = (launched(fixture, "a").await, launched(fixture, "b").await);
    assert_ne!(a.id, b.id);
    assert_eq!((a.claim.as_ref(), b.claim.as_ref()), ("a", "b"));
    assert_eq!(fixture.launched_count().await, 2);
}

/// Names of NodeClaims, which tokens are made of, are unique in a cluster only.
pub async fn two_clusters_with_the_same_token_have_an_instance_each<F: Fixture>(fixture: &F) {
    let own = launched(fixture, "a").await;
    let order = LaunchRequest { cluster: "c2".into(), cluster_uid: Text::from("uid-2"), ..fixture.order("a") };
    let other = fixture.provider().launch(&order).await.expect("an order of another cluster").instance;
    assert_ne!(own.id, other.id);
    assert_eq!((own.cluster.as_ref(), other.cluster.as_ref()), (CLUSTER, "c2"));
    assert_eq!(fixture.launched_count().await, 2);
}

/// The instance exists although the answer is lost, and the repetition leads to it.
pub async fn an_order_whose_answer_was_lost_is_repeated_without_a_second_instance<F: FaultyFixture>(fixture: &F) {
    fixture.lose_launch_answers(true);
    let lost = fixture.provider().launch(&fixture.order("a")).await;
    assert!(matches!(lost, Err(CloudError::Unknown { .. })), "{lost:?}");
    assert_eq!(fixture.launched_count().await, 1, "the order is executed before its answer is lost");
    fixture.lose_launch_answers(false);
    let instance = launched(fixture, "a").await;
    assert_eq!(instance.claim, "a");
    assert_eq!(fixture.launched_count().await, 1);
}

/// The error names the overrides of the order, not others that lack capacity too.
pub async fn an_order_without_capacity_names_its_overrides_and_launches_nothing<F: FaultyFixture>(fixture: &F) {
    let all = fixture.order("a");
    all.overrides.iter().for_each(|option| fixture.exhaust(option));
    let narrow = LaunchRequest { overrides: all.overrides[1..].to_vec(), ..fixture.order("b") };
    for order in [all, narrow] {
        let refused = fixture.provider().launch(&order).await;
        let Err(CloudError::InsufficientCapacity { unavailable }) = refused else { panic!("{refused:?}") };
        let named: Vec<Override> = unavailable.iter().map(Override::from).collect();
        assert_eq!(named, order.overrides);
        assert!(unavailable.iter().all(|refused| refused.cause == RefusalCause::Capacity), "{unavailable:?}");
    }
    assert_eq!(fixture.launched_count().await, 0);
}

/// The instance comes of the second override, and the first is reported.
pub async fn unavailable_overrides_are_reported_beside_the_instance<F: FaultyFixture>(fixture: &F) {
    let order = fixture.order("a");
    let [first, second, ..] = order.overrides.as_slice() else { panic!("two overrides: {order:?}") };
    fixture.exhaust(first);
    let outcome = fixture.provider().launch(&order).await.expect("capacity of the second override");
    assert_eq!((&outcome.instance.instance_type, &outcome.instance.zone), (&second.instance_type, &second.zone));
    let named: Vec<Override> = outcome.unavailable.iter().map(Override::from).collect();
    assert_eq!(named, std::slice::from_ref(first));
    assert_eq!(fixture.launched_count().await, 1);
}

/// No override, and one more than [`MAX_OVERRIDES`].
pub async fn an_order_with_too_few_or_too_many_overrides_is_refused<F: Fixture>(fixture: &F) {
    for count in [0, MAX_OVERRIDES + 1] {
        let order = fixture.order("a");
        let overrides = order.overrides.iter().cycle().take(count).cloned().collect();
        let refused = fixture.provider().launch(&LaunchRequest { overrides, ..order }).await;
        assert!(matches!(refused, Err(CloudError::Refused { .. })), "{count} overrides: {refused:?}");
    }
    assert_eq!(fixture.launched_count().await, 0);
}
