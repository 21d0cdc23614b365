//! Operations in flight: launches.

use std::time::Duration;

use prost::Message;
use sqlx::PgConnection;
use tracing::error;

use super::bodies::LaunchOrders;
use super::connection::{PostgresStore, commit};
use super::conversion::{column, database};
use super::dictionaries::{CompressedText, DictionaryTexts, RowKind, StoredText};
use store::lease::{Lease, Scope};
use store::log::DecisionRow;
use store::operations::{AttemptOutcome, Intent, IntentState, OpenIntent, RecentAttempt};
use store::{StoreError, StoreResult};

const READ_RECENT: &str = "read recent launches";
const READ_OPEN: &str = "read open launches";
const WRITE: &str = "write launches";

impl PostgresStore {
    pub(super) async fn write_attempt(&self, lease: &Lease, intent: &Intent) -> StoreResult<()> {
        let intents = std::slice::from_ref(intent);
        let orders = self.compress_orders(&lease.scope, intents).await?;
        let mut transaction = self.begin_fenced(lease, WRITE).await?;
        self.dictionaries.verify(&mut transaction, orders.iter()).await?;
        insert_intents(&mut transaction, &lease.scope, intents, orders, None).await?;
        commit(transaction, WRITE).await
    }

    /// Encodes and compresses the orders of launches.
    pub(super) async fn compress_orders(&self, scope: &Scope, intents: &[Intent]) -> StoreResult<Vec<CompressedText>> {
        let mut packed = Vec::with_capacity(intents.len());
        for intent in intents {
            let orders = LaunchOrders { request: intent.request.clone(), claim_order: intent.claim_order.clone() };
            packed.push(self.dictionaries.compress(&self.pool, scope, RowKind::Launch, &orders.encode_to_vec()).await?);
        }
        Ok(packed)
    }

    pub(super) async fn end_attempt(
        &self,
        lease: &Lease,
        claim: &str,
        attempt: u32,
        outcome: &AttemptOutcome,
    ) -> StoreResult<()> {
        const WHAT: &str = "write the outcome of a launch";
        let (state, provider_id, why) = match outcome {
            AttemptOutcome::Launched { provider_id } => ("launched", Some(provider_id.as_str()), None),
            AttemptOutcome::Failed { why } => ("failed", None, Some(why.as_str())),
        };
        let (scope, attempt) = (lease.scope.key(), attempt_column(attempt));
        let mut transaction = self.begin_fenced(lease, WHAT).await?;
        // The open row is tried first; a row closed within the last hour is updated only when no open one exists.
        let alive = sqlx::query!(
            "UPDATE intents SET state = $4, provider_id = $5, why = $6, settled_at = clock_timestamp()
             WHERE scope = $1 AND claim = $2 AND attempt = $3 AND state = 'open' AND closed_at IS NULL",
            scope,
            claim,
            attempt,
            state,
            provider_id,
            why
        );
        let settled = alive.execute(&mut *transaction).await.map_err(database(WHAT))?.rows_affected();
        if settled == 0 {
            let over = sqlx::query!(
                "UPDATE intents SET state = $4, provider_id = $5, why = $6, settled_at = clock_timestamp()
                 WHERE scope = $1 AND claim = $2 AND attempt = $3 AND state = 'open'
                   AND closed_at > now() - interval '1 hour'",
                scope,
                claim,
                attempt,
                state,
                provider_id,
                why
            );
            over.execute(&mut *transaction).await.map_err(database(WHAT))?;
        }
        commit(transaction, WHAT).await
    }

    pub(super) async fn close(&self, lease: &Lease, claims: &[String]) -> StoreResult<()> {
        const WHAT: &str = "close launches";
        let mut transaction = self.begin_fenced(lease, WHAT).await?;
        sqlx::query!(
            "UPDATE intents SET closed_at = clock_timestamp()
             WHERE scope = $1 AND claim = ANY($2) AND closed_at IS NULL",
            lease.scope.key(),
            claims
        )
        .execute(&mut *transaction)
        .await
        .map_err(database(WHAT))?;
        commit(transaction, WHAT).await
    }

