//! Freezes, audit.

use std::hash::{BuildHasher, RandomState};

use sqlx::PgConnection;

use super::connection::{PostgresStore, commit};
use super::conversion::database;
use super::signals::{Signal, bump_signal};
use store::StoreResult;
use store::clock;
use store::guardrails::{AuditEntry, AuditRow, Freeze, FreezeOrder, FreezeScope};
use store::lease::Scope;

const FREEZE: &str = "freeze";
const AUDIT: &str = "write an audit entry";

/// Unique id of one call: its repetition finds the row by it.
pub(super) fn nonce() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(clock::now().as_millis()));
    half() << 64 | half()
}

/// A number of a cluster, as the port has it.
fn cluster_number(scope: &str, number: i64) -> Option<(String, u64)> {
    Some((Scope::parse(scope)?.cluster_name()?.to_owned(), number.unsigned_abs()))
}

fn text(nonce: u128) -> String {
    format!("{nonce:032x}")
}

impl PostgresStore {
    pub(super) async fn write_quarantine_release(&self, cluster: &str, by: &str, nonce: u128) -> StoreResult<bool> {
        const WHAT: &str = "release a quarantine";
        let mut transaction = self.begin(WHAT).await?;
        let released = sqlx::query!(
            "INSERT INTO quarantine_releases AS kept (scope, number, released_at)
             SELECT scope, 1, clock_timestamp() FROM leases WHERE scope = $1
             ON CONFLICT (scope) DO UPDATE SET number = kept.number + 1, released_at = excluded.released_at",
            Scope::cluster(cluster).key()
        );
        if released.execute(&mut *transaction).await.map_err(database(WHAT))?.rows_affected() == 0 {
            return Ok(false);
        }
        write_line(&mut transaction, &AuditEntry::release(cluster, by, clock::now().as_millis()), nonce).await?;
        bump_signal(&mut transaction, Signal::Releases, WHAT).await?;
        commit(transaction, WHAT).await?;
        Ok(true)
    }

