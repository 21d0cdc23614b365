//! Refused offerings and their probes.

use std::collections::BTreeSet;
use std::time::Duration;

use sqlx::PgConnection;

use super::connection::{PostgresStore, commit};
use super::conversion::database;
use super::signals::{notify, raise_offerings};
use store::StoreResult;
use store::offerings::{OfferingChange, OfferingKey, OfferingRow, ProbeAnswer, last_changes};

const CHANGE: &str = "write outcomes of offerings";
const CLAIM: &str = "claim probes of offerings";
const READ: &str = "read unavailable offerings";

/// Keys as columns.
#[derive(Default)]
struct Columns {
    accounts: Vec<String>,
    instance_types: Vec<String>,
    zones: Vec<String>,
    capacity_types: Vec<String>,
    sizes: Vec<i64>,
}

impl<'k> FromIterator<&'k OfferingKey> for Columns {
    fn from_iter<I: IntoIterator<Item = &'k OfferingKey>>(keys: I) -> Self {
        let mut columns = Self::default();
        for key in keys {
            columns.accounts.push(key.account.clone().unwrap_or_default());
            columns.instance_types.push(key.instance_type.clone());
            columns.zones.push(key.zone.clone());
            columns.capacity_types.push(key.capacity_type.clone());
            columns.sizes.push(i64::from(key.size));
        }
        columns
    }
}

/// Columns of a key, as a row returns them.
struct KeyRow {
    account: String,
    instance_type: String,
    zone: String,
    capacity_type: String,
    size: i64,
}

impl From<KeyRow> for OfferingKey {
    fn from(row: KeyRow) -> Self {
        Self {
            account: Some(row.account).filter(|account| !account.is_empty()),
            instance_type: row.instance_type,
            zone: row.zone,
            capacity_type: row.capacity_type,
            size: u32::try_from(row.size).unwrap_or(u32::MAX),
        }
    }
}

impl PostgresStore {
    /// Writers take turns by the row of the signal, whose version the changed offerings get: a reader that has seen a
    /// version has seen all lower ones.
    pub(super) async fn write_offering_changes(&self, region: &str, changes: &[OfferingChange]) -> StoreResult<()> {
        let (mut refused, mut cleared, mut released) = (Vec::new(), Vec::new(), Vec::new());
        for change in last_changes(changes) {
            match change {
                OfferingChange::Refused(row) => refused.push(row),
                OfferingChange::Cleared(key) => cleared.push(key),
                OfferingChange::ProbeReleased { key, holder } => released.push((key, holder.as_str())),
            }
        }
        let mut transaction = self.begin(CHANGE).await?;
        let version = raise_offerings(&mut transaction, CHANGE).await?;
        let mut changed = write_refused(&mut transaction, region, &refused, version).await?;
        changed += write_cleared(&mut transaction, region, &cleared, version).await?;
        let given_back = write_released(&mut transaction, region, &released).await?;
        if changed + given_back == 0 {
            // Nothing to announce: the version is taken back with the transaction.
            return Ok(());
        }
        notify(&mut transaction, CHANGE).await?;
        commit(transaction, CHANGE).await
    }

    pub(super) async fn read_unavailable_offerings(
        &self,
        region: &str,
        account: &str,
        within: Duration,
    ) -> StoreResult<Vec<OfferingRow>> {
        let rows = sqlx::query!(
            r#"SELECT account, instance_type, zone, capacity_type, size, failures, reason, version,
                      milliseconds(refused_at) AS "refused_ms!", milliseconds(until_at) AS "until_ms!"
               FROM unavailable_offerings
               WHERE region = $1 AND account IN ('', $2) AND changed_at > clock_timestamp() - make_interval(secs => $3)
               ORDER BY account COLLATE "C", instance_type COLLATE "C", zone COLLATE "C", capacity_type COLLATE "C", size"#,
            region,
            account,
            within.as_secs_f64()
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        let read = rows.into_iter().map(|row| {
            let (account, instance_type, zone) = (row.account, row.instance_type, row.zone);
            OfferingRow {
                key: KeyRow { account, instance_type, zone, capacity_type: row.capacity_type, size: row.size }.into(),
                failures: u32::try_from(row.failures).unwrap_or(u32::MAX),
                refused_ms: row.refused_ms,
                until_ms: row.until_ms,
                reason: row.reason,
                version: row.version.unsigned_abs(),
            }
        });
        Ok(read.collect())
    }

    pub(super) async fn write_probe_claims(
        &self,
        region: &str,
        keys: &[OfferingKey],
        holder: &str,
        lease: Duration,
    ) -> StoreResult<Vec<ProbeAnswer>> {
        let Columns { accounts, instance_types, zones, capacity_types, sizes } = keys.iter().collect();
        let mut transaction = self.begin(CLAIM).await?;
        // Writers of the same rows wait here, in one order.
        let lock = sqlx::query!("SELECT version FROM signals WHERE name = 'offerings' FOR UPDATE");
        lock.fetch_one(&mut *transaction).await.map_err(database(CLAIM))?;
        let granted = sqlx::query_as!(
            KeyRow,
            "UPDATE unavailable_offerings AS kept
             SET probe_holder = $7, probe_until = clock_timestamp() + make_interval(secs => $8)
             FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[])
                  AS given (account, instance_type, zone, capacity_type, size)
             WHERE kept.region = $1 AND kept.account = given.account AND kept.instance_type = given.instance_type
               AND kept.zone = given.zone AND kept.capacity_type = given.capacity_type AND kept.size = given.size
               AND kept.failures > 0 AND kept.until_at <= clock_timestamp()
               AND (kept.probe_holder IS NULL OR kept.probe_holder = $7 OR kept.probe_until <= clock_timestamp())
             RETURNING kept.account, kept.instance_type, kept.zone, kept.capacity_type, kept.size",
            region,
            &accounts,
            &instance_types,
            &zones,
            &capacity_types,
            &sizes,
            holder,
            lease.as_secs_f64()
        );
        let granted = granted.fetch_all(&mut *transaction).await.map_err(database(CLAIM))?;
        let refused = sqlx::query_as!(
            KeyRow,
            "SELECT kept.account, kept.instance_type, kept.zone, kept.capacity_type, kept.size
             FROM unavailable_offerings AS kept
             JOIN unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[])
                  AS given (account, instance_type, zone, capacity_type, size)
               ON kept.account = given.account AND kept.instance_type = given.instance_type AND kept.zone = given.zone
                  AND kept.capacity_type = given.capacity_type AND kept.size = given.size
             WHERE kept.region = $1 AND kept.failures > 0",
            region,
            &accounts,
            &instance_types,
            &zones,
            &capacity_types,
            &sizes
        );
        let refused = refused.fetch_all(&mut *transaction).await.map_err(database(CLAIM))?;
        commit(transaction, CLAIM).await?;
        let granted: BTreeSet<OfferingKey> = granted.into_iter().map(OfferingKey::from).collect();
        let refused: BTreeSet<OfferingKey> = refused.into_iter().map(OfferingKey::from).collect();
        let answer = |key: &OfferingKey| match (granted.contains(key), refused.contains(key)) {
            (true, _) => ProbeAnswer::Granted,
            (false, true) => ProbeAnswer::Denied,
            (false, false) => ProbeAnswer::Absent,
        };
        Ok(keys.iter().map(answer).collect())
    }
}

