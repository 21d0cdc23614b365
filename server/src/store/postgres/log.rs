//! Decisions and what they are replayed from.

use std::time::Duration;

use sqlx::PgConnection;

use super::super::StoreError;
use super::super::lease::{Lease, Scope};
use super::super::log::{
    Blob, BlobHash, DecisionFilter, DecisionRow, Entry, LogChunk, LogSegment, Pruned, Replay, Retention, StoredDecision,
};
use super::{PostgresStore, column, commit, database, undertakings};

const RECORD: &str = "record a decision";
const READ: &str = "read decisions";
const PRUNE: &str = "let old rows go";

/// Rows that one statement deletes: far below the statement's timeout, and no lock for long.
const ROWS_AT_ONCE: i64 = 5000;

/// How much longer than decisions the log is kept, since a segment may have begun a day before the decision.
const SEGMENT: Duration = Duration::from_secs(24 * 3600);

/// A decision as its row.
struct Columns {
    scope: String,
    number: i64,
    decided_at_ms: i64,
    epoch: i64,
    kind: String,
    summary: String,
    report: String,
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

impl PostgresStore {
    pub(super) async fn write_entry(&self, lease: &Lease, entry: &Entry) -> Result<(), StoreError> {
        let mut transaction = self.under(lease, RECORD).await?;
        undertakings::intend(&mut transaction, &lease.scope, &entry.intents).await?;
        undertakings::disrupt(&mut transaction, &lease.scope, &entry.disruptions).await?;
        undertakings::write_instructions(&mut transaction, &lease.scope, &entry.instructions).await?;
        write_blobs(&mut transaction, &entry.blobs).await?;
        write_chunks(&mut transaction, lease, &entry.chunks).await?;
        write_decision(&mut transaction, lease, &entry.decision).await?;
        commit(transaction, RECORD).await
    }

    pub(super) async fn append(&self, lease: &Lease, chunks: &[LogChunk]) -> Result<(), StoreError> {
        const WHAT: &str = "append to the log";
        let mut transaction = self.under(lease, WHAT).await?;
        write_chunks(&mut transaction, lease, chunks).await?;
        commit(transaction, WHAT).await
    }

    pub(super) async fn keep_blobs(&self, blobs: &[Blob]) -> Result<(), StoreError> {
        let mut connection = self.pool.acquire().await.map_err(database(RECORD))?;
        write_blobs(&mut connection, blobs).await
    }

    pub(super) async fn read_blob(&self, hash: &BlobHash) -> Result<Option<Blob>, StoreError> {
        let found = sqlx::query!("SELECT kind, bytes FROM blobs WHERE hash = $1", &hash.0);
        let found = found.fetch_optional(&self.pool).await.map_err(database("read a content"))?;
        Ok(found.map(|row| Blob { hash: *hash, kind: row.kind, bytes: row.bytes }))
    }

    pub(super) async fn read_decisions(&self, filter: &DecisionFilter) -> Result<Vec<StoredDecision>, StoreError> {
        let before = filter.before.map_or(i64::MAX, column);
        let limit = i64::from(filter.limit);
        let rows = match &filter.scope {
            Some(scope) => {
                let rows = sqlx::query_as!(
                    Columns,
                    r#"SELECT scope, number, milliseconds(decided_at) AS "decided_at_ms!", epoch, kind, summary, report,
                              segment, sequence, stance, plan, policy, catalogues, engine_version, input_digest, plan_digest
                       FROM decisions WHERE scope = $1 AND number < $2 ORDER BY number DESC LIMIT $3"#,
                    scope.key(),
                    before,
                    limit
                );
                rows.fetch_all(&self.pool).await
            }
            None => {
                let rows = sqlx::query_as!(
                    Columns,
                    r#"SELECT scope, number, milliseconds(decided_at) AS "decided_at_ms!", epoch, kind, summary, report,
                              segment, sequence, stance, plan, policy, catalogues, engine_version, input_digest, plan_digest
                       FROM decisions WHERE number < $1 ORDER BY number DESC LIMIT $2"#,
                    before,
                    limit
                );
                rows.fetch_all(&self.pool).await
            }
        };
        rows.map_err(database(READ))?.into_iter().map(Columns::read).collect()
    }

