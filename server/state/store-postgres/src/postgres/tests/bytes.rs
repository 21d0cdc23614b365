//! Rows shared by many leases or texts, and the guarantees that still hold.

use std::time::Duration;

use super::*;
use store::compression;

#[tokio::test]
async fn leases_renewed_together_share_one_term_row() {
    let Some(server) = throwaway("leases_renewed_together_share_one_term_row") else { return };
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let mut leases = Vec::new();
    for number in 0..20 {
        leases.push(leased(&store, &format!("c{number}")).await);
    }
    store.renew_leases(&leases, HOUR).await.unwrap();
    // `xmin` is the last transaction that wrote a row.
    let written = async || {
        let rows = "SELECT string_agg(scope || xmin, ' ' ORDER BY scope) FROM leases";
        sqlx::query_scalar::<_, String>(rows).fetch_one(&store.pool).await.unwrap()
    };
    let before = written().await;
    store.renew_leases(&leases, HOUR).await.unwrap();
    assert_eq!(written().await, before);
    // A new lease joins the term; the other lease rows are not written.
    let one_more = leased(&store, "d").await;
    leases.push(one_more);
    store.renew_leases(&leases, HOUR).await.unwrap();
    store.renew_leases(&leases, HOUR).await.unwrap();
    assert!(written().await.starts_with(&before), "cluster/d comes last");
    let terms: i64 = sqlx::query_scalar("SELECT count(*) FROM lease_terms").fetch_one(&store.pool).await.unwrap();
    assert_eq!(terms, 1);
}