    /// Each half of the union uses its own index.
    pub(super) async fn read_recent_attempts(
        &self,
        scope: &Scope,
        within: Duration,
    ) -> StoreResult<Vec<RecentAttempt>> {
        let mut connection = self.pool.acquire().await.map_err(database(READ_RECENT))?;
        let rows = sqlx::query!(
            r#"SELECT past.claim AS "claim!", sample, orders, claim_order AS "claim_order?", state AS "state!",
                      milliseconds(now()) - milliseconds(created_at) AS "begun_ago_ms!",
                      milliseconds(now()) - milliseconds(closed_at) AS closed_ago_ms
               FROM (SELECT * FROM intents WHERE scope = $1 AND closed_at IS NULL
                     UNION ALL
                     SELECT * FROM intents
                     WHERE scope = $1 AND closed_at > now() - $2::bigint * interval '1 millisecond') AS past
               LEFT JOIN launch_requests ON orders IS NULL AND launch_requests.scope = $1
                         AND launch_requests.claim = past.claim AND launch_requests.attempt = past.attempt
               ORDER BY past.claim, past.attempt"#,
            scope.key(),
            i64::try_from(within.as_millis()).unwrap_or(i64::MAX)
        );
        let rows = rows.fetch_all(&mut *connection).await.map_err(database(READ_RECENT))?;
        let dictionaries = DictionaryTexts::read(&mut connection, rows.iter().filter_map(|row| row.sample)).await?;
        let read = rows.into_iter().map(|row| {
            let orders = orders(&dictionaries, READ_RECENT, (row.sample, row.orders), (None, row.claim_order))?;
            Ok(RecentAttempt {
                claim: row.claim,
                claim_order: orders.claim_order,
                launched: (row.state != "open").then_some(row.state == "launched"),
                begun_ago_ms: row.begun_ago_ms,
                closed_ago_ms: row.closed_ago_ms,
            })
        });
        read.collect()
    }
}

/// Inserts attempts under a held lease. An existing attempt is unchanged: one of a decision that is
/// already recorded, and one that is open or was closed within the last hour, the longest time in
/// which a write is retried. The scope lock excludes concurrent writers.
pub(super) async fn insert_intents(
    connection: &mut PgConnection,
    scope: &Scope,
    intents: &[Intent],
    orders: Vec<CompressedText>,
    decision: Option<&DecisionRow>,
) -> StoreResult<()> {
    if intents.is_empty() {
        return Ok(());
    }
    // Predecessors are closed before the insert, because only one attempt per NodeClaim may be open.
    if intents.iter().any(|intent| intent.attempt > 1) {
        close_failed_attempts(connection, scope, intents).await?;
    }
    let claims: Vec<String> = intents.iter().map(|intent| intent.claim.clone()).collect();
    let attempts: Vec<i32> = intents.iter().map(|intent| attempt_column(intent.attempt)).collect();
    let tokens: Vec<String> = intents.iter().map(|intent| intent.token.clone()).collect();
    let (samples, orders): (Vec<Option<i64>>, Vec<Vec<u8>>) =
        orders.into_iter().map(|prepared| (prepared.dictionary_number(), prepared.bytes)).unzip();
    let written = sqlx::query!(
        "INSERT INTO intents (scope, claim, attempt, token, sample, orders)
         SELECT $1, claim, attempt, token, sample, orders
         FROM unnest($2::text[], $3::integer[], $4::text[], $5::bigint[], $6::bytea[])
              AS given (claim, attempt, token, sample, orders)
         WHERE NOT EXISTS (SELECT FROM intents AS alive WHERE alive.scope = $1 AND alive.claim = given.claim
                                  AND alive.attempt = given.attempt AND alive.closed_at IS NULL)
           AND NOT EXISTS (SELECT FROM intents AS past WHERE past.scope = $1 AND past.claim = given.claim
                                  AND past.attempt = given.attempt AND past.closed_at > now() - interval '1 hour')
           AND NOT EXISTS (SELECT FROM decisions WHERE decisions.scope = $1 AND number = $7 AND decided_at = moment($8))",
        scope.key(),
        &claims,
        &attempts,
        &tokens,
        &samples as &[Option<i64>],
        &orders,
        decision.map(|decision| column(decision.number)),
        decision.map(|decision| decision.decided_at_ms)
    );
    match written.execute(connection).await {
        Ok(_) => Ok(()),
        Err(sqlx::Error::Database(error)) if error.constraint() == Some("intents_alive") => {
            let first = &intents[0];
            Err(refused(
                scope,
                &first.claim,
                first.attempt,
                "another attempt of it, or of another launch of the decision, is open",
            ))
        }
        Err(error) => Err(database(WRITE)(error)),
    }
}

