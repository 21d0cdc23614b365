//! Replicas learn of each other, and abandoned clusters are deleted.

use std::time::Duration;

use super::{HOUR, cluster, granted, intent, launching};
use store::Store;
use store::lease::Lease;
use store::log::Retention;
use store::replicas::{ClusterSummaryRow, ReplicaEndpoint, ReplicaRow};

pub(super) async fn all(store: &dyn Store, run: &str) {
    a_replica_learns_of_the_other_live_replicas(store, run).await;
    the_summary_of_the_latest_epoch_is_kept(store, run).await;
    a_forgotten_cluster_has_no_summary(store, run).await;
}

fn row(run: &str, life: &str, owner: &str, cap: &str) -> ReplicaRow {
    let settings = [("guardrails.max-launches".to_owned(), cap.to_owned())].into();
    let endpoint = ReplicaEndpoint {
        address: format!("127.0.0.1:{life}"),
        token: format!("token of {life}"),
        certificate: vec![0, 255, 7],
    };
    ReplicaRow { instance: format!("{run}/{life}"), owner: format!("{run}/{owner}"), settings, endpoint }
}

async fn a_replica_learns_of_the_other_live_replicas(store: &dyn Store, run: &str) {
    let beside = async |own: &ReplicaRow| {
        let others = store.register_replica(own).await.unwrap();
        others.into_iter().filter(|other| other.owner.starts_with(run)).collect::<Vec<_>>()
    };
    let (one, two) = (row(run, "1", "a", "500"), row(run, "2", "b", "900"));
    assert_eq!(beside(&one).await, []);
    // A replica that has just begun is not alone until the next heartbeats of the others.
    assert_eq!(beside(&two).await, std::slice::from_ref(&one));
    assert_eq!(beside(&one).await, std::slice::from_ref(&two));
    assert_eq!(beside(&two).await.iter().filter(|other| **other == one).count(), 1);
    assert!(store.other_replicas(&two.instance).await.unwrap().contains(&one));
    assert_eq!(store.other_replicas("not registered").await.unwrap(), []);
    // A setting has changed, in a new run of the same owner.
    let again = row(run, "3", "b", "500");
    assert!(!beside(&again).await.contains(&two), "the previous run reports no longer");
    // Two live processes of one owner see each other: a fault that has to be found.
    is_seen(store, &again, &two).await;
    store.touch_replica("not registered").await.unwrap();
}

/// Waits until the store's clock has advanced, so that a replica of the same owner that started later sees `other`.
async fn is_seen(store: &dyn Store, later: &ReplicaRow, other: &ReplicaRow) {
    loop {
        store.touch_replica(&other.instance).await.unwrap();
        if store.register_replica(later).await.unwrap().contains(other) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn summary(lease: &Lease, observed_ms: i64, summary: &[u8]) -> ClusterSummaryRow {
    let cluster = lease.scope.cluster_name().unwrap_or_default().to_owned();
    let replica = lease.owner.clone();
    ClusterSummaryRow { cluster, epoch: lease.epoch, replica, observed_ms, summary: summary.to_vec() }
}

async fn summaries_of(store: &dyn Store, leases: &[&Lease]) -> Vec<ClusterSummaryRow> {
    let mut rows = store.cluster_summaries().await.unwrap();
    rows.retain(|row| leases.iter().any(|lease| lease.scope.cluster_name() == Some(&row.cluster)));
    rows
}

async fn the_summary_of_the_latest_epoch_is_kept(store: &dyn Store, run: &str) {
    let (one, two) = (cluster(run, "summary-1"), cluster(run, "summary-2"));
    let (first, _) = granted(store, &one, "a", HOUR).await;
    let (other, _) = granted(store, &two, "a", HOUR).await;
    assert_eq!(summaries_of(store, &[&first, &other]).await, []);
    // The order of the rows is not that of their names.
    store.put_cluster_summaries(&[summary(&other, 5, b"x"), summary(&first, 5, b"a")]).await.unwrap();
    let kept = async || summaries_of(store, &[&first, &other]).await;
    assert_eq!(kept().await, [summary(&first, 5, b"a"), summary(&other, 5, b"x")]);
    store.release_leases(std::slice::from_ref(&first)).await.unwrap();
    let (second, _) = granted(store, &one, "b", HOUR).await;
    store.put_cluster_summaries(&[summary(&second, 4, b"b")]).await.unwrap();
    // A replica that was paused writes later, and with a later time.
    store.put_cluster_summaries(&[summary(&first, 9, b"late"), summary(&other, 4, b"late")]).await.unwrap();
    assert_eq!(kept().await, [summary(&second, 4, b"b"), summary(&other, 5, b"x")]);
    store.put_cluster_summaries(&[]).await.unwrap();
    assert_eq!(kept().await.len(), 2);
}

async fn a_forgotten_cluster_has_no_summary(store: &dyn Store, run: &str) {
    let scope = cluster(run, "summary-3");
    let (lease, _) = granted(store, &scope, "a", HOUR).await;
    store.put_cluster_summaries(&[summary(&lease, 5, b"a")]).await.unwrap();
    assert_eq!(summaries_of(store, &[&lease]).await.len(), 1);
    store.forget_cluster(scope.cluster_name().unwrap_or_default(), "anna", true).await.unwrap();
    assert_eq!(summaries_of(store, &[&lease]).await, []);
}

/// For stores without other users: every cluster without a lease is deleted.
pub(crate) async fn abandoned_clusters_are_deleted(store: &dyn Store) {
    let (gone, kept) = (cluster("gone", "c"), cluster("kept", "c"));
    // Read without the lease, whose acquisition would give the cluster a holder.
    let open_attempts = async |scope| store.recent_attempts(scope, Duration::ZERO).await.unwrap().len();
    let (lease, _) = granted(store, &kept, "a", HOUR).await;
    store.record_decision(&lease, &launching(1, &[intent("k", 1)])).await.unwrap();
    let (lease, _) = granted(store, &gone, "a", HOUR).await;
    store.record_decision(&lease, &launching(2, &[intent("g", 1)])).await.unwrap();
    store.put_cluster_summaries(&[summary(&lease, 5, b"before")]).await.unwrap();
    store.release_leases(&[lease]).await.unwrap();
    // No row is old enough.
    store.prune(&Retention { clusters: HOUR, ..Retention::default() }).await.unwrap();
    assert_eq!(open_attempts(&gone).await, 1);
    let pruned = loop {
        let pruned = store.prune(&Retention { clusters: Duration::ZERO, ..Retention::default() }).await.unwrap();
        if pruned.clusters > 0 {
            break pruned;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(pruned.clusters, 1);
    assert_eq!(open_attempts(&gone).await, 0);
    assert_eq!(open_attempts(&kept).await, 1, "this one has a holder");
    let (lease, open) = granted(store, &gone, "b", HOUR).await;
    assert_eq!((lease.epoch, open.intents.len()), (1, 0), "it starts anew");
    assert_eq!(summaries_of(store, &[&lease]).await, [], "a summary of an earlier epoch 1 would stay");
}
