//! The store of production: PostgreSQL. The database's clock judges leases, so replicas need not agree on theirs.
//!
//! Every operation is one transaction that may be repeated: it locks the scope, so that the lease cannot pass on before the
//! commit, and changes nothing when it has happened already. That makes a commit whose answer was lost harmless, and
//! [`retry`] repeats whatever failed for a reason that passes. The lock is an advisory one: whoever takes a lease takes it
//! first, as whoever writes under one does, and unlike a row's lock it leaves nothing in the write-ahead log.
//!
//! What a write costs is counted in bytes of that log, where each row of an index counts as much as the row itself. So a row has
//! the indexes that its readers need and no others, [`samples`] keeps rows from saying what others have said, and [`leases`]
//! that are renewed together are renewed by one row.
//!
//! Statements are checked against the schema when the program is built, from descriptions in `.sqlx/`, so that building
//! needs no database; `.ci/queries` keeps the descriptions current.

mod bodies;
mod identity;
mod leases;
mod listings;
mod log;
mod rails;
mod replicas;
mod retry;
mod samples;
mod schema;
mod shares;
mod signals;
mod undertakings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{Executor, Postgres, Transaction};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::lease::{Identity, Lease, LeaseAnswer, ObservedExtent, Renewal, Scope};
use super::listing::{KeptListing, ListedMachine};
use super::log::{Blob, BlobHash, DecisionFilter, Entry, LogChunk, LogSegment, Pruned, Retention, StoredDecision};
use super::rails::{AuditEntry, AuditRow, Changes, Freeze, FreezeOrder, OfferingEntry};
use super::replicas::ReplicaRow;
use super::shares::{CounterRow, RemoteCounters};
use super::undertaking::{DisruptionEnd, InstructionEnd, InstructionRow, Intent, OpenIntent, PastAttempt, Settlement};
use super::{Answer, Archive, Store, StoreError};
use retry::repeated;

pub(crate) use schema::newest as newest_schema;

/// How long a caller waits for a connection before it is told that the database does not answer.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// What every connection is told first. A statement of ours takes milliseconds: one that takes seconds keeps others of its
/// scope waiting and is better ended. A session that is idle in a transaction belongs to a process that was paused, and must not
/// hold its locks until it wakes up.
const SESSION: &str = "SET statement_timeout = '10s'; SET lock_timeout = '5s'; \
                       SET idle_in_transaction_session_timeout = '10s'; SET TimeZone = 'UTC'";

/// How to use the database.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether the schema may be brought up to date.
    pub migrate: bool,
    /// Connections at most. A transaction holds one for a few round trips, so ten serve a thousand clusters.
    pub connections: u32,
    /// What the database shows its administrators as the name of this program.
    pub name: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { migrate: true, connections: 10, name: "fleetwright".to_owned() }
    }
}

/// A store in PostgreSQL.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pool: PgPool,
    changes: watch::Receiver<Changes>,
    samples: Arc<samples::Samples>,
    /// Ends with the last copy of the store.
    _follower: Arc<AbortOnDropHandle<()>>,
}

