//! Heartbeats of replicas.

use super::connection::{PostgresStore, commit};
use super::conversion::database;
use store::StoreError;
use store::replicas::{REPLICA_TTL, ReplicaRow};

impl PostgresStore {
    pub(super) async fn write_replica(&self, row: &ReplicaRow) -> Result<Vec<ReplicaRow>, StoreError> {
        const WHAT: &str = "register this replica";
        let (keys, digests): (Vec<String>, Vec<String>) = row.settings.clone().into_iter().unzip();
        let mut transaction = self.begin(WHAT).await?;
        let written = sqlx::query!(
            "INSERT INTO replicas (instance, owner, keys, digests) VALUES ($1, $2, $3, $4)
             ON CONFLICT (instance) DO UPDATE
             SET owner = excluded.owner, keys = excluded.keys, digests = excluded.digests, told_at = clock_timestamp()",
            row.instance,
            row.owner,
            &keys,
            &digests
        );
        written.execute(&mut *transaction).await.map_err(database(WHAT))?;
        // Read after the upsert: `began_at` of this row bounds which reports count.
        let others = sqlx::query!(
            "SELECT other.instance, other.owner, other.keys, other.digests
             FROM replicas AS own JOIN replicas AS other ON other.instance <> own.instance
             WHERE own.instance = $1 AND other.told_at > own.began_at
               AND other.told_at > clock_timestamp() - make_interval(secs => $2)
             ORDER BY other.owner, other.instance",
            row.instance,
            REPLICA_TTL.as_secs_f64()
        );
        let others = others.fetch_all(&mut *transaction).await.map_err(database(WHAT))?;
        commit(transaction, WHAT).await?;
        let read = others.into_iter().map(|row| ReplicaRow {
            instance: row.instance,
            owner: row.owner,
            settings: row.keys.into_iter().zip(row.digests).collect(),
        });
        Ok(read.collect())
    }
}
