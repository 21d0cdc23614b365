//! Replacements under way, by the database clock.

use sqlx::PgConnection;

use super::connection::{PostgresStore, commit};
use super::conversion::database;
use store::StoreResult;
use store::lease::{Lease, Scope};
use store::replacements::{BackoffRow, ReplacementRow, ReplacementsEnd};

const WRITE: &str = "write replacements";
const READ: &str = "read replacements under way";
const END: &str = "end replacements";

impl PostgresStore {
    pub(super) async fn write_replacements_end(&self, lease: &Lease, end: &ReplacementsEnd) -> StoreResult<()> {
        let scope = lease.scope.key();
        let mut transaction = self.begin_fenced(lease, END).await?;
        sqlx::query!("DELETE FROM replacements WHERE scope = $1 AND claim = ANY($2)", scope, &end.claims)
            .execute(&mut *transaction)
            .await
            .map_err(database(END))?;
        let replaced: Vec<String> = end.backoffs.iter().map(|row| row.pool.clone()).collect();
        let pools = [replaced.as_slice(), end.ended_backoffs.as_slice()].concat();
        sqlx::query!("DELETE FROM replacement_backoffs WHERE scope = $1 AND pool = ANY($2)", scope, &pools)
            .execute(&mut *transaction)
            .await
            .map_err(database(END))?;
        for row in &end.backoffs {
            sqlx::query!(
                "INSERT INTO replacement_backoffs (scope, pool, wait_ms, until_at)
                 VALUES ($1, $2, $3, clock_timestamp() + $4::bigint * interval '1 millisecond')",
                scope,
                row.pool,
                row.wait_ms,
                row.left_ms
            )
            .execute(&mut *transaction)
            .await
            .map_err(database(END))?;
        }
        commit(transaction, END).await
    }
}

/// Writes rows, replacing those of the same NodeClaims. The scope lock excludes concurrent writers.
pub(super) async fn write_rows(
    connection: &mut PgConnection,
    scope: &Scope,
    rows: &[ReplacementRow],
) -> StoreResult<()> {
    for row in rows {
        let (pods, places): (Vec<String>, Vec<String>) = row.places.iter().cloned().unzip();
        sqlx::query!("DELETE FROM replacements WHERE scope = $1 AND claim = $2", scope.key(), row.claim)
            .execute(&mut *connection)
            .await
            .map_err(database(WRITE))?;
        sqlx::query!(
            "INSERT INTO replacements (scope, claim, pool, reason, moves_pods, pods, places, begun_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() - $8::bigint * interval '1 millisecond')",
            scope.key(),
            row.claim,
            row.pool,
            row.reason,
            row.moves_pods,
            &pods,
            &places,
            row.begun_ago_ms
        )
        .execute(&mut *connection)
        .await
        .map_err(database(WRITE))?;
    }
    Ok(())
}

/// The replacements of a cluster that are under way, and its NodePools that wait.
pub(super) async fn open(
    connection: &mut PgConnection,
    scope: &Scope,
) -> StoreResult<(Vec<ReplacementRow>, Vec<BackoffRow>)> {
    let rows = sqlx::query!(
        r#"SELECT claim, pool, reason, moves_pods, pods, places,
                  milliseconds(clock_timestamp()) - milliseconds(begun_at) AS "begun_ago_ms!"
           FROM replacements WHERE scope = $1 ORDER BY claim COLLATE "C""#,
        scope.key()
    );
    let rows = rows.fetch_all(&mut *connection).await.map_err(database(READ))?;
    let backoffs = sqlx::query!(
        r#"SELECT pool, wait_ms, milliseconds(until_at) - milliseconds(clock_timestamp()) AS "left_ms!"
           FROM replacement_backoffs WHERE scope = $1 ORDER BY pool COLLATE "C""#,
        scope.key()
    );
    let backoffs = backoffs.fetch_all(connection).await.map_err(database(READ))?;
    let replacements = rows.into_iter().map(|row| ReplacementRow {
        claim: row.claim,
        pool: row.pool,
        reason: row.reason,
        moves_pods: row.moves_pods,
        places: row.pods.into_iter().zip(row.places).collect(),
        begun_ago_ms: row.begun_ago_ms,
    });
    let backoffs =
        backoffs.into_iter().map(|row| BackoffRow { pool: row.pool, wait_ms: row.wait_ms, left_ms: row.left_ms });
    Ok((replacements.collect(), backoffs.collect()))
}

pub(super) async fn forget(connection: &mut PgConnection, scope: &str, what: &'static str) -> StoreResult<()> {
    sqlx::query!("DELETE FROM replacements WHERE scope = $1", scope)
        .execute(&mut *connection)
        .await
        .map_err(database(what))?;
    sqlx::query!("DELETE FROM replacement_backoffs WHERE scope = $1", scope)
        .execute(connection)
        .await
        .map_err(database(what))?;
    Ok(())
}
