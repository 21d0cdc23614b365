//! The store of production: PostgreSQL. The database's clock judges leases, so replicas need not agree on theirs.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Postgres, Row, Transaction};

use super::{DecisionRecord, Intent, Lease, LeaseAnswer, Store, StoreError, StoredDecision};

/// Connections of one replica. The control loop writes one decision at a time; the rest serves pages and lease renewals.
const CONNECTIONS_MAX: u32 = 8;

/// How long a caller waits for a connection before it is told that the database does not answer.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// A store in PostgreSQL.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pool: PgPool,
}

impl PostgresStore {
    /// Connects and brings the schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the server cannot be reached, [`StoreError::Migration`] when the schema is not ours.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options = PgPoolOptions::new().max_connections(CONNECTIONS_MAX).acquire_timeout(ACQUIRE_TIMEOUT);
        let pool = options.connect(url).await.map_err(database("connect to PostgreSQL"))?;
        sqlx::migrate!("../migrations").run(&pool).await?;
        Ok(Self { pool })
    }

    async fn begin(&self, what: &'static str) -> Result<Transaction<'static, Postgres>, StoreError> {
        self.pool.begin().await.map_err(database(what))
    }

    async fn take(&self, cluster: &str, owner: &str, seen: u64, duration: Duration) -> Result<LeaseAnswer, StoreError> {
        const WHAT: &str = "take a lease";
        let mut transaction = self.begin(WHAT).await?;
        let granted = sqlx::query(
            "INSERT INTO leases AS held (cluster, owner, epoch, expires_at) \
             VALUES ($1, $2, $4 + 1, clock_timestamp() + make_interval(secs => $3)) \
             ON CONFLICT (cluster) DO UPDATE \
             SET owner = excluded.owner, epoch = greatest(held.epoch, $4) + 1, expires_at = excluded.expires_at \
             WHERE held.owner = excluded.owner OR held.expires_at <= clock_timestamp() \
             RETURNING epoch",
        )
        .bind(cluster)
        .bind(owner)
        .bind(duration.as_secs_f64())
        .bind(epoch_column(seen))
        .fetch_optional(&mut *transaction)
        .await
        .map_err(database(WHAT))?;
        let Some(row) = granted else {
            let holder = sqlx::query("SELECT owner FROM leases WHERE cluster = $1").bind(cluster);
            let holder = holder.fetch_one(&mut *transaction).await.map_err(database(WHAT))?;
            return Ok(LeaseAnswer::Held { owner: holder.try_get(0).map_err(database(WHAT))? });
        };
        let epoch: i64 = row.try_get(0).map_err(database(WHAT))?;
        let open = open_intents(&mut transaction, cluster).await?;
        transaction.commit().await.map_err(database(WHAT))?;
        let lease = Lease { cluster: cluster.to_owned(), owner: owner.to_owned(), epoch: epoch.unsigned_abs() };
        Ok(LeaseAnswer::Granted { lease, open })
    }

    async fn renew(&self, lease: &Lease, duration: Duration) -> Result<(), StoreError> {
        const WHAT: &str = "renew a lease";
        let renewed = sqlx::query(
            "UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => $4) \
             WHERE cluster = $1 AND owner = $2 AND epoch = $3",
        )
        .bind(&lease.cluster)
        .bind(&lease.owner)
        .bind(epoch_column(lease.epoch))
        .bind(duration.as_secs_f64())
        .execute(&self.pool)
        .await
        .map_err(database(WHAT))?;
        if renewed.rows_affected() == 0 { Err(lost(lease)) } else { Ok(()) }
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE leases SET expires_at = clock_timestamp() WHERE cluster = $1 AND owner = $2 AND epoch = $3",
        )
        .bind(&lease.cluster)
        .bind(&lease.owner)
        .bind(epoch_column(lease.epoch))
        .execute(&self.pool)
        .await
        .map_err(database("release a lease"))?;
        Ok(())
    }

    async fn write(&self, lease: &Lease, decision: &DecisionRecord, intents: &[Intent]) -> Result<(), StoreError> {
        const WHAT: &str = "record a decision";
        let mut transaction = self.begin(WHAT).await?;
        hold(&mut transaction, lease, WHAT).await?;
        sqlx::query("INSERT INTO decisions (cluster, epoch, summary, report) VALUES ($1, $2, $3, $4)")
            .bind(&lease.cluster)
            .bind(epoch_column(lease.epoch))
            .bind(&decision.summary)
            .bind(&decision.report)
            .execute(&mut *transaction)
            .await
            .map_err(database(WHAT))?;
        for intent in intents {
            sqlx::query(
                "INSERT INTO intents (cluster, claim, token, request) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (cluster, claim) DO NOTHING",
            )
            .bind(&lease.cluster)
            .bind(&intent.claim)
            .bind(&intent.token)
            .bind(&intent.request)
            .execute(&mut *transaction)
            .await
            .map_err(database(WHAT))?;
        }
        transaction.commit().await.map_err(database(WHAT))
    }

    async fn end_intent(&self, lease: &Lease, claim: &str, outcome: &str) -> Result<(), StoreError> {
        const WHAT: &str = "settle a launch";
        let mut transaction = self.begin(WHAT).await?;
        hold(&mut transaction, lease, WHAT).await?;
        sqlx::query(
            "UPDATE intents SET outcome = $3, settled_at = clock_timestamp() \
             WHERE cluster = $1 AND claim = $2 AND outcome IS NULL",
        )
        .bind(&lease.cluster)
        .bind(claim)
        .bind(outcome)
        .execute(&mut *transaction)
        .await
        .map_err(database(WHAT))?;
        transaction.commit().await.map_err(database(WHAT))
    }

    async fn read_decisions(&self, cluster: &str, limit: u32) -> Result<Vec<StoredDecision>, StoreError> {
        const WHAT: &str = "read decisions";
        let rows = sqlx::query(
            "SELECT id, epoch, summary, report FROM decisions WHERE cluster = $1 ORDER BY id DESC LIMIT $2",
        )
        .bind(cluster)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await
        .map_err(database(WHAT))?;
        let read = |row: sqlx::postgres::PgRow| {
            let decision = DecisionRecord { summary: row.try_get(2)?, report: row.try_get(3)? };
            Ok(StoredDecision { id: row.try_get(0)?, epoch: row.try_get::<i64, _>(1)?.unsigned_abs(), decision })
        };
        rows.into_iter().map(read).collect::<Result<_, sqlx::Error>>().map_err(database(WHAT))
    }
}