    pub(super) async fn read_clusters(&self) -> StoreResult<Vec<String>> {
        let rows = sqlx::query_scalar!(r#"SELECT scope FROM leases WHERE owner <> '' ORDER BY scope COLLATE "C""#);
        let rows = rows.fetch_all(&self.pool).await.map_err(database("read the clusters"))?;
        Ok(rows.iter().filter_map(|scope| Some(Scope::parse(scope)?.cluster_name()?.to_owned())).collect())
    }

    pub(super) async fn read_quarantine_releases(&self) -> StoreResult<Vec<(String, u64)>> {
        const WHAT: &str = "read quarantine releases";
        let rows = sqlx::query!(r#"SELECT scope, number FROM quarantine_releases ORDER BY scope COLLATE "C""#);
        let rows = rows.fetch_all(&self.pool).await.map_err(database(WHAT))?;
        Ok(rows.into_iter().filter_map(|row| cluster_number(&row.scope, row.number)).collect())
    }

    pub(super) async fn write_confirmation(&self, cluster: &str, by: &str, nonce: u128) -> StoreResult<bool> {
        const WHAT: &str = "confirm removals";
        let mut transaction = self.begin(WHAT).await?;
        let confirmed = sqlx::query!(
            "INSERT INTO removal_confirmations AS kept (scope, number, confirmed_at)
             SELECT scope, 1, clock_timestamp() FROM leases WHERE scope = $1
             ON CONFLICT (scope) DO UPDATE SET number = kept.number + 1, confirmed_at = excluded.confirmed_at",
            Scope::cluster(cluster).key()
        );
        if confirmed.execute(&mut *transaction).await.map_err(database(WHAT))?.rows_affected() == 0 {
            return Ok(false);
        }
        write_line(&mut transaction, &AuditEntry::confirmation(cluster, by, clock::now().as_millis()), nonce).await?;
        bump_signal(&mut transaction, Signal::Releases, WHAT).await?;
        commit(transaction, WHAT).await?;
        Ok(true)
    }

    pub(super) async fn read_confirmations(&self) -> StoreResult<Vec<(String, u64)>> {
        const WHAT: &str = "read removal confirmations";
        let rows = sqlx::query!(r#"SELECT scope, number FROM removal_confirmations ORDER BY scope COLLATE "C""#);
        let rows = rows.fetch_all(&self.pool).await.map_err(database(WHAT))?;
        Ok(rows.into_iter().filter_map(|row| cluster_number(&row.scope, row.number)).collect())
    }

    pub(super) async fn write_freeze(&self, order: &FreezeOrder, nonce: u128) -> StoreResult<i64> {
        let (cluster, pool) = columns(&order.scope);
        let mut transaction = self.begin(FREEZE).await?;
        let written = sqlx::query_scalar!(
            "INSERT INTO freezes (nonce, cluster, pool, frozen_by, reason, until_at, only_disruption)
             VALUES ($1, $2, $3, $4, $5, moment($6), $7) ON CONFLICT (nonce) DO NOTHING RETURNING id",
            text(nonce),
            cluster,
            pool,
            order.by,
            order.reason,
            order.until_ms,
            order.only_disruption
        );
        let Some(id) = written.fetch_optional(&mut *transaction).await.map_err(database(FREEZE))? else {
            let before = sqlx::query_scalar!("SELECT id FROM freezes WHERE nonce = $1", text(nonce));
            return before.fetch_one(&mut *transaction).await.map_err(database(FREEZE));
        };
        let entry = line(&order.by, "freeze", &order.scope, order.audit_detail());
        write_line(&mut transaction, &entry, nonce).await?;
        bump_signal(&mut transaction, Signal::Freezes, FREEZE).await?;
        commit(transaction, FREEZE).await?;
        Ok(id)
    }

    pub(super) async fn end_freeze(&self, id: i64, by: &str, nonce: u128) -> StoreResult<bool> {
        const WHAT: &str = "thaw";
        let mut transaction = self.begin(WHAT).await?;
        let thawed = sqlx::query!(
            "UPDATE freezes SET thawed_by = $2, thawed_at = clock_timestamp() WHERE id = $1 AND thawed_at IS NULL
             RETURNING cluster, pool",
            id,
            by
        );
        let Some(row) = thawed.fetch_optional(&mut *transaction).await.map_err(database(WHAT))? else {
            let known = sqlx::query!("SELECT id FROM freezes WHERE id = $1", id);
            return Ok(known.fetch_optional(&mut *transaction).await.map_err(database(WHAT))?.is_some());
        };
        let entry = line(by, "thaw", &scope(row.cluster, row.pool), format!("freeze {id}"));
        write_line(&mut transaction, &entry, nonce).await?;
        bump_signal(&mut transaction, Signal::Freezes, WHAT).await?;
        commit(transaction, WHAT).await?;
        Ok(true)
    }

    pub(super) async fn read_freezes(&self) -> StoreResult<Vec<Freeze>> {
        let rows = sqlx::query!(
            r#"SELECT id, cluster, pool, frozen_by, reason, milliseconds(since_at) AS "since_ms!",
                      milliseconds(until_at) AS until_ms, only_disruption
               FROM freezes WHERE thawed_at IS NULL AND (until_at IS NULL OR until_at > now()) ORDER BY id"#
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database("read freezes"))?;
        let read = rows.into_iter().map(|row| {
            let order = FreezeOrder {
                scope: scope(row.cluster, row.pool),
                only_disruption: row.only_disruption,
                by: row.frozen_by,
                reason: row.reason,
                until_ms: row.until_ms,
            };
            Freeze { id: row.id, since_ms: row.since_ms, order }
        });
        Ok(read.collect())
    }

    pub(super) async fn write_audit(&self, entry: &AuditEntry, nonce: u128) -> StoreResult<()> {
        let mut connection = self.pool.acquire().await.map_err(database(AUDIT))?;
        write_line(&mut connection, entry, nonce).await
    }

    pub(super) async fn audit_rows(&self, limit: u32, before: Option<i64>) -> StoreResult<Vec<AuditRow>> {
        let rows = sqlx::query!(
            r#"SELECT id, milliseconds(at) AS "at_ms!", who, what, scope, detail FROM audit
               WHERE id < $2 ORDER BY id DESC LIMIT $1"#,
            i64::from(limit),
            before.unwrap_or(i64::MAX)
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database("read audit entries"))?;
        let read = rows.into_iter().map(|row| {
            let (at_ms, who, what, scope, detail) = (row.at_ms, row.who, row.what, row.scope, row.detail);
            AuditRow { id: row.id, entry: AuditEntry { at_ms, who, what, scope, detail } }
        });
        Ok(read.collect())
    }
}

pub(super) async fn write_line(connection: &mut PgConnection, entry: &AuditEntry, nonce: u128) -> StoreResult<()> {
    sqlx::query!(
        "INSERT INTO audit (nonce, at, who, what, scope, detail) VALUES ($1, moment($2), $3, $4, $5, $6)
         ON CONFLICT (nonce) DO NOTHING",
        text(nonce),
        entry.at_ms,
        entry.who,
        entry.what,
        entry.scope,
        entry.detail
    )
    .execute(connection)
    .await
    .map_err(database(AUDIT))?;
    Ok(())
}

/// Whether the audit log has the entry of this nonce.
pub(super) async fn is_written(connection: &mut PgConnection, nonce: u128) -> StoreResult<bool> {
    let read = sqlx::query_scalar!(r#"SELECT EXISTS (SELECT FROM audit WHERE nonce = $1) AS "written!""#, text(nonce));
    read.fetch_one(connection).await.map_err(database(AUDIT))
}

fn line(who: &str, what: &str, scope: &FreezeScope, detail: String) -> AuditEntry {
    AuditEntry {
        at_ms: clock::now().as_millis(),
        who: who.to_owned(),
        what: what.to_owned(),
        scope: scope.key(),
        detail,
    }
}

fn columns(scope: &FreezeScope) -> (Option<&str>, Option<&str>) {
    match scope {
        FreezeScope::Fleet => (None, None),
        FreezeScope::Cluster(cluster) => (Some(cluster), None),
        FreezeScope::Pool { cluster, pool } => (Some(cluster), Some(pool)),
    }
}

fn scope(cluster: Option<String>, pool: Option<String>) -> FreezeScope {
    match (cluster, pool) {
        (None, _) => FreezeScope::Fleet,
        (Some(cluster), None) => FreezeScope::Cluster(cluster),
        (Some(cluster), Some(pool)) => FreezeScope::Pool { cluster, pool },
    }
}