    pub(super) async fn read_decision(&self, number: u64) -> Result<Vec<StoredDecision>, StoreError> {
        let rows = sqlx::query_as!(
            Columns,
            r#"SELECT scope, number, milliseconds(decided_at) AS "decided_at_ms!", epoch, kind, summary, report,
                      segment, sequence, stance, plan, policy, catalogues, engine_version, input_digest, plan_digest
               FROM decisions WHERE number = $1 ORDER BY scope"#,
            column(number)
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        rows.into_iter().map(Columns::read).collect()
    }

    pub(super) async fn read_segment(&self, scope: &Scope, segment: u64) -> Result<Option<LogSegment>, StoreError> {
        const WHAT: &str = "read the log";
        let head = sqlx::query!(
            r#"SELECT epoch, milliseconds(started_at) AS "started_ms!" FROM log_segments WHERE scope = $1 AND segment = $2"#,
            scope.key(),
            column(segment)
        );
        let Some(head) = head.fetch_optional(&self.pool).await.map_err(database(WHAT))? else { return Ok(None) };
        // The lower bound lets PostgreSQL skip the days before; it leaves a day for clocks that were set back.
        let chunks = sqlx::query!(
            r#"SELECT first_sequence, last_sequence, milliseconds(written_at) AS "at_ms!", bytes FROM log_chunks
               WHERE scope = $1 AND segment = $2 AND written_at >= moment($3) - interval '1 day'
               ORDER BY first_sequence"#,
            scope.key(),
            column(segment),
            head.started_ms
        );
        let chunks = chunks.fetch_all(&self.pool).await.map_err(database(WHAT))?;
        let chunks = chunks.into_iter().map(|row| LogChunk {
            segment,
            first_sequence: row.first_sequence.unsigned_abs(),
            last_sequence: row.last_sequence.unsigned_abs(),
            at_ms: row.at_ms,
            bytes: row.bytes,
        });
        let (epoch, started_ms) = (head.epoch.unsigned_abs(), head.started_ms);
        Ok(Some(LogSegment { epoch, started_ms, chunks: chunks.collect() }))
    }

    pub(super) async fn let_go(&self, retention: &Retention) -> Result<Pruned, StoreError> {
        sqlx::query!("SELECT make_log_partitions((now() AT TIME ZONE 'UTC')::date - 1, 9)")
            .execute(&self.pool)
            .await
            .map_err(database(PRUNE))?;
        Ok(Pruned {
            ended: self.prune_ended(retention.ended.as_secs_f64()).await?,
            log: self.prune_log(retention.log).await?,
            blobs: self.prune_blobs((retention.log + SEGMENT).as_secs_f64()).await?,
        })
    }

    async fn prune_ended(&self, seconds: f64) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let deleted = sqlx::query_scalar!(
                r#"WITH old_intents AS (DELETE FROM intents WHERE ctid = ANY(ARRAY(
                     SELECT ctid FROM intents WHERE closed_at < now() - make_interval(secs => $1) LIMIT $2))
                     RETURNING scope, claim, attempt),
                 old_requests AS (DELETE FROM launch_requests USING old_intents
                     WHERE launch_requests.scope = old_intents.scope AND launch_requests.claim = old_intents.claim
                       AND launch_requests.attempt = old_intents.attempt),
                 old_instructions AS (DELETE FROM instructions WHERE ctid = ANY(ARRAY(
                     SELECT ctid FROM instructions WHERE ended_at < now() - make_interval(secs => $1) LIMIT $2)) RETURNING 1),
                 old_disruptions AS (DELETE FROM disruptions WHERE ctid = ANY(ARRAY(
                     SELECT ctid FROM disruptions WHERE ended_at < now() - make_interval(secs => $1) LIMIT $2)) RETURNING 1)
                 SELECT (SELECT count(*) FROM old_intents) + (SELECT count(*) FROM old_instructions)
                        + (SELECT count(*) FROM old_disruptions) AS "gone!""#,
                seconds,
                ROWS_AT_ONCE
            );
            let deleted = deleted.fetch_one(&self.pool).await.map_err(database(PRUNE))?;
            gone += deleted.unsigned_abs();
            if deleted == 0 {
                return Ok(gone);
            }
        }
    }

    async fn prune_log(&self, keep: Duration) -> Result<u64, StoreError> {
        let (decisions, chunks) = (keep.as_secs_f64(), (keep + SEGMENT).as_secs_f64());
        let days = sqlx::query_scalar!(
            r#"SELECT drop_log_partitions('decisions', (now() - make_interval(secs => $1))::date)
                      + drop_log_partitions('log_chunks', (now() - make_interval(secs => $2))::date) AS "days!""#,
            decisions,
            chunks
        );
        let days = days.fetch_one(&self.pool).await.map_err(database(PRUNE))?;
        let rows = sqlx::query_scalar!(
            r#"WITH old_decisions AS (DELETE FROM decisions_other WHERE decided_at < now() - make_interval(secs => $1) RETURNING 1),
             old_chunks AS (DELETE FROM log_chunks_other WHERE written_at < now() - make_interval(secs => $2) RETURNING 1),
             old_segments AS (DELETE FROM log_segments WHERE started_at < now() - make_interval(secs => $2) RETURNING 1)
             SELECT (SELECT count(*) FROM old_decisions) + (SELECT count(*) FROM old_chunks)
                    + (SELECT count(*) FROM old_segments) AS "gone!""#,
            decisions,
            chunks
        );
        let rows = rows.fetch_one(&self.pool).await.map_err(database(PRUNE))?;
        Ok(rows.unsigned_abs() + u64::from(days.unsigned_abs()))
    }

    async fn prune_blobs(&self, seconds: f64) -> Result<u64, StoreError> {
        sqlx::query!("DELETE FROM offering_memory WHERE until_at < now()")
            .execute(&self.pool)
            .await
            .map_err(database(PRUNE))?;
        let blobs = sqlx::query!("DELETE FROM blobs WHERE used_at < now() - make_interval(secs => $1)", seconds);
        Ok(blobs.execute(&self.pool).await.map_err(database(PRUNE))?.rows_affected())
    }
}

