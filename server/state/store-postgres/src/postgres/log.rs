//! Decisions and their replay data.

use std::time::Duration;

use prost::Message;
use sqlx::PgConnection;

use super::bodies::{self, DecisionBody};
use super::connection::{PostgresStore, commit};
use super::conversion::{column, database};
use super::dictionaries::{CompressedText, DictionaryTexts, RowKind, StoredText};
use super::{holds, operations, replacements};
use store::lease::{Lease, Scope};
use store::log::{
    Blob, BlobHash, DecisionFilter, DecisionRow, Entry, LogChunk, LogSegment, Pruned, Replay, Retention, StoredDecision,
};
use store::{StoreError, StoreResult};

const RECORD: &str = "record a decision";
const READ: &str = "read decisions";
const PRUNE: &str = "prune old rows";
const SEGMENT: &str = "read the log";

/// Rows per delete statement: far below the statement timeout, with short locks.
pub(super) const ROWS_AT_ONCE: i64 = 5000;

/// Abandoned clusters per query; each is deleted in its own transaction.
const CLUSTERS_AT_ONCE: i64 = 100;

/// Extra retention of the log over decisions, since a segment may begin a day before its decision.
const LONGEST_SEGMENT: Duration = Duration::from_secs(24 * 3600);

/// Heap pages of `intents` per prune statement: 32 MiB.
const PAGES_AT_ONCE: i64 = 4096;

/// A decision row: with an encoded body, or with separate columns as in older rows.
struct DecisionColumns {
    scope: String,
    number: i64,
    decided_at_ms: i64,
    epoch: i64,
    kind: String,
    sample: Option<i64>,
    body: Option<Vec<u8>>,
    summary: Option<String>,
    report: Option<String>,
    segment: Option<i64>,
    sequence: Option<i64>,
    stance: Option<Vec<u8>>,
    plan: Option<Vec<u8>>,
    policy: Option<Vec<u8>>,
    catalogues: Option<Vec<Vec<u8>>>,
    engine_version: Option<String>,
    input_digest: Option<Vec<u8>>,
    plan_digest: Option<Vec<u8>>,
}

/// Selects [`DecisionColumns`] by what follows the name of the table.
macro_rules! select_decisions {
    ($rest:literal, $($argument:expr),+) => {
        sqlx::query_as!(
            DecisionColumns,
            r#"SELECT scope, number, milliseconds(decided_at) AS "decided_at_ms!", epoch, kind, sample, body, summary, report,
                      segment, sequence, stance, plan, policy, catalogues, engine_version, input_digest, plan_digest
               FROM decisions "# + $rest,
            $($argument),+
        )
    };
}

impl PostgresStore {
    pub(super) async fn write_entry(&self, lease: &Lease, entry: &Entry) -> StoreResult<()> {
        let orders = self.compress_orders(&lease.scope, &entry.intents).await?;
        let event = bodies::event_of(&entry.decision, &entry.chunks);
        let kind = if entry.decision.replay.is_some() { RowKind::Plan } else { RowKind::Text };
        let text = DecisionBody::of(&entry.decision, event).encode_to_vec();
        let body = self.dictionaries.compress(&self.pool, &lease.scope, kind, &text).await?;
        let mut transaction = self.begin_fenced(lease, RECORD).await?;
        self.dictionaries.verify(&mut transaction, orders.iter().chain([&body])).await?;
        operations::insert_intents(&mut transaction, &lease.scope, &entry.intents, orders, Some(&entry.decision))
            .await?;
        write_blobs(&mut transaction, &entry.blobs).await?;
        match event {
            Some(event) => write_segments(&mut transaction, lease, std::slice::from_ref(event)).await?,
            None => write_chunks(&mut transaction, lease, &entry.chunks).await?,
        }
        if write_decision(&mut transaction, lease, &entry.decision, body).await? {
            replacements::write_rows(&mut transaction, &lease.scope, &entry.replacements).await?;
            holds::write_statuses(&mut transaction, &lease.scope, &entry.holds).await?;
        }
        commit(transaction, RECORD).await
    }

