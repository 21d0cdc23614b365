//! Outcomes of launches.

use std::time::Duration;

use super::connection::{PostgresStore, commit};
use super::conversion::{column, database};
use store::StoreResult;
use store::outcomes::{OUTCOMES_AT_ONCE, OutcomeRow, StoredOutcome};

const WRITE: &str = "write outcomes of launches";
const READ: &str = "read outcomes of launches";

impl PostgresStore {
    /// Writers take turns: otherwise a lower number could become visible after a higher one, and a reader that has seen the
    /// higher one would miss it.
    pub(super) async fn write_launch_outcomes(&self, rows: &[OutcomeRow]) -> StoreResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let texts = |of: fn(&OutcomeRow) -> String| rows.iter().map(of).collect::<Vec<String>>();
        let sequences: Vec<i64> = rows.iter().map(|row| column(row.sequence)).collect();
        let asked: Vec<i64> = rows.iter().map(|row| i64::from(row.asked)).collect();
        let launched: Vec<i64> = rows.iter().map(|row| i64::from(row.launched)).collect();
        let mut transaction = self.begin(WRITE).await?;
        let lock = sqlx::query!("SELECT lock_scope('launch_outcomes')");
        lock.execute(&mut *transaction).await.map_err(database(WRITE))?;
        let written = sqlx::query!(
            "INSERT INTO launch_outcomes (process, sequence, account, zone, instance_type, capacity_type, asked, launched)
             SELECT process, sequence, account, zone, instance_type, capacity_type, asked, launched
             FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[])
                  AS given (process, sequence, account, zone, instance_type, capacity_type, asked, launched)
             ON CONFLICT DO NOTHING",
            &texts(|row| row.process.clone()),
            &sequences,
            &texts(|row| row.account.clone().unwrap_or_default()),
            &texts(|row| row.zone.clone()),
            &texts(|row| row.instance_type.clone()),
            &texts(|row| row.capacity_type.clone()),
            &asked,
            &launched
        );
        written.execute(&mut *transaction).await.map_err(database(WRITE))?;
        commit(transaction, WRITE).await
    }

    pub(super) async fn read_launch_outcomes(&self, after: u64, within: Duration) -> StoreResult<Vec<StoredOutcome>> {
        let rows = sqlx::query!(
            r#"SELECT number, greatest(extract(epoch FROM clock_timestamp() - stored_at), 0)::float8 AS "age!",
                      process, sequence, account, zone, instance_type, capacity_type, asked, launched
               FROM launch_outcomes
               WHERE number > $1 AND stored_at > clock_timestamp() - make_interval(secs => $2)
               ORDER BY number LIMIT $3"#,
            column(after),
            within.as_secs_f64(),
            i64::try_from(OUTCOMES_AT_ONCE).unwrap_or(i64::MAX)
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        let read = rows.into_iter().map(|row| StoredOutcome {
            number: row.number.unsigned_abs(),
            age: Duration::from_secs_f64(row.age),
            row: OutcomeRow {
                process: row.process,
                sequence: row.sequence.unsigned_abs(),
                account: Some(row.account).filter(|account| !account.is_empty()),
                zone: row.zone,
                instance_type: row.instance_type,
                capacity_type: row.capacity_type,
                asked: u32::try_from(row.asked).unwrap_or(u32::MAX),
                launched: u32::try_from(row.launched).unwrap_or(u32::MAX),
            },
        });
        Ok(read.collect())
    }
}