/// Locks the lease's row for the rest of the transaction, so that it cannot pass on before the commit.
async fn hold(
    transaction: &mut Transaction<'static, Postgres>,
    lease: &Lease,
    what: &'static str,
) -> Result<(), StoreError> {
    sqlx::query("SELECT 1 FROM leases WHERE cluster = $1 AND owner = $2 AND epoch = $3 FOR UPDATE")
        .bind(&lease.cluster)
        .bind(&lease.owner)
        .bind(epoch_column(lease.epoch))
        .fetch_optional(&mut **transaction)
        .await
        .map_err(database(what))?
        .map(|_| ())
        .ok_or_else(|| lost(lease))
}

async fn open_intents(
    transaction: &mut Transaction<'static, Postgres>,
    cluster: &str,
) -> Result<Vec<Intent>, StoreError> {
    const WHAT: &str = "read open launches";
    let rows = sqlx::query(
        "SELECT claim, token, request FROM intents WHERE cluster = $1 AND outcome IS NULL ORDER BY claim COLLATE \"C\"",
    )
    .bind(cluster)
    .fetch_all(&mut **transaction)
    .await
    .map_err(database(WHAT))?;
    let read = |row: sqlx::postgres::PgRow| {
        Ok(Intent { claim: row.try_get(0)?, token: row.try_get(1)?, request: row.try_get(2)? })
    };
    rows.into_iter().map(read).collect::<Result<_, sqlx::Error>>().map_err(database(WHAT))
}

fn database(what: &'static str) -> impl FnOnce(sqlx::Error) -> StoreError {
    move |source| StoreError::Database { what, source }
}

fn lost(lease: &Lease) -> StoreError {
    StoreError::LeaseLost { cluster: lease.cluster.clone(), epoch: lease.epoch }
}

/// Epochs count changes of hands and stay far below 2^63.
fn epoch_column(epoch: u64) -> i64 {
    i64::try_from(epoch).unwrap_or(i64::MAX)
}

impl Store for PostgresStore {
    fn take_lease<'a>(
        &'a self,
        cluster: &'a str,
        owner: &'a str,
        seen: u64,
        duration: Duration,
    ) -> BoxFuture<'a, Result<LeaseAnswer, StoreError>> {
        self.take(cluster, owner, seen, duration).boxed()
    }

    fn renew_lease<'a>(&'a self, lease: &'a Lease, duration: Duration) -> BoxFuture<'a, Result<(), StoreError>> {
        self.renew(lease, duration).boxed()
    }

    fn release_lease<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<(), StoreError>> {
        self.release(lease).boxed()
    }

    fn record<'a>(
        &'a self,
        lease: &'a Lease,
        decision: &'a DecisionRecord,
        intents: &'a [Intent],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.write(lease, decision, intents).boxed()
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        claim: &'a str,
        outcome: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.end_intent(lease, claim, outcome).boxed()
    }

    fn open_intents<'a>(&'a self, cluster: &'a str) -> BoxFuture<'a, Result<Vec<Intent>, StoreError>> {
        async move {
            let mut transaction = self.begin("read open launches").await?;
            open_intents(&mut transaction, cluster).await
        }
        .boxed()
    }

    fn decisions<'a>(&'a self, cluster: &'a str, limit: u32) -> BoxFuture<'a, Result<Vec<StoredDecision>, StoreError>> {
        self.read_decisions(cluster, limit).boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            sqlx::query("SELECT 1").execute(&self.pool).await.map_err(database("reach PostgreSQL"))?;
            Ok(())
        }
        .boxed()
    }
}
