//! Faults of a database: restarts, lost connections, lost responses, and a schema of another
//! release.

mod bytes;
mod proxy;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::migrate::Migrator;
use sqlx::postgres::PgPool;
use tokio::sync::watch;

use super::super::conformance::skipped;
use super::super::postgres_local::{self, LocalPostgres};
use super::connection::commit;
use super::conversion::database;
use super::*;
use proxy::{DisconnectAt, Proxy};
use store::StoreError;
use store::counters::CounterValues;
use store::guardrails::FreezeScope;
use store::listing::ListedDetails;
use store::log::DecisionRow;
use store::operations::{IntentState, OpenIntent};

const HOUR: Duration = Duration::from_secs(3600);

/// Timeout, generous for busy hosts.
const RETRY_BUDGET: Duration = Duration::from_secs(120);

fn throwaway(test: &str) -> Option<LocalPostgres> {
    let server = LocalPostgres::temporary().unwrap();
    if server.is_none() {
        skipped(test);
    }
    server
}

async fn leased(store: &PostgresStore, cluster: &str) -> Lease {
    match store.acquire_lease(&Scope::cluster(cluster), "a", 0, HOUR).await.unwrap() {
        LeaseOutcome::Granted { lease, .. } => lease,
        LeaseOutcome::Held { owner, .. } => panic!("held by {owner}"),
    }
}

/// Launches that are not closed, read without a new lease.
async fn open_intents(store: &PostgresStore, scope: &Scope) -> Vec<OpenIntent> {
    let read = move || async move {
        let mut connection = store.pool.acquire().await.map_err(database("test"))?;
        operations::open_intents(&mut connection, scope).await
    };
    retry(read).await.unwrap()
}

fn entry(number: u64) -> Entry {
    let intent = Intent {
        claim: format!("pool-{number}"),
        attempt: 1,
        token: format!("pool-{number}-1"),
        request: vec![1],
        claim_order: String::new(),
    };
    let decision = DecisionRow { number, decided_at_ms: 1_763_765_432_123, ..DecisionRow::default() };
    Entry { decision, intents: vec![intent], ..Entry::default() }
}

fn of(cluster: &str) -> DecisionFilter {
    DecisionFilter { scope: Some(Scope::cluster(cluster)), limit: 10_000, before: None }
}

/// After a long outage more rows are due than one statement may delete.
#[tokio::test]
async fn old_rows_outside_partitions_are_deleted_in_batches() {
    let Some(server) = throwaway("old_rows_outside_partitions_are_deleted_in_batches") else { return };
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let many = 2 * log::ROWS_AT_ONCE + 1;
    let filled = "INSERT INTO decisions (scope, number, decided_at, epoch, kind)
                  SELECT 'cluster/c', n, timestamptz '2020-01-01' + n * interval '1 second', 1, 'provision'
                  FROM generate_series(1::bigint, $1) AS n";
    sqlx::query(filled).bind(many).execute(&store.pool).await.unwrap();
    let left = async || -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM decisions_other").fetch_one(&store.pool).await.unwrap()
    };
    assert_eq!(left().await, many);
    assert_eq!(store.prune_log_rows(3600.0, 3600.0).await.unwrap(), log::ROWS_AT_ONCE.unsigned_abs());
    assert_eq!(left().await, log::ROWS_AT_ONCE + 1);
    store.prune(&Retention::default()).await.unwrap();
    assert_eq!(left().await, 0);
}

