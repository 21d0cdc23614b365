//! Rate limits of the cloud's API. The bucket's row is locked while tokens are taken.
//!
//! A repeated statement whose response was lost takes tokens twice: fewer calls are made than could be, never more.

use ::api_budget::{Bucket, BucketRow, LaneQueue, Limit, Waiting};
use model::{PriorityLane, Timestamp};
use sqlx::PgConnection;

use super::connection::{PostgresStore, commit};
use super::conversion::{database, milliseconds};
use store::StoreResult;
use store::api_budget::{ThrottledBucket, TokenGrant, TokenRequest};
use store::lease::Scope;

const TAKE: &str = "take tokens of the API budget";
const THROTTLE: &str = "write a throttled call to the API budget";
const LANES: usize = PriorityLane::ALL.len();

impl PostgresStore {
    pub(super) async fn take_tokens(&self, scope: &Scope, request: &TokenRequest) -> StoreResult<TokenGrant> {
        let key = scope.key();
        let mut transaction = self.begin(TAKE).await?;
        let (mut bucket, now) = lock_bucket(&mut transaction, &key, &request.bucket, request.limit, TAKE).await?;
        let known = sqlx::query!(
            "SELECT process, counts, since_ms, expires_ms FROM api_waiters WHERE scope = $1 AND bucket = $2",
            key,
            request.bucket
        );
        let known = known.fetch_all(&mut *transaction).await.map_err(database(TAKE))?;
        let is_known = known.iter().any(|row| row.process == request.process);
        let has_expired = known.iter().any(|row| row.expires_ms <= now.as_millis());
        let others = known.iter().filter(|row| row.process != request.process && row.expires_ms > now.as_millis());
        let others: Vec<Waiting> = others.map(|row| waiting(&row.counts, &row.since_ms)).collect();
        let (grant, left) = request.take_from(&mut bucket, &others, now);
        write_bucket(&mut transaction, &key, &request.bucket, &bucket, TAKE).await?;
        if !left.is_empty() {
            write_waiting(&mut transaction, &key, request, &left, now).await?;
        }
        if has_expired || (is_known && left.is_empty()) {
            let deleted = sqlx::query!(
                "DELETE FROM api_waiters
                 WHERE scope = $1 AND bucket = $2 AND (expires_ms <= $3 OR ($4 AND process = $5))",
                key,
                request.bucket,
                now.as_millis(),
                left.is_empty(),
                request.process
            );
            deleted.execute(&mut *transaction).await.map_err(database(TAKE))?;
        }
        commit(transaction, TAKE).await?;
        Ok(grant)
    }

    pub(super) async fn write_throttle(
        &self,
        scope: &Scope,
        bucket: &str,
        limit: Limit,
    ) -> StoreResult<ThrottledBucket> {
        let key = scope.key();
        let mut transaction = self.begin(THROTTLE).await?;
        let (mut kept, now) = lock_bucket(&mut transaction, &key, bucket, limit, THROTTLE).await?;
        let is_halved = kept.record_throttle(limit, now);
        write_bucket(&mut transaction, &key, bucket, &kept, THROTTLE).await?;
        commit(transaction, THROTTLE).await?;
        Ok(ThrottledBucket { rate: kept.row().rate, is_halved })
    }
}

/// The bucket, locked for the rest of the transaction, and the time of the database. A bucket without a row gets one.
async fn lock_bucket(
    connection: &mut PgConnection,
    scope: &str,
    bucket: &str,
    limit: Limit,
    what: &'static str,
) -> StoreResult<(Bucket, Timestamp)> {
    loop {
        let found = sqlx::query!(
            r#"SELECT level, kept, rate, at_ms, throttled_ms, milliseconds(clock_timestamp()) AS "now!"
               FROM api_buckets WHERE scope = $1 AND bucket = $2 FOR UPDATE"#,
            scope,
            bucket
        );
        if let Some(row) = found.fetch_optional(&mut *connection).await.map_err(database(what))? {
            let bucket = Bucket::from_row(BucketRow {
                level: row.level,
                kept: by_lane(&row.kept),
                rate: row.rate,
                at: Timestamp::from_millis(row.at_ms),
                throttled: row.throttled_ms.map(Timestamp::from_millis),
            });
            return Ok((bucket, Timestamp::from_millis(row.now)));
        }
        let new = *Bucket::new(limit, Timestamp::default()).row();
        let inserted = sqlx::query!(
            "INSERT INTO api_buckets (scope, bucket, level, kept, rate, at_ms)
             VALUES ($1, $2, $3, $4, $5, milliseconds(clock_timestamp())) ON CONFLICT DO NOTHING",
            scope,
            bucket,
            new.level,
            &new.kept[..],
            new.rate
        );
        inserted.execute(&mut *connection).await.map_err(database(what))?;
    }
}

async fn write_bucket(
    connection: &mut PgConnection,
    scope: &str,
    bucket: &str,
    values: &Bucket,
    what: &'static str,
) -> StoreResult<()> {
    let BucketRow { level, kept, rate, at, throttled } = *values.row();
    let written = sqlx::query!(
        "UPDATE api_buckets SET level = $3, kept = $4, rate = $5, at_ms = $6, throttled_ms = $7
         WHERE scope = $1 AND bucket = $2",
        scope,
        bucket,
        level,
        &kept[..],
        rate,
        at.as_millis(),
        throttled.map(Timestamp::as_millis)
    );
    written.execute(connection).await.map_err(database(what))?;
    Ok(())
}

async fn write_waiting(
    connection: &mut PgConnection,
    scope: &str,
    request: &TokenRequest,
    left: &Waiting,
    now: Timestamp,
) -> StoreResult<()> {
    let queues = PriorityLane::ALL.map(|lane| left.lane(lane));
    let written = sqlx::query!(
        "INSERT INTO api_waiters (scope, bucket, process, counts, since_ms, expires_ms) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (scope, bucket, process) DO UPDATE
         SET counts = excluded.counts, since_ms = excluded.since_ms, expires_ms = excluded.expires_ms",
        scope,
        request.bucket,
        request.process,
        &queues.map(|queue| i64::from(queue.count))[..],
        &queues.map(|queue| queue.since.as_millis())[..],
        now.as_millis().saturating_add(milliseconds(request.expires_in))
    );
    written.execute(connection).await.map_err(database(TAKE))?;
    Ok(())
}

fn waiting(counts: &[i64], since_ms: &[i64]) -> Waiting {
    let (counts, since) = (by_lane(counts), by_lane(since_ms));
    Waiting::new(std::array::from_fn(|lane| LaneQueue {
        count: u32::try_from(counts[lane]).unwrap_or(0),
        since: Timestamp::from_millis(since[lane]),
    }))
}

/// The values of a column, in the order of [`PriorityLane::ALL`]; lanes that a row lacks have 0.
fn by_lane(column: &[i64]) -> [i64; LANES] {
    std::array::from_fn(|lane| column.get(lane).copied().unwrap_or(0))
}
