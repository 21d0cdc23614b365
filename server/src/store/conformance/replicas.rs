//! Servers hear of each other, and clusters that are gone are forgotten.

use std::time::Duration;

use super::{HOUR, cluster, granted, intent, launching};
use crate::store::Store;
use crate::store::log::Retention;
use crate::store::replicas::ReplicaRow;

pub(super) async fn all(store: &dyn Store, run: &str) {
    who_lives_beside_a_server_is_told(store, run).await;
}

fn row(run: &str, life: &str, owner: &str, cap: &str) -> ReplicaRow {
    let settings = [("rails.max-launches".to_owned(), cap.to_owned())].into();
    ReplicaRow { instance: format!("{run}/{life}"), owner: format!("{run}/{owner}"), settings }
}

async fn who_lives_beside_a_server_is_told(store: &dyn Store, run: &str) {
    let beside = async |own: &ReplicaRow| {
        let others = store.tell_replica(own).await.unwrap();
        others.into_iter().filter(|other| other.owner.starts_with(run)).collect::<Vec<_>>()
    };
    let (one, two) = (row(run, "1", "a", "500"), row(run, "2", "b", "900"));
    assert_eq!(beside(&one).await, []);
    // What was told before it began may be of a life that is over: the one that was started again.
    assert_eq!(beside(&two).await, []);
    passes(store, &row(run, "clock", "c", ""), &one).await;
    store.tell_replica(&two).await.unwrap();
    assert_eq!(beside(&one).await.iter().filter(|other| **other == two).count(), 1);
    assert_eq!(beside(&two).await.iter().filter(|other| **other == one).count(), 1);
    // A setting has changed, with a new life of the same name.
    let again = row(run, "3", "b", "500");
    assert!(!beside(&again).await.contains(&two), "the former life tells nothing any more");
}

/// Waits until the store's clock has moved on: until a server that began later is told of `other`.
async fn passes(store: &dyn Store, later: &ReplicaRow, other: &ReplicaRow) {
    loop {
        store.tell_replica(other).await.unwrap();
        if store.tell_replica(later).await.unwrap().contains(other) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// For stores that nobody else uses: every cluster without a lease is forgotten.
pub(in crate::store) async fn gone_clusters_are_forgotten(store: &dyn Store) {
    let (gone, kept) = (cluster("gone", "c"), cluster("kept", "c"));
    let (lease, _) = granted(store, &kept, "a", HOUR).await;
    store.record(&lease, &launching(1, &[intent("k", 1)])).await.unwrap();
    let (lease, _) = granted(store, &gone, "a", HOUR).await;
    store.record(&lease, &launching(2, &[intent("g", 1)])).await.unwrap();
    store.release_leases(&[lease]).await.unwrap();
    // Nothing of it is old enough.
    store.prune(&Retention { clusters: HOUR, ..Retention::default() }).await.unwrap();
    assert_eq!(store.open_intents(&gone).await.unwrap().len(), 1);
    let pruned = loop {
        let pruned = store.prune(&Retention { clusters: Duration::ZERO, ..Retention::default() }).await.unwrap();
        if pruned.clusters > 0 {
            break pruned;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(pruned.clusters, 1);
    assert!(store.open_intents(&gone).await.unwrap().is_empty());
    assert_eq!(store.open_intents(&kept).await.unwrap().len(), 1, "somebody decides for this one");
    let (lease, open) = granted(store, &gone, "b", HOUR).await;
    assert_eq!((lease.epoch, open.intents.len()), (1, 0), "it begins anew, above what its agent has obeyed");
}