#[tokio::test]
async fn a_commit_with_a_lost_response_takes_effect_once() {
    let Some(server) = throwaway("a_commit_with_a_lost_response_takes_effect_once") else { return };
    let proxy = Proxy::start(&server.url()).await;
    let store = PostgresStore::connect(&proxy.url).await.unwrap();
    let lease = leased(&store, "prod").await;
    for (number, cut) in [(1, DisconnectAt::BeforeCommit), (2, DisconnectAt::AfterCommit)] {
        proxy.disconnect_at_next_commit(cut);
        store.record_decision(&lease, &entry(number)).await.unwrap();
        assert!(proxy.fired(), "{cut:?} did not fire");
    }
    let (scope, by, reason) = (FreezeScope::Fleet, "kim".to_owned(), String::new());
    let order = FreezeOrder { scope, only_disruption: false, by, reason, until_ms: None };
    for cut in [DisconnectAt::BeforeCommit, DisconnectAt::AfterCommit] {
        proxy.disconnect_at_next_commit(cut);
        store.freeze(&order).await.unwrap();
        assert!(proxy.fired(), "{cut:?} did not fire");
    }
    proxy.disconnect_at_next_commit(DisconnectAt::AfterCommit);
    let taken = store.acquire_lease(&lease.scope, "a", 0, HOUR).await.unwrap();
    assert!(matches!(taken, LeaseOutcome::Granted { lease, .. } if lease.epoch == 3), "taken twice, and ours");
    assert_eq!(store.decisions(&of("prod")).await.unwrap().len(), 2);
    assert_eq!(open_intents(&store, &lease.scope).await.len(), 2);
    assert_eq!(store.freezes().await.unwrap().len(), 2);
    assert_eq!(store.read_audit(10, None).await.unwrap().len(), 2);
}

/// Records decisions one after the other until `stop`; returns the number of acknowledged ones.
async fn load(store: PostgresStore, cluster: String, stop: watch::Receiver<bool>) -> u64 {
    let lease = leased(&store, &cluster).await;
    let mut number = 0;
    while !*stop.borrow() {
        number += 1;
        let deadline = Instant::now() + RETRY_BUDGET;
        while let Err(error) = store.record_decision(&lease, &entry(number)).await {
            assert!(Instant::now() < deadline, "decision {number} of {cluster} is never recorded: {error}");
        }
    }
    number
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_resume_after_restarts_crashes_and_disconnects() {
    let Some(binaries) = postgres_local::find() else {
        return skipped("decisions_resume_after_restarts_crashes_and_disconnects");
    };
    let folder = std::env::temp_dir().join(format!("fw-load-{}", std::process::id()));
    let mut server = LocalPostgres::start(&binaries, &folder).unwrap();
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let (stop, stopped) = watch::channel(false);
    let clusters = ["a", "b", "c", "d"];
    let loads = clusters.map(|cluster| tokio::spawn(load(store.clone(), cluster.to_owned(), stopped.clone())));
    more_decisions(&store).await;
    server.stop().unwrap();
    server.restart().unwrap();
    more_decisions(&store).await;
    server.kill().unwrap();
    server.restart().unwrap();
    more_decisions(&store).await;
    for _ in 0..5 {
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'fleetwright' AND pid <> pg_backend_pid()";
        let _cut_itself = sqlx::query(cut).execute(&store.pool).await;
        more_decisions(&store).await;
    }
    stop.send_replace(true);
    for (cluster, load) in clusters.into_iter().zip(loads) {
        let acknowledged = load.await.unwrap();
        let kept = store.decisions(&of(cluster)).await.unwrap();
        assert_eq!(kept.len() as u64, acknowledged, "cluster {cluster}: each once, none lost");
        let open = open_intents(&store, &Scope::cluster(cluster)).await;
        assert_eq!(open.len() as u64, acknowledged, "cluster {cluster}: each intent with its decision");
        assert!(open.iter().all(|open| open.state == IntentState::Open));
    }
    drop(server);
    let _gone_already = std::fs::remove_dir_all(&folder);
}

async fn more_decisions(store: &PostgresStore) {
    let deadline = Instant::now() + RETRY_BUDGET;
    let mut known = None;
    loop {
        let count = sqlx::query_scalar("SELECT count(*) FROM decisions").fetch_one(&store.pool).await;
        if let Ok(count) = count {
            let first: i64 = *known.get_or_insert(count);
            if count >= first + 10 {
                return;
            }
        }
        assert!(Instant::now() < deadline, "decisions do not resume: {count:?}");
        tokio::task::yield_now().await;
    }
}

/// Creates a database on the server.
async fn another(server: &LocalPostgres, name: &str) -> String {
    let pool = PgPool::connect(&server.url()).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&pool).await.unwrap();
    pool.close().await;
    server.url().replace("/postgres", &format!("/{name}")).replacen(&format!("/{name}:"), "/postgres:", 1)
}

fn newest_file() -> i64 {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../migrations");
    let names = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.split_once('_')?.0.parse().ok()).max().unwrap()
}

