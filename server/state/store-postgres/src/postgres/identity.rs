//! Cluster identity and observed object counts.

use sqlx::PgConnection;

use super::connection::{PostgresStore, commit};
use super::conversion::{column, database};
use super::guardrails::{is_written, write_line};
use super::signals::{Signal, bump_signal};
use super::{holds, replacements};
use store::StoreResult;
use store::clock;
use store::guardrails::AuditEntry;
use store::identity::{ForgetOutcome, Identity, UidClaim, check_identity, yielded};
use store::lease::{Lease, ObservedExtent, Scope};

impl PostgresStore {
    pub(super) async fn read_identities(&self, cluster: &str, uid: &str) -> StoreResult<Vec<Identity>> {
        const WHAT: &str = "read the cluster identity";
        let mut connection = self.pool.acquire().await.map_err(database(WHAT))?;
        identities(&mut connection, cluster, uid, WHAT).await
    }

    pub(super) async fn write_identity(&self, lease: &Lease, uid: &str) -> StoreResult<()> {
        const WHAT: &str = "write the cluster identity";
        let mut transaction = self.begin_fenced(lease, WHAT).await?;
        let cluster = lease.scope.cluster_name().unwrap_or_default();
        lock_uid(&mut transaction, uid, WHAT).await?;
        let bound = identities(&mut transaction, cluster, uid, WHAT).await?;
        if bound.iter().all(|identity| identity.cluster != cluster) {
            check_identity(cluster, uid, &bound)?;
        }
        sqlx::query!(
            "UPDATE leases SET cluster_uid = $2 WHERE scope = $1 AND cluster_uid IS NULL",
            lease.scope.key(),
            uid
        )
        .execute(&mut *transaction)
        .await
        .map_err(database(WHAT))?;
        commit(transaction, WHAT).await
    }

    pub(super) async fn write_uid_claim(
        &self,
        cluster: &str,
        uid: &str,
        is_trusted: bool,
        nonce: u128,
    ) -> StoreResult<UidClaim> {
        const WHAT: &str = "claim the UID of a cluster";
        let mut transaction = self.begin(WHAT).await?;
        let bound = identities(&mut transaction, "", uid, WHAT).await?;
        let Some(other) = bound.into_iter().find(|identity| identity.cluster != cluster) else {
            return Ok(UidClaim::Free);
        };
        let scope = Scope::cluster(&other.cluster).key();
        // The lock excludes writes under the present lease, which may prove the claim. That of the scope comes first.
        let lock = sqlx::query_scalar!(r#"SELECT hold_lease($1, $2, $3) AS "held!""#, scope, "", 0_i64);
        lock.fetch_one(&mut *transaction).await.map_err(database(WHAT))?;
        lock_uid(&mut transaction, uid, WHAT).await?;
        let proven = sqlx::query_scalar!(
            r#"SELECT (EXISTS (SELECT FROM intents WHERE intents.scope = $1)
                    OR EXISTS (SELECT FROM observed_extents WHERE observed_extents.scope = $1 AND (nodes > 0 OR claims > 0))
                    OR EXISTS (SELECT FROM listed_machines WHERE cluster = $2 AND cluster_uid = $3)) AS "proven!""#,
            scope,
            other.cluster,
            uid
        );
        if proven.fetch_one(&mut *transaction).await.map_err(database(WHAT))? && !is_trusted {
            return Ok(UidClaim::Proven { known: other.cluster });
        }
        let freed = sqlx::query!(
            "UPDATE leases SET cluster_uid = $3, epoch = epoch + 1, expires_at = clock_timestamp(), term = NULL
             WHERE scope = $1 AND cluster_uid = $2",
            scope,
            uid,
            yielded(uid)
        );
        if freed.execute(&mut *transaction).await.map_err(database(WHAT))?.rows_affected() == 0 {
            return Ok(UidClaim::Free);
        }
        let line = AuditEntry::yielded(&other.cluster, uid, cluster, is_trusted, clock::now().as_millis());
        write_line(&mut transaction, &line, nonce).await?;
        bump_signal(&mut transaction, Signal::Leases, WHAT).await?;
        commit(transaction, WHAT).await?;
        Ok(UidClaim::Yielded { from: other.cluster })
    }

