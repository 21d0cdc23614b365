//! A cluster name is bound to one UID, and the observed extent is handed to the next lease holder.

use super::{HOUR, cluster, granted, intent, launching, lost_and_held, refused};
use store::identity::{ForgetOutcome, Identity, UidClaim, check_identity};
use store::lease::{ObservedExtent, Scope};
use store::{Store, StoreError};

pub(super) async fn all(store: &dyn Store, run: &str) {
    the_observed_extent_is_returned_with_the_lease(store, &cluster(run, "extent")).await;
    a_replica_without_the_lease_writes_no_identity_or_extent(store, &cluster(run, "extent-fenced")).await;
    a_name_is_bound_to_the_first_uid(store, &cluster(run, "identity")).await;
    an_operator_binds_the_name_to_another_uid(store, &cluster(run, "rebuilt")).await;
    a_uid_has_one_name_until_its_cluster_is_forgotten(store, &cluster(run, "known"), &cluster(run, "renamed")).await;
    a_uid_that_nothing_proves_goes_to_an_authenticated_name(store, run).await;
    a_cluster_with_open_launches_is_forgotten_on_request(store, &cluster(run, "dropped")).await;
}

const MUCH: ObservedExtent = ObservedExtent { nodes: 20, claims: 19, pools: 2, pods: 1_000, pending: 7 };

fn name(scope: &Scope) -> &str {
    scope.cluster_name().unwrap_or_default()
}

async fn the_observed_extent_is_returned_with_the_lease(store: &dyn Store, scope: &Scope) {
    let (lease, open) = granted(store, scope, "a", HOUR).await;
    assert_eq!(open.extent, None, "no extent was written");
    store.put_extent(&lease, &ObservedExtent::default()).await.unwrap();
    store.put_extent(&lease, &MUCH).await.unwrap();
    store.put_extent(&lease, &MUCH).await.unwrap();
    let (_, open) = granted(store, scope, "a", HOUR).await;
    assert_eq!(open.extent, Some(MUCH));
}

async fn a_replica_without_the_lease_writes_no_identity_or_extent(store: &dyn Store, scope: &Scope) {
    let (lost, _held) = lost_and_held(store, scope).await;
    refused(store.put_extent(&lost, &MUCH).await);
    refused(store.bind_cluster_uid(&lost, "first-1").await);
    assert_eq!(identity(store, scope).await, None);
    let (_, open) = granted(store, scope, "b", HOUR).await;
    assert_eq!(open.extent, None);
}

async fn uid(store: &dyn Store, scope: &Scope) -> Option<String> {
    identity(store, scope).await.map(|identity| identity.uid)
}

async fn identity(store: &dyn Store, scope: &Scope) -> Option<Identity> {
    let bound = store.cluster_identities(name(scope), "no UID").await.unwrap();
    assert!(bound.len() <= 1, "{bound:?}");
    bound.into_iter().next()
}

async fn a_name_is_bound_to_the_first_uid(store: &dyn Store, scope: &Scope) {
    assert_eq!(uid(store, scope).await, None);
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    assert_eq!(uid(store, scope).await, None, "no UID was bound");
    store.bind_cluster_uid(&lease, "first-1").await.unwrap();
    store.bind_cluster_uid(&lease, "first-2").await.unwrap();
    let identity = identity(store, scope).await.unwrap();
    assert_eq!((identity.uid.as_str(), identity.owner.as_str()), ("first-1", "a"));
    granted(store, scope, "a", HOUR).await;
    assert_eq!(uid(store, scope).await.as_deref(), Some("first-1"), "the binding outlives the lease");
}

async fn an_operator_binds_the_name_to_another_uid(store: &dyn Store, scope: &Scope) {
    let cluster = name(scope);
    assert!(!store.accept_uid(cluster, "old-2", "kim").await.unwrap(), "it has no lease row");
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    store.bind_cluster_uid(&lease, "old-1").await.unwrap();
    store.put_extent(&lease, &MUCH).await.unwrap();
    store.record_decision(&lease, &launching(1, &[intent("left", 1)])).await.unwrap();
    let (mut changes, known) = super::watch_changes(store).await;
    assert!(store.accept_uid(cluster, "old-2", "kim").await.unwrap());
    super::wait_for_change(&mut changes, |changes| changes.leases > known.leases).await;
    assert!(store.accept_uid(cluster, "old-2", "kim").await.unwrap(), "a repetition is harmless");
    assert_eq!(uid(store, scope).await.as_deref(), Some("old-2"));
    let fenced = store.put_extent(&lease, &MUCH).await;
    assert!(matches!(fenced, Err(StoreError::LeaseLost { .. })), "the previous holder is fenced");
    let (lease, open) = granted(store, scope, "b", HOUR).await;
    assert_eq!(
        (lease.epoch, open.extent, open.intents.len()),
        (3, None, 0),
        "no operation of the previous cluster is open"
    );
    let lines = store.read_audit(1000, None).await.unwrap();
    let key = scope.key();
    let lines: Vec<_> = lines.iter().filter(|row| row.entry.what == "accept-uid" && row.entry.scope == key).collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].entry.detail, "UID old-2 in place of old-1");
}

