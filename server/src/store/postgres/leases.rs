//! Leases, by the database's clock.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::StoreError;
use super::super::lease::{Lease, LeaseAnswer, Open, Renewal, Scope};
use super::signals::{Signal, raise};
use super::{PostgresStore, column, commit, database, undertakings};

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
        let granted = sqlx::query!(
            "INSERT INTO leases AS held (scope, owner, epoch, expires_at)
             VALUES ($1, $2, $4::bigint + 1, clock_timestamp() + make_interval(secs => $3))
             ON CONFLICT (scope) DO UPDATE
             SET owner = excluded.owner, epoch = greatest(held.epoch, $4) + 1, expires_at = excluded.expires_at,
                 wanted_by = NULL
             WHERE held.owner = excluded.owner OR held.expires_at <= clock_timestamp()
             RETURNING epoch",
            scope.key(),
            owner,
            duration.as_secs_f64(),
            column(seen)
        );
        let Some(row) = granted.fetch_optional(&mut *transaction).await.map_err(database(WHAT))? else {
            return held_by(&mut transaction, scope).await;
        };
        let open = Open {
            intents: undertakings::open_intents(&mut transaction, scope).await?,
            instructions: undertakings::open_instructions(&mut transaction, scope).await?,
            disruptions: undertakings::open_disruptions(&mut transaction, scope).await?,
        };
        commit(transaction, WHAT).await?;
        let lease = Lease { scope: scope.clone(), owner: owner.to_owned(), epoch: row.epoch.unsigned_abs() };
        Ok(LeaseAnswer::Granted { lease, open })
    }

    pub(super) async fn renew(&self, leases: &[Lease], duration: Duration) -> Result<Renewal, StoreError> {
        let (scopes, owners, epochs) = columns(leases);
        let renewed = sqlx::query!(
            "UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => $4)
             FROM unnest($1::text[], $2::text[], $3::bigint[]) AS asked (scope, owner, epoch)
             WHERE leases.scope = asked.scope AND leases.owner = asked.owner AND leases.epoch = asked.epoch
             RETURNING leases.scope, leases.wanted_by",
            &scopes,
            &owners,
            &epochs,
            duration.as_secs_f64()
        );
        let renewed = renewed.fetch_all(&self.pool).await.map_err(database("renew leases"))?;
        let renewed: BTreeMap<String, Option<String>> =
            renewed.into_iter().map(|row| (row.scope, row.wanted_by)).collect();
        let mut renewal = Renewal::default();
        for (lease, scope) in leases.iter().zip(&scopes) {
            match renewed.get(scope) {
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
            "UPDATE leases SET expires_at = clock_timestamp()
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

async fn held_by(connection: &mut sqlx::PgConnection, scope: &Scope) -> Result<LeaseAnswer, StoreError> {
    let holder = sqlx::query!(
        r#"SELECT owner, greatest(extract(epoch FROM expires_at - clock_timestamp()), 0)::float8 AS "seconds!"
           FROM leases WHERE scope = $1"#,
        scope.key()
    );
    let holder = holder.fetch_one(connection).await.map_err(database("read who holds a lease"))?;
    Ok(LeaseAnswer::Held { owner: holder.owner, expires_in: Duration::from_secs_f64(holder.seconds) })
}

fn columns(leases: &[Lease]) -> (Vec<String>, Vec<String>, Vec<i64>) {
    (
        leases.iter().map(|lease| lease.scope.key()).collect(),
        leases.iter().map(|lease| lease.owner.clone()).collect(),
        leases.iter().map(|lease| column(lease.epoch)).collect(),
    )
}
