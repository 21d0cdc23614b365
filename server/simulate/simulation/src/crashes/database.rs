//! Reads launch rows from the database without the server.

use anyhow::Context;
use sqlx::Row as _;
use sqlx::postgres::{PgPool, PgPoolOptions};

use super::crash_points::IntentRow;

/// Launches without an outcome before a moment; times in microseconds since 1970.
const INTENTS: &str = "SELECT scope, token, (extract(epoch FROM created_at) * 1000000)::bigint, \
     (extract(epoch FROM settled_at) * 1000000)::bigint, (extract(epoch FROM closed_at) * 1000000)::bigint FROM intents \
     WHERE scope LIKE $1 AND (settled_at IS NULL OR settled_at >= to_timestamp($2::bigint / 1000000.0))";

/// The database of the server under test.
pub(super) struct Database {
    pool: PgPool,
}

impl Database {
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(1).connect(url).await;
        Ok(Self { pool: pool.context("cannot connect to the database of --database-url")? })
    }

    /// Launches of this run's clusters without an outcome before `since`, in microseconds since
    /// 1970.
    pub(super) async fn intents(&self, run: &str, since: i64) -> anyhow::Result<Vec<IntentRow>> {
        let rows = sqlx::query(INTENTS).bind(format!("cluster/{run}-%")).bind(since).fetch_all(&self.pool).await?;
        let read = |row: sqlx::postgres::PgRow| {
            let scope: String = row.try_get(0)?;
            let cluster = scope.strip_prefix("cluster/").unwrap_or(&scope).to_owned();
            Ok(IntentRow {
                cluster,
                token: row.try_get(1)?,
                created: row.try_get(2)?,
                settled: row.try_get(3)?,
                closed: row.try_get(4)?,
            })
        };
        rows.into_iter().map(read).collect::<Result<_, sqlx::Error>>().context("cannot read the launches")
    }

    /// Terminates every other connection to this database, as a failover does.
    pub(super) async fn cut_connections(&self) -> anyhow::Result<()> {
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
        )
        .execute(&self.pool)
        .await
        .context("cannot cut the database's connections")?;
        Ok(())
    }
}