/// Connects to a new database and applies the migrations up to `version`.
async fn migrated_to(server: &LocalPostgres, version: i64) -> (String, PgPool) {
    let url = another(server, "fleet").await;
    let pool = PgPool::connect(&url).await.unwrap();
    let all: Migrator = sqlx::migrate!("../../../migrations");
    let first: Vec<_> = all.iter().filter(|migration| migration.version <= version).cloned().collect();
    Migrator { migrations: first.into(), ..Migrator::DEFAULT }.run(&pool).await.unwrap();
    (url, pool)
}

#[tokio::test]
async fn a_schema_of_another_release_is_rejected_or_migrated() {
    let Some(server) = throwaway("a_schema_of_another_release_is_rejected_or_migrated") else { return };
    let url = another(&server, "fleet").await;
    let forbidden = Settings { migrate: false, ..Settings::default() };
    let error = PostgresStore::connect_with(&url, &forbidden).await.unwrap_err();
    let newest = newest_file();
    assert!(matches!(error, StoreError::SchemaTooOld { found: 0, needed } if needed == newest), "{error}");
    let store = PostgresStore::connect(&url).await.unwrap();
    assert_eq!(schema::found(&store.pool).await.unwrap(), newest);
    PostgresStore::connect_with(&url, &forbidden).await.unwrap();

    let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES ($1, 'of a later release', true, '', 0)";
    sqlx::query(later).bind(newest + 1).execute(&store.pool).await.unwrap();
    PostgresStore::connect(&url).await.expect("a newer schema that supports this program");
    let alone = "UPDATE schema_compatibility SET oldest_program = $1";
    sqlx::query(alone).bind(newest + 1).execute(&store.pool).await.unwrap();
    let error = PostgresStore::connect(&url).await.unwrap_err();
    let StoreError::SchemaTooNew { found, oldest, known } = error else { panic!("{error}") };
    assert_eq!((found, oldest, known), (newest + 1, newest + 1, newest));
}

