//! Cluster identity and observed object counts.

use sqlx::PgConnection;

use super::connection::{PostgresStore, commit};
use super::conversion::{column, database};
use super::guardrails::write_line;
use super::signals::{Signal, bump_signal};
use store::StoreError;
use store::clock;
use store::guardrails::AuditEntry;
use store::lease::{Identity, Lease, ObservedExtent, Scope};

impl PostgresStore {
    pub(super) async fn read_identity(&self, cluster: &str) -> Result<Option<Identity>, StoreError> {
        let read = sqlx::query!(
            r#"SELECT cluster_uid AS "uid!", owner FROM leases WHERE scope = $1 AND cluster_uid IS NOT NULL"#,
            Scope::cluster(cluster).key()
        );
        let row = read.fetch_optional(&self.pool).await.map_err(database("read the cluster identity"))?;
        Ok(row.map(|row| Identity { uid: row.uid, owner: row.owner }))
    }

    pub(super) async fn write_identity(&self, lease: &Lease, uid: &str) -> Result<(), StoreError> {
        const WHAT: &str = "write the cluster identity";
        let mut transaction = self.begin_fenced(lease, WHAT).await?;
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

    pub(super) async fn write_acceptance(
        &self,
        cluster: &str,
        uid: &str,
        by: &str,
        nonce: u128,
    ) -> Result<bool, StoreError> {
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
        sqlx::query!(
            "UPDATE leases SET cluster_uid = $2, epoch = epoch + 1, expires_at = clock_timestamp(), term = NULL
             WHERE scope = $1",
            scope,
            uid
        )
        .execute(&mut *transaction)
        .await
        .map_err(database(WHAT))?;
        sqlx::query!("UPDATE intents SET closed_at = clock_timestamp() WHERE scope = $1 AND closed_at IS NULL", scope)
            .execute(&mut *transaction)
            .await
            .map_err(database(WHAT))?;
        sqlx::query!("DELETE FROM observed_extents WHERE scope = $1", scope)
            .execute(&mut *transaction)
            .await
            .map_err(database(WHAT))?;
        let line = AuditEntry::acceptance(cluster, before.as_deref(), uid, by, clock::now().as_millis());
        write_line(&mut transaction, &line, nonce).await?;
        bump_signal(&mut transaction, Signal::Leases, WHAT).await?;
        commit(transaction, WHAT).await?;
        Ok(true)
    }

    pub(super) async fn write_extent(&self, lease: &Lease, extent: &ObservedExtent) -> Result<(), StoreError> {
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

/// The last written object counts of a cluster.
pub(super) async fn extent(connection: &mut PgConnection, scope: &Scope) -> Result<Option<ObservedExtent>, StoreError> {
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