    pub(super) async fn write_acceptance(&self, cluster: &str, uid: &str, by: &str, nonce: u128) -> StoreResult<bool> {
        const WHAT: &str = "accept the UID of a cluster";
        let scope = Scope::cluster(cluster).key();
        let mut transaction = self.begin(WHAT).await?;
        // The lock excludes writes under the present lease.
        let lock = sqlx::query_scalar!(r#"SELECT hold_lease($1, $2, $3) AS "held!""#, scope, "", 0_i64);
        lock.fetch_one(&mut *transaction).await.map_err(database(WHAT))?;
        let known = sqlx::query_scalar!("SELECT cluster_uid FROM leases WHERE scope = $1", scope);
        let Some(before) = known.fetch_optional(&mut *transaction).await.map_err(database(WHAT))? else {
            return Ok(false);
        };
        if before.as_deref() == Some(uid) {
            return Ok(true);
        }
        lock_uid(&mut transaction, uid, WHAT).await?;
        let mut others = identities(&mut transaction, "", uid, WHAT).await?;
        others.retain(|identity| identity.cluster != cluster);
        check_identity(cluster, uid, &others)?;
        sqlx::query!(
            "UPDATE leases SET cluster_uid = $2, epoch = epoch + 1, expires_at = clock_timestamp(), term = NULL
             WHERE scope = $1",
            scope,
            uid
        )
        .execute(&mut *transaction)
        .await
        .map_err(database(WHAT))?;
        close_operations(&mut transaction, &scope, WHAT).await?;
        let line = AuditEntry::acceptance(cluster, before.as_deref(), uid, by, clock::now().as_millis());
        write_line(&mut transaction, &line, nonce).await?;
        bump_signal(&mut transaction, Signal::Leases, WHAT).await?;
        commit(transaction, WHAT).await?;
        Ok(true)
    }

    /// Frees name and UID of a cluster. The row stays without an owner, so that the next epoch is
    /// above the one of the fenced holder.
    pub(super) async fn free_name(
        &self,
        cluster: &str,
        by: &str,
        leave_machines: bool,
        nonce: u128,
    ) -> StoreResult<ForgetOutcome> {
        const WHAT: &str = "forget a cluster";
        let scope = Scope::cluster(cluster).key();
        let mut transaction = self.begin(WHAT).await?;
        // The lock excludes writes under the present lease.
        let lock = sqlx::query_scalar!(r#"SELECT hold_lease($1, $2, $3) AS "held!""#, scope, "", 0_i64);
        lock.fetch_one(&mut *transaction).await.map_err(database(WHAT))?;
        let read = sqlx::query_scalar!(
            r#"SELECT (SELECT count(*) FROM intents WHERE intents.scope = $1 AND closed_at IS NULL) AS "open!"
               FROM leases WHERE scope = $1 AND owner <> ''"#,
            scope
        );
        let open = read.fetch_optional(&mut *transaction).await.map_err(database(WHAT))?;
        let Some(open) = open.map(i64::unsigned_abs) else {
            // A repetition of a call whose answer was lost.
            let done = is_written(&mut transaction, nonce).await?;
            return Ok(if done { ForgetOutcome::Forgotten } else { ForgetOutcome::Unknown });
        };
        if open > 0 && !leave_machines {
            return Ok(ForgetOutcome::HasOpenLaunches(open));
        }
        sqlx::query!(
            "UPDATE leases SET owner = '', cluster_uid = NULL, epoch = epoch + 1, expires_at = clock_timestamp(),
                               term = NULL, wanted_by = NULL
             WHERE scope = $1",
            scope
        )
        .execute(&mut *transaction)
        .await
        .map_err(database(WHAT))?;
        close_operations(&mut transaction, &scope, WHAT).await?;
        let line = AuditEntry::forgotten(cluster, open, by, clock::now().as_millis());
        write_line(&mut transaction, &line, nonce).await?;
        bump_signal(&mut transaction, Signal::Leases, WHAT).await?;
        commit(transaction, WHAT).await?;
        Ok(ForgetOutcome::Forgotten)
    }

    pub(super) async fn write_extent(&self, lease: &Lease, extent: &ObservedExtent) -> StoreResult<()> {
        const WHAT: &str = "write the observed extent of a cluster";
        let mut transaction = self.begin_fenced(lease, WHAT).await?;
        let ObservedExtent { nodes, claims, pools, pods, pending } = *extent;
        let [nodes, claims, pools, pods, pending] = [nodes, claims, pools, pods, pending].map(column);
        let scope = lease.scope.key();
        // Inserts only when no row was updated; the scope lock excludes a concurrent insert.
        let updated = sqlx::query!(
            "UPDATE observed_extents
             SET nodes = $2, claims = $3, pools = $4, pods = $5, pending = $6, observed_at = clock_timestamp()
             WHERE scope = $1",
            scope,
            nodes,
            claims,
            pools,
            pods,
            pending
        );
        if updated.execute(&mut *transaction).await.map_err(database(WHAT))?.rows_affected() == 0 {
            sqlx::query!(
                "INSERT INTO observed_extents (scope, nodes, claims, pools, pods, pending, observed_at)
                 VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())",
                scope,
                nodes,
                claims,
                pools,
                pods,
                pending
            )
            .execute(&mut *transaction)
            .await
            .map_err(database(WHAT))?;
        }
        commit(transaction, WHAT).await
    }
}

/// Closes the launches of a cluster, and deletes its observed extent and its replacements.
async fn close_operations(connection: &mut PgConnection, scope: &str, what: &'static str) -> StoreResult<()> {
    sqlx::query!("UPDATE intents SET closed_at = clock_timestamp() WHERE scope = $1 AND closed_at IS NULL", scope)
        .execute(&mut *connection)
        .await
        .map_err(database(what))?;
    sqlx::query!("DELETE FROM observed_extents WHERE scope = $1", scope)
        .execute(&mut *connection)
        .await
        .map_err(database(what))?;
    holds::forget(connection, scope, what).await?;
    replacements::forget(connection, scope, what).await
}

/// Excludes other bindings of `uid` until the end of the transaction. The lock of the scope comes
/// first.
async fn lock_uid(connection: &mut PgConnection, uid: &str, what: &'static str) -> StoreResult<()> {
    let lock = sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('fleetwright uid ' || $1::text, 0))", uid);
    lock.execute(connection).await.map_err(database(what))?;
    Ok(())
}

