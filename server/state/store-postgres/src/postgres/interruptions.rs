//! Notices about instances.

use std::time::Duration;

use super::connection::{PostgresStore, commit};
use super::conversion::{column, database};
use store::StoreResult;
use store::interruptions::{INTERRUPTIONS_AT_ONCE, InterruptionRow, StoredInterruption};
use store::lease::Scope;

const WRITE: &str = "write interruption notices";
const READ: &str = "read interruption notices";

impl PostgresStore {
    /// Writers of a scope take turns: otherwise a lower number could become visible after a higher one, and a
    /// reader that has seen the higher one would miss it.
    pub(super) async fn write_interruptions(&self, scope: &Scope, rows: &[InterruptionRow]) -> StoreResult<u64> {
        let instances: Vec<String> = rows.iter().map(|row| row.instance.clone()).collect();
        let kinds: Vec<String> = rows.iter().map(|row| row.kind.clone()).collect();
        let sent: Vec<i64> = rows.iter().map(|row| row.sent_ms).collect();
        let ends: Vec<Option<i64>> = rows.iter().map(|row| row.ends_ms).collect();
        let mut transaction = self.begin(WRITE).await?;
        let lock = sqlx::query!("SELECT lock_scope($1 || '/interruptions')", scope.key());
        lock.execute(&mut *transaction).await.map_err(database(WRITE))?;
        let written = sqlx::query!(
            "INSERT INTO interruptions (scope, instance, kind, sent_ms, ends_ms)
             SELECT $1, instance, kind, sent_ms, ends_ms
             FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[]) AS given (instance, kind, sent_ms, ends_ms)
             ON CONFLICT DO NOTHING",
            scope.key(),
            &instances,
            &kinds,
            &sent,
            &ends as &[Option<i64>]
        );
        let written = written.execute(&mut *transaction).await.map_err(database(WRITE))?.rows_affected();
        commit(transaction, WRITE).await?;
        Ok(written)
    }

    pub(super) async fn read_interruptions(
        &self,
        scope: &Scope,
        after: u64,
        within: Duration,
    ) -> StoreResult<Vec<StoredInterruption>> {
        let rows = sqlx::query!(
            r#"SELECT number, greatest(extract(epoch FROM clock_timestamp() - received_at), 0)::float8 AS "age!",
                      instance, kind, sent_ms, ends_ms
               FROM interruptions
               WHERE scope = $1 AND number > $2 AND received_at > clock_timestamp() - make_interval(secs => $3)
               ORDER BY number LIMIT $4"#,
            scope.key(),
            column(after),
            within.as_secs_f64(),
            i64::try_from(INTERRUPTIONS_AT_ONCE).unwrap_or(i64::MAX)
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        let read = rows.into_iter().map(|row| StoredInterruption {
            number: row.number.unsigned_abs(),
            age: Duration::from_secs_f64(row.age),
            row: InterruptionRow { instance: row.instance, kind: row.kind, sent_ms: row.sent_ms, ends_ms: row.ends_ms },
        });
        Ok(read.collect())
    }
}
