//! Heartbeats of replicas, and the summaries of clusters that they share.

use super::connection::{PostgresStore, commit};
use super::conversion::{column, database};
use store::StoreResult;
use store::replicas::{ClusterSummaryRow, REPLICA_TTL, ReplicaEndpoint, ReplicaRow};

impl PostgresStore {
    pub(super) async fn write_replica(&self, row: &ReplicaRow) -> StoreResult<Vec<ReplicaRow>> {
        const WHAT: &str = "register this replica";
        let (keys, digests): (Vec<String>, Vec<String>) = row.settings.clone().into_iter().unzip();
        let ReplicaEndpoint { address, token, certificate } = &row.endpoint;
        let mut transaction = self.begin(WHAT).await?;
        let written = sqlx::query!(
            "INSERT INTO replicas (instance, owner, keys, digests, address, token, certificate)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (instance) DO UPDATE
             SET owner = excluded.owner, keys = excluded.keys, digests = excluded.digests, address = excluded.address,
                 token = excluded.token, certificate = excluded.certificate, told_at = clock_timestamp()",
            row.instance,
            row.owner,
            &keys,
            &digests,
            address,
            token,
            certificate
        );
        written.execute(&mut *transaction).await.map_err(database(WHAT))?;
        commit(transaction, WHAT).await?;
        self.read_other_replicas(&row.instance).await
    }

    /// The row of `instance` bounds by its `began_at` which reports of its owner count: earlier ones may be those of the
    /// previous run.
    pub(super) async fn read_other_replicas(&self, instance: &str) -> StoreResult<Vec<ReplicaRow>> {
        let others = sqlx::query!(
            "SELECT other.instance, other.owner, other.keys, other.digests, other.address, other.token, other.certificate
             FROM replicas AS own JOIN replicas AS other ON other.instance <> own.instance
             WHERE own.instance = $1 AND (other.owner <> own.owner OR other.told_at > own.began_at)
               AND other.told_at > clock_timestamp() - make_interval(secs => $2)
             ORDER BY other.owner, other.instance",
            instance,
            REPLICA_TTL.as_secs_f64()
        );
        let others = others.fetch_all(&self.pool).await.map_err(database("read the other replicas"))?;
        let read = others.into_iter().map(|row| ReplicaRow {
            instance: row.instance,
            owner: row.owner,
            settings: row.keys.into_iter().zip(row.digests).collect(),
            endpoint: ReplicaEndpoint { address: row.address, token: row.token, certificate: row.certificate },
        });
        Ok(read.collect())
    }

    /// A write: a database that reads and refuses writes fails it.
    pub(super) async fn write_heartbeat(&self, instance: &str) -> StoreResult<()> {
        let touched = sqlx::query!("UPDATE replicas SET told_at = clock_timestamp() WHERE instance = $1", instance);
        touched.execute(&self.pool).await.map_err(database("write to PostgreSQL"))?;
        Ok(())
    }

    /// Rows are locked in the order of their names, so that two replicas never wait for each other.
    pub(super) async fn write_cluster_summaries(&self, summaries: &[ClusterSummaryRow]) -> StoreResult<()> {
        let mut rows: Vec<&ClusterSummaryRow> = summaries.iter().collect();
        rows.sort_unstable_by(|one, other| one.cluster.cmp(&other.cluster));
        let clusters: Vec<String> = rows.iter().map(|row| row.cluster.clone()).collect();
        let epochs: Vec<i64> = rows.iter().map(|row| column(row.epoch)).collect();
        let replicas: Vec<String> = rows.iter().map(|row| row.replica.clone()).collect();
        let observed: Vec<i64> = rows.iter().map(|row| row.observed_ms).collect();
        let summaries: Vec<Vec<u8>> = rows.iter().map(|row| row.summary.clone()).collect();
        let written = sqlx::query!(
            "INSERT INTO cluster_summaries AS kept (cluster, epoch, replica, observed_ms, summary)
             SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[])
             ON CONFLICT (cluster) DO UPDATE
             SET epoch = excluded.epoch, replica = excluded.replica, observed_ms = excluded.observed_ms,
                 summary = excluded.summary
             WHERE (kept.epoch, kept.observed_ms) <= (excluded.epoch, excluded.observed_ms)",
            &clusters,
            &epochs,
            &replicas,
            &observed,
            &summaries
        );
        written.execute(&self.pool).await.map_err(database("write cluster summaries"))?;
        Ok(())
    }

    pub(super) async fn read_cluster_summaries(&self) -> StoreResult<Vec<ClusterSummaryRow>> {
        let rows = sqlx::query!(
            r#"SELECT summaries.cluster, summaries.epoch, summaries.replica, summaries.observed_ms, summaries.summary
             FROM cluster_summaries AS summaries JOIN leases ON leases.scope = 'cluster/' || summaries.cluster
             WHERE leases.owner <> '' ORDER BY summaries.cluster COLLATE "C""#
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database("read cluster summaries"))?;
        let read = rows.into_iter().map(|row| ClusterSummaryRow {
            cluster: row.cluster,
            epoch: row.epoch.unsigned_abs(),
            replica: row.replica,
            observed_ms: row.observed_ms,
            summary: row.summary,
        });
        Ok(read.collect())
    }
}