    pub(super) async fn read_blob(&self, hash: &BlobHash) -> StoreResult<Option<Blob>> {
        let found = sqlx::query!("SELECT kind, bytes FROM blobs WHERE hash = $1", &hash.0);
        let found = found.fetch_optional(&self.pool).await.map_err(database("read a blob"))?;
        Ok(found.map(|row| Blob { hash: *hash, kind: row.kind, bytes: row.bytes }))
    }

    pub(super) async fn read_decisions(&self, filter: &DecisionFilter) -> StoreResult<Vec<StoredDecision>> {
        let before = filter.before.map_or(i64::MAX, column);
        let limit = i64::from(filter.limit);
        let rows = match &filter.scope {
            Some(scope) => {
                let rows = select_decisions!(
                    "WHERE scope = $1 AND number < $2 ORDER BY number DESC LIMIT $3",
                    scope.key(),
                    before,
                    limit
                );
                rows.fetch_all(&self.pool).await
            }
            None => {
                let rows = select_decisions!("WHERE number < $1 ORDER BY number DESC LIMIT $2", before, limit);
                rows.fetch_all(&self.pool).await
            }
        };
        self.read_columns(rows.map_err(database(READ))?).await
    }

    pub(super) async fn read_decision(&self, number: u64) -> StoreResult<Vec<StoredDecision>> {
        let rows = select_decisions!("WHERE number = $1 ORDER BY scope", column(number));
        self.read_columns(rows.fetch_all(&self.pool).await.map_err(database(READ))?).await
    }

    async fn read_columns(&self, rows: Vec<DecisionColumns>) -> StoreResult<Vec<StoredDecision>> {
        let mut connection = self.pool.acquire().await.map_err(database(READ))?;
        let dictionaries = DictionaryTexts::read(&mut connection, rows.iter().filter_map(|row| row.sample)).await?;
        rows.into_iter().map(|row| row.read(&dictionaries)).collect()
    }

    pub(super) async fn read_segment(&self, scope: &Scope, segment: u64) -> StoreResult<Option<LogSegment>> {
        let head = sqlx::query!(
            r#"SELECT epoch, milliseconds(started_at) AS "started_ms!" FROM log_segments WHERE scope = $1 AND segment = $2"#,
            scope.key(),
            column(segment)
        );
        let Some(head) = head.fetch_optional(&self.pool).await.map_err(database(SEGMENT))? else { return Ok(None) };
        // The bounds let PostgreSQL skip partitions; they allow a day for clock corrections.
        let chunks = sqlx::query!(
            r#"SELECT first_sequence, last_sequence, milliseconds(written_at) AS "at_ms!", bytes FROM log_chunks
               WHERE scope = $1 AND segment = $2 AND written_at >= moment($3) - interval '1 day'"#,
            scope.key(),
            column(segment),
            head.started_ms
        );
        let chunks = chunks.fetch_all(&self.pool).await.map_err(database(SEGMENT))?;
        let chunks = chunks.into_iter().map(|row| LogChunk {
            segment,
            first_sequence: row.first_sequence.unsigned_abs(),
            last_sequence: row.last_sequence.unsigned_abs(),
            at_ms: row.at_ms,
            bytes: row.bytes,
        });
        let mut chunks: Vec<LogChunk> = chunks.collect();
        chunks.extend(self.read_events(scope, segment, head.started_ms).await?);
        chunks.sort_by_key(|chunk| chunk.first_sequence);
        Ok(Some(LogSegment { epoch: head.epoch.unsigned_abs(), started_ms: head.started_ms, chunks }))
    }

    /// Events of a segment that are stored in decision rows.
    async fn read_events(&self, scope: &Scope, segment: u64, started_ms: i64) -> StoreResult<Vec<LogChunk>> {
        let mut connection = self.pool.acquire().await.map_err(database(SEGMENT))?;
        let rows = sqlx::query!(
            r#"SELECT milliseconds(decided_at) AS "at_ms!", sample, body AS "body!" FROM decisions
               WHERE scope = $1 AND number >= $2 AND segment = $2 AND body IS NOT NULL
                 AND decided_at >= moment($3) - interval '1 day' AND decided_at < moment($3) + interval '2 days'"#,
            scope.key(),
            column(segment),
            started_ms
        );
        let rows = rows.fetch_all(&mut *connection).await.map_err(database(SEGMENT))?;
        let dictionaries = DictionaryTexts::read(&mut connection, rows.iter().filter_map(|row| row.sample)).await?;
        let event = |at_ms, packed: &StoredText| {
            let body = DecisionBody::read(&dictionaries.decompress(SEGMENT, packed)?, SEGMENT)?;
            let sequence = body.sequence();
            let chunk = |bytes| LogChunk { segment, first_sequence: sequence, last_sequence: sequence, at_ms, bytes };
            Ok(body.event.map(chunk))
        };
        let read = rows.into_iter().map(|row| event(row.at_ms, &StoredText { sample: row.sample, bytes: row.body }));
        read.filter_map(Result::transpose).collect()
    }

