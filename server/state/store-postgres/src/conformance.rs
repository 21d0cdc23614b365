//! Behaviours that every store has, run against both implementations.
//!
//! PostgreSQL comes from `FLEETWRIGHT_TEST_DATABASE_URL`, else from the installed server binaries
//! (a temporary server in a directory of its own); where neither exists the test prints SKIPPED and
//! its name.

mod api_budget;
mod browser_sessions;
mod counters;
mod database;
mod guardrails;
mod holds;
mod identity;
mod interruptions;
mod leases;
mod listings;
mod log;
mod offerings;
mod operations;
mod outcomes;
mod replacements;
mod replicas;
mod spend;
mod unfenced;

use std::future::ready;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};

use database::TestDatabase;
pub(super) use database::skipped;

use super::postgres::PostgresStore;
use store::guardrails::Changes;
use store::lease::{Lease, LeaseOutcome, OpenOperations, Scope};
use store::log::{DecisionRow, Entry};
use store::memory::MemoryStore;
use store::operations::Intent;
use store::{Store, StoreError};
use unfenced::unfenced_store;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn the_memory_store_conforms() {
    all(&MemoryStore::new(), "memory").await;
}

#[tokio::test]
async fn the_postgres_store_conforms() {
    let Some(database) = TestDatabase::new("the_postgres_store_conforms").await else { return };
    let store = PostgresStore::connect(&database.url).await.unwrap();
    // First, while no lease exists.
    replicas::abandoned_clusters_are_deleted(&store).await;
    all(&store, "run").await;
    let again = PostgresStore::connect(&database.url).await;
    assert!(again.is_ok(), "applied migrations are skipped");
    drop((store, again));
    database.remove().await;
}

#[tokio::test]
async fn the_memory_store_deletes_abandoned_clusters() {
    replicas::abandoned_clusters_are_deleted(&MemoryStore::new()).await;
}

#[tokio::test]
async fn an_unfenced_store_fails_the_suite() {
    let broken = failure_of(async { all(&unfenced_store(), "unfenced").await }).await;
    assert!(broken.starts_with(FENCED), "another check failed: {broken}");
}

#[tokio::test]
async fn a_store_without_a_bound_on_epochs_fails_the_suite() {
    let broken = failure_of(async {
        let (poisoned, unknown) = (cluster("unfenced", "poisoned"), cluster("unfenced", "unknown"));
        leases::an_epoch_that_no_server_issued_is_refused(&unfenced_store(), &poisoned, &unknown).await;
    })
    .await;
    // The first epoch beyond the bound: 1 + 2^32 + 1.
    assert!(broken.starts_with("4294967298: Ok(Granted"), "another check failed: {broken}");
}

#[tokio::test]
async fn a_store_without_priority_lanes_fails_the_suite() {
    let broken = failure_of(async {
        api_budget::a_higher_lane_of_one_replica_holds_back_the_lower_lane_of_another(&unfenced_store(), "lanes").await;
    })
    .await;
    assert!(broken.starts_with(api_budget::LANES_HOLD), "another check failed: {broken}");
}

/// The message with which these checks fail.
async fn failure_of(checks: impl Future<Output = ()> + Send + 'static) -> String {
    let broken = tokio::spawn(checks).await.expect_err("the suite must detect what the store lacks").into_panic();
    broken.downcast_ref::<String>().expect("a failed check has a message").clone()
}

async fn all(store: &dyn Store, run: &str) {
    leases::all(store, run).await;
    identity::all(store, run).await;
    operations::all(store, run).await;
    log::all(store, run).await;
    listings::all(store, run).await;
    interruptions::all(store, run).await;
    outcomes::all(store, run).await;
    browser_sessions::all(store, run).await;
    guardrails::all(store, run).await;
    offerings::all(store, run).await;
    counters::all(store, run).await;
    api_budget::all(store, run).await;
    replicas::all(store, run).await;
    replacements::all(store, run).await;
    spend::all(store, run).await;
    holds::all(store, run).await;
}

/// The change counters from now on, and the present ones, which a subscriber receives at once.
async fn watch_changes(store: &dyn Store) -> (BoxStream<'static, Changes>, Changes) {
    let mut changes = store.changes();
    let present = changes.next().now_or_never().flatten().expect("the present counters are there without delay");
    (changes, present)
}

/// Changes arrive within a second; the deadline allows for busy hosts.
async fn wait_for_change(changes: &mut BoxStream<'static, Changes>, is_new: impl Fn(&Changes) -> bool) -> Changes {
    let mut changes = changes.filter(|changes| ready(is_new(changes)));
    let next = tokio::time::timeout(Duration::from_secs(30), changes.next());
    next.await.expect("a change in time").expect("an open stream")
}

/// A cluster that no other check uses.
fn cluster(run: &str, name: &str) -> Scope {
    Scope::cluster(&format!("{run}-{name}"))
}

async fn granted(store: &dyn Store, scope: &Scope, owner: &str, duration: Duration) -> (Lease, OpenOperations) {
    match store.acquire_lease(scope, owner, 0, duration).await.unwrap() {
        LeaseOutcome::Granted { lease, open } => (lease, *open),
        LeaseOutcome::Held { owner, .. } => panic!("the lease of {scope} is held by {owner}"),
    }
}

/// Two leases of one cluster: the first was lost to the second.
async fn lost_and_held(store: &dyn Store, scope: &Scope) -> (Lease, Lease) {
    let (lost, _) = granted(store, scope, "a", Duration::ZERO).await;
    let (held, _) = granted(store, scope, "b", HOUR).await;
    (lost, held)
}

/// Failure message for a store without fencing.
const FENCED: &str = "a write of a replica that lost its lease was not refused";

#[track_caller]
fn refused(answer: Result<(), StoreError>) {
    assert!(matches!(answer, Err(StoreError::LeaseLost { epoch: 1, .. })), "{FENCED}: {answer:?}");
}

fn intent(claim: &str, attempt: u32) -> Intent {
    Intent {
        claim: claim.to_owned(),
        attempt,
        token: format!("{claim}-{attempt}"),
        request: vec![0, 159, 146, 150],
        claim_order: format!("{{\"claim\":\"{claim}\"}}"),
    }
}

fn decision(number: u64) -> Entry {
    let decision = DecisionRow {
        number,
        decided_at_ms: 1_763_765_432_123,
        kind: "provision".to_owned(),
        summary: format!("decision {number}"),
        report: "why".to_owned(),
        effects: vec![0, 159, 146, 150],
        ..DecisionRow::default()
    };
    Entry { decision, ..Entry::default() }
}

fn launching(number: u64, intents: &[Intent]) -> Entry {
    Entry { intents: intents.to_vec(), ..decision(number) }
}
