//! Leases, by the database clock.
//!
//! Leases that are renewed together share a term, a row with their expiry: renewing a thousand
//! leases updates that one row. Each lease references its term, so a renewal extends only what the
//! holder asked for:
//!
//! - A renewal locks the terms of its leases first, then reads which leases are still held. An
//!   acquisition from another owner locks the term and the lease, then reads the expiry. So each
//!   sees the effect of the other, and both lock terms before leases.
//! - A term that also covers a lease outside the renewal is left to expire; the renewed leases move
//!   to another term.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::PgConnection;

use super::connection::{PostgresStore, commit};
use super::conversion::{column, database};
use super::signals::{Signal, bump_signal};
use super::{holds, identity, operations, replacements, spend};
use store::StoreResult;
use store::epoch::next_epoch;
use store::lease::{Lease, LeaseOutcome, MAX_EPOCH_JUMP, OpenOperations, Renewal, Scope};

const RENEW: &str = "renew leases";

impl PostgresStore {
    pub(super) async fn try_acquire(
        &self,
        scope: &Scope,
        owner: &str,
        seen: u64,
        duration: Duration,
    ) -> StoreResult<LeaseOutcome> {
        const WHAT: &str = "acquire a lease";
        let mut transaction = self.begin(WHAT).await?;
        let free = sqlx::query_scalar!(r#"SELECT may_take_lease($1, $2) AS "free!""#, scope.key(), owner);
        if !free.fetch_one(&mut *transaction).await.map_err(database(WHAT))? {
            return held_by(&mut transaction, scope).await;
        }
        // The scope is locked until commit. A small `seen` is close to any epoch, so only a large
        // one is checked.
        if seen > MAX_EPOCH_JUMP {
            let held = sqlx::query_scalar!("SELECT epoch FROM leases WHERE scope = $1", scope.key());
            let held = held.fetch_optional(&mut *transaction).await.map_err(database(WHAT))?;
            next_epoch(scope, held.unwrap_or_default().unsigned_abs(), seen)?;
        }
        let granted = sqlx::query!(
            "INSERT INTO leases AS held (scope, owner, epoch, expires_at)
             VALUES ($1, $2, $4::bigint + 1, clock_timestamp() + make_interval(secs => $3))
             ON CONFLICT (scope) DO UPDATE
             SET owner = excluded.owner, epoch = greatest(held.epoch, $4) + 1, expires_at = excluded.expires_at,
                 term = NULL, wanted_by = NULL
             RETURNING epoch",
            scope.key(),
            owner,
            duration.as_secs_f64(),
            column(seen)
        );
        let row = granted.fetch_one(&mut *transaction).await.map_err(database(WHAT))?;
        let (replacements, backoffs) = replacements::open(&mut transaction, scope).await?;
        let open = Box::new(OpenOperations {
            intents: operations::open_intents(&mut transaction, scope).await?,
            extent: identity::extent(&mut transaction, scope).await?,
            replacements,
            backoffs,
            holds: holds::live(&mut transaction, Some(scope)).await?,
            costs: spend::running(&mut transaction, scope).await?,
        });
        commit(transaction, WHAT).await?;
        let lease = Lease { scope: scope.clone(), owner: owner.to_owned(), epoch: row.epoch.unsigned_abs() };
        Ok(LeaseOutcome::Granted { lease, open })
    }

    pub(super) async fn renew(&self, leases: &[Lease], duration: Duration) -> StoreResult<Renewal> {
        if leases.is_empty() {
            return Ok(Renewal::default());
        }
        let columns = columns(leases);
        let mut transaction = self.begin(RENEW).await?;
        let held = lock_held_terms(&mut transaction, &columns).await?;
        if held.is_empty() {
            return Ok(Renewal { lost: leases.to_vec(), requested: Vec::new() });
        }
        let term = match term_of(&held) {
            Some(term) => term,
            None => new_term(&mut transaction).await?,
        };
        assign_term(&mut transaction, &columns, term).await?;
        let requesters = extend_term(&mut transaction, &columns, term, duration).await?;
        commit(transaction, RENEW).await?;
        let mut renewal = Renewal::default();
        for (lease, scope) in leases.iter().zip(&columns.0) {
            match requesters.get(scope) {
                Some(Some(by)) => renewal.requested.push((lease.clone(), by.clone())),
                Some(None) => {}
                None => renewal.lost.push(lease.clone()),
            }
        }
        Ok(renewal)
    }

    pub(super) async fn release(&self, leases: &[Lease]) -> StoreResult<()> {
        const WHAT: &str = "release leases";
        let (scopes, owners, epochs) = columns(leases);
        let mut transaction = self.begin(WHAT).await?;
        let released = sqlx::query!(
            "UPDATE leases SET expires_at = clock_timestamp(), term = NULL
             FROM unnest($1::text[], $2::text[], $3::bigint[]) AS given (scope, owner, epoch)
             WHERE leases.scope = given.scope AND leases.owner = given.owner AND leases.epoch = given.epoch
             RETURNING leases.wanted_by",
            &scopes,
            &owners,
            &epochs
        );
        let released = released.fetch_all(&mut *transaction).await.map_err(database(WHAT))?;
        if released.iter().any(|row| row.wanted_by.is_some()) {
            bump_signal(&mut transaction, Signal::Leases, WHAT).await?;
        }
        commit(transaction, WHAT).await
    }

    pub(super) async fn write_lease_request(&self, scope: &Scope, by: &str) -> StoreResult<()> {
        const WHAT: &str = "request a lease";
        let mut transaction = self.begin(WHAT).await?;
        let asked = sqlx::query!(
            "UPDATE leases SET wanted_by = $2 WHERE scope = $1 AND owner <> $2 AND wanted_by IS DISTINCT FROM $2",
            scope.key(),
            by
        );
        let asked = asked.execute(&mut *transaction).await.map_err(database(WHAT))?;
        if asked.rows_affected() > 0 {
            bump_signal(&mut transaction, Signal::Leases, WHAT).await?;
        }
        commit(transaction, WHAT).await
    }
}

async fn held_by(connection: &mut PgConnection, scope: &Scope) -> StoreResult<LeaseOutcome> {
    let holder = sqlx::query!(
        r#"SELECT owner AS "owner!", greatest(extract(epoch FROM expires_at - clock_timestamp()), 0)::float8 AS "seconds!"
           FROM lease_ends WHERE scope = $1"#,
        scope.key()
    );
    let holder = holder.fetch_one(connection).await.map_err(database("read the lease holder"))?;
    Ok(LeaseOutcome::Held { owner: holder.owner, expires_in: Duration::from_secs_f64(holder.seconds) })
}

/// A held lease before its renewal.
struct HeldLease {
    term: Option<i64>,
    /// Whether the term covers leases outside this renewal.
    shared: bool,
}

/// Scopes, owners and epochs, as statement parameters.
type LeaseColumns = (Vec<String>, Vec<String>, Vec<i64>);

/// Reads the leases that are still held and locks their terms. The locks come first: a lease
/// acquired by another replica in the meantime is not in the result.
async fn lock_held_terms(connection: &mut PgConnection, columns: &LeaseColumns) -> StoreResult<Vec<HeldLease>> {
    let (scopes, owners, epochs) = columns;
    sqlx::query!(
        "SELECT number FROM lease_terms WHERE number IN (
             SELECT term FROM unnest($1::text[], $2::text[], $3::bigint[]) AS asked (scope, owner, epoch)
             JOIN leases USING (scope, owner, epoch))
         ORDER BY number FOR UPDATE",
        scopes,
        owners,
        epochs
    )
    .fetch_all(&mut *connection)
    .await
    .map_err(database(RENEW))?;
    let held = sqlx::query_as!(
        HeldLease,
        r#"WITH held AS (
               SELECT scope, term FROM unnest($1::text[], $2::text[], $3::bigint[]) AS asked (scope, owner, epoch)
               JOIN leases USING (scope, owner, epoch)),
           beside AS (
               SELECT DISTINCT term FROM leases
               WHERE term IN (SELECT term FROM held) AND scope NOT IN (SELECT scope FROM held))
           SELECT held.term, beside.term IS NOT NULL AS "shared!"
           FROM held LEFT JOIN beside ON beside.term = held.term"#,
        scopes,
        owners,
        epochs
    );
    held.fetch_all(connection).await.map_err(database(RENEW))
}