    /// Decisions with a plan move nothing: what they remove is decided once their machines are there. So only short rows
    /// are read.
    pub(super) async fn read_recent_moves(&self, scope: &Scope, within: Duration) -> StoreResult<Vec<String>> {
        let mut connection = self.pool.acquire().await.map_err(database(READ))?;
        let rows = sqlx::query!(
            r#"SELECT sample, body AS "body!" FROM decisions
               WHERE scope = $1 AND kind = 'consolidation' AND segment IS NULL AND body IS NOT NULL
                 AND decided_at > now() - $2::bigint * interval '1 millisecond'
               ORDER BY number"#,
            scope.key(),
            i64::try_from(within.as_millis()).unwrap_or(i64::MAX)
        );
        let rows = rows.fetch_all(&mut *connection).await.map_err(database(READ))?;
        let dictionaries = DictionaryTexts::read(&mut connection, rows.iter().filter_map(|row| row.sample)).await?;
        let moves = |text: &StoredText| Ok(DecisionBody::read(&dictionaries.decompress(READ, text)?, READ)?.moves);
        let texts = rows.into_iter().map(|row| StoredText { sample: row.sample, bytes: row.body });
        let read: Vec<String> = texts.map(|text| moves(&text)).collect::<StoreResult<_>>()?;
        Ok(read.into_iter().filter(|moves| !moves.is_empty()).collect())
    }

    pub(super) async fn prune_all(&self, retention: &Retention) -> StoreResult<Pruned> {
        sqlx::query!("SELECT make_log_partitions((now() AT TIME ZONE 'UTC')::date - 1, 9)")
            .execute(&self.pool)
            .await
            .map_err(database(PRUNE))?;
        self.prune_holds().await?;
        self.prune_costs(retention.costs.as_secs_f64()).await?;
        Ok(Pruned {
            ended: self.prune_intents(retention.ended.as_secs_f64()).await?,
            log: self.prune_log(retention.log).await?,
            blobs: self.prune_blobs((retention.log + LONGEST_SEGMENT).as_secs_f64()).await?,
            clusters: self.forget_clusters(retention.clusters.as_secs_f64()).await?,
        })
    }

