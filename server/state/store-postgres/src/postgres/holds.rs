//! Holds, by the database clock.

use sqlx::PgConnection;

use super::connection::{PostgresStore, commit};
use super::conversion::{column, database};
use super::guardrails::{nonce, write_line};
use super::signals::{Signal, bump_signal};
use store::guardrails::{AuditEntry, HoldAudit};
use store::holds::{
    CLUSTER_FORGOTTEN, HoldCaller, HoldCommand, HoldCreation, HoldPlaceRow, HoldQuota, HoldRow, HoldState,
    HoldStatusRow, LiveHolds, NewHold, RETENTION_MS,
};
use store::lease::{Lease, Scope};
use store::{StoreResult, clock};

const CREATE: &str = "create a hold";
const COMMAND: &str = "change a hold";
const READ: &str = "read holds";
const WRITE: &str = "write a hold";

struct HoldColumns {
    id: String,
    scope: String,
    client: String,
    fingerprint: Vec<u8>,
    pod_sets: Vec<u8>,
    pods: Vec<u8>,
    dedicated: bool,
    max_price: Option<i64>,
    created_ms: i64,
    expires_ms: i64,
    left_ms: i64,
    committed_ms: Option<i64>,
    ended_ms: Option<i64>,
    ended: Option<String>,
    ready: bool,
    message: String,
    targets: Vec<String>,
    target_sets: Vec<i32>,
    target_pods: Vec<i32>,
    target_prices: Vec<i64>,
    version: i64,
}

/// Selects [`HoldColumns`] by what follows the name of the table.
macro_rules! select_holds {
    ($rest:literal, $($argument:expr),+) => {
        sqlx::query_as!(
            HoldColumns,
            r#"SELECT id, scope, client, fingerprint, pod_sets, pods, dedicated, max_price,
                      milliseconds(created_at) AS "created_ms!", milliseconds(expires_at) AS "expires_ms!",
                      milliseconds(expires_at) - milliseconds(clock_timestamp()) AS "left_ms!",
                      milliseconds(committed_at) AS committed_ms, milliseconds(ended_at) AS ended_ms, ended, ready, message,
                      targets, target_sets, target_pods, target_prices, version
               FROM holds "# + $rest,
            $($argument),+
        )
    };
}

impl HoldColumns {
    fn into_row(self) -> HoldRow {
        let state = HoldState::of(self.ended.as_deref(), self.committed_ms.is_some(), self.ready, self.left_ms);
        let numbers = self.target_sets.into_iter().zip(self.target_pods).zip(self.target_prices);
        let place = |(target, ((pod_set, pods), price)): (String, ((i32, i32), i64))| HoldPlaceRow {
            target,
            pod_set: pod_set.unsigned_abs(),
            pods: pods.unsigned_abs(),
            price,
        };
        let end = self.ended.as_ref().map(|_| state).filter(|state| *state != HoldState::Released);
        let status = HoldStatusRow {
            id: self.id.clone(),
            places: self.targets.into_iter().zip(numbers).map(place).collect(),
            ready: self.ready,
            message: self.message,
            end,
        };
        HoldRow {
            id: self.id,
            cluster: Scope::parse(&self.scope)
                .and_then(|scope| scope.cluster_name().map(str::to_owned))
                .unwrap_or_default(),
            client: self.client,
            pod_sets: self.pod_sets,
            pods: self.pods,
            dedicated: self.dedicated,
            max_price: self.max_price,
            state,
            created_ms: self.created_ms,
            expires_ms: self.expires_ms,
            left_ms: self.left_ms,
            committed_ms: self.committed_ms,
            ended_ms: self.ended_ms,
            status,
            version: self.version.unsigned_abs(),
        }
    }
}