async fn write_refused(
    connection: &mut PgConnection,
    region: &str,
    rows: &[&OfferingRow],
    version: i64,
) -> StoreResult<u64> {
    if rows.is_empty() {
        return Ok(0);
    }
    let columns: Columns = rows.iter().map(|row| &row.key).collect();
    let failures: Vec<i64> = rows.iter().map(|row| i64::from(row.failures)).collect();
    let refused: Vec<i64> = rows.iter().map(|row| row.refused_ms).collect();
    let untils: Vec<i64> = rows.iter().map(|row| row.until_ms).collect();
    let reasons: Vec<String> = rows.iter().map(|row| row.reason.clone()).collect();
    let written = sqlx::query!(
        "INSERT INTO unavailable_offerings AS kept
             (region, account, instance_type, zone, capacity_type, size, failures, refused_at, until_at, reason, version, changed_at)
         SELECT $1, account, instance_type, zone, capacity_type, size, failures, moment(refused), moment(until), reason, $11,
                clock_timestamp()
         FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
                     $10::text[])
              AS given (account, instance_type, zone, capacity_type, size, failures, refused, until, reason)
         ON CONFLICT (region, account, instance_type, zone, capacity_type, size) DO UPDATE
         SET failures = excluded.failures, refused_at = excluded.refused_at, until_at = excluded.until_at,
             reason = excluded.reason, version = excluded.version, changed_at = excluded.changed_at,
             probe_holder = NULL, probe_until = NULL
         WHERE kept.failures = 0 OR kept.until_at < excluded.until_at",
        region,
        &columns.accounts,
        &columns.instance_types,
        &columns.zones,
        &columns.capacity_types,
        &columns.sizes,
        &failures,
        &refused,
        &untils,
        &reasons,
        version
    );
    Ok(written.execute(connection).await.map_err(database(CHANGE))?.rows_affected())
}

async fn write_cleared(
    connection: &mut PgConnection,
    region: &str,
    keys: &[&OfferingKey],
    version: i64,
) -> StoreResult<u64> {
    if keys.is_empty() {
        return Ok(0);
    }
    let columns: Columns = keys.iter().copied().collect();
    let written = sqlx::query!(
        "UPDATE unavailable_offerings AS kept
         SET failures = 0, until_at = clock_timestamp(), version = $7, changed_at = clock_timestamp(),
             probe_holder = NULL, probe_until = NULL
         FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[])
              AS given (account, instance_type, zone, capacity_type, size)
         WHERE kept.region = $1 AND kept.account = given.account AND kept.instance_type = given.instance_type
           AND kept.zone = given.zone AND kept.capacity_type = given.capacity_type AND kept.size = given.size
           AND kept.failures > 0",
        region,
        &columns.accounts,
        &columns.instance_types,
        &columns.zones,
        &columns.capacity_types,
        &columns.sizes,
        version
    );
    Ok(written.execute(connection).await.map_err(database(CHANGE))?.rows_affected())
}

/// Returns how many probes were given back.
async fn write_released(
    connection: &mut PgConnection,
    region: &str,
    released: &[(&OfferingKey, &str)],
) -> StoreResult<u64> {
    if released.is_empty() {
        return Ok(0);
    }
    let columns: Columns = released.iter().map(|(key, _)| *key).collect();
    let holders: Vec<String> = released.iter().map(|(_, holder)| (*holder).to_owned()).collect();
    let written = sqlx::query!(
        "UPDATE unavailable_offerings AS kept SET probe_holder = NULL, probe_until = NULL
         FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[])
              AS given (account, instance_type, zone, capacity_type, size, holder)
         WHERE kept.region = $1 AND kept.account = given.account AND kept.instance_type = given.instance_type
           AND kept.zone = given.zone AND kept.capacity_type = given.capacity_type AND kept.size = given.size
           AND kept.probe_holder = given.holder",
        region,
        &columns.accounts,
        &columns.instance_types,
        &columns.zones,
        &columns.capacity_types,
        &columns.sizes,
        &holders
    );
    Ok(written.execute(connection).await.map_err(database(CHANGE))?.rows_affected())
}