    /// Prunes launches by heap page ranges: an index on the closing time would add a WAL record to
    /// every launch, and would be read once an hour.
    async fn prune_intents(&self, seconds: f64) -> StoreResult<u64> {
        let pages = sqlx::query_scalar!(
            r#"SELECT pg_relation_size('intents') / current_setting('block_size')::bigint AS "pages!""#
        );
        let pages = pages.fetch_one(&self.pool).await.map_err(database(PRUNE))?;
        let mut gone = 0;
        for first in (0..pages).step_by(usize::try_from(PAGES_AT_ONCE).unwrap_or(1)) {
            let deleted = sqlx::query_scalar!(
                r#"WITH old_intents AS (
                     DELETE FROM intents WHERE ctid >= $2::text::tid AND ctid < $3::text::tid
                        AND closed_at < now() - make_interval(secs => $1)
                     RETURNING scope, claim, attempt, orders IS NULL AS apart),
                 old_requests AS (DELETE FROM launch_requests USING old_intents
                     WHERE apart AND launch_requests.scope = old_intents.scope
                       AND launch_requests.claim = old_intents.claim AND launch_requests.attempt = old_intents.attempt)
                 SELECT count(*) AS "gone!" FROM old_intents"#,
                seconds,
                format!("({first},0)"),
                format!("({},0)", first + PAGES_AT_ONCE)
            );
            gone += deleted.fetch_one(&self.pool).await.map_err(database(PRUNE))?.unsigned_abs();
        }
        Ok(gone)
    }

    async fn prune_log(&self, keep: Duration) -> StoreResult<u64> {
        let (decisions, chunks) = (keep.as_secs_f64(), (keep + LONGEST_SEGMENT).as_secs_f64());
        let days = sqlx::query_scalar!(
            r#"SELECT drop_log_partitions('decisions', (now() - make_interval(secs => $1))::date)
                      + drop_log_partitions('log_chunks', (now() - make_interval(secs => $2))::date) AS "days!""#,
            decisions,
            chunks
        );
        let days = days.fetch_one(&self.pool).await.map_err(database(PRUNE))?;
        let mut gone = u64::from(days.unsigned_abs());
        loop {
            let rows = self.prune_log_rows(decisions, chunks).await?;
            gone += rows;
            if rows == 0 {
                return Ok(gone);
            }
        }
    }

    /// Deletes one batch of old rows outside the day partitions; returns their number. After a long
    /// outage millions may exist, more than one statement may delete.
    pub(super) async fn prune_log_rows(&self, decisions: f64, chunks: f64) -> StoreResult<u64> {
        let rows = sqlx::query_scalar!(
            r#"WITH old_decisions AS (DELETE FROM decisions_other WHERE ctid = ANY(ARRAY(SELECT ctid FROM decisions_other
                 WHERE decided_at < now() - make_interval(secs => $1) LIMIT $3)) RETURNING 1),
             old_chunks AS (DELETE FROM log_chunks_other WHERE ctid = ANY(ARRAY(SELECT ctid FROM log_chunks_other
                 WHERE written_at < now() - make_interval(secs => $2) LIMIT $3)) RETURNING 1),
             old_segments AS (DELETE FROM log_segments WHERE ctid = ANY(ARRAY(SELECT ctid FROM log_segments
                 WHERE started_at < now() - make_interval(secs => $2) LIMIT $3)) RETURNING 1)
             SELECT (SELECT count(*) FROM old_decisions) + (SELECT count(*) FROM old_chunks)
                    + (SELECT count(*) FROM old_segments) AS "gone!""#,
            decisions,
            chunks,
            ROWS_AT_ONCE
        );
        let rows = rows.fetch_one(&self.pool).await.map_err(database(PRUNE))?;
        Ok(rows.unsigned_abs())
    }

    /// Deletes clusters without a lease holder for `seconds`: leases and open operations. A cluster
    /// that returns starts anew, above the epoch that its agent has obeyed.
    async fn forget_clusters(&self, seconds: f64) -> StoreResult<u64> {
        let mut forgotten = 0;
        loop {
            let gone = sqlx::query_scalar!(
                r#"SELECT scope AS "scope!" FROM lease_ends
                   WHERE scope LIKE 'cluster/%' AND expires_at < now() - make_interval(secs => $1) LIMIT $2"#,
                seconds,
                CLUSTERS_AT_ONCE
            );
            let gone = gone.fetch_all(&self.pool).await.map_err(database(PRUNE))?;
            if gone.is_empty() {
                return Ok(forgotten);
            }
            for scope in gone {
                forgotten += self.forget_cluster(&scope, seconds).await?;
            }
        }
    }

    /// Rechecks the expiry under the scope lock.
    async fn forget_cluster(&self, scope: &str, seconds: f64) -> StoreResult<u64> {
        let mut transaction = self.begin(PRUNE).await?;
        sqlx::query!("SELECT lock_scope($1)", scope).execute(&mut *transaction).await.map_err(database(PRUNE))?;
        let left = sqlx::query!(
            "WITH gone AS (DELETE FROM leases WHERE scope = $1 AND EXISTS (SELECT FROM lease_ends
                 WHERE lease_ends.scope = $1 AND lease_ends.expires_at < now() - make_interval(secs => $2)) RETURNING scope),
             launches AS (DELETE FROM intents USING gone WHERE intents.scope = gone.scope AND closed_at IS NULL),
             requests AS (DELETE FROM launch_requests USING gone WHERE launch_requests.scope = gone.scope),
             replaced AS (DELETE FROM replacements USING gone WHERE replacements.scope = gone.scope),
             summaries AS (DELETE FROM cluster_summaries USING gone WHERE 'cluster/' || cluster_summaries.cluster = gone.scope),
             waits AS (DELETE FROM replacement_backoffs USING gone WHERE replacement_backoffs.scope = gone.scope)
             SELECT scope FROM gone",
            scope,
            seconds
        );
        let left = left.fetch_optional(&mut *transaction).await.map_err(database(PRUNE))?;
        if left.is_some() {
            holds::forget(&mut transaction, scope, PRUNE).await?;
        }
        commit(transaction, PRUNE).await?;
        Ok(u64::from(left.is_some()))
    }

    async fn prune_blobs(&self, seconds: f64) -> StoreResult<u64> {
        // The statements are independent: each deletes rows by age.
        sqlx::query!("DELETE FROM offering_memory WHERE until_at < now()")
            .execute(&self.pool)
            .await
            .map_err(database(PRUNE))?;
        sqlx::query!("DELETE FROM unavailable_offerings WHERE changed_at < now() - interval '1 day'")
            .execute(&self.pool)
            .await
            .map_err(database(PRUNE))?;
        sqlx::query!(
            "DELETE FROM lease_terms WHERE expires_at < now() - interval '1 day'
                      AND NOT EXISTS (SELECT FROM leases WHERE term = number)"
        )
        .execute(&self.pool)
        .await
        .map_err(database(PRUNE))?;
        sqlx::query!(
            "DELETE FROM samples WHERE used_at < now() - make_interval(secs => $1)
             AND number NOT IN (SELECT sample FROM intents WHERE sample IS NOT NULL)",
            seconds
        )
        .execute(&self.pool)
        .await
        .map_err(database(PRUNE))?;
        sqlx::query!("DELETE FROM replicas WHERE told_at < now() - interval '1 day'")
            .execute(&self.pool)
            .await
            .map_err(database(PRUNE))?;
        sqlx::query!("DELETE FROM interruptions WHERE received_at < now() - interval '1 day'")
            .execute(&self.pool)
            .await
            .map_err(database(PRUNE))?;
        sqlx::query!("DELETE FROM launch_outcomes WHERE stored_at < now() - interval '2 days'")
            .execute(&self.pool)
            .await
            .map_err(database(PRUNE))?;
        sqlx::query!("DELETE FROM guardrail_counters WHERE at < now() - interval '1 day'")
            .execute(&self.pool)
            .await
            .map_err(database(PRUNE))?;
        let blobs = sqlx::query!("DELETE FROM blobs WHERE used_at < now() - make_interval(secs => $1)", seconds);
        Ok(blobs.execute(&self.pool).await.map_err(database(PRUNE))?.rows_affected())
    }
}