impl PostgresStore {
    pub(super) async fn insert_hold(&self, new: &NewHold) -> StoreResult<HoldCreation> {
        let mut transaction = self.begin(CREATE).await?;
        lock_quota(&mut transaction, &new.client, CREATE).await?;
        if let Some(known) = by_request(&mut transaction, new).await? {
            let is_same = known.fingerprint == new.fingerprint;
            let known = Box::new(known.into_row());
            return Ok(if is_same { HoldCreation::Created(known) } else { HoldCreation::OtherRequest });
        }
        let scope = Scope::cluster(&new.cluster).key();
        let known = sqlx::query_scalar!("SELECT scope FROM leases WHERE scope = $1 AND owner <> ''", scope);
        if known.fetch_optional(&mut *transaction).await.map_err(database(CREATE))?.is_none() {
            return Ok(HoldCreation::UnknownCluster);
        }
        let left = match remaining_quota(&mut transaction, &new.client, new.quota).await? {
            Quota::Left { price, .. } => price,
            Quota::TooManyHolds(count) => return Ok(HoldCreation::TooManyHolds(count)),
            Quota::TooExpensive(held) => return Ok(HoldCreation::TooExpensive(held)),
        };
        let max_price = [new.max_price, left].into_iter().flatten().min();
        sqlx::query!(
            "INSERT INTO holds (id, scope, client, request_id, fingerprint, pod_sets, pods, dedicated, max_price, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp() + $10::bigint * interval '1 millisecond')",
            new.id,
            scope,
            new.client,
            new.request_id,
            new.fingerprint,
            new.pod_sets,
            new.pods,
            new.dedicated,
            max_price,
            new.ttl_ms
        )
        .execute(&mut *transaction)
        .await
        .map_err(database(CREATE))?;
        let created = by_id(&mut transaction, &scope, &new.id).await?;
        if let Some(row) = &created {
            audit(&mut transaction, HoldAudit::Created, row, &new.client).await?;
        }
        bump_signal(&mut transaction, Signal::Holds, CREATE).await?;
        commit(transaction, CREATE).await?;
        Ok(created.map_or(HoldCreation::UnknownCluster, |row| HoldCreation::Created(Box::new(row))))
    }

    /// The quota of `by` is read under the lock of its creations, so that both together do not exceed it; the hold itself is
    /// changed by one statement, which judges its state again.
    pub(super) async fn commit_hold_now(
        &self,
        (cluster, id): (&str, &str),
        version: Option<u64>,
        by: &HoldCaller,
    ) -> StoreResult<HoldCommand> {
        let scope = Scope::cluster(cluster).key();
        let mut transaction = self.begin(COMMAND).await?;
        lock_quota(&mut transaction, &by.name, COMMAND).await?;
        let Some(before) = by_id(&mut transaction, &scope, id).await? else { return Ok(HoldCommand::Unknown) };
        if !by.may_change_hold_of(&before.client) {
            return Ok(HoldCommand::OtherClient(Box::new(before)));
        }
        if before.client != by.name
            && before.state == HoldState::Active
            && let Some(refused) = beyond_quota(&mut transaction, &before, by).await?
        {
            return Ok(refused);
        }
        let changed = sqlx::query!(
            "UPDATE holds SET committed_at = clock_timestamp(), committed_by = $4, version = version + 1
             WHERE id = $1 AND scope = $2 AND ended_at IS NULL AND committed_at IS NULL AND ready
               AND expires_at > clock_timestamp() AND ($3::bigint IS NULL OR version = $3)",
            id,
            scope,
            version.map(column),
            by.name
        );
        let changed = changed.execute(&mut *transaction).await.map_err(database(COMMAND))?.rows_affected() > 0;
        let Some(row) = by_id(&mut transaction, &scope, id).await? else { return Ok(HoldCommand::Unknown) };
        if !changed {
            return Ok(match row.state {
                HoldState::Committed => HoldCommand::Done(Box::new(row)),
                _ if version.is_some_and(|version| version != row.version) => HoldCommand::OtherVersion(Box::new(row)),
                _ => HoldCommand::Refused(Box::new(row)),
            });
        }
        audit(&mut transaction, HoldAudit::Committed, &row, &by.name).await?;
        bump_signal(&mut transaction, Signal::Holds, COMMAND).await?;
        commit(transaction, COMMAND).await?;
        Ok(HoldCommand::Done(Box::new(row)))
    }

    pub(super) async fn release_hold_now(
        &self,
        (cluster, id): (&str, &str),
        version: Option<u64>,
        by: &HoldCaller,
    ) -> StoreResult<HoldCommand> {
        let scope = Scope::cluster(cluster).key();
        let mut transaction = self.begin(COMMAND).await?;
        // The creator of a hold never changes.
        let Some(before) = by_id(&mut transaction, &scope, id).await? else { return Ok(HoldCommand::Unknown) };
        if !by.may_change_hold_of(&before.client) {
            return Ok(HoldCommand::OtherClient(Box::new(before)));
        }
        let changed = sqlx::query!(
            "UPDATE holds SET ended_at = clock_timestamp(), ended = 'released', version = version + 1
             WHERE id = $1 AND scope = $2 AND ended_at IS NULL AND ($3::bigint IS NULL OR version = $3)
               AND (committed_at IS NOT NULL OR expires_at > clock_timestamp())",
            id,
            scope,
            version.map(column)
        );
        let changed = changed.execute(&mut *transaction).await.map_err(database(COMMAND))?.rows_affected() > 0;
        let Some(row) = by_id(&mut transaction, &scope, id).await? else { return Ok(HoldCommand::Unknown) };
        if !changed {
            let row = Box::new(row);
            return Ok(if row.state.has_ended() { HoldCommand::Done(row) } else { HoldCommand::OtherVersion(row) });
        }
        audit(&mut transaction, HoldAudit::Released, &row, &by.name).await?;
        bump_signal(&mut transaction, Signal::Holds, COMMAND).await?;
        commit(transaction, COMMAND).await?;
        Ok(HoldCommand::Done(Box::new(row)))
    }

