//! Instance listings, shared by the lister with the other replicas.

use std::time::Duration;

use super::connection::{PostgresStore, commit};
use super::conversion::database;
use store::StoreError;
use store::lease::{Lease, Scope};
use store::listing::{ListedInstanceRow, StoredListing};

const KEEP: &str = "write an instance listing";
const READ: &str = "read the instance listing";

impl PostgresStore {
    /// Omits instances of clusters owned by the holder of `lease`, by the lease rows of the same
    /// transaction: a replica that takes such a cluster over later relies on later listings only.
    pub(super) async fn write_listing(
        &self,
        lease: &Lease,
        ago: Duration,
        machines: &[ListedInstanceRow],
    ) -> Result<bool, StoreError> {
        let mut transaction = self.begin_fenced(lease, KEEP).await?;
        let others = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM lease_ends WHERE scope LIKE 'cluster/%' AND owner <> $1 AND expires_at > clock_timestamp())
               AS "others!""#,
            lease.owner
        );
        if !others.fetch_one(&mut *transaction).await.map_err(database(KEEP))? {
            return Ok(false);
        }
        self.write_listed(&mut transaction, lease, machines).await?;
        sqlx::query!(
            "INSERT INTO listings AS kept (scope, number, asked_at)
             VALUES ($1, 1, clock_timestamp() - make_interval(secs => $2))
             ON CONFLICT (scope) DO UPDATE SET number = kept.number + 1, asked_at = excluded.asked_at",
            lease.scope.key(),
            ago.as_secs_f64()
        )
        .execute(&mut *transaction)
        .await
        .map_err(database(KEEP))?;
        commit(transaction, KEEP).await?;
        Ok(true)
    }

    /// Omits unchanged rows, because a conflict locks the row and a row lock writes WAL like an
    /// update.
    async fn write_listed(
        &self,
        connection: &mut sqlx::PgConnection,
        lease: &Lease,
        machines: &[ListedInstanceRow],
    ) -> Result<(), StoreError> {
        // One statement deletes missing rows and writes changed ones, so that readers never see a mixture.
        let texts = |read: fn(&ListedInstanceRow) -> &String| machines.iter().map(|one| read(one).clone()).collect();
        let clusters: Vec<String> = texts(|machine| &machine.cluster);
        let ids: Vec<String> = texts(|machine| &machine.provider_id);
        let uids: Vec<String> = texts(|machine| &machine.cluster_uid);
        let claims: Vec<String> = texts(|machine| &machine.claim);
        let ends: Vec<bool> = machines.iter().map(|machine| machine.ends).collect();
        sqlx::query!(
            "WITH given AS (
                 SELECT * FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[])
                          AS all_given (cluster, provider_id, cluster_uid, claim, ends)
                 WHERE NOT EXISTS (SELECT FROM leases WHERE scope = 'cluster/' || cluster AND owner = $2)),
             gone AS (
                 DELETE FROM listed_machines AS kept WHERE scope = $1 AND NOT EXISTS (
                     SELECT FROM given WHERE given.cluster = kept.cluster AND given.provider_id = kept.provider_id))
             INSERT INTO listed_machines (scope, cluster, provider_id, cluster_uid, claim, ends)
             SELECT $1, cluster, provider_id, cluster_uid, claim, ends FROM given
             WHERE NOT EXISTS (
                 SELECT FROM listed_machines AS same
                 WHERE same.scope = $1 AND same.cluster = given.cluster AND same.provider_id = given.provider_id
                   AND same.cluster_uid = given.cluster_uid AND same.claim = given.claim AND same.ends = given.ends)
             ON CONFLICT (scope, cluster, provider_id) DO UPDATE
             SET cluster_uid = excluded.cluster_uid, claim = excluded.claim, ends = excluded.ends",
            lease.scope.key(),
            lease.owner,
            &clusters,
            &ids,
            &uids,
            &claims,
            &ends
        )
        .execute(connection)
        .await
        .map_err(database(KEEP))?;
        Ok(())
    }

    /// Reads head and instances with one statement, so that both belong to the same listing.
    pub(super) async fn read_listing(
        &self,
        scope: &Scope,
        clusters: &[String],
    ) -> Result<Option<StoredListing>, StoreError> {
        let rows = sqlx::query!(
            r#"SELECT number, greatest(extract(epoch FROM clock_timestamp() - asked_at), 0)::float8 AS "age!",
                      cluster AS "cluster?", provider_id AS "provider_id?", cluster_uid AS "cluster_uid?",
                      claim AS "claim?", ends AS "ends?"
               FROM listings LEFT JOIN listed_machines AS kept
                    ON kept.scope = listings.scope AND kept.cluster = ANY($2)
               WHERE listings.scope = $1 ORDER BY cluster COLLATE "C", provider_id COLLATE "C""#,
            scope.key(),
            clusters
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        // The left join yields at least one row per listing, so no row means no listing.
        let Some((number, age)) = rows.first().map(|row| (row.number.unsigned_abs(), row.age)) else { return Ok(None) };
        let machine = |row| {
            let (cluster, provider_id, cluster_uid, claim, ends): (Option<String>, _, _, _, _) = row;
            Some(ListedInstanceRow {
                cluster: cluster?,
                provider_id: provider_id?,
                cluster_uid: cluster_uid?,
                claim: claim?,
                ends: ends?,
            })
        };
        let rows = rows.into_iter().map(|row| (row.cluster, row.provider_id, row.cluster_uid, row.claim, row.ends));
        Ok(Some(StoredListing {
            number,
            age: Duration::from_secs_f64(age),
            machines: rows.filter_map(machine).collect(),
        }))
    }
}
