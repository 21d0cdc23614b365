//! Replacements under way are written with their decision, come back with the lease, and end.

use super::{HOUR, cluster, granted, intent, launching, lost_and_held, refused};
use store::Store;
use store::identity::ForgetOutcome;
use store::lease::Scope;
use store::log::Entry;
use store::replacements::{BackoffRow, ReplacementRow, ReplacementsEnd};

pub(super) async fn all(store: &dyn Store, run: &str) {
    rows_are_returned_with_the_lease_until_they_end(store, &cluster(run, "replacements")).await;
    a_repeated_decision_begins_no_replacement_again(store, &cluster(run, "replacements-repeated")).await;
    a_refused_decision_writes_no_replacement(store, &cluster(run, "replacements-refused")).await;
    backoffs_are_returned_until_they_end(store, &cluster(run, "replacement-backoffs")).await;
    a_replica_that_lost_its_lease_changes_no_replacement(store, &cluster(run, "replacements-fenced")).await;
    a_forgotten_cluster_has_no_replacement(store, &cluster(run, "replacements-forgotten")).await;
}

/// Ten minutes before the decision.
const BEGUN_MS: i64 = 600_000;
/// How much longer checks may take.
const LATE_MS: i64 = 300_000;

fn row(claim: &str, place: &str) -> ReplacementRow {
    ReplacementRow {
        claim: claim.to_owned(),
        pool: "default".to_owned(),
        reason: "Drifted".to_owned(),
        moves_pods: true,
        places: vec![("shop/web-1".to_owned(), place.to_owned()), ("shop/web-2".to_owned(), "Node/n-7".to_owned())],
        begun_ago_ms: BEGUN_MS,
    }
}

fn replacing(number: u64, rows: &[ReplacementRow]) -> Entry {
    Entry { replacements: rows.to_vec(), ..launching(number, &[]) }
}

fn ended(claims: &[&str]) -> ReplacementsEnd {
    ReplacementsEnd { claims: claims.iter().map(|claim| (*claim).to_owned()).collect(), ..ReplacementsEnd::default() }
}

/// The rows that come back with the lease, with the age that they were written with.
async fn rows(store: &dyn Store, scope: &Scope) -> Vec<ReplacementRow> {
    let (_, open) = granted(store, scope, "a", HOUR).await;
    let aged = |row: ReplacementRow| {
        assert!((BEGUN_MS..BEGUN_MS + LATE_MS).contains(&row.begun_ago_ms), "{row:?}");
        ReplacementRow { begun_ago_ms: BEGUN_MS, ..row }
    };
    open.replacements.into_iter().map(aged).collect()
}

async fn rows_are_returned_with_the_lease_until_they_end(store: &dyn Store, scope: &Scope) {
    let (lease, open) = granted(store, scope, "a", HOUR).await;
    assert_eq!(open.replacements, []);
    let static_one = ReplacementRow { moves_pods: false, places: Vec::new(), ..row("m-3", "") };
    let first = [row("m-2", "NodeClaim/new-1"), row("m-1", "NodeClaim/new-1"), static_one.clone()];
    store.record_decision(&lease, &replacing(1, &first)).await.unwrap();
    // A later decision has found another place.
    store.record_decision(&lease, &replacing(2, &[row("m-2", "NodeClaim/new-2")])).await.unwrap();
    let expected = [row("m-1", "NodeClaim/new-1"), row("m-2", "NodeClaim/new-2"), static_one];
    assert_eq!(rows(store, scope).await, expected);
    let lease = granted(store, scope, "a", HOUR).await.0;
    store.end_replacements(&lease, &ended(&["m-1", "m-3", "unheard-of"])).await.unwrap();
    store.end_replacements(&lease, &ended(&["m-1", "m-3", "unheard-of"])).await.unwrap();
    assert_eq!(rows(store, scope).await, expected[1..2]);
}

async fn a_repeated_decision_begins_no_replacement_again(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let entry = replacing(1, &[row("m-1", "NodeClaim/new-1")]);
    store.record_decision(&lease, &entry).await.unwrap();
    store.end_replacements(&lease, &ended(&["m-1"])).await.unwrap();
    store.record_decision(&lease, &entry).await.unwrap();
    assert_eq!(rows(store, scope).await, [], "the repetition is late, and the replacement has ended");
}

async fn a_refused_decision_writes_no_replacement(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    store.begin_attempt(&lease, &intent("pool-1", 1)).await.unwrap();
    let entry = Entry { intents: vec![intent("pool-1", 3)], ..replacing(1, &[row("m-1", "NodeClaim/pool-1")]) };
    assert!(store.record_decision(&lease, &entry).await.is_err());
    assert_eq!(rows(store, scope).await, [], "all or nothing");
}

async fn backoffs_are_returned_until_they_end(store: &dyn Store, scope: &Scope) {
    let (lease, open) = granted(store, scope, "a", HOUR).await;
    assert_eq!(open.backoffs, []);
    let backoff = |pool: &str, wait_ms| BackoffRow { pool: pool.to_owned(), wait_ms, left_ms: wait_ms };
    let waiting = |backoffs: &[BackoffRow], ended: &[&str]| ReplacementsEnd {
        backoffs: backoffs.to_vec(),
        ended_backoffs: ended.iter().map(|pool| (*pool).to_owned()).collect(),
        ..ReplacementsEnd::default()
    };
    let read = async || {
        let (lease, open) = granted(store, scope, "a", HOUR).await;
        let brief = open.backoffs.into_iter().map(|row| {
            assert!((row.wait_ms - LATE_MS..=row.wait_ms).contains(&row.left_ms), "{row:?}");
            (row.pool, row.wait_ms)
        });
        (lease, brief.collect::<Vec<_>>())
    };
    let wait = |pool: &str, wait_ms| (pool.to_owned(), wait_ms);
    store.end_replacements(&lease, &waiting(&[backoff("b", 600_000), backoff("a", 60_000)], &[])).await.unwrap();
    let (lease, found) = read().await;
    assert_eq!(found, [wait("a", 60_000), wait("b", 600_000)]);
    store.end_replacements(&lease, &waiting(&[backoff("a", 120_000)], &["b"])).await.unwrap();
    assert_eq!(read().await.1, [wait("a", 120_000)]);
}

async fn a_replica_that_lost_its_lease_changes_no_replacement(store: &dyn Store, scope: &Scope) {
    let (old, new) = lost_and_held(store, scope).await;
    store.record_decision(&new, &replacing(1, &[row("m-1", "NodeClaim/new-1")])).await.unwrap();
    refused(store.record_decision(&old, &replacing(2, &[row("m-2", "NodeClaim/new-2")])).await);
    refused(store.end_replacements(&old, &ended(&["m-1"])).await);
    let (_, open) = granted(store, scope, "b", HOUR).await;
    assert_eq!(open.replacements.iter().map(|row| row.claim.as_str()).collect::<Vec<_>>(), ["m-1"]);
}

async fn a_forgotten_cluster_has_no_replacement(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    store.record_decision(&lease, &replacing(1, &[row("m-1", "NodeClaim/new-1")])).await.unwrap();
    let cluster = scope.cluster_name().unwrap_or_default();
    assert_eq!(store.forget_cluster(cluster, "alice", true).await.unwrap(), ForgetOutcome::Forgotten);
    assert_eq!(rows(store, scope).await, []);
}
