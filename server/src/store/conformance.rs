//! What every store does, said once and asked of both twins.
//!
//! PostgreSQL comes from `FLEETWRIGHT_TEST_DATABASE_URL`, else from the server binaries of this machine (a throw-away server in a folder
//! of its own); where neither exists the test says SKIPPED and by what name.

mod database;
mod identity;
mod leases;
mod listings;
mod log;
mod rails;
mod replicas;
mod shares;
mod undertakings;

use std::time::Duration;

use database::TestDatabase;
pub(super) use database::skipped;

use super::lease::{Lease, LeaseAnswer, Open, Scope};
use super::log::{DecisionRow, Entry};
use super::memory::MemoryStore;
use super::postgres::PostgresStore;
use super::undertaking::Intent;
use super::{Store, StoreError};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn the_store_in_memory_keeps_every_promise() {
    all(&MemoryStore::new(), "memory").await;
}

#[tokio::test]
async fn the_store_in_postgres_keeps_every_promise() {
    let Some(database) = TestDatabase::new("the_store_in_postgres_keeps_every_promise").await else { return };
    let store = PostgresStore::connect(&database.url).await.unwrap();
    // First: nobody else has a lease yet.
    replicas::gone_clusters_are_forgotten(&store).await;
    all(&store, "run").await;
    let again = PostgresStore::connect(&database.url).await;
    assert!(again.is_ok(), "migrations that have run already are left alone");
    drop((store, again));
    database.remove().await;
}

#[tokio::test]
async fn a_store_in_memory_forgets_clusters_that_are_gone() {
    replicas::gone_clusters_are_forgotten(&MemoryStore::new()).await;
}

#[tokio::test]
async fn a_store_without_fences_breaks_a_promise() {
    let ended = tokio::spawn(async { all(&MemoryStore::unfenced(), "unfenced").await }).await;
    let broken = ended.expect_err("the suite must notice a store without fences").into_panic();
    let broken = broken.downcast_ref::<String>().expect("a promise says how it is broken");
    assert!(broken.starts_with(FENCED), "another promise was broken: {broken}");
}

/// The same guard, switched off: an epoch that nobody gave out is believed.
#[tokio::test]
async fn a_store_without_the_bound_on_epochs_takes_any() {
    let store = MemoryStore::unfenced();
    let answer = store.take_lease(&cluster("unfenced", "poisoned"), "a", (1 << 63) - 2, HOUR).await.unwrap();
    assert!(matches!(answer, LeaseAnswer::Granted { lease, .. } if lease.epoch == (1 << 63) - 1));
}

async fn all(store: &dyn Store, run: &str) {
    store.ping().await.unwrap();
    assert_eq!(store.schema_version().await.unwrap(), newest_file(), "the number of the newest file in migrations/");
    leases::all(store, run).await;
    identity::all(store, run).await;
    undertakings::all(store, run).await;
    log::all(store, run).await;
    listings::all(store, run).await;
    rails::all(store, run).await;
    shares::all(store, run).await;
    replicas::all(store, run).await;
}

/// The highest number of a file in migrations/.
fn newest_file() -> i64 {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let names = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.split_once('_')?.0.parse().ok()).max().unwrap()
}

/// A cluster that no other promise speaks of.
fn cluster(run: &str, name: &str) -> Scope {
    Scope::cluster(&format!("{run}-{name}"))
}

async fn granted(store: &dyn Store, scope: &Scope, owner: &str, duration: Duration) -> (Lease, Open) {
    match store.take_lease(scope, owner, 0, duration).await.unwrap() {
        LeaseAnswer::Granted { lease, open } => (lease, open),
        LeaseAnswer::Held { owner, .. } => panic!("the lease of {scope} is held by {owner}"),
    }
}

/// Two leases of one cluster: the first has passed on to the second.
async fn lost_and_held(store: &dyn Store, scope: &Scope) -> (Lease, Lease) {
    let (lost, _) = granted(store, scope, "a", Duration::ZERO).await;
    let (held, _) = granted(store, scope, "b", HOUR).await;
    (lost, held)
}

/// What is said of a store that breaks it.
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
        replay: None,
    };
    Entry { decision, ..Entry::default() }
}

fn launching(number: u64, intents: &[Intent]) -> Entry {
    Entry { intents: intents.to_vec(), ..decision(number) }
}
