//! A cluster name is bound to one UID, and the observed extent is handed to the next lease holder.

use super::{HOUR, cluster, granted, intent, launching, lost_and_held, refused};
use store::lease::{ObservedExtent, Scope};
use store::{Store, StoreError};

pub(super) async fn all(store: &dyn Store, run: &str) {
    the_observed_extent_is_returned_with_the_lease(store, &cluster(run, "extent")).await;
    a_replica_without_the_lease_writes_no_identity_or_extent(store, &cluster(run, "extent-fenced")).await;
    a_name_is_bound_to_the_first_uid(store, &cluster(run, "identity")).await;
    an_operator_binds_the_name_to_another_uid(store, &cluster(run, "rebuilt")).await;
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
    refused(store.bind_cluster_uid(&lost, "uid-1").await);
    assert_eq!(store.cluster_identity(name(scope)).await.unwrap(), None);
    let (_, open) = granted(store, scope, "b", HOUR).await;
    assert_eq!(open.extent, None);
}

async fn uid(store: &dyn Store, scope: &Scope) -> Option<String> {
    store.cluster_identity(name(scope)).await.unwrap().map(|identity| identity.uid)
}

async fn a_name_is_bound_to_the_first_uid(store: &dyn Store, scope: &Scope) {
    assert_eq!(uid(store, scope).await, None);
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    assert_eq!(uid(store, scope).await, None, "no UID was bound");
    store.bind_cluster_uid(&lease, "uid-1").await.unwrap();
    store.bind_cluster_uid(&lease, "uid-2").await.unwrap();
    let identity = store.cluster_identity(name(scope)).await.unwrap().unwrap();
    assert_eq!((identity.uid.as_str(), identity.owner.as_str()), ("uid-1", "a"));
    granted(store, scope, "a", HOUR).await;
    assert_eq!(uid(store, scope).await.as_deref(), Some("uid-1"), "the binding outlives the lease");
}

async fn an_operator_binds_the_name_to_another_uid(store: &dyn Store, scope: &Scope) {
    let cluster = name(scope);
    assert!(!store.accept_uid(cluster, "uid-2", "kim").await.unwrap(), "it has no lease row");
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    store.bind_cluster_uid(&lease, "uid-1").await.unwrap();
    store.put_extent(&lease, &MUCH).await.unwrap();
    store.record_decision(&lease, &launching(1, &[intent("left", 1)])).await.unwrap();
    let (mut changes, known) = super::watch_changes(store).await;
    assert!(store.accept_uid(cluster, "uid-2", "kim").await.unwrap());
    super::wait_for_change(&mut changes, |changes| changes.leases > known.leases).await;
    assert!(store.accept_uid(cluster, "uid-2", "kim").await.unwrap(), "a repetition is harmless");
    assert_eq!(uid(store, scope).await.as_deref(), Some("uid-2"));
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
    assert_eq!(lines[0].entry.detail, "UID uid-2 in place of uid-1");
}