async fn a_uid_has_one_name_until_its_cluster_is_forgotten(store: &dyn Store, known: &Scope, renamed: &Scope) {
    const UID: &str = "one-cluster";
    let (first, _) = granted(store, known, "a", HOUR).await;
    store.bind_cluster_uid(&first, UID).await.unwrap();
    let bound = store.cluster_identities(name(renamed), UID).await.unwrap();
    let expected = Identity { cluster: name(known).to_owned(), uid: UID.to_owned(), owner: "a".to_owned() };
    assert_eq!(bound, [expected]);
    let (second, _) = granted(store, renamed, "b", HOUR).await;
    let taken = |answer: Result<(), StoreError>| match answer {
        Err(StoreError::UidTaken { cluster, known, uid }) => (cluster, known, uid),
        other => panic!("a UID has two names: {other:?}"),
    };
    let refused = (name(renamed).to_owned(), name(known).to_owned(), UID.to_owned());
    assert_eq!(taken(store.bind_cluster_uid(&second, UID).await), refused);
    assert_eq!(taken(store.accept_uid(name(renamed), UID, "kim").await.map(drop)), refused);
    let outcome = store.forget_cluster(name(known), "kim", false).await.unwrap();
    assert_eq!(outcome, ForgetOutcome::Forgotten);
    store.bind_cluster_uid(&second, UID).await.unwrap();
    assert_eq!(uid(store, renamed).await.as_deref(), Some(UID));
    assert_eq!(uid(store, known).await, None);
    // The former holder is fenced even if it acquires the lease of the name again.
    let (again, _) = granted(store, known, "a", HOUR).await;
    assert_eq!((first.epoch, again.epoch), (1, 3));
}

async fn a_cluster_with_open_launches_is_forgotten_on_request(store: &dyn Store, scope: &Scope) {
    let cluster = name(scope);
    let forget = async |leave| store.forget_cluster(cluster, "kim", leave).await.unwrap();
    assert_eq!(forget(false).await, ForgetOutcome::Unknown);
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    store.record_decision(&lease, &launching(1, &[intent("left", 1)])).await.unwrap();
    assert_eq!(forget(false).await, ForgetOutcome::HasOpenLaunches(1));
    store.put_extent(&lease, &MUCH).await.unwrap();
    let (mut changes, known) = super::watch_changes(store).await;
    assert_eq!(forget(true).await, ForgetOutcome::Forgotten);
    super::wait_for_change(&mut changes, |changes| changes.leases > known.leases).await;
    refused(store.put_extent(&lease, &MUCH).await);
    assert!(!store.clusters().await.unwrap().iter().any(|name| name == cluster), "it is listed");
    assert_eq!(forget(true).await, ForgetOutcome::Unknown);
    let (lease, open) = granted(store, scope, "b", HOUR).await;
    assert_eq!((lease.epoch, open.extent, open.intents.len()), (3, None, 0));
    let lines = store.read_audit(1000, None).await.unwrap();
    let key = scope.key();
    let lines: Vec<_> =
        lines.iter().filter(|row| row.entry.what == "forget-cluster" && row.entry.scope == key).collect();
    assert_eq!((lines.len(), lines[0].entry.detail.as_str()), (1, "open launches: 1"));
}

/// A squatter states the UID of a cluster that is not connected yet, whose agent then comes with its own name.
async fn a_uid_that_nothing_proves_goes_to_an_authenticated_name(store: &dyn Store, run: &str) {
    let [squatter, own, proven, late] =
        ["squatter", "own-name", "proven", "late-name"].map(|name| cluster(run, &format!("claim-{name}")));
    let (uid, other) = (format!("{run}-claimed"), format!("{run}-proven"));
    assert_eq!(store.claim_uid(name(&own), &uid, false).await.unwrap(), UidClaim::Free);
    let (lease, _) = granted(store, &squatter, "a", HOUR).await;
    store.bind_cluster_uid(&lease, &uid).await.unwrap();
    let (mut changes, known) = super::watch_changes(store).await;
    let from = name(&squatter).to_owned();
    assert_eq!(store.claim_uid(name(&own), &uid, false).await.unwrap(), UidClaim::Yielded { from });
    super::wait_for_change(&mut changes, |changes| changes.leases > known.leases).await;
    refused(store.put_extent(&lease, &MUCH).await);
    let (lease, _) = granted(store, &own, "b", HOUR).await;
    store.bind_cluster_uid(&lease, &uid).await.unwrap();
    // The squatter neither gets it back nor is it bound to any UID.
    let bound = store.cluster_identities(name(&squatter), &uid).await.unwrap();
    let refusal = check_identity(name(&squatter), &uid, &bound);
    assert!(matches!(refusal, Err(StoreError::NameTaken { .. })), "{refusal:?}");
    let lines = store.read_audit(1000, None).await.unwrap();
    let lines = lines.iter().filter(|row| row.entry.what == "yield-uid" && row.entry.scope == squatter.key());
    assert_eq!(lines.count(), 1);

    let (lease, _) = granted(store, &proven, "a", HOUR).await;
    store.bind_cluster_uid(&lease, &other).await.unwrap();
    store.put_extent(&lease, &ObservedExtent { nodes: 1, ..ObservedExtent::default() }).await.unwrap();
    let known = name(&proven).to_owned();
    assert_eq!(store.claim_uid(name(&late), &other, false).await.unwrap(), UidClaim::Proven { known: known.clone() });
    store.put_extent(&lease, &ObservedExtent::default()).await.unwrap();
    store.record_decision(&lease, &launching(1, &[intent("launched", 1)])).await.unwrap();
    assert_eq!(store.claim_uid(name(&late), &other, false).await.unwrap(), UidClaim::Proven { known: known.clone() });
    assert_eq!(store.claim_uid(name(&late), &other, true).await.unwrap(), UidClaim::Yielded { from: known });
}
