//! What every store does, said once and asked of both twins.
//!
//! PostgreSQL comes from `DATABASE_URL`, else from the server binaries of this machine (a throw-away server in a folder
//! of its own); where neither exists the test says SKIPPED and by what name.

mod server;

use std::io::Write as _;
use std::time::Duration;

use super::memory::MemoryStore;
use super::postgres::PostgresStore;
use super::{DecisionRecord, Intent, Lease, LeaseAnswer, Store, StoreError};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn the_store_in_memory_keeps_every_promise() {
    all(&MemoryStore::new(), "memory").await;
}

#[tokio::test]
async fn the_store_in_postgres_keeps_every_promise() {
    let Some(server) = server::find_or_start() else {
        // Written past the test harness, which shows what a passing test prints only when asked.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED the_store_in_postgres_keeps_every_promise: no DATABASE_URL and no postgres binary here"
        );
        return;
    };
    let store = PostgresStore::connect(server.url()).await.unwrap();
    // A database that outlives the test may hold clusters of an earlier run; names of this run are its own.
    let run = format!("run-{}", std::process::id());
    all(&store, &run).await;
    let again = PostgresStore::connect(server.url()).await;
    assert!(again.is_ok(), "migrations that have run already are left alone");
}

async fn all(store: &dyn Store, run: &str) {
    store.ping().await.unwrap();
    a_lease_has_one_owner(store, &format!("{run}-one-owner")).await;
    an_expired_lease_passes_on_and_the_epoch_grows(store, &format!("{run}-expired")).await;
    a_restart_under_the_same_name_takes_its_lease_back(store, &format!("{run}-restart")).await;
    an_epoch_is_above_all_that_the_cluster_has_obeyed(store, &format!("{run}-seen")).await;
    what_was_intended_comes_back_with_the_lease(store, &format!("{run}-intents")).await;
    a_replica_that_lost_its_lease_writes_nothing(store, &format!("{run}-fenced")).await;
    decisions_come_back_latest_first(store, &format!("{run}-decisions")).await;
}

async fn granted(store: &dyn Store, cluster: &str, owner: &str, duration: Duration) -> (Lease, Vec<Intent>) {
    match store.take_lease(cluster, owner, 0, duration).await.unwrap() {
        LeaseAnswer::Granted { lease, open } => (lease, open),
        LeaseAnswer::Held { owner } => panic!("the lease of {cluster} is held by {owner}"),
    }
}

fn intent(run: &str, claim: &str) -> Intent {
    Intent { claim: claim.to_owned(), token: format!("{run}-{claim}"), request: "{}".to_owned() }
}

fn decision(summary: &str) -> DecisionRecord {
    DecisionRecord { summary: summary.to_owned(), report: "why".to_owned() }
}

async fn a_lease_has_one_owner(store: &dyn Store, cluster: &str) {
    let (lease, _) = granted(store, cluster, "a", HOUR).await;
    assert_eq!(lease.epoch, 1);
    let answer = store.take_lease(cluster, "b", 0, HOUR).await.unwrap();
    assert_eq!(answer, LeaseAnswer::Held { owner: "a".to_owned() });
    store.renew_lease(&lease, HOUR).await.unwrap();
    store.release_lease(&lease).await.unwrap();
    let (next, _) = granted(store, cluster, "b", HOUR).await;
    assert_eq!((next.owner.as_str(), next.epoch), ("b", 2));
}

async fn an_expired_lease_passes_on_and_the_epoch_grows(store: &dyn Store, cluster: &str) {
    let (old, _) = granted(store, cluster, "a", Duration::ZERO).await;
    let (new, _) = granted(store, cluster, "b", HOUR).await;
    assert_eq!(new.epoch, 2);
    assert!(matches!(store.renew_lease(&old, HOUR).await, Err(StoreError::LeaseLost { epoch: 1, .. })));
    store.release_lease(&old).await.unwrap();
    let answer = store.take_lease(cluster, "c", 0, HOUR).await.unwrap();
    assert_eq!(answer, LeaseAnswer::Held { owner: "b".to_owned() }, "a stale release takes nothing away");
}

async fn a_restart_under_the_same_name_takes_its_lease_back(store: &dyn Store, cluster: &str) {
    let (before, _) = granted(store, cluster, "a", HOUR).await;
    let (after, _) = granted(store, cluster, "a", HOUR).await;
    assert_eq!((before.epoch, after.epoch), (1, 2));
    assert!(store.renew_lease(&before, HOUR).await.is_err(), "the process from before the restart is fenced off");
}

async fn an_epoch_is_above_all_that_the_cluster_has_obeyed(store: &dyn Store, cluster: &str) {
    for (seen, epoch) in [(7, 8), (0, 9), (20, 21)] {
        let answer = store.take_lease(cluster, "a", seen, HOUR).await.unwrap();
        assert!(matches!(answer, LeaseAnswer::Granted { lease, .. } if lease.epoch == epoch), "after {seen}");
    }
}

async fn what_was_intended_comes_back_with_the_lease(store: &dyn Store, cluster: &str) {
    let (lease, open) = granted(store, cluster, "a", HOUR).await;
    assert_eq!(open, []);
    let intents = [intent(cluster, "pool-2"), intent(cluster, "pool-1")];
    store.record(&lease, &decision("two nodes"), &intents).await.unwrap();
    store.record(&lease, &decision("two nodes"), &intents).await.unwrap();
    store.settle(&lease, "pool-2", "launched i-1").await.unwrap();
    store.settle(&lease, "pool-2", "failed").await.unwrap();
    assert_eq!(store.open_intents(cluster).await.unwrap(), [intent(cluster, "pool-1")]);
    let (_, open) = granted(store, cluster, "a", HOUR).await;
    assert_eq!(open, [intent(cluster, "pool-1")]);
}

async fn a_replica_that_lost_its_lease_writes_nothing(store: &dyn Store, cluster: &str) {
    let (old, _) = granted(store, cluster, "a", Duration::ZERO).await;
    let (new, _) = granted(store, cluster, "b", HOUR).await;
    store.record(&new, &decision("the successor's"), &[intent(cluster, "pool-1")]).await.unwrap();
    let refused = store.record(&old, &decision("too late"), &[intent(cluster, "pool-9")]).await;
    assert!(matches!(refused, Err(StoreError::LeaseLost { epoch: 1, .. })));
    assert!(store.settle(&old, "pool-1", "failed").await.is_err());
    assert_eq!(store.open_intents(cluster).await.unwrap(), [intent(cluster, "pool-1")]);
    assert_eq!(store.decisions(cluster, 10).await.unwrap().len(), 1);
}

async fn decisions_come_back_latest_first(store: &dyn Store, cluster: &str) {
    let (lease, _) = granted(store, cluster, "a", HOUR).await;
    for summary in ["first", "second", "third"] {
        store.record(&lease, &decision(summary), &[]).await.unwrap();
    }
    let read = store.decisions(cluster, 2).await.unwrap();
    let summaries: Vec<&str> = read.iter().map(|stored| stored.decision.summary.as_str()).collect();
    assert_eq!(summaries, ["third", "second"]);
    assert!(read[0].id > read[1].id);
}