/// Returns whether the decision is new.
async fn write_decision(
    connection: &mut PgConnection,
    lease: &Lease,
    decision: &DecisionRow,
    body: CompressedText,
) -> StoreResult<bool> {
    let hashes = decision.replay.iter().flat_map(Replay::hashes);
    let hashes: Vec<Vec<u8>> = hashes.map(|hash| hash.0.to_vec()).collect();
    // The last use of a blob is updated at most twice a day: an update per decision would cost more
    // than the decision. `NOT EXISTS` makes a repetition a no-op; the scope lock excludes
    // concurrent writers, and a unique constraint would cost an index.
    let written = sqlx::query!(
        "WITH used AS (UPDATE blobs SET used_at = now() WHERE hash = ANY($9) AND used_at < now() - interval '12 hours')
         INSERT INTO decisions (scope, number, decided_at, epoch, kind, segment, sample, body)
         SELECT $1, $2, moment($3), $4, $5, $6, $7, $8
         WHERE NOT EXISTS (SELECT FROM decisions WHERE scope = $1 AND number = $2 AND decided_at = moment($3))",
        lease.scope.key(),
        column(decision.number),
        decision.decided_at_ms,
        column(lease.epoch),
        decision.kind,
        decision.replay.as_ref().map(|replay| column(replay.segment)),
        body.dictionary_number(),
        body.bytes,
        &hashes
    );
    Ok(written.execute(connection).await.map_err(database(RECORD))?.rows_affected() > 0)
}