/// Closes the failed attempts that later ones replace; refuses when a predecessor has not failed.
async fn close_failed_attempts(connection: &mut PgConnection, scope: &Scope, intents: &[Intent]) -> StoreResult<()> {
    let later = || intents.iter().filter(|intent| intent.attempt > 1);
    let claims: Vec<String> = later().map(|intent| intent.claim.clone()).collect();
    let attempts: Vec<i32> = later().map(|intent| attempt_column(intent.attempt)).collect();
    // The check precedes the update, so that a refusal leaves every attempt open.
    let premature = sqlx::query!(
        r#"SELECT given.claim AS "claim!", given.attempt AS "attempt!"
           FROM unnest($2::text[], $3::integer[]) AS given (claim, attempt)
           WHERE NOT EXISTS (
               SELECT FROM intents
               WHERE scope = $1 AND claim = given.claim AND closed_at IS NULL
                 AND (attempt = given.attempt OR (attempt = given.attempt - 1 AND state = 'failed')))
             AND NOT EXISTS (
               SELECT FROM intents
               WHERE scope = $1 AND claim = given.claim AND closed_at > now() - interval '1 hour'
                 AND attempt = given.attempt)
           LIMIT 1"#,
        scope.key(),
        &claims,
        &attempts
    );
    if let Some(row) = premature.fetch_optional(&mut *connection).await.map_err(database(WRITE))? {
        return Err(refused(scope, &row.claim, row.attempt.unsigned_abs(), "the previous attempt has not failed"));
    }
    sqlx::query!(
        "UPDATE intents SET closed_at = clock_timestamp()
         FROM unnest($2::text[], $3::integer[]) AS given (claim, attempt)
         WHERE scope = $1 AND intents.claim = given.claim AND intents.attempt < given.attempt AND closed_at IS NULL",
        scope.key(),
        &claims,
        &attempts
    )
    .execute(connection)
    .await
    .map_err(database(WRITE))?;
    Ok(())
}

fn refused(scope: &Scope, claim: &str, attempt: u32, why: &str) -> StoreError {
    StoreError::AttemptRefused { scope: scope.clone(), claim: claim.to_owned(), attempt, why: why.to_owned() }
}

/// Attempt numbers grow with failures and stay small.
fn attempt_column(attempt: u32) -> i32 {
    i32::try_from(attempt).unwrap_or(i32::MAX)
}

pub(super) async fn open_intents(connection: &mut PgConnection, scope: &Scope) -> StoreResult<Vec<OpenIntent>> {
    let rows = sqlx::query!(
        r#"SELECT intents.claim, intents.attempt, token, state, provider_id, why, request AS "request?",
                  claim_order AS "claim_order?", CASE WHEN state <> 'launched' THEN sample END AS sample,
                  CASE WHEN state <> 'launched' THEN orders END AS orders
           FROM intents LEFT JOIN launch_requests ON state <> 'launched' AND orders IS NULL
                AND launch_requests.scope = intents.scope
                AND launch_requests.claim = intents.claim AND launch_requests.attempt = intents.attempt
           WHERE intents.scope = $1 AND closed_at IS NULL ORDER BY intents.claim COLLATE "C""#,
        scope.key()
    );
    let rows = rows.fetch_all(&mut *connection).await.map_err(database(READ_OPEN))?;
    let dictionaries = DictionaryTexts::read(connection, rows.iter().filter_map(|row| row.sample)).await?;
    let read = rows.into_iter().map(|row| {
        let state = state(&row.state, row.provider_id, row.why)?;
        let (claim, attempt, token) = (row.claim, row.attempt.unsigned_abs(), row.token);
        let orders = orders(&dictionaries, READ_OPEN, (row.sample, row.orders), (row.request, row.claim_order));
        // An unreadable launch is reported and skipped: the cluster still needs an owner.
        let orders = orders.unwrap_or_else(|error| {
            error!(%scope, claim, attempt, %error, "launch request row is unreadable; attempt cannot be retried");
            LaunchOrders::default()
        });
        let intent = Intent { claim, attempt, token, request: orders.request, claim_order: orders.claim_order };
        Ok(OpenIntent { intent, state })
    });
    read.collect()
}

/// Decodes the orders of a launch: a compressed column, or the columns of the first two schemas.
fn orders(
    dictionaries: &DictionaryTexts,
    what: &'static str,
    (sample, bytes): (Option<i64>, Option<Vec<u8>>),
    (request, claim_order): (Option<Vec<u8>>, Option<String>),
) -> StoreResult<LaunchOrders> {
    match bytes {
        Some(bytes) => LaunchOrders::read(&dictionaries.decompress(what, &StoredText { sample, bytes })?, what),
        None => Ok(LaunchOrders { request: request.unwrap_or_default(), claim_order: claim_order.unwrap_or_default() }),
    }
}

fn state(name: &str, provider_id: Option<String>, why: Option<String>) -> StoreResult<IntentState> {
    match (name, provider_id, why) {
        ("open", _, _) => Ok(IntentState::Open),
        ("launched", Some(provider_id), _) => Ok(IntentState::Ended(AttemptOutcome::Launched { provider_id })),
        ("failed", _, Some(why)) => Ok(IntentState::Ended(AttemptOutcome::Failed { why })),
        _ => Err(StoreError::Unreadable { what: READ_OPEN, found: format!("state {name}") }),
    }
}
