//! Instance listings, shared by the lister with the other replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::connection::{PostgresStore, commit};
use super::conversion::database;
use store::StoreResult;
use store::lease::{Lease, Scope};
use store::listing::{ListedDetails, ListedInstanceRow, StoredListing};

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
    ) -> StoreResult<bool> {
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
            "INSERT INTO listings AS kept (scope, number, asked_at, detailed_number)
             VALUES ($1, 1, clock_timestamp() - make_interval(secs => $2), 1)
             ON CONFLICT (scope) DO UPDATE
             SET number = kept.number + 1, asked_at = excluded.asked_at, detailed_number = kept.number + 1",
            lease.scope.key(),
            ago.as_secs_f64()
        )
        .execute(&mut *transaction)
        .await
        .map_err(database(KEEP))?;
        commit(transaction, KEEP).await?;
        Ok(true)
    }

    /// Writes the contents that are new, deletes those that are not used any more, and returns the ids of those of `machines`.
    async fn write_details(
        &self,
        connection: &mut sqlx::PgConnection,
        lease: &Lease,
        machines: &[ListedInstanceRow],
    ) -> StoreResult<BTreeMap<DetailsRow, i32>> {
        let given: BTreeSet<DetailsRow> =
            machines.iter().filter_map(|machine| DetailsRow::of(&machine.details)).collect();
        let column =
            |read: fn(&DetailsRow) -> &String| given.iter().map(|row| read(row).clone()).collect::<Vec<String>>();
        let (images, subnets) = (column(|row| &row.image), column(|row| &row.subnet));
        let (groups, reservations) = (column(|row| &row.security_groups), column(|row| &row.reservation));
        // A conflict takes a number of the sequence, so what is there is left out before.
        sqlx::query!(
            "INSERT INTO instance_details (scope, image, subnet, security_groups, reservation)
             SELECT $1, image, subnet, security_groups, reservation
             FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS given (image, subnet, security_groups, reservation)
             WHERE NOT EXISTS (
                 SELECT FROM instance_details AS kept
                 WHERE kept.scope = $1 AND kept.image = given.image AND kept.subnet = given.subnet
                   AND kept.security_groups = given.security_groups AND kept.reservation = given.reservation)",
            lease.scope.key(),
            &images,
            &subnets,
            &groups,
            &reservations
        )
        .execute(&mut *connection)
        .await
        .map_err(database(KEEP))?;
        let rows = sqlx::query!(
            "SELECT id, image, subnet, security_groups, reservation FROM instance_details WHERE scope = $1",
            lease.scope.key()
        );
        let rows = rows.fetch_all(&mut *connection).await.map_err(database(KEEP))?;
        let row = |row| {
            let (id, image, subnet, security_groups, reservation) = row;
            (DetailsRow { image, subnet, security_groups, reservation }, id)
        };
        let kept = rows.into_iter().map(|row| (row.id, row.image, row.subnet, row.security_groups, row.reservation));
        let (used, unused): (BTreeMap<_, _>, BTreeMap<_, _>) =
            kept.map(row).partition(|(row, _): &(DetailsRow, i32)| given.contains(row));
        if !unused.is_empty() {
            let ids: Vec<i32> = unused.into_values().collect();
            sqlx::query!("DELETE FROM instance_details WHERE id = ANY($1)", &ids)
                .execute(connection)
                .await
                .map_err(database(KEEP))?;
        }
        Ok(used)
    }

    /// Omits unchanged rows, because a conflict locks the row and a row lock writes WAL like an
    /// update.
    async fn write_listed(
        &self,
        connection: &mut sqlx::PgConnection,
        lease: &Lease,
        machines: &[ListedInstanceRow],
    ) -> StoreResult<()> {
        let ids_of_details = self.write_details(connection, lease, machines).await?;
        // One statement deletes missing rows and writes changed ones, so that readers never see a mixture.
        let texts = |read: fn(&ListedInstanceRow) -> &String| machines.iter().map(|one| read(one).clone()).collect();
        let clusters: Vec<String> = texts(|machine| &machine.cluster);
        let ids: Vec<String> = texts(|machine| &machine.provider_id);
        let uids: Vec<String> = texts(|machine| &machine.cluster_uid);
        let claims: Vec<String> = texts(|machine| &machine.claim);
        let ends: Vec<bool> = machines.iter().map(|machine| machine.ends).collect();
        let id = |machine: &ListedInstanceRow| ids_of_details.get(&DetailsRow::of(&machine.details)?).copied();
        let details: Vec<Option<i32>> = machines.iter().map(id).collect();
        sqlx::query!(
            "WITH given AS (
                 SELECT * FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::boolean[], $8::integer[])
                          AS all_given (cluster, provider_id, cluster_uid, claim, ends, details)
                 WHERE NOT EXISTS (SELECT FROM leases WHERE scope = 'cluster/' || cluster AND owner = $2)),
             gone AS (
                 DELETE FROM listed_machines AS kept WHERE scope = $1 AND NOT EXISTS (
                     SELECT FROM given WHERE given.cluster = kept.cluster AND given.provider_id = kept.provider_id))
             INSERT INTO listed_machines (scope, cluster, provider_id, cluster_uid, claim, ends, details)
             SELECT $1, cluster, provider_id, cluster_uid, claim, ends, details FROM given
             WHERE NOT EXISTS (
                 SELECT FROM listed_machines AS same
                 WHERE same.scope = $1 AND same.cluster = given.cluster AND same.provider_id = given.provider_id
                   AND same.cluster_uid = given.cluster_uid AND same.claim = given.claim AND same.ends = given.ends
                   AND same.details IS NOT DISTINCT FROM given.details)
             ON CONFLICT (scope, cluster, provider_id) DO UPDATE
             SET cluster_uid = excluded.cluster_uid, claim = excluded.claim, ends = excluded.ends, details = excluded.details",
            lease.scope.key(),
            lease.owner,
            &clusters,
            &ids,
            &uids,
            &claims,
            &ends,
            &details as &[Option<i32>]
        )
        .execute(connection)
        .await
        .map_err(database(KEEP))?;
        Ok(())
    }

    /// Reads head and instances with one statement, so that both belong to the same listing.
    pub(super) async fn read_listing(&self, scope: &Scope, clusters: &[String]) -> StoreResult<Option<StoredListing>> {
        let rows = sqlx::query!(
            r#"SELECT number, greatest(extract(epoch FROM clock_timestamp() - asked_at), 0)::float8 AS "age!",
                      cluster AS "cluster?", provider_id AS "provider_id?", cluster_uid AS "cluster_uid?",
                      claim AS "claim?", ends AS "ends?", image AS "image?", subnet AS "subnet?",
                      security_groups AS "security_groups?", reservation AS "reservation?"
               FROM listings LEFT JOIN listed_machines AS kept
                    ON kept.scope = listings.scope AND kept.cluster = ANY($2)
                    LEFT JOIN instance_details ON instance_details.id = kept.details AND detailed_number = number
               WHERE listings.scope = $1 ORDER BY cluster COLLATE "C", provider_id COLLATE "C""#,
            scope.key(),
            clusters
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        // The left join yields at least one row per listing, so no row means no listing.
        let Some((number, age)) = rows.first().map(|row| (row.number.unsigned_abs(), row.age)) else { return Ok(None) };
        let machine = |row| {
            let (cluster, provider_id, cluster_uid, claim, ends, details): (Option<String>, _, _, _, _, _) = row;
            Some(ListedInstanceRow {
                cluster: cluster?,
                provider_id: provider_id?,
                cluster_uid: cluster_uid?,
                claim: claim?,
                ends: ends?,
                details,
            })
        };
        let rows = rows.into_iter().map(|row| {
            let details = (row.image.zip(row.subnet).zip(row.security_groups.zip(row.reservation)))
                .map(|((image, subnet), (security_groups, reservation))| {
                    DetailsRow { image, subnet, security_groups, reservation }.into_details()
                })
                .unwrap_or_default();
            (row.cluster, row.provider_id, row.cluster_uid, row.claim, row.ends, details)
        });
        Ok(Some(StoredListing {
            number,
            age: Duration::from_secs_f64(age),
            machines: rows.filter_map(machine).collect(),
        }))
    }
}

/// A row of `instance_details`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DetailsRow {
    image: String,
    subnet: String,
    security_groups: String,
    reservation: String,
}

impl DetailsRow {
    /// `None` when the cloud said nothing. No id contains a comma.
    fn of(details: &ListedDetails) -> Option<Self> {
        (*details != ListedDetails::default()).then(|| Self {
            image: details.image.clone(),
            subnet: details.subnet.clone(),
            security_groups: details.security_groups.join(","),
            reservation: details.reservation.clone().unwrap_or_default(),
        })
    }

    fn into_details(self) -> ListedDetails {
        let groups = self.security_groups.split(',').filter(|group| !group.is_empty());
        ListedDetails {
            security_groups: groups.map(str::to_owned).collect(),
            image: self.image,
            subnet: self.subnet,
            reservation: Some(self.reservation).filter(|reservation| !reservation.is_empty()),
        }
    }
}
