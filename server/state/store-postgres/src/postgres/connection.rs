//! Connections to PostgreSQL and their transactions.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{Executor, Postgres, Transaction};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::conversion::{column, database};
use super::dictionaries::Dictionaries;
use super::timeouts::ACQUIRE_TIMEOUT;
use super::{attempt, schema, signals};
use store::guardrails::Changes;
use store::lease::Lease;
use store::{StoreError, StoreResult};

/// Session settings of every connection. Statements take milliseconds: one that takes seconds
/// blocks others of its scope and is aborted. A session that is idle in a transaction belongs to a
/// paused process and must not keep its locks.
const SESSION: &str = "SET statement_timeout = '10s'; SET lock_timeout = '5s'; \
                       SET idle_in_transaction_session_timeout = '10s'; SET TimeZone = 'UTC'";

/// How long a start waits for a database that does not answer yet.
const START_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct Settings {
    pub migrate: bool,
    /// Pool size. A transaction holds a connection for a few round trips, so ten serve a thousand
    /// clusters.
    pub connections: u32,
    /// `application_name` of the connections.
    pub name: String,
    /// How long to wait for a server that does not answer yet.
    pub wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { migrate: true, connections: 10, name: "fleetwright".to_owned(), wait: START_WAIT }
    }
}

#[derive(Debug, Clone)]
pub struct PostgresStore {
    pub(super) pool: PgPool,
    pub(super) changes: watch::Receiver<Changes>,
    pub(super) dictionaries: Arc<Dictionaries>,
    /// Aborted when the last clone of the store is dropped.
    _signal_task: Arc<AbortOnDropHandle<()>>,
}

impl PostgresStore {
    /// Connects and migrates the schema.
    ///
    /// # Errors
    /// As [`PostgresStore::connect_with`].
    pub async fn connect(url: &str) -> StoreResult<Self> {
        Self::connect_with(url, &Settings::default()).await
    }

    /// Connects.
    ///
    /// # Errors
    /// [`StoreError::Connection`] when no connection can be opened; [`StoreError::Migration`],
    /// [`StoreError::SchemaTooOld`] and [`StoreError::SchemaTooNew`] when program and schema are
    /// incompatible.
    pub async fn connect_with(url: &str, settings: &Settings) -> StoreResult<Self> {
        const WHAT: &str = "connect to PostgreSQL";
        let target = attempt::options(url)?.application_name(&settings.name);
        attempt::wait_for(&target, settings.wait).await?;
        let options = PgPoolOptions::new()
            .max_connections(settings.connections.max(2))
            .acquire_timeout(ACQUIRE_TIMEOUT)
            // Broken connections fail on their first statement, which is retried; a ping before
            // each use would cost a round trip.
            .test_before_acquire(false)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    connection.execute(SESSION).await?;
                    Ok(())
                })
            });
        let pool = options.connect_with(target).await.map_err(database(WHAT))?;
        schema::prepare(&pool, settings.migrate).await?;
        let (sender, changes) = watch::channel(signals::read(&pool).await?);
        let signal_task = AbortOnDropHandle::new(tokio::spawn(signals::publish_changes(pool.clone(), sender)));
        Ok(Self { pool, changes, dictionaries: Arc::default(), _signal_task: Arc::new(signal_task) })
    }

    pub(super) async fn begin(&self, what: &'static str) -> StoreResult<Transaction<'static, Postgres>> {
        self.pool.begin().await.map_err(database(what))
    }

    /// Begins a transaction in which the lease cannot change its holder.
    pub(super) async fn begin_fenced(
        &self,
        lease: &Lease,
        what: &'static str,
    ) -> StoreResult<Transaction<'static, Postgres>> {
        let mut transaction = self.begin(what).await?;
        lock_lease(&mut transaction, lease, what).await?;
        Ok(transaction)
    }
}

/// Locks the lease for the rest of the transaction, against acquisitions and concurrent writes.
async fn lock_lease(connection: &mut PgConnection, lease: &Lease, what: &'static str) -> StoreResult<()> {
    let held = sqlx::query_scalar!(
        r#"SELECT hold_lease($1, $2, $3) AS "held!""#,
        lease.scope.key(),
        lease.owner,
        column(lease.epoch)
    );
    let held = held.fetch_one(connection).await.map_err(database(what))?;
    if held { Ok(()) } else { Err(StoreError::LeaseLost { scope: lease.scope.clone(), epoch: lease.epoch }) }
}

pub(super) async fn commit(transaction: Transaction<'static, Postgres>, what: &'static str) -> StoreResult<()> {
    transaction.commit().await.map_err(database(what))
}