#[tokio::test]
async fn a_listing_of_a_program_without_details_has_none() {
    let Some(server) = throwaway("a_listing_of_a_program_without_details_has_none") else { return };
    let store = PostgresStore::connect(&another(&server, "fleet").await).await.unwrap();
    let region = Scope::Region { account: "1".to_owned(), region: "east".to_owned() };
    let LeaseOutcome::Granted { lease, .. } = store.acquire_lease(&region, "lister", 0, HOUR).await.unwrap() else {
        panic!("another replica has the lease")
    };
    store.acquire_lease(&Scope::cluster("prod"), "reader", 0, HOUR).await.unwrap();
    let details = ListedDetails { subnet: "subnet-1".to_owned(), ..ListedDetails::default() };
    let machine = ListedInstanceRow {
        cluster: "prod".to_owned(),
        provider_id: "aws:///a/i-1".to_owned(),
        cluster_uid: "uid".to_owned(),
        claim: "web-1".to_owned(),
        ends: false,
        details: details.clone(),
    };
    assert!(store.put_listing(&lease, Duration::ZERO, std::slice::from_ref(&machine)).await.unwrap());
    let read = async || {
        let listing = store.latest_listing(&region, &["prod".to_owned()]).await.unwrap().unwrap();
        listing.machines.into_iter().map(|machine| machine.details).collect::<Vec<_>>()
    };
    assert_eq!(read().await, std::slice::from_ref(&details));
    // Such a program knows nothing of the column: it leaves what a later listing may contradict.
    sqlx::query("UPDATE listings SET number = number + 1").execute(&store.pool).await.unwrap();
    assert_eq!(read().await, [ListedDetails::default()]);
    assert!(store.put_listing(&lease, Duration::ZERO, &[machine]).await.unwrap());
    assert_eq!(read().await, [details]);
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_named_at_once() {
    let Some(server) = throwaway("a_database_that_does_not_exist_is_named_at_once") else { return };
    let url = server.url().replace("/postgres?", "/nope?");
    let error = PostgresStore::connect(&url).await.unwrap_err().to_string();
    let end = "database nope, as user fleetwright: database \"nope\" does not exist; create it (createdb), or correct the name in \
               store.database-url (DATABASE_URL)";
    assert!(error.starts_with("cannot connect to PostgreSQL at /") && error.ends_with(end), "{error}");
}

#[tokio::test]
async fn rows_of_the_first_schema_are_migrated() {
    let Some(server) = throwaway("rows_of_the_first_schema_are_migrated") else { return };
    let (url, pool) = migrated_to(&server, 1).await;
    for row in [
        "INSERT INTO leases VALUES ('prod', 'a', 6, now())",
        "INSERT INTO intents VALUES ('prod', 'one', 'one-1', '{}', NULL, now(), NULL)",
        "INSERT INTO intents VALUES ('prod', 'two', 'two-1', '{}', 'launched i-2', now(), now())",
        "INSERT INTO decisions (cluster, epoch, summary, report) VALUES ('prod', 6, 'two machines', 'why')",
    ] {
        sqlx::query(row).execute(&pool).await.unwrap();
    }
    let store = PostgresStore::connect(&url).await.unwrap();
    assert_eq!(leased(&store, "prod").await.epoch, 7);
    let open = open_intents(&store, &Scope::cluster("prod")).await;
    let launched = IntentState::Ended(AttemptOutcome::Launched { provider_id: "i-2".to_owned() });
    assert_eq!((&open[0].state, &open[1].state), (&IntentState::Open, &launched));
    assert_eq!(store.decisions(&of("prod")).await.unwrap()[0].decision.summary, "two machines");
}

#[tokio::test]
async fn counters_and_leases_of_the_tenth_schema_are_migrated() {
    let Some(server) = throwaway("counters_and_leases_of_the_tenth_schema_are_migrated") else { return };
    let (url, pool) = migrated_to(&server, 10).await;
    for row in [
        "INSERT INTO leases (scope, owner, epoch, expires_at) VALUES ('cluster/prod', 'a', 6, now())",
        "INSERT INTO instructions (scope, id, generation, kind, payload, deadline_at)
         VALUES ('cluster/prod', 1, 1, 'drain', 'payload', now())",
        "INSERT INTO disruptions (scope, id, kind, claims, replacements, detail, begun_at)
         VALUES ('cluster/prod', 1, 'empty', '{pool-1}', '{}', '', now())",
        "INSERT INTO rail_shares (process, part, at, machines, joined, failed, launched, launched_cost, removed, removed_cost)
         VALUES ('a/1', 7, now(), 40, 1, 2, 3, 30, 4, 40)",
    ] {
        sqlx::query(row).execute(&pool).await.unwrap();
    }
    let store = PostgresStore::connect(&url).await.unwrap();
    assert_eq!(leased(&store, "prod").await.epoch, 7);
    let seen = CounterValues { joined: 1, failed: 2, launched: 3, launched_cost: 30, removed: 4, removed_cost: 40 };
    let read_back = async || {
        let read = store.remote_counters("b/1", HOUR).await.unwrap();
        (read.machines, read.buckets.into_iter().map(|(_, seen)| seen).collect::<Vec<_>>())
    };
    assert_eq!(read_back().await, (40, vec![seen]));
    let more = CounterValues { launched: 9, ..seen };
    store.put_counters("a/1", 41, &[CounterRow { bucket: 7, ago_ms: 0, seen: more }]).await.unwrap();
    assert_eq!(read_back().await, (41, vec![more]), "the migrated row of the bucket is updated");
    let old = "SELECT count(*) FROM pg_class WHERE relname ~ '^(instructions|disruptions|rail_shares)'";
    let old: i64 = sqlx::query_scalar(old).fetch_one(&store.pool).await.unwrap();
    assert_eq!(old, 0, "no table or index has a name of the tenth schema");
}

#[tokio::test]
async fn replicas_that_start_together_create_one_schema() {
    let Some(server) = throwaway("replicas_that_start_together_create_one_schema") else { return };
    let url = Arc::new(another(&server, "fleet").await);
    let starts = (0..4).map(|_| {
        let url = Arc::clone(&url);
        tokio::spawn(async move { PostgresStore::connect(&url).await.map(drop) })
    });
    for start in futures::future::join_all(starts).await {
        start.unwrap().unwrap();
    }
}