/// The bindings of the name `cluster` and of `uid`.
async fn identities(
    connection: &mut PgConnection,
    cluster: &str,
    uid: &str,
    what: &'static str,
) -> StoreResult<Vec<Identity>> {
    let read = sqlx::query!(
        r#"SELECT scope, cluster_uid AS "uid!", owner FROM leases
           WHERE cluster_uid IS NOT NULL AND (scope = $1 OR cluster_uid = $2)"#,
        Scope::cluster(cluster).key(),
        uid
    );
    let rows = read.fetch_all(connection).await.map_err(database(what))?;
    let bound = rows.into_iter().filter_map(|row| {
        let cluster = Scope::parse(&row.scope)?.cluster_name()?.to_owned();
        Some(Identity { cluster, uid: row.uid, owner: row.owner })
    });
    Ok(bound.collect())
}

/// The last written object counts of a cluster.
pub(super) async fn extent(connection: &mut PgConnection, scope: &Scope) -> StoreResult<Option<ObservedExtent>> {
    let scope = scope.key();
    let read = sqlx::query!("SELECT nodes, claims, pools, pods, pending FROM observed_extents WHERE scope = $1", scope);
    let row = read.fetch_optional(connection).await.map_err(database("read the observed extent of a cluster"))?;
    Ok(row.map(|row| ObservedExtent {
        nodes: row.nodes.unsigned_abs(),
        claims: row.claims.unsigned_abs(),
        pools: row.pools.unsigned_abs(),
        pods: row.pods.unsigned_abs(),
        pending: row.pending.unsigned_abs(),
    }))
}
