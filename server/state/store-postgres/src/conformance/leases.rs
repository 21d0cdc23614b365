//! One owner at a time; every acquisition raises the epoch.

use std::time::Duration;

use super::{HOUR, cluster, granted, lost_and_held, refused};
use store::lease::{Lease, LeaseOutcome, Renewal, Scope};
use store::{Store, StoreError};

pub(super) async fn all(store: &dyn Store, run: &str) {
    a_lease_has_one_owner(store, &cluster(run, "one-owner")).await;
    an_expired_lease_passes_on_and_the_epoch_grows(store, &cluster(run, "expired")).await;
    a_restart_under_the_same_name_reacquires_its_lease(store, &cluster(run, "restart")).await;
    an_epoch_exceeds_all_that_the_agent_has_obeyed(store, &cluster(run, "seen")).await;
    an_epoch_that_no_server_issued_is_refused(store, &cluster(run, "poisoned"), &cluster(run, "unknown")).await;
    many_leases_are_renewed_in_one_step(store, run).await;
    a_renewal_extends_only_the_given_leases(store, run).await;
    a_lost_lease_is_not_extended_by_its_previous_holder(store, run).await;
    the_holder_learns_of_a_lease_request(store, &cluster(run, "wanted")).await;
    a_region_is_leased_like_a_cluster(store, run).await;
}

async fn held_by(store: &dyn Store, scope: &Scope, by: &str) -> (String, Duration) {
    match store.acquire_lease(scope, by, 0, HOUR).await.unwrap() {
        LeaseOutcome::Held { owner, expires_in } => (owner, expires_in),
        LeaseOutcome::Granted { lease, .. } => panic!("{} was granted to {by}", lease.scope),
    }
}

async fn a_lease_has_one_owner(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    assert_eq!(lease.epoch, 1);
    let (owner, expires_in) = held_by(store, scope, "b").await;
    assert_eq!(owner, "a");
    assert!(expires_in > HOUR / 2 && expires_in <= HOUR, "{expires_in:?}");
    store.release_leases(std::slice::from_ref(&lease)).await.unwrap();
    store.release_leases(&[lease]).await.unwrap();
    let (next, _) = granted(store, scope, "b", HOUR).await;
    assert_eq!((next.owner.as_str(), next.epoch), ("b", 2));
}

async fn an_expired_lease_passes_on_and_the_epoch_grows(store: &dyn Store, scope: &Scope) {
    let (old, new) = lost_and_held(store, scope).await;
    assert_eq!((old.epoch, new.epoch), (1, 2));
    let renewal = store.renew_leases(std::slice::from_ref(&old), HOUR).await.unwrap();
    assert_eq!(renewal.lost, std::slice::from_ref(&old));
    store.release_leases(&[old]).await.unwrap();
    assert_eq!(held_by(store, scope, "c").await.0, "b", "a stale release has no effect");
}

async fn a_restart_under_the_same_name_reacquires_its_lease(store: &dyn Store, scope: &Scope) {
    let (before, _) = granted(store, scope, "a", HOUR).await;
    let (after, _) = granted(store, scope, "a", HOUR).await;
    assert_eq!((before.epoch, after.epoch), (1, 2));
    // The process before the restart is fenced.
    refused(store.close_intents(&before, &[]).await);
}

async fn an_epoch_exceeds_all_that_the_agent_has_obeyed(store: &dyn Store, scope: &Scope) {
    for (seen, epoch) in [(7, 8), (0, 9), (20, 21)] {
        let answer = store.acquire_lease(scope, "a", seen, HOUR).await.unwrap();
        assert!(matches!(answer, LeaseOutcome::Granted { lease, .. } if lease.epoch == epoch), "after {seen}");
    }
}

/// A false report of an agent, or a stray annotation, must not exhaust the epochs of a cluster:
/// they end at 2^63 - 1.
pub(super) async fn an_epoch_that_no_server_issued_is_refused(store: &dyn Store, scope: &Scope, unknown: &Scope) {
    granted(store, scope, "a", HOUR).await;
    // The last issued epoch is 1: 1 + 2^32 is accepted, one more is not.
    let farthest = 1 + (1 << 32);
    for seen in [farthest + 1, (1 << 63) - 2, u64::MAX] {
        let refused = store.acquire_lease(scope, "a", seen, HOUR).await;
        let Err(StoreError::EpochTooHigh { seen: reported, held: 1, .. }) = refused else {
            panic!("{seen}: {refused:?}")
        };
        assert_eq!(reported, seen);
    }
    assert_eq!(granted(store, scope, "a", HOUR).await.0.epoch, 2, "a correct epoch is granted");
    let answer = store.acquire_lease(scope, "a", farthest + 1, HOUR).await.unwrap();
    assert!(matches!(answer, LeaseOutcome::Granted { lease, .. } if lease.epoch == farthest + 2));

    let refused = store.acquire_lease(unknown, "a", (1 << 32) + 1, HOUR).await;
    assert!(matches!(refused, Err(StoreError::EpochTooHigh { held: 0, .. })), "{refused:?}");
    let answer = store.acquire_lease(unknown, "a", 1 << 32, HOUR).await.unwrap();
    assert!(matches!(answer, LeaseOutcome::Granted { lease, .. } if lease.epoch == (1 << 32) + 1));
}