/// The term that covers most of the leases and no other lease.
fn term_of(held: &[HeldLease]) -> Option<i64> {
    let mut members: BTreeMap<i64, usize> = BTreeMap::new();
    held.iter().filter(|lease| !lease.shared).filter_map(|lease| lease.term).for_each(|term| {
        *members.entry(term).or_default() += 1;
    });
    members.into_iter().max_by_key(|(_, members)| *members).map(|(term, _)| term)
}

async fn new_term(connection: &mut PgConnection) -> StoreResult<i64> {
    let made = sqlx::query_scalar!("INSERT INTO lease_terms (expires_at) VALUES (clock_timestamp()) RETURNING number");
    made.fetch_one(connection).await.map_err(database(RENEW))
}

/// Moves held leases with another term, or none, to `term`.
async fn assign_term(
    connection: &mut PgConnection,
    (scopes, owners, epochs): &LeaseColumns,
    term: i64,
) -> StoreResult<()> {
    sqlx::query!(
        "UPDATE leases SET term = $4, expires_at = 'infinity'
         FROM unnest($1::text[], $2::text[], $3::bigint[]) AS asked (scope, owner, epoch)
         WHERE leases.scope = asked.scope AND leases.owner = asked.owner AND leases.epoch = asked.epoch
           AND leases.term IS DISTINCT FROM $4",
        scopes,
        owners,
        epochs,
        term
    )
    .execute(connection)
    .await
    .map_err(database(RENEW))?;
    Ok(())
}

/// Extends `term`; returns its leases with the replica that requested each. They are read while the
/// lock excludes acquisitions.
async fn extend_term(
    connection: &mut PgConnection,
    (scopes, owners, epochs): &LeaseColumns,
    term: i64,
    duration: Duration,
) -> StoreResult<BTreeMap<String, Option<String>>> {
    sqlx::query!(
        "UPDATE lease_terms SET expires_at = clock_timestamp() + make_interval(secs => $2) WHERE number = $1",
        term,
        duration.as_secs_f64()
    )
    .execute(&mut *connection)
    .await
    .map_err(database(RENEW))?;
    let members = sqlx::query!(
        r#"SELECT scope AS "scope!", wanted_by FROM unnest($1::text[], $2::text[], $3::bigint[]) AS asked (scope, owner, epoch)
           JOIN leases USING (scope, owner, epoch) WHERE term = $4"#,
        scopes,
        owners,
        epochs,
        term
    );
    let members = members.fetch_all(connection).await.map_err(database(RENEW))?;
    Ok(members.into_iter().map(|row| (row.scope, row.wanted_by)).collect())
}

fn columns(leases: &[Lease]) -> LeaseColumns {
    (
        leases.iter().map(|lease| lease.scope.key()).collect(),
        leases.iter().map(|lease| lease.owner.clone()).collect(),
        leases.iter().map(|lease| column(lease.epoch)).collect(),
    )
}