    pub(super) async fn read_hold(&self, cluster: &str, id: &str) -> StoreResult<Option<HoldRow>> {
        let mut connection = self.pool.acquire().await.map_err(database(READ))?;
        by_id(&mut connection, &Scope::cluster(cluster).key(), id).await
    }

    pub(super) async fn read_holds(&self, cluster: Option<&str>) -> StoreResult<Vec<HoldRow>> {
        let scope = cluster.map(|cluster| Scope::cluster(cluster).key());
        let rows = select_holds!(
            r#"WHERE ($1::text IS NULL OR scope = $1) ORDER BY scope COLLATE "C", id COLLATE "C""#,
            scope
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        Ok(rows.into_iter().map(HoldColumns::into_row).collect())
    }

    pub(super) async fn read_live_holds(&self) -> StoreResult<LiveHolds> {
        let mut connection = self.pool.acquire().await.map_err(database(READ))?;
        live(&mut connection, None).await
    }

    pub(super) async fn write_hold_status(&self, lease: &Lease, status: &HoldStatusRow) -> StoreResult<()> {
        let mut transaction = self.begin_fenced(lease, WRITE).await?;
        write_statuses(&mut transaction, &lease.scope, std::slice::from_ref(status)).await?;
        commit(transaction, WRITE).await
    }

    /// Deletes holds that ended long ago.
    pub(super) async fn prune_holds(&self) -> StoreResult<()> {
        sqlx::query!(
            "DELETE FROM holds WHERE coalesce(ended_at, CASE WHEN committed_at IS NULL THEN expires_at END)
                      < clock_timestamp() - $1::bigint * interval '1 millisecond'",
            RETENTION_MS
        )
        .execute(&self.pool)
        .await
        .map_err(database("prune holds"))?;
        Ok(())
    }
}

/// One creation, or commit for another client, of a client at a time: two could exceed its quota together.
async fn lock_quota(connection: &mut PgConnection, client: &str, what: &'static str) -> StoreResult<()> {
    let lock =
        sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('fleetwright holds ' || $1::text, 0))", client);
    lock.execute(connection).await.map_err(database(what))?;
    Ok(())
}

/// What a client may hold besides what it holds.
enum Quota {
    /// Another hold, for a price of at most this if there is a limit, besides this price.
    Left {
        price: Option<i64>,
        held: i64,
    },
    TooManyHolds(u32),
    TooExpensive(i64),
}

/// What is left of the quota of a client, who pays for the holds that it committed and for its own that are not committed.
async fn remaining_quota(connection: &mut PgConnection, client: &str, quota: HoldQuota) -> StoreResult<Quota> {
    let held = sqlx::query!(
        r#"SELECT count(*) AS "holds!",
                  coalesce(sum(CASE WHEN ready THEN price ELSE greatest(price, coalesce(max_price, 0)) END), 0)::bigint AS "price!"
           FROM (SELECT ready, max_price, coalesce((SELECT sum(one) FROM unnest(target_prices) AS one), 0)::bigint AS price
                 FROM holds WHERE coalesce(committed_by, client) = $1 AND ended_at IS NULL
                   AND (committed_at IS NOT NULL OR expires_at > clock_timestamp())) AS live"#,
        client
    );
    let held = held.fetch_one(connection).await.map_err(database(CREATE))?;
    let count = u32::try_from(held.holds).unwrap_or(u32::MAX);
    if quota.holds.is_some_and(|most| count >= most) {
        return Ok(Quota::TooManyHolds(count));
    }
    Ok(match quota.price.map(|most| most - held.price) {
        Some(left) if left <= 0 => Quota::TooExpensive(held.price),
        price => Quota::Left { price, held: held.price },
    })
}

