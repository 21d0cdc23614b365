//! Launch and removal counters per process.

use std::time::Duration;

use super::connection::PostgresStore;
use super::conversion::{database, milliseconds};
use store::StoreResult;
use store::counters::{BUCKET_MS, CounterRow, CounterValues, INSTANCE_COUNT_TTL, RemoteCounters};

const WRITE: &str = "write the fleet counters";
const READ: &str = "read the remote fleet counters";

impl PostgresStore {
    /// A bucket keeps its first timestamp: later updates change no indexed column.
    pub(super) async fn write_counters(&self, process: &str, machines: i64, rows: &[CounterRow]) -> StoreResult<()> {
        let column = |of: fn(&CounterRow) -> i64| rows.iter().map(of).collect::<Vec<i64>>();
        // On conflict `at` is unchanged, so that an update touches no indexed column.
        let written = sqlx::query!(
            "INSERT INTO guardrail_counters (process, machines, bucket, at, joined, failed, launched, launched_cost, removed,
                                         removed_cost)
             SELECT $1, $2, bucket, now() - ago * interval '1 millisecond', joined, failed, launched, launched_cost, removed,
                    removed_cost
             FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
                         $10::bigint[]) AS given (bucket, ago, joined, failed, launched, launched_cost, removed, removed_cost)
             ON CONFLICT (process, bucket) DO UPDATE
             SET machines = excluded.machines, joined = excluded.joined, failed = excluded.failed,
                 launched = excluded.launched, launched_cost = excluded.launched_cost,
                 removed = excluded.removed, removed_cost = excluded.removed_cost",
            process,
            machines,
            &column(|row| row.bucket),
            &column(|row| row.ago_ms),
            &column(|row| row.seen.joined),
            &column(|row| row.seen.failed),
            &column(|row| row.seen.launched),
            &column(|row| row.seen.launched_cost),
            &column(|row| row.seen.removed),
            &column(|row| row.seen.removed_cost)
        );
        written.execute(&self.pool).await.map_err(database(WRITE))?;
        Ok(())
    }

    pub(super) async fn read_remote_counters(&self, process: &str, within: Duration) -> StoreResult<RemoteCounters> {
        // Ages are computed by the database clock, so that the clocks of replicas need not agree.
        let rows = sqlx::query!(
            r#"SELECT (milliseconds(now()) - milliseconds(at)) / $3::bigint AS "age!", sum(joined)::bigint AS "joined!",
                      sum(failed)::bigint AS "failed!", sum(launched)::bigint AS "launched!",
                      sum(launched_cost)::bigint AS "launched_cost!", sum(removed)::bigint AS "removed!",
                      sum(removed_cost)::bigint AS "removed_cost!"
               FROM guardrail_counters WHERE at > now() - $2::bigint * interval '1 millisecond' AND process <> $1
               GROUP BY 1 ORDER BY 1 DESC"#,
            process,
            milliseconds(within),
            BUCKET_MS
        );
        let machines = sqlx::query_scalar!(
            r#"SELECT coalesce(sum(machines), 0)::bigint AS "machines!"
               FROM (SELECT DISTINCT ON (process) machines FROM guardrail_counters
                     WHERE at > now() - $2::bigint * interval '1 millisecond' AND process <> $1
                     ORDER BY process, at DESC, bucket DESC) AS last"#,
            process,
            milliseconds(INSTANCE_COUNT_TTL)
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        let machines = machines.fetch_one(&self.pool).await.map_err(database(READ))?;
        let buckets = rows.into_iter().map(|row| {
            let seen = CounterValues {
                joined: row.joined,
                failed: row.failed,
                launched: row.launched,
                launched_cost: row.launched_cost,
                removed: row.removed,
                removed_cost: row.removed_cost,
            };
            (row.age.max(0) * BUCKET_MS, seen)
        });
        Ok(RemoteCounters { machines, buckets: buckets.collect() })
    }
}
