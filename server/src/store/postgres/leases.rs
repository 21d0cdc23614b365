//! Leases, by the database's clock.
//!
//! Leases that are renewed together belong to one term, a row that says when they run out: renewing a thousand of them writes
//! that row. Which leases a term has, each lease says, so that nothing is prolonged that the holder did not ask for:
//!
//! - Whoever renews locks the terms of its leases first, then looks which leases it still holds. Whoever takes a lease that
//!   another owner has locks the lease and its term, then looks whether it has run out. So each sees what the other did.
//! - A term that has a lease beside those to be renewed is left to run out; those that are renewed get another.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::PgConnection;

use super::super::StoreError;
use super::super::lease::{FARTHEST_JUMP, Lease, LeaseAnswer, Open, Renewal, Scope, next_epoch};
use super::signals::{Signal, raise};
use super::{PostgresStore, column, commit, database, identity, undertakings};

const RENEW: &str = "renew leases";

impl PostgresStore {
    pub(super) async fn take(
        &self,
        scope: &Scope,
        owner: &str,
        seen: u64,
        duration: Duration,
    ) -> Result<LeaseAnswer, StoreError> {
        const WHAT: &str = "take a lease";
        let mut transaction = self.begin(WHAT).await?;
        let free = sqlx::query_scalar!(r#"SELECT may_take_lease($1, $2) AS "free!""#, scope.key(), owner);
        if !free.fetch_one(&mut *transaction).await.map_err(database(WHAT))? {
            return held_by(&mut transaction, scope).await;
        }
        // Nobody else takes it until the end of the transaction. What is not far from 0 is not far from any epoch.
        if seen > FARTHEST_JUMP {
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
        let open = Open {
            intents: undertakings::open_intents(&mut transaction, scope).await?,
            instructions: undertakings::open_instructions(&mut transaction, scope).await?,
            disruptions: undertakings::open_disruptions(&mut transaction, scope).await?,
            extent: identity::extent(&mut transaction, scope).await?,
        };
        commit(transaction, WHAT).await?;
        let lease = Lease { scope: scope.clone(), owner: owner.to_owned(), epoch: row.epoch.unsigned_abs() };
        Ok(LeaseAnswer::Granted { lease, open })
    }

    pub(super) async fn renew(&self, leases: &[Lease], duration: Duration) -> Result<Renewal, StoreError> {
        if leases.is_empty() {
            return Ok(Renewal::default());
        }
        let columns = columns(leases);
        let mut transaction = self.begin(RENEW).await?;
        let held = held_in_terms(&mut transaction, &columns).await?;
        if held.is_empty() {
            return Ok(Renewal { lost: leases.to_vec(), wanted: Vec::new() });
        }
        let term = match term_of(&held) {
            Some(term) => term,
            None => new_term(&mut transaction).await?,
        };
        join(&mut transaction, &columns, term).await?;
        let wishes = prolong(&mut transaction, &columns, term, duration).await?;
        commit(transaction, RENEW).await?;
        let mut renewal = Renewal::default();
        for (lease, scope) in leases.iter().zip(&columns.0) {
            match wishes.get(scope) {
                Some(Some(by)) => renewal.wanted.push((lease.clone(), by.clone())),
                Some(None) => {}
                None => renewal.lost.push(lease.clone()),
            }
        }
        Ok(renewal)
    }

    pub(super) async fn release(&self, leases: &[Lease]) -> Result<(), StoreError> {
        const WHAT: &str = "give leases back";
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
            raise(&mut transaction, Signal::Leases, WHAT).await?;
        }
        commit(transaction, WHAT).await
    }

    pub(super) async fn ask(&self, scope: &Scope, by: &str) -> Result<(), StoreError> {
        const WHAT: &str = "ask for a lease";
        let mut transaction = self.begin(WHAT).await?;
        let asked = sqlx::query!(
            "UPDATE leases SET wanted_by = $2 WHERE scope = $1 AND owner <> $2 AND wanted_by IS DISTINCT FROM $2",
            scope.key(),
            by
        );
        let asked = asked.execute(&mut *transaction).await.map_err(database(WHAT))?;
        if asked.rows_affected() > 0 {
            raise(&mut transaction, Signal::Leases, WHAT).await?;
        }
        commit(transaction, WHAT).await
    }
}

async fn held_by(connection: &mut PgConnection, scope: &Scope) -> Result<LeaseAnswer, StoreError> {
    let holder = sqlx::query!(
        r#"SELECT owner AS "owner!", greatest(extract(epoch FROM expires_at - clock_timestamp()), 0)::float8 AS "seconds!"
           FROM lease_ends WHERE scope = $1"#,
        scope.key()
    );
    let holder = holder.fetch_one(connection).await.map_err(database("read who holds a lease"))?;
    Ok(LeaseAnswer::Held { owner: holder.owner, expires_in: Duration::from_secs_f64(holder.seconds) })
}

/// A lease that is held, before it is renewed.
struct Held {
    /// Its term.
    term: Option<i64>,
    /// Whether that has leases beside those to be renewed.
    shared: bool,
}

/// Scopes, owners and epochs of leases.
type Columns = (Vec<String>, Vec<String>, Vec<i64>);

/// Those that are still held, with their terms locked. Locks come first: a lease that was taken meanwhile is not among them.
async fn held_in_terms(connection: &mut PgConnection, columns: &Columns) -> Result<Vec<Held>, StoreError> {
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
        Held,
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

/// The term that most of them have and no other lease has.
fn term_of(held: &[Held]) -> Option<i64> {
    let mut members: BTreeMap<i64, usize> = BTreeMap::new();
    held.iter().filter(|lease| !lease.shared).filter_map(|lease| lease.term).for_each(|term| {
        *members.entry(term).or_default() += 1;
    });
    members.into_iter().max_by_key(|(_, members)| *members).map(|(term, _)| term)
}

async fn new_term(connection: &mut PgConnection) -> Result<i64, StoreError> {
    let made = sqlx::query_scalar!("INSERT INTO lease_terms (expires_at) VALUES (clock_timestamp()) RETURNING number");
    made.fetch_one(connection).await.map_err(database(RENEW))
}

/// Gives `term` to leases that are held and have another or none.
async fn join(connection: &mut PgConnection, (scopes, owners, epochs): &Columns, term: i64) -> Result<(), StoreError> {
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

/// Prolongs `term`; answers which of the leases have it, and who wants them. They are read when nobody can take them any more.
async fn prolong(
    connection: &mut PgConnection,
    (scopes, owners, epochs): &Columns,
    term: i64,
    duration: Duration,
) -> Result<BTreeMap<String, Option<String>>, StoreError> {
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

fn columns(leases: &[Lease]) -> Columns {
    (
        leases.iter().map(|lease| lease.scope.key()).collect(),
        leases.iter().map(|lease| lease.owner.clone()).collect(),
        leases.iter().map(|lease| column(lease.epoch)).collect(),
    )
}