/// Waits until `count` sessions wait for an advisory lock.
async fn waiting(store: &PostgresStore, count: i64) {
    let deadline = Instant::now() + RETRY_BUDGET;
    loop {
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        let waiting: i64 = sqlx::query_scalar(waiting).fetch_one(&store.pool).await.unwrap();
        if waiting == count {
            return;
        }
        assert!(Instant::now() < deadline, "{waiting} sessions wait instead of {count}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_lease_is_not_acquired_during_a_write_under_it() {
    let Some(server) = throwaway("a_lease_is_not_acquired_during_a_write_under_it") else { return };
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let lease = leased(&store, "prod").await;
    store.renew_leases(std::slice::from_ref(&lease), Duration::ZERO).await.unwrap();
    let orders = store.compress_orders(&lease.scope, &entry(1).intents).await.unwrap();
    let mut writing = store.begin_fenced(&lease, "test").await.unwrap();
    let taker = store.clone();
    let scope = lease.scope.clone();
    let taking = tokio::spawn(async move { taker.acquire_lease(&scope, "b", 0, HOUR).await });
    waiting(&store, 1).await;
    operations::insert_intents(&mut writing, &lease.scope, &entry(1).intents, orders, None).await.unwrap();
    commit(writing, "test").await.unwrap();
    let LeaseOutcome::Granted { lease: taken, open } = taking.await.unwrap().unwrap() else { panic!("it had run out") };
    assert_eq!(taken.epoch, 2);
    assert_eq!(open.intents.len(), 1, "the write is returned to the next holder");
}

#[tokio::test]
async fn a_lease_is_not_acquired_during_its_renewal() {
    let Some(server) = throwaway("a_lease_is_not_acquired_during_its_renewal") else { return };
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let lease = leased(&store, "prod").await;
    store.renew_leases(std::slice::from_ref(&lease), Duration::ZERO).await.unwrap();
    // A renewal that has extended the term and is not committed.
    let mut renewing = store.begin("test").await.unwrap();
    let prolong = "UPDATE lease_terms SET expires_at = clock_timestamp() + interval '1 hour'";
    sqlx::query(prolong).execute(&mut *renewing).await.unwrap();
    let taker = store.clone();
    let scope = lease.scope.clone();
    let taking = tokio::spawn(async move { taker.acquire_lease(&scope, "b", 0, HOUR).await });
    blocked(&store, 1).await;
    commit(renewing, "test").await.unwrap();
    assert!(matches!(taking.await.unwrap(), Ok(LeaseOutcome::Held { owner, .. }) if owner == "a"));
}

/// Waits until `count` sessions wait for a row.
async fn blocked(store: &PostgresStore, count: i64) {
    let deadline = Instant::now() + RETRY_BUDGET;
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while sqlx::query_scalar::<_, i64>(blocked).fetch_one(&store.pool).await.unwrap() != count {
        assert!(Instant::now() < deadline, "not {count} sessions wait");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_renewal_that_moves_a_lease_does_not_deadlock_with_its_acquisition() {
    let Some(server) = throwaway("a_renewal_that_moves_a_lease_does_not_deadlock_with_its_acquisition") else { return };
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    // Each in a term of its own: a renewal of both moves the first lease to the second term.
    let (first, second) = (leased(&store, "first").await, leased(&store, "second").await);
    for lease in [&first, &second] {
        store.renew_leases(std::slice::from_ref(lease), HOUR).await.unwrap();
    }
    // While the first term is locked, the renewal waits for it, and then the acquisition.
    let mut holding = store.begin("test").await.unwrap();
    let lock = "SELECT number FROM lease_terms ORDER BY number LIMIT 1 FOR UPDATE";
    sqlx::query(lock).execute(&mut *holding).await.unwrap();
    let (renewer, taker, scope) = (store.clone(), store.clone(), first.scope.clone());
    let both = [first, second];
    let renewing = tokio::spawn(async move { renewer.renew_leases(&both, HOUR).await });
    blocked(&store, 1).await;
    let taking = tokio::spawn(async move { taker.acquire_lease(&scope, "b", 0, HOUR).await });
    blocked(&store, 2).await;
    commit(holding, "test").await.unwrap();
    assert_eq!(renewing.await.unwrap().unwrap().lost, []);
    assert!(matches!(taking.await.unwrap(), Ok(LeaseOutcome::Held { owner, .. }) if owner == "a"));
    // A deadlock would have been retried.
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let flush = "SELECT pg_stat_force_next_flush()";
    sqlx::query(flush).execute(&store.pool).await.unwrap();
    assert_eq!(sqlx::query_scalar::<_, i64>(deadlocks).fetch_one(&store.pool).await.unwrap(), 0);
}

#[tokio::test]
async fn launches_and_decisions_of_the_third_schema_are_readable() {
    let test = "launches_and_decisions_of_the_third_schema_are_readable";
    let Some(server) = throwaway(test) else { return };
    let (url, pool) = migrated_to(&server, 3).await;
    for row in [
        "INSERT INTO leases VALUES ('cluster/prod', 'a', 6, now() + interval '1 hour')",
        "INSERT INTO intents (scope, claim, attempt, token) VALUES ('cluster/prod', 'one', 1, 'one-1')",
        "INSERT INTO launch_requests VALUES ('cluster/prod', 'one', 1, 'bytes', 'order')",
        "INSERT INTO decisions (scope, number, decided_at, epoch, kind, summary, report, segment, sequence, stance, plan,
                                policy, catalogues, engine_version, input_digest, plan_digest)
         VALUES ('cluster/prod', 9, moment(1763765432123), 6, 'provision', 'a machine', 'why', 9, 1, 's', 'p',
                 repeat('h', 32)::bytea, ARRAY[repeat('c', 32)::bytea], '0.1.0', 'i', 'd')",
        "INSERT INTO log_segments VALUES ('cluster/prod', 9, 6, moment(1763765432123))",
        "INSERT INTO log_chunks VALUES ('cluster/prod', 9, 1, 1, moment(1763765432123), 'event')",
    ] {
        sqlx::query(row).execute(&pool).await.unwrap();
    }
    let store = PostgresStore::connect(&url).await.unwrap();
    let scope = Scope::cluster("prod");
    assert!(
        matches!(store.acquire_lease(&scope, "b", 0, HOUR).await, Ok(LeaseOutcome::Held { .. })),
        "for another hour"
    );
    let lease = Lease { scope: scope.clone(), owner: "a".to_owned(), epoch: 6 };
    assert_eq!(store.renew_leases(std::slice::from_ref(&lease), HOUR).await.unwrap().lost, []);
    let open = open_intents(&store, &scope).await.remove(0);
    assert_eq!((open.intent.request.as_slice(), open.intent.claim_order.as_str()), (&b"bytes"[..], "order"));
    assert_eq!(store.recent_attempts(&scope, HOUR).await.unwrap()[0].claim_order, "order");
    store.finish_attempt(&lease, "one", 1, &AttemptOutcome::Failed { why: "no capacity".to_owned() }).await.unwrap();
    let next = Intent { claim: "one".to_owned(), attempt: 2, token: "one-2".to_owned(), ..entry(1).intents.remove(0) };
    store.begin_attempt(&lease, &next).await.unwrap();
    assert_eq!(open_intents(&store, &scope).await[0].intent, next);

    let decision = store.decision(9).await.unwrap().remove(0).decision;
    assert_eq!((decision.summary.as_str(), decision.report.as_str()), ("a machine", "why"));
    let replay = decision.replay.unwrap();
    assert_eq!((replay.policy, replay.catalogues), (Some(BlobHash([b'h'; 32])), vec![BlobHash([b'c'; 32])]));
    assert_eq!((replay.segment, replay.sequence, replay.plan.as_slice()), (9, 1, &b"p"[..]));
    assert_eq!(store.log_segment(&scope, 9).await.unwrap().unwrap().chunks[0].bytes, b"event");
}

#[tokio::test]
async fn a_dictionary_is_kept_while_a_launch_references_it() {
    let Some(server) = throwaway("a_dictionary_is_kept_while_a_launch_references_it") else { return };
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let lease = leased(&store, "prod").await;
    store.record_decision(&lease, &entry(1)).await.unwrap();
    let long_ago = "UPDATE samples SET used_at = now() - interval '90 days'";
    sqlx::query(long_ago).execute(&store.pool).await.unwrap();
    let samples =
        async || sqlx::query_scalar::<_, i64>("SELECT count(*) FROM samples").fetch_one(&store.pool).await.unwrap();
    assert_eq!(samples().await, 2, "of the launch and of the decision");
    let retention = Retention { log: HOUR, ended: Duration::ZERO, ..Retention::default() };
    store.prune(&retention).await.unwrap();
    assert_eq!(samples().await, 1);
    assert_eq!(open_intents(&store, &lease.scope).await[0].intent, entry(1).intents[0]);
    store.close_intents(&lease, &["pool-1".to_owned()]).await.unwrap();
    store.prune(&retention).await.unwrap();
    assert_eq!(samples().await, 0, "no row references it");
}

#[tokio::test]
async fn writes_after_lost_commits_are_readable() {
    let Some(server) = throwaway("writes_after_lost_commits_are_readable") else { return };
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let lease = leased(&store, "prod").await;
    // LaunchOrders that differ in their number only: all but the first use a dictionary.
    let launch = |number: u64| Intent {
        request: [unlike(0).request, number.to_string().into_bytes()].concat(),
        ..entry(number).intents.remove(0)
    };
    let lose = async || sqlx::query("DELETE FROM samples").execute(&store.pool).await.unwrap();
    store.record_decision(&lease, &Entry { intents: vec![launch(1)], ..entry(1) }).await.unwrap();
    lose().await;
    store.record_decision(&lease, &Entry { intents: vec![launch(2)], ..entry(2) }).await.unwrap();
    let open = open_intents(&store, &lease.scope).await;
    assert_eq!(open[0].intent.request, Vec::<u8>::new(), "only the row of the lost dictionary is lost");
    assert_eq!(open[1].intent, launch(2));
    lose().await;
    store.begin_attempt(&lease, &launch(3)).await.unwrap();
    assert_eq!(open_intents(&store, &lease.scope).await[2].intent, launch(3));
    // Numbers of lost dictionaries may be reassigned.
    let others = sqlx::query("UPDATE samples SET bytes = $1").bind(compression::compress(&[], b"of somebody else"));
    others.execute(&store.pool).await.unwrap();
    store.begin_attempt(&lease, &launch(4)).await.unwrap();
    assert_eq!(open_intents(&store, &lease.scope).await[3].intent, launch(4));
}

/// Incompressible orders: 2,000 bytes, different for each number.
fn unlike(number: u64) -> Intent {
    let mixed = |n: u64| {
        let once = (n + number * 10_000).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((once ^ (once >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56).to_le_bytes()[0]
    };
    let request = (0..2_000).map(mixed).collect();
    Intent { request, claim: format!("pool-{number}"), token: format!("pool-{number}-1"), ..entry(1).intents.remove(0) }
}

#[tokio::test]
async fn dissimilar_launches_create_few_dictionaries_and_are_stored() {
    let test = "dissimilar_launches_create_few_dictionaries_and_are_stored";
    let Some(server) = throwaway(test) else { return };
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let lease = leased(&store, "prod").await;
    let intents: Vec<Intent> = (0..9).map(unlike).collect();
    store.record_decision(&lease, &Entry { intents: intents.clone(), ..entry(1) }).await.unwrap();
    let read = open_intents(&store, &lease.scope).await;
    assert_eq!(read.into_iter().map(|open| open.intent).collect::<Vec<_>>(), intents);
    let samples: i64 = sqlx::query_scalar("SELECT count(*) FROM samples").fetch_one(&store.pool).await.unwrap();
    assert_eq!(samples, 5, "four of launches and one of decisions");
    let largest = "SELECT max(octet_length(orders))::bigint FROM intents";
    let largest: i64 = sqlx::query_scalar(largest).fetch_one(&store.pool).await.unwrap();
    // The request, its length in three bytes, a checksum, and one or two block headers.
    assert!(largest < 2_000 + 3 + 4 + 20, "{largest}");
}