async fn many_leases_are_renewed_in_one_step(store: &dyn Store, run: &str) {
    let mut leases = Vec::new();
    for number in 0..100 {
        leases.push(granted(store, &cluster(run, &format!("many-{number}")), "a", Duration::ZERO).await.0);
    }
    let (lost, _) = granted(store, &leases[7].scope, "b", HOUR).await;
    let renewal = store.renew_leases(&leases, HOUR).await.unwrap();
    assert_eq!((renewal.lost, renewal.requested), (vec![leases[7].clone()], Vec::new()));
    for lease in [&leases[6], &leases[8], &lost] {
        let owner = held_by(store, &lease.scope, "c").await.0;
        assert_eq!(owner, lease.owner, "{} runs for an hour", lease.scope);
    }
    assert_eq!(store.renew_leases(&[], HOUR).await.unwrap(), Renewal::default());
}

/// Two leases of `a`, renewed together for `duration`.
async fn renewed_together(store: &dyn Store, run: &str, name: &str, duration: Duration) -> [Lease; 2] {
    let [one, two] = ["one", "two"].map(|which| cluster(run, &format!("{name}-{which}")));
    let leases = [granted(store, &one, "a", HOUR).await.0, granted(store, &two, "a", HOUR).await.0];
    assert_eq!(store.renew_leases(&leases, duration).await.unwrap(), Renewal::default());
    leases
}

async fn a_renewal_extends_only_the_given_leases(store: &dyn Store, run: &str) {
    let [one, two] = renewed_together(store, run, "beside", Duration::ZERO).await;
    let renewal = store.renew_leases(std::slice::from_ref(&one), HOUR).await.unwrap();
    assert_eq!(renewal, Renewal::default());
    assert_eq!(held_by(store, &one.scope, "b").await.0, "a");
    granted(store, &two.scope, "b", HOUR).await;

    let [one, two] = renewed_together(store, run, "shortened", HOUR).await;
    store.renew_leases(std::slice::from_ref(&one), Duration::ZERO).await.unwrap();
    granted(store, &one.scope, "b", HOUR).await;
    assert_eq!(held_by(store, &two.scope, "b").await.0, "a", "this lease was not shortened");
    let renewal = store.renew_leases(&[one.clone(), two.clone()], HOUR).await.unwrap();
    assert_eq!(renewal.lost, [one]);
    store.release_leases(std::slice::from_ref(&two)).await.unwrap();
    granted(store, &two.scope, "b", HOUR).await;
}

async fn a_lost_lease_is_not_extended_by_its_previous_holder(store: &dyn Store, run: &str) {
    let former = renewed_together(store, run, "former", Duration::ZERO).await;
    let [one, two] = &former;
    granted(store, &one.scope, "b", Duration::ZERO).await;
    // A restart under the same name.
    granted(store, &two.scope, "a", Duration::ZERO).await;
    assert_eq!(store.renew_leases(&former, HOUR).await.unwrap().lost, former);
    for lease in &former {
        assert_eq!(granted(store, &lease.scope, "c", HOUR).await.0.epoch, 3, "the new holder did not renew it");
    }
}

async fn the_holder_learns_of_a_lease_request(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let leases = [lease.clone()];
    let (mut changes, known) = super::watch_changes(store).await;
    store.request_lease(scope, "b").await.unwrap();
    store.request_lease(scope, "b").await.unwrap();
    let known = super::wait_for_change(&mut changes, |changes| changes.leases > known.leases).await;
    let wanted = [(lease.clone(), "b".to_owned())];
    assert_eq!(store.renew_leases(&leases, HOUR).await.unwrap().requested, wanted);
    assert_eq!(held_by(store, scope, "b").await.0, "a", "a request does not end the lease");
    store.release_leases(&leases).await.unwrap();
    super::wait_for_change(&mut changes, |changes| changes.leases > known.leases).await;
    let (next, _) = granted(store, scope, "b", HOUR).await;
    assert_eq!(
        store.renew_leases(&[next], HOUR).await.unwrap().requested,
        [],
        "the request ended with the acquisition"
    );
}

async fn a_region_is_leased_like_a_cluster(store: &dyn Store, run: &str) {
    let scope = Scope::Region { account: "123456789012".to_owned(), region: format!("{run}-east-1") };
    let (lease, _) = granted(store, &scope, "a", HOUR).await;
    let expected = Lease { scope: scope.clone(), owner: "a".to_owned(), epoch: 1 };
    assert_eq!(lease, expected);
    assert_eq!(Scope::parse(&scope.key()), Some(scope.clone()));
    assert_eq!(held_by(store, &scope, "b").await.0, "a");
}
