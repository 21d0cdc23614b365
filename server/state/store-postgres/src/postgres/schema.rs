//! Schema compatibility and migrations. The schema may be newer than the program as long as no
//! migration dropped what the program uses; an older schema is migrated, or rejected where
//! `store.migrate` is false.

use sqlx::migrate::Migrator;
use sqlx::postgres::PgPool;
use sqlx::{Connection, Executor};

use super::conversion::database;
use store::{StoreError, StoreResult};

static MIGRATIONS: Migrator = sqlx::migrate!("../../../migrations");

const WHAT: &str = "read its schema version";

/// Session settings of migrations: no statement timeout, but a lock timeout, so that other sessions
/// do not queue behind a migration for minutes.
const SESSION: &str = "SET statement_timeout = 0; SET lock_timeout = '60s'";

/// Schema version of this program: the number of the newest migration.
pub(super) fn newest() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// Migrates the schema, if permitted.
///
/// # Errors
/// [`StoreError::SchemaTooOld`], [`StoreError::SchemaTooNew`], [`StoreError::Migration`].
pub(super) async fn prepare(pool: &PgPool, migrate: bool) -> StoreResult<()> {
    let (found, needed) = (found(pool).await?, newest());
    if found < needed {
        if !migrate {
            return Err(StoreError::SchemaTooOld { found, needed });
        }
        return apply(pool).await;
    }
    let oldest = oldest_program(pool).await?;
    if oldest > needed { Err(StoreError::SchemaTooNew { found, oldest, known: needed }) } else { Ok(()) }
}

/// Schema version of the database; 0 when it has none.
pub(super) async fn found(pool: &PgPool) -> StoreResult<i64> {
    // Not checked at compile time: the table may be absent.
    if !exists(pool, "_sqlx_migrations").await? {
        return Ok(0);
    }
    let newest = sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success");
    newest.fetch_one(pool).await.map_err(database(WHAT))
}

async fn oldest_program(pool: &PgPool) -> StoreResult<i64> {
    let oldest = sqlx::query_scalar!("SELECT oldest_program FROM schema_compatibility");
    oldest.fetch_one(pool).await.map_err(database(WHAT))
}

async fn exists(pool: &PgPool, table: &str) -> StoreResult<bool> {
    let there = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL").bind(table);
    there.fetch_one(pool).await.map_err(database(WHAT))
}

async fn apply(pool: &PgPool) -> StoreResult<()> {
    let mut connection = pool.acquire().await.map_err(database(WHAT))?.detach();
    connection.execute(SESSION).await.map_err(database(WHAT))?;
    let mut migrations = Migrator { migrations: MIGRATIONS.migrations.clone(), ..Migrator::DEFAULT };
    let applied = migrations.set_ignore_missing(true).run_direct(None, &mut connection, false).await;
    applied.map_err(|error| StoreError::Migration(error.into()))?;
    sqlx::query!("SELECT make_log_partitions((now() AT TIME ZONE 'UTC')::date - 1, 9)")
        .execute(&mut connection)
        .await
        .map_err(database(WHAT))?;
    connection.close().await.map_err(database(WHAT))
}