async fn write_decision(
    connection: &mut PgConnection,
    lease: &Lease,
    decision: &DecisionRow,
) -> Result<(), StoreError> {
    let replay = decision.replay.as_ref();
    let hashes: Vec<Vec<u8>> = replay.into_iter().flat_map(Replay::hashes).map(|hash| hash.0.to_vec()).collect();
    let catalogues: Option<Vec<Vec<u8>>> =
        replay.map(|replay| replay.catalogues.iter().map(|hash| hash.0.to_vec()).collect());
    let policy = replay.and_then(|replay| replay.policy).map(|hash| hash.0.to_vec());
    // A content in use is noted twice a day at most: noting it each time would write it more often than the decision.
    sqlx::query!(
        "WITH used AS (UPDATE blobs SET used_at = now() WHERE hash = ANY($17) AND used_at < now() - interval '12 hours')
         INSERT INTO decisions (scope, number, decided_at, epoch, kind, summary, report, segment, sequence, stance, plan,
                                policy, catalogues, engine_version, input_digest, plan_digest)
         VALUES ($1, $2, moment($3), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
         ON CONFLICT (scope, number, decided_at) DO NOTHING",
        lease.scope.key(),
        column(decision.number),
        decision.decided_at_ms,
        column(lease.epoch),
        decision.kind,
        decision.summary,
        decision.report,
        replay.map(|replay| column(replay.segment)),
        replay.map(|replay| column(replay.sequence)),
        replay.map(|replay| replay.stance.as_slice()),
        replay.map(|replay| replay.plan.as_slice()),
        policy,
        catalogues.as_deref(),
        replay.map(|replay| replay.engine_version.as_str()),
        replay.map(|replay| replay.input_digest.as_slice()),
        replay.map(|replay| replay.plan_digest.as_slice()),
        &hashes
    )
    .execute(connection)
    .await
    .map_err(database(RECORD))?;
    Ok(())
}

async fn write_blobs(connection: &mut PgConnection, blobs: &[Blob]) -> Result<(), StoreError> {
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
        .map_err(database("keep a content"))?;
    }
    Ok(())
}

async fn write_chunks(connection: &mut PgConnection, lease: &Lease, chunks: &[LogChunk]) -> Result<(), StoreError> {
    for chunk in chunks {
        sqlx::query!(
            "WITH begun AS (INSERT INTO log_segments (scope, segment, epoch, started_at)
                            VALUES ($1, $2, $3, moment($6)) ON CONFLICT (scope, segment) DO NOTHING)
             INSERT INTO log_chunks (scope, segment, first_sequence, last_sequence, written_at, bytes)
             VALUES ($1, $2, $4, $5, moment($6), $7)
             ON CONFLICT (scope, segment, first_sequence, written_at) DO NOTHING",
            lease.scope.key(),
            column(chunk.segment),
            column(lease.epoch),
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

impl Columns {
    fn read(self) -> Result<StoredDecision, StoreError> {
        let unreadable = |found: &str| StoreError::Unreadable { what: READ, found: found.to_owned() };
        let scope = Scope::parse(&self.scope).ok_or_else(|| unreadable(&self.scope))?;
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
        let decision = DecisionRow {
            number: self.number.unsigned_abs(),
            decided_at_ms: self.decided_at_ms,
            kind: self.kind,
            summary: self.summary,
            report: self.report,
            replay,
        };
        Ok(StoredDecision { scope, epoch: self.epoch.unsigned_abs(), decision })
    }
}

fn hash(bytes: Vec<u8>) -> Result<BlobHash, StoreError> {
    let unreadable =
        |bytes: Vec<u8>| StoreError::Unreadable { what: READ, found: format!("a hash of {} bytes", bytes.len()) };
    bytes.try_into().map(BlobHash).map_err(unreadable)
}