async fn write_blobs(connection: &mut PgConnection, blobs: &[Blob]) -> StoreResult<()> {
    for blob in blobs {
        sqlx::query!(
            "INSERT INTO blobs AS kept (hash, kind, bytes) VALUES ($1, $2, $3)
             ON CONFLICT (hash) DO UPDATE SET used_at = now() WHERE kept.used_at < now() - interval '12 hours'",
            &blob.hash.0,
            blob.kind,
            blob.bytes
        )
        .execute(&mut *connection)
        .await
        .map_err(database("write a blob"))?;
    }
    Ok(())
}

/// Inserts missing segment rows, with the time of their first chunk.
async fn write_segments(connection: &mut PgConnection, lease: &Lease, chunks: &[LogChunk]) -> StoreResult<()> {
    for chunk in chunks {
        sqlx::query!(
            "INSERT INTO log_segments (scope, segment, epoch, started_at) VALUES ($1, $2, $3, moment($4))
             ON CONFLICT (scope, segment) DO NOTHING",
            lease.scope.key(),
            column(chunk.segment),
            column(lease.epoch),
            chunk.at_ms
        )
        .execute(&mut *connection)
        .await
        .map_err(database("append to the log"))?;
    }
    Ok(())
}

async fn write_chunks(connection: &mut PgConnection, lease: &Lease, chunks: &[LogChunk]) -> StoreResult<()> {
    write_segments(connection, lease, chunks).await?;
    for chunk in chunks {
        sqlx::query!(
            "INSERT INTO log_chunks (scope, segment, first_sequence, last_sequence, written_at, bytes)
             VALUES ($1, $2, $3, $4, moment($5), $6)
             ON CONFLICT (scope, segment, first_sequence, written_at) DO NOTHING",
            lease.scope.key(),
            column(chunk.segment),
            column(chunk.first_sequence),
            column(chunk.last_sequence),
            chunk.at_ms,
            chunk.bytes
        )
        .execute(&mut *connection)
        .await
        .map_err(database("append to the log"))?;
    }
    Ok(())
}

impl DecisionColumns {
    fn read(self, dictionaries: &DictionaryTexts) -> StoreResult<StoredDecision> {
        let unreadable = |found: &str| StoreError::Unreadable { what: READ, found: found.to_owned() };
        let scope = Scope::parse(&self.scope).ok_or_else(|| unreadable(&self.scope))?;
        let (number, epoch) = (self.number.unsigned_abs(), self.epoch.unsigned_abs());
        let (decided_at_ms, kind) = (self.decided_at_ms, self.kind.clone());
        let decoded = self.decode_body(dictionaries)?;
        Ok(StoredDecision { scope, epoch, decision: DecisionRow { number, decided_at_ms, kind, ..decoded } })
    }

    /// Decodes the body of the row.
    fn decode_body(self, dictionaries: &DictionaryTexts) -> StoreResult<DecisionRow> {
        let Some(bytes) = self.body else { return self.decode_columns() };
        let text = dictionaries.decompress(READ, &StoredText { sample: self.sample, bytes })?;
        DecisionBody::read(&text, READ)?.decision(READ)
    }

    fn decode_columns(self) -> StoreResult<DecisionRow> {
        let hash = |bytes| bodies::hash(bytes, READ);
        let replay = match (self.segment, self.sequence) {
            (Some(segment), Some(sequence)) => {
                let catalogues = self.catalogues.unwrap_or_default();
                Some(Replay {
                    segment: segment.unsigned_abs(),
                    sequence: sequence.unsigned_abs(),
                    stance: self.stance.unwrap_or_default(),
                    plan: self.plan.unwrap_or_default(),
                    policy: self.policy.map(hash).transpose()?,
                    catalogues: catalogues.into_iter().map(hash).collect::<Result<_, _>>()?,
                    engine_version: self.engine_version.unwrap_or_default(),
                    input_digest: self.input_digest.unwrap_or_default(),
                    plan_digest: self.plan_digest.unwrap_or_default(),
                })
            }
            _ => None,
        };
        let (summary, report) = (self.summary.unwrap_or_default(), self.report.unwrap_or_default());
        Ok(DecisionRow { summary, report, replay, ..DecisionRow::default() })
    }
}
