//! A name belongs to one cluster, and what was seen of that one is there for the next holder of its lease.

use super::{HOUR, cluster, granted, intent, launching, lost_and_held, refused};
use crate::store::lease::{ObservedExtent, Scope};
use crate::store::{Store, StoreError};

pub(super) async fn all(store: &dyn Store, run: &str) {
    how_much_there_is_comes_back_with_the_lease(store, &cluster(run, "extent")).await;
    who_has_lost_the_lease_writes_nothing_about_the_cluster(store, &cluster(run, "extent-fenced")).await;
    a_name_belongs_to_the_first_cluster_that_has_it(store, &cluster(run, "identity")).await;
    a_person_gives_the_name_to_another_cluster(store, &cluster(run, "rebuilt")).await;
}

const MUCH: ObservedExtent = ObservedExtent { nodes: 20, claims: 19, pools: 2, pods: 1_000, pending: 7 };

fn name(scope: &Scope) -> &str {
    scope.cluster_name().unwrap_or_default()
}

async fn how_much_there_is_comes_back_with_the_lease(store: &dyn Store, scope: &Scope) {
    let (lease, open) = granted(store, scope, "a", HOUR).await;
    assert_eq!(open.extent, None, "nobody has seen the cluster");
    store.keep_extent(&lease, &ObservedExtent::default()).await.unwrap();
    store.keep_extent(&lease, &MUCH).await.unwrap();
    store.keep_extent(&lease, &MUCH).await.unwrap();
    let (_, open) = granted(store, scope, "a", HOUR).await;
    assert_eq!(open.extent, Some(MUCH));
}

async fn who_has_lost_the_lease_writes_nothing_about_the_cluster(store: &dyn Store, scope: &Scope) {
    let (lost, _held) = lost_and_held(store, scope).await;
    refused(store.keep_extent(&lost, &MUCH).await);
    refused(store.keep_identity(&lost, "uid-1").await);
    assert_eq!(store.cluster_identity(name(scope)).await.unwrap(), None);
    let (_, open) = granted(store, scope, "b", HOUR).await;
    assert_eq!(open.extent, None);
}

async fn uid(store: &dyn Store, scope: &Scope) -> Option<String> {
    store.cluster_identity(name(scope)).await.unwrap().map(|identity| identity.uid)
}

async fn a_name_belongs_to_the_first_cluster_that_has_it(store: &dyn Store, scope: &Scope) {
    assert_eq!(uid(store, scope).await, None);
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    assert_eq!(uid(store, scope).await, None, "whoever decides has not said for which cluster");
    store.keep_identity(&lease, "uid-1").await.unwrap();
    store.keep_identity(&lease, "uid-2").await.unwrap();
    let identity = store.cluster_identity(name(scope)).await.unwrap().unwrap();
    assert_eq!((identity.uid.as_str(), identity.owner.as_str()), ("uid-1", "a"));
    granted(store, scope, "a", HOUR).await;
    assert_eq!(uid(store, scope).await.as_deref(), Some("uid-1"), "it outlives the lease");
}

async fn a_person_gives_the_name_to_another_cluster(store: &dyn Store, scope: &Scope) {
    let cluster = name(scope);
    assert!(!store.accept_uid(cluster, "uid-2", "kim").await.unwrap(), "nobody has ever decided for it");
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    store.keep_identity(&lease, "uid-1").await.unwrap();
    store.keep_extent(&lease, &MUCH).await.unwrap();
    store.record(&lease, &launching(1, &[intent("left", 1)])).await.unwrap();
    let mut changes = store.changes();
    let known = changes.borrow_and_update().leases;
    assert!(store.accept_uid(cluster, "uid-2", "kim").await.unwrap());
    let heard = changes.wait_for(|changes| changes.leases > known);
    tokio::time::timeout(std::time::Duration::from_secs(30), heard).await.unwrap().unwrap();
    assert!(store.accept_uid(cluster, "uid-2", "kim").await.unwrap(), "twice is harmless");
    assert_eq!(uid(store, scope).await.as_deref(), Some("uid-2"));
    let fenced = store.keep_extent(&lease, &MUCH).await;
    assert!(matches!(fenced, Err(StoreError::LeaseLost { .. })), "who decided for the other cluster does no more");
    let (lease, open) = granted(store, scope, "b", HOUR).await;
    assert_eq!((lease.epoch, open.extent, open.intents.len()), (3, None, 0), "nothing of the other is left open");
    let lines = store.read_audit(1000, None).await.unwrap();
    let key = scope.key();
    let lines: Vec<_> = lines.iter().filter(|row| row.entry.what == "accept-uid" && row.entry.scope == key).collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].entry.detail, "UID uid-2 in place of uid-1");
}