/// Why `by` cannot pay for a hold that another client created.
async fn beyond_quota(
    connection: &mut PgConnection,
    row: &HoldRow,
    by: &HoldCaller,
) -> StoreResult<Option<HoldCommand>> {
    // An active hold is ready: it counts with the price of its nodes.
    let price: i64 = row.status.places.iter().map(|place| place.price).sum();
    Ok(match remaining_quota(connection, &by.name, by.quota).await? {
        Quota::TooManyHolds(count) => Some(HoldCommand::TooManyHolds(count)),
        Quota::TooExpensive(held) => Some(HoldCommand::TooExpensive(held + price)),
        Quota::Left { price: Some(left), held } if left < price => Some(HoldCommand::TooExpensive(held + price)),
        Quota::Left { .. } => None,
    })
}

/// Writes who changed a hold. A call that is repeated after a lost answer changes nothing, and writes nothing.
async fn audit(connection: &mut PgConnection, command: HoldAudit, row: &HoldRow, by: &str) -> StoreResult<()> {
    let entry = AuditEntry::hold(command, (&row.cluster, &row.id, &row.client), by, clock::now().as_millis());
    write_line(connection, &entry, nonce()).await
}

async fn by_request(connection: &mut PgConnection, new: &NewHold) -> StoreResult<Option<HoldColumns>> {
    let row = select_holds!("WHERE client = $1 AND request_id = $2", new.client, new.request_id);
    row.fetch_optional(connection).await.map_err(database(CREATE))
}

async fn by_id(connection: &mut PgConnection, scope: &str, id: &str) -> StoreResult<Option<HoldRow>> {
    let row = select_holds!("WHERE id = $1 AND scope = $2", id, scope);
    let row = row.fetch_optional(connection).await.map_err(database(READ))?;
    Ok(row.map(HoldColumns::into_row))
}

/// The holds of a scope, or of all, that have not ended. The number of the list is read before the holds: it has every
/// change that the number counts.
pub(super) async fn live(connection: &mut PgConnection, scope: Option<&Scope>) -> StoreResult<LiveHolds> {
    let read = sqlx::query_scalar!("SELECT version FROM signals WHERE name = 'holds'");
    let read = read.fetch_one(&mut *connection).await.map_err(database(READ))?;
    let rows = select_holds!(
        r#"WHERE ended_at IS NULL AND ($1::text IS NULL OR scope = $1) ORDER BY scope COLLATE "C", id COLLATE "C""#,
        scope.map(Scope::key)
    );
    let rows = rows.fetch_all(connection).await.map_err(database(READ))?;
    Ok(LiveHolds { read: read.unsigned_abs(), holds: rows.into_iter().map(HoldColumns::into_row).collect() })
}

/// Writes what has become of holds of the scope, whose lease is held.
pub(super) async fn write_statuses(
    connection: &mut PgConnection,
    scope: &Scope,
    statuses: &[HoldStatusRow],
) -> StoreResult<()> {
    for HoldStatusRow { id, places, ready, message, end } in statuses {
        let end = end.map(|end| if end == HoldState::Expired { "expired" } else { "failed" });
        let targets: Vec<String> = places.iter().map(|place| place.target.clone()).collect();
        let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        let sets: Vec<i32> = places.iter().map(|place| number(place.pod_set)).collect();
        let pods: Vec<i32> = places.iter().map(|place| number(place.pods)).collect();
        let prices: Vec<i64> = places.iter().map(|place| place.price).collect();
        sqlx::query!(
            "UPDATE holds SET ready = $3, message = $4, targets = $5, target_sets = $6, target_pods = $7, target_prices = $8,
                    ended = $9, ended_at = CASE WHEN $9::text IS NULL THEN NULL ELSE clock_timestamp() END,
                    version = version + 1
             WHERE id = $1 AND scope = $2 AND ended_at IS NULL AND ($9::text IS NULL OR committed_at IS NULL)",
            id,
            scope.key(),
            ready,
            message,
            &targets,
            &sets,
            &pods,
            &prices,
            end
        )
        .execute(&mut *connection)
        .await
        .map_err(database(WRITE))?;
    }
    Ok(())
}

/// Ends the holds of a cluster whose name is free again.
pub(super) async fn forget(connection: &mut PgConnection, scope: &str, what: &'static str) -> StoreResult<()> {
    let ended = sqlx::query!(
        "UPDATE holds SET ended = 'failed', ended_at = clock_timestamp(), message = $2, version = version + 1
         WHERE scope = $1 AND ended_at IS NULL",
        scope,
        CLUSTER_FORGOTTEN
    );
    if ended.execute(&mut *connection).await.map_err(database(what))?.rows_affected() > 0 {
        bump_signal(connection, Signal::Holds, what).await?;
    }
    Ok(())
}