impl PostgresStore {
    /// Connects and brings the schema up to date.
    ///
    /// # Errors
    /// As [`PostgresStore::connect_with`].
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_with(url, &Settings::default()).await
    }

    /// Connects.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the server cannot be reached; [`StoreError::Migration`], [`StoreError::SchemaTooOld`]
    /// and [`StoreError::SchemaTooNew`] when program and schema do not suit each other.
    pub async fn connect_with(url: &str, settings: &Settings) -> Result<Self, StoreError> {
        const WHAT: &str = "connect to PostgreSQL";
        let target: PgConnectOptions = url.parse().map_err(database(WHAT))?;
        let options = PgPoolOptions::new()
            .max_connections(settings.connections.max(2))
            .acquire_timeout(ACQUIRE_TIMEOUT)
            // Broken connections are found by their first statement and repeated; asking before each costs a round trip.
            .test_before_acquire(false)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    connection.execute(SESSION).await?;
                    Ok(())
                })
            });
        let pool = options.connect_with(target.application_name(&settings.name)).await.map_err(database(WHAT))?;
        schema::prepare(&pool, settings.migrate).await?;
        let (sender, changes) = watch::channel(signals::read(&pool).await?);
        let follower = AbortOnDropHandle::new(tokio::spawn(signals::follow(pool.clone(), sender)));
        Ok(Self { pool, changes, samples: Arc::default(), _follower: Arc::new(follower) })
    }

    async fn begin(&self, what: &'static str) -> Result<Transaction<'static, Postgres>, StoreError> {
        self.pool.begin().await.map_err(database(what))
    }

    /// A transaction in which the lease cannot pass on.
    async fn under(&self, lease: &Lease, what: &'static str) -> Result<Transaction<'static, Postgres>, StoreError> {
        let mut transaction = self.begin(what).await?;
        hold(&mut transaction, lease, what).await?;
        Ok(transaction)
    }
}

/// Keeps the lease from passing on for the rest of the transaction, and others from writing under it.
async fn hold(connection: &mut PgConnection, lease: &Lease, what: &'static str) -> Result<(), StoreError> {
    let held = sqlx::query_scalar!(
        r#"SELECT hold_lease($1, $2, $3) AS "held!""#,
        lease.scope.key(),
        lease.owner,
        column(lease.epoch)
    );
    let held = held.fetch_one(connection).await.map_err(database(what))?;
    if held { Ok(()) } else { Err(StoreError::LeaseLost { scope: lease.scope.clone(), epoch: lease.epoch }) }
}

async fn commit(transaction: Transaction<'static, Postgres>, what: &'static str) -> Result<(), StoreError> {
    transaction.commit().await.map_err(database(what))
}

fn database(what: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |source| StoreError::Database { what, source }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Numbers count changes of hands, events or milliseconds, and stay far below 2^63.
fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Archive for PostgresStore {
    fn decisions<'a>(&'a self, filter: &'a DecisionFilter) -> Answer<'a, Vec<StoredDecision>> {
        repeated(move || self.read_decisions(filter))
    }

    fn decision(&self, number: u64) -> Answer<'_, Vec<StoredDecision>> {
        repeated(move || self.read_decision(number))
    }

    fn log_of<'a>(&'a self, scope: &'a Scope, segment: u64) -> Answer<'a, Option<LogSegment>> {
        repeated(move || self.read_segment(scope, segment))
    }

    fn blob<'a>(&'a self, hash: &'a BlobHash) -> Answer<'a, Option<Blob>> {
        repeated(move || self.read_blob(hash))
    }
}

impl Store for PostgresStore {
    fn take_lease<'a>(
        &'a self,
        scope: &'a Scope,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> Answer<'a, LeaseAnswer> {
        repeated(move || self.take(scope, owner, seen, duration))
    }

    fn renew_leases<'a>(&'a self, leases: &'a [Lease], duration: Duration) -> Answer<'a, Renewal> {
        repeated(move || self.renew(leases, duration))
    }

    fn release_leases<'a>(&'a self, leases: &'a [Lease]) -> Answer<'a, ()> {
        repeated(move || self.release(leases))
    }

    fn ask_for<'a>(&'a self, scope: &'a Scope, by: &'a str) -> Answer<'a, ()> {
        repeated(move || self.ask(scope, by))
    }

    fn cluster_identity<'a>(&'a self, cluster: &'a str) -> Answer<'a, Option<Identity>> {
        repeated(move || self.read_identity(cluster))
    }

    fn keep_identity<'a>(&'a self, lease: &'a Lease, uid: &'a str) -> Answer<'a, ()> {
        repeated(move || self.write_identity(lease, uid))
    }

    fn accept_uid<'a>(&'a self, cluster: &'a str, uid: &'a str, by: &'a str) -> Answer<'a, bool> {
        let nonce = rails::nonce();
        repeated(move || self.write_acceptance(cluster, uid, by, nonce))
    }

    fn keep_extent<'a>(&'a self, lease: &'a Lease, extent: &'a ObservedExtent) -> Answer<'a, ()> {
        repeated(move || self.write_extent(lease, extent))
    }

    fn record<'a>(&'a self, lease: &'a Lease, entry: &'a Entry) -> Answer<'a, ()> {
        repeated(move || self.write_entry(lease, entry))
    }

    fn begin_attempt<'a>(&'a self, lease: &'a Lease, intent: &'a Intent) -> Answer<'a, ()> {
        repeated(move || self.write_attempt(lease, intent))
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        attempt: u32,
        settlement: &'a Settlement,
    ) -> Answer<'a, ()> {
        repeated(move || self.end_attempt(lease, claim, attempt, settlement))
    }

    fn close_intents<'a>(&'a self, lease: &'a Lease, claims: &'a [String]) -> Answer<'a, ()> {
        repeated(move || self.close(lease, claims))
    }

    fn open_intents<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Vec<OpenIntent>> {
        repeated(move || self.read_intents(scope))
    }

    fn past_attempts<'a>(&'a self, scope: &'a Scope, within: Duration) -> Answer<'a, Vec<PastAttempt>> {
        repeated(move || self.read_past(scope, within))
    }

    fn write_instructions<'a>(&'a self, lease: &'a Lease, rows: &'a [InstructionRow]) -> Answer<'a, ()> {
        repeated(move || self.instruct(lease, rows))
    }

    fn end_instructions<'a>(&'a self, lease: &'a Lease, ends: &'a [InstructionEnd]) -> Answer<'a, ()> {
        repeated(move || self.write_instruction_ends(lease, ends))
    }

    fn end_disruptions<'a>(&'a self, lease: &'a Lease, ends: &'a [DisruptionEnd]) -> Answer<'a, ()> {
        repeated(move || self.write_disruption_ends(lease, ends))
    }

    fn append_log<'a>(&'a self, lease: &'a Lease, chunks: &'a [LogChunk]) -> Answer<'a, ()> {
        repeated(move || self.append(lease, chunks))
    }

    fn put_blobs<'a>(&'a self, blobs: &'a [Blob]) -> Answer<'a, ()> {
        repeated(move || self.keep_blobs(blobs))
    }

    fn prune<'a>(&'a self, retention: &'a Retention) -> Answer<'a, Pruned> {
        repeated(move || self.let_go(retention))
    }

    fn remember_offerings<'a>(&'a self, region: &'a str, entries: &'a [OfferingEntry]) -> Answer<'a, ()> {
        repeated(move || self.write_offerings(region, entries))
    }

    fn recall_offerings<'a>(&'a self, region: &'a str) -> Answer<'a, Vec<OfferingEntry>> {
        repeated(move || self.read_offerings(region))
    }

    fn freeze<'a>(&'a self, order: &'a FreezeOrder) -> Answer<'a, i64> {
        let nonce = rails::nonce();
        repeated(move || self.write_freeze(order, nonce))
    }

    fn thaw<'a>(&'a self, id: i64, by: &'a str) -> Answer<'a, bool> {
        let nonce = rails::nonce();
        repeated(move || self.end_freeze(id, by, nonce))
    }

    fn freezes(&self) -> Answer<'_, Vec<Freeze>> {
        repeated(move || self.read_freezes())
    }

    fn keep_listing<'a>(&'a self, lease: &'a Lease, ago: Duration, machines: &'a [ListedMachine]) -> Answer<'a, bool> {
        // Whoever tries again is later by as much.
        let begun = Instant::now();
        repeated(move || self.write_listing(lease, ago + begun.elapsed(), machines))
    }

    fn last_listing<'a>(&'a self, scope: &'a Scope, clusters: &'a [String]) -> Answer<'a, Option<KeptListing>> {
        repeated(move || self.read_listing(scope, clusters))
    }

    fn release_quarantine<'a>(&'a self, cluster: &'a str, by: &'a str) -> Answer<'a, bool> {
        let nonce = rails::nonce();
        repeated(move || self.write_release(cluster, by, nonce))
    }

    fn clusters(&self) -> Answer<'_, Vec<String>> {
        repeated(move || self.read_clusters())
    }

    fn quarantine_releases(&self) -> Answer<'_, Vec<(String, u64)>> {
        repeated(move || self.read_releases())
    }

    fn confirm_removals<'a>(&'a self, cluster: &'a str, by: &'a str) -> Answer<'a, bool> {
        let nonce = rails::nonce();
        repeated(move || self.write_confirmation(cluster, by, nonce))
    }

    fn removal_confirmations(&self) -> Answer<'_, Vec<(String, u64)>> {
        repeated(move || self.read_confirmations())
    }

    fn tell_shares<'a>(&'a self, process: &'a str, machines: i64, rows: &'a [CounterRow]) -> Answer<'a, ()> {
        repeated(move || self.write_shares(process, machines, rows))
    }

    fn shares_elsewhere<'a>(&'a self, process: &'a str, within: Duration) -> Answer<'a, RemoteCounters> {
        repeated(move || self.read_shares(process, within))
    }

    fn tell_replica<'a>(&'a self, row: &'a ReplicaRow) -> Answer<'a, Vec<ReplicaRow>> {
        repeated(move || self.write_replica(row))
    }

    fn audit<'a>(&'a self, entry: &'a AuditEntry) -> Answer<'a, ()> {
        let nonce = rails::nonce();
        repeated(move || self.write_audit(entry, nonce))
    }

    fn read_audit(&self, limit: u32, before: Option<i64>) -> Answer<'_, Vec<AuditRow>> {
        repeated(move || self.audit_rows(limit, before))
    }

    fn changes(&self) -> watch::Receiver<Changes> {
        self.changes.clone()
    }

    fn ping(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            sqlx::query!("SELECT 1 AS one").fetch_one(&self.pool).await.map_err(database("reach PostgreSQL"))?;
            Ok(())
        })
    }

    fn schema_version(&self) -> Answer<'_, i64> {
        repeated(move || schema::found(&self.pool))
    }
}

#[cfg(test)]
mod tests;
