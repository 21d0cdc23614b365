//! What machines have cost. Its times are those of replicas: an interval is as long as the replica says.

use sqlx::PgConnection;

use cost::{CostCause, CostInterval, CostParts, CostedMachine, MovedShare, SavingDecision};
use model::{CapacityType, MicroUsd, Timestamp};

use super::connection::{PostgresStore, commit};
use super::conversion::{column, database};
use store::StoreResult;
use store::lease::{Lease, Scope};
use store::spend::{HOURS_KEPT_DAYS, IntervalFilter, SpendGroup, SpendQuery, SpendRow};

const WRITE: &str = "write costs";
const READ: &str = "read costs";
const PRUNE: &str = "merge costs of days";

/// An interval as it is stored.
#[derive(Debug)]
struct Columns {
    scope: String,
    claim: String,
    start_ms: i64,
    end_ms: i64,
    launched_ms: i64,
    pool: String,
    provider_id: String,
    instance_type: String,
    zone: String,
    capacity_type: String,
    price: i64,
    launched_by: Option<i64>,
    removed_by: Option<i64>,
    removed_ms: Option<i64>,
    moved_by: Option<Vec<i64>>,
    moved_ppm: Option<Vec<i64>>,
    is_running: bool,
    parts: Vec<i64>,
}

impl Columns {
    fn decode(self) -> CostInterval {
        CostInterval {
            machine: CostedMachine {
                claim: self.claim.as_str().into(),
                pool: self.pool.as_str().into(),
                provider_id: self.provider_id.as_str().into(),
                instance_type: self.instance_type.as_str().into(),
                zone: self.zone.as_str().into(),
                // Written by this program: no other text is there.
                capacity_type: CapacityType::parse(&self.capacity_type).unwrap_or(CapacityType::OnDemand),
                price: MicroUsd(self.price),
                launched_by: self.launched_by.map(i64::unsigned_abs),
                removed_by: self.removed_by.zip(self.removed_ms).map(|(number, at)| SavingDecision {
                    number: number.unsigned_abs(),
                    at: Timestamp::from_millis(at),
                }),
                moved: decode_shares(self.moved_by, self.moved_ppm),
            },
            launched: Timestamp::from_millis(self.launched_ms),
            start: Timestamp::from_millis(self.start_ms),
            end: Timestamp::from_millis(self.end_ms),
            parts: decode_parts(&self.parts),
            is_running: self.is_running,
        }
    }
}

/// The columns of intervals to write.
struct WrittenColumns {
    claims: Vec<String>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    launched: Vec<i64>,
    pools: Vec<String>,
    provider_ids: Vec<String>,
    instance_types: Vec<String>,
    zones: Vec<String>,
    capacity_types: Vec<String>,
    prices: Vec<i64>,
    launched_by: Vec<Option<i64>>,
    removed_by: Vec<Option<i64>>,
    removed_at: Vec<Option<i64>>,
    /// Arrays as text: those of a parameter all have one length.
    moved_by: Vec<Option<String>>,
    moved_ppm: Vec<Option<String>>,
    running: Vec<bool>,
    /// By cause, in the order of the table's columns.
    amounts: [Vec<i64>; CostCause::ALL.len()],
}

impl WrittenColumns {
    fn of(intervals: &[CostInterval]) -> Self {
        let texts = |of: fn(&CostedMachine) -> String| intervals.iter().map(|one| of(&one.machine)).collect();
        let times = |of: fn(&CostInterval) -> Timestamp| intervals.iter().map(|one| of(one).as_millis()).collect();
        let numbers = |of: fn(&CostedMachine) -> Option<i64>| intervals.iter().map(|one| of(&one.machine)).collect();
        let shares = |of: fn(&MovedShare) -> i64| {
            let machines = intervals.iter().map(|one| &one.machine.moved);
            machines.map(|moved| (!moved.is_empty()).then(|| array(moved.iter().map(of)))).collect()
        };
        Self {
            claims: texts(|machine| machine.claim.to_string()),
            starts: times(|one| one.start),
            ends: times(|one| one.end),
            launched: times(|one| one.launched),
            pools: texts(|machine| machine.pool.to_string()),
            provider_ids: texts(|machine| machine.provider_id.to_string()),
            instance_types: texts(|machine| machine.instance_type.to_string()),
            zones: texts(|machine| machine.zone.to_string()),
            capacity_types: texts(|machine| machine.capacity_type.as_str().to_owned()),
            prices: intervals.iter().map(|one| one.machine.price.0).collect(),
            launched_by: numbers(|machine| machine.launched_by.map(column)),
            removed_by: numbers(|machine| machine.removed_by.map(|saving| column(saving.number))),
            removed_at: numbers(|machine| machine.removed_by.map(|saving| saving.at.as_millis())),
            moved_by: shares(|share| column(share.decision)),
            moved_ppm: shares(|share| i64::from(share.ppm)),
            running: intervals.iter().map(|one| one.is_running).collect(),
            amounts: CostCause::ALL.map(|cause| intervals.iter().map(|one| one.parts.get(cause)).collect()),
        }
    }
}

/// An array as PostgreSQL reads it.
fn array(numbers: impl Iterator<Item = i64>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("{{{}}}", numbers.join(","))
}

fn decode_shares(decisions: Option<Vec<i64>>, ppm: Option<Vec<i64>>) -> Vec<MovedShare> {
    let decisions = decisions.unwrap_or_default().into_iter().map(i64::unsigned_abs);
    let shares = decisions.zip(ppm.unwrap_or_default());
    shares.map(|(decision, ppm)| MovedShare { decision, ppm: u32::try_from(ppm).unwrap_or_default() }).collect()
}

fn decode_parts(amounts: &[i64]) -> CostParts {
    let mut parts = CostParts::default();
    CostCause::ALL.into_iter().zip(amounts).for_each(|(cause, amount)| parts.add(cause, *amount));
    parts
}

fn scope_keys(clusters: &[String]) -> Vec<String> {
    clusters.iter().map(|name| Scope::Cluster(name.clone()).key()).collect()
}

/// The group's name in the statement.
fn group_name(group: SpendGroup) -> &'static str {
    match group {
        SpendGroup::None => "none",
        SpendGroup::Cluster => "cluster",
        SpendGroup::Pool => "pool",
        SpendGroup::CapacityType => "capacity_type",
        SpendGroup::InstanceType => "instance_type",
        SpendGroup::Zone => "zone",
    }
}

impl PostgresStore {
    pub(super) async fn write_costs(&self, lease: &Lease, intervals: &[CostInterval]) -> StoreResult<()> {
        if intervals.is_empty() {
            return Ok(());
        }
        let columns = WrittenColumns::of(intervals);
        let mut transaction = self.begin_fenced(lease, WRITE).await?;
        write(&mut transaction, &lease.scope, &columns).await.map_err(database(WRITE))?;
        commit(transaction, WRITE).await
    }

    pub(super) async fn sum_costs(&self, query: &SpendQuery) -> StoreResult<Vec<SpendRow>> {
        let scopes = query.clusters.as_deref().map(scope_keys);
        let rows = sqlx::query!(
            r#"SELECT coalesce(milliseconds(starts_at) - milliseconds(starts_at) % $4::bigint, $2::bigint) AS "period_ms!",
                      CASE WHEN $5::text IN ('cluster', 'pool') THEN substr(scope, length('cluster/') + 1) ELSE '' END
                        COLLATE "C" AS "cluster!",
                      CASE $5::text WHEN 'pool' THEN pool WHEN 'capacity_type' THEN capacity_type
                              WHEN 'instance_type' THEN instance_type WHEN 'zone' THEN zone ELSE '' END COLLATE "C"
                        AS "group!",
                      sum(milliseconds(ends_at) - milliseconds(starts_at))::bigint AS "machine_ms!",
                      ARRAY[sum(useful), sum(booting), sum(draining), sum(hold), sum(daemonsets), sum(fragmentation),
                            sum(blocked), sum(no_savings), sum(unexplained)]::bigint[] AS "parts!"
               FROM machine_costs
               WHERE starts_at >= timestamptz 'epoch' + $2::bigint * interval '1 millisecond'
                 AND starts_at < timestamptz 'epoch' + $3::bigint * interval '1 millisecond'
                 AND ($1::text[] IS NULL OR scope = ANY($1))
               GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"#,
            scopes.as_deref(),
            query.from_ms,
            query.to_ms,
            query.period.length_ms(),
            group_name(query.group)
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        let rows = rows.into_iter().map(|row| SpendRow {
            period_ms: row.period_ms,
            cluster: row.cluster,
            group: row.group,
            machine_ms: row.machine_ms,
            parts: decode_parts(&row.parts),
        });
        Ok(rows.collect())
    }

    pub(super) async fn read_cost_intervals(&self, filter: &IntervalFilter) -> StoreResult<Vec<CostInterval>> {
        let (after_ms, after_claim) = filter.after.clone().unwrap_or((filter.from_ms.saturating_sub(1), String::new()));
        let rows = sqlx::query_as!(
            Columns,
            r#"SELECT scope, claim, milliseconds(starts_at) AS "start_ms!", milliseconds(ends_at) AS "end_ms!",
                      milliseconds(launched_at) AS "launched_ms!", pool, provider_id, instance_type, zone, capacity_type,
                      price, launched_by, removed_by, milliseconds(removed_at) AS removed_ms, moved_by, moved_ppm, is_running,
                      ARRAY[useful, booting, draining, hold, daemonsets, fragmentation, blocked, no_savings, unexplained]
                        AS "parts!"
               FROM machine_costs
               WHERE scope = $1 AND starts_at >= timestamptz 'epoch' + $2::bigint * interval '1 millisecond'
                 AND starts_at < timestamptz 'epoch' + $3::bigint * interval '1 millisecond'
                 AND (starts_at, claim COLLATE "C") > (timestamptz 'epoch' + $4::bigint * interval '1 millisecond', $5)
               ORDER BY starts_at, claim COLLATE "C" LIMIT $6"#,
            Scope::Cluster(filter.cluster.clone()).key(),
            filter.from_ms,
            filter.to_ms,
            after_ms,
            after_claim,
            i64::from(filter.limit)
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        Ok(rows.into_iter().map(Columns::decode).collect())
    }

    pub(super) async fn read_saving_intervals(
        &self,
        clusters: Option<&[String]>,
        from_ms: i64,
        to_ms: i64,
    ) -> StoreResult<Vec<(String, CostInterval)>> {
        let scopes = clusters.map(scope_keys);
        let rows = sqlx::query_as!(
            Columns,
            r#"WITH around AS (
                 SELECT * FROM machine_costs
                 WHERE starts_at >= timestamptz 'epoch' + ($2::bigint - 86400000) * interval '1 millisecond'
                   AND starts_at < timestamptz 'epoch' + ($3::bigint + 86400000) * interval '1 millisecond'
                   AND ($1::text[] IS NULL OR scope = ANY($1))),
               removed AS (
                 SELECT DISTINCT scope, claim, removed_by FROM around
                 WHERE removed_at >= timestamptz 'epoch' + $2::bigint * interval '1 millisecond'
                   AND removed_at < timestamptz 'epoch' + $3::bigint * interval '1 millisecond')
               SELECT scope, claim, milliseconds(starts_at) AS "start_ms!",
                      milliseconds(ends_at) AS "end_ms!", milliseconds(launched_at) AS "launched_ms!", pool, provider_id,
                      instance_type, zone, capacity_type, price, launched_by, removed_by,
                      milliseconds(removed_at) AS removed_ms, moved_by, moved_ppm, is_running,
                      ARRAY[]::bigint[] AS "parts!"
               FROM around
               WHERE (scope, claim) IN (SELECT scope, claim FROM removed)
                  OR (scope, launched_by) IN (SELECT scope, removed_by FROM removed)
                  OR (moved_by IS NOT NULL AND EXISTS (
                        SELECT FROM removed WHERE removed.scope = around.scope AND removed.removed_by = ANY (around.moved_by)))
               ORDER BY scope COLLATE "C", starts_at, claim COLLATE "C""#,
            scopes.as_deref(),
            from_ms,
            to_ms
        );
        let rows = rows.fetch_all(&self.pool).await.map_err(database(READ))?;
        let cluster = |row: &Columns| row.scope.strip_prefix("cluster/").unwrap_or_default().to_owned();
        Ok(rows.into_iter().map(|row| (cluster(&row), row.decode())).collect())
    }

    /// Deletes rows that began more than `seconds` ago, and merges those of days that are not kept by the hour.
    pub(super) async fn prune_costs(&self, seconds: f64) -> StoreResult<()> {
        sqlx::query!("DELETE FROM machine_costs WHERE starts_at < now() - make_interval(secs => $1)", seconds)
            .execute(&self.pool)
            .await
            .map_err(database(PRUNE))?;
        // Days before these were merged when they were among them, unless no server ran for a week.
        let days = sqlx::query!(
            r#"SELECT scope, date_trunc('day', starts_at, 'UTC')::text AS "day!" FROM machine_costs
               WHERE NOT is_day AND starts_at < date_trunc('day', now(), 'UTC') - make_interval(days => $1)
                 AND starts_at >= date_trunc('day', now(), 'UTC') - make_interval(days => 2 * $1)
               GROUP BY 1, 2"#,
            i32::try_from(HOURS_KEPT_DAYS).unwrap_or(i32::MAX)
        );
        for row in days.fetch_all(&self.pool).await.map_err(database(PRUNE))? {
            self.merge_day(&row.scope, &row.day).await?;
        }
        Ok(())
    }

    async fn merge_day(&self, scope: &str, day: &str) -> StoreResult<()> {
        let mut transaction = self.begin(PRUNE).await?;
        sqlx::query!("SELECT lock_scope($1)", scope).execute(&mut *transaction).await.map_err(database(PRUNE))?;
        sqlx::query!(
            r#"WITH hours AS (
                 DELETE FROM machine_costs
                 WHERE scope = $1 AND starts_at >= $2::text::timestamptz
                   AND starts_at < $2::text::timestamptz + interval '24 hours' AND NOT is_day
                 RETURNING *)
               INSERT INTO machine_costs (scope, claim, starts_at, ends_at, launched_at, pool, provider_id, instance_type,
                      zone, capacity_type, price, launched_by, removed_by, removed_at, moved_by, moved_ppm, is_running,
                      is_day, useful, booting, draining, hold, daemonsets, fragmentation, blocked, no_savings, unexplained)
               SELECT $1, claim, min(starts_at), max(ends_at), launched_at, max(pool), max(provider_id),
                      max(instance_type), max(zone), max(capacity_type), price, max(launched_by), max(removed_by), max(removed_at),
                      max(moved_by), max(moved_ppm),
                      (array_agg(is_running ORDER BY starts_at DESC))[1], true, sum(useful), sum(booting), sum(draining),
                      sum(hold), sum(daemonsets), sum(fragmentation), sum(blocked), sum(no_savings), sum(unexplained)
               FROM hours GROUP BY claim, launched_at, price"#,
            scope,
            day
        )
        .execute(&mut *transaction)
        .await
        .map_err(database(PRUNE))?;
        commit(transaction, PRUNE).await
    }
}

/// Updates rows first and inserts the others: the scope lock excludes concurrent writers, and a row that conflicts would be
/// locked, which is a record in the write-ahead log.
async fn write(connection: &mut PgConnection, scope: &Scope, columns: &WrittenColumns) -> Result<(), sqlx::Error> {
    sqlx::query!(
        r#"WITH new AS (
                 SELECT claim, timestamptz 'epoch' + start_ms * interval '1 millisecond' AS starts_at,
                        timestamptz 'epoch' + end_ms * interval '1 millisecond' AS ends_at,
                        timestamptz 'epoch' + launched_ms * interval '1 millisecond' AS launched_at,
                        pool, provider_id, instance_type, zone, capacity_type, price, launched_by, removed_by,
                        timestamptz 'epoch' + removed_ms * interval '1 millisecond' AS removed_at,
                        moved_by::bigint[] AS moved_by, moved_ppm::bigint[] AS moved_ppm, is_running, useful, booting,
                        draining, hold, daemonsets, fragmentation, blocked, no_savings, unexplained
                 FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[],
                             $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[],
                             $15::text[], $16::text[], $17::boolean[], $18::bigint[], $19::bigint[], $20::bigint[],
                             $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[], $26::bigint[])
                      AS row (claim, start_ms, end_ms, launched_ms, pool, provider_id, instance_type, zone, capacity_type,
                              price, launched_by, removed_by, removed_ms, moved_by, moved_ppm, is_running, useful, booting,
                              draining, hold, daemonsets, fragmentation, blocked, no_savings, unexplained)),
               changed AS (
                 UPDATE machine_costs AS stored
                 SET ends_at = new.ends_at, launched_by = new.launched_by, removed_by = new.removed_by,
                     removed_at = new.removed_at, moved_by = new.moved_by, moved_ppm = new.moved_ppm,
                     is_running = new.is_running, useful = new.useful, booting = new.booting, draining = new.draining,
                     hold = new.hold, daemonsets = new.daemonsets, fragmentation = new.fragmentation,
                     blocked = new.blocked, no_savings = new.no_savings, unexplained = new.unexplained
                 FROM new
                 WHERE stored.scope = $1 AND stored.starts_at = new.starts_at AND stored.claim = new.claim
                   AND stored.ends_at <= new.ends_at)
               INSERT INTO machine_costs (scope, claim, starts_at, ends_at, launched_at, pool, provider_id, instance_type,
                      zone, capacity_type, price, launched_by, removed_by, removed_at, moved_by, moved_ppm, is_running,
                      useful, booting, draining, hold, daemonsets, fragmentation, blocked, no_savings, unexplained)
               SELECT $1, claim, starts_at, ends_at, launched_at, pool, provider_id, instance_type, zone, capacity_type,
                      price, launched_by, removed_by, removed_at, moved_by, moved_ppm, is_running, useful, booting,
                      draining, hold, daemonsets, fragmentation, blocked, no_savings, unexplained
               FROM new
               WHERE NOT EXISTS (SELECT FROM machine_costs AS stored WHERE stored.scope = $1
                                 AND stored.starts_at = new.starts_at AND stored.claim = new.claim)"#,
        scope.key(),
        &columns.claims,
        &columns.starts,
        &columns.ends,
        &columns.launched,
        &columns.pools,
        &columns.provider_ids,
        &columns.instance_types,
        &columns.zones,
        &columns.capacity_types,
        &columns.prices,
        &columns.launched_by as &[Option<i64>],
        &columns.removed_by as &[Option<i64>],
        &columns.removed_at as &[Option<i64>],
        &columns.moved_by as &[Option<String>],
        &columns.moved_ppm as &[Option<String>],
        &columns.running,
        &columns.amounts[0],
        &columns.amounts[1],
        &columns.amounts[2],
        &columns.amounts[3],
        &columns.amounts[4],
        &columns.amounts[5],
        &columns.amounts[6],
        &columns.amounts[7],
        &columns.amounts[8]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The last interval of each machine that ran when the costs of its cluster were last written. Every write has an interval of
/// each machine that runs, which begins at most an hour before it.
pub(super) async fn running(connection: &mut PgConnection, scope: &Scope) -> StoreResult<Vec<CostInterval>> {
    let rows = sqlx::query_as!(
        Columns,
        r#"SELECT * FROM (
             SELECT DISTINCT ON (claim) scope, claim, milliseconds(starts_at) AS "start_ms!", milliseconds(ends_at) AS "end_ms!",
                    milliseconds(launched_at) AS "launched_ms!", pool, provider_id, instance_type, zone, capacity_type,
                    price, launched_by, removed_by, milliseconds(removed_at) AS removed_ms, moved_by, moved_ppm, is_running,
                    ARRAY[useful, booting, draining, hold, daemonsets, fragmentation, blocked, no_savings, unexplained]
                      AS "parts!"
             FROM machine_costs
             WHERE scope = $1
               AND starts_at >= (SELECT max(starts_at) FROM machine_costs WHERE scope = $1) - interval '2 hours'
             ORDER BY claim, starts_at DESC) AS last
           WHERE is_running ORDER BY claim COLLATE "C""#,
        scope.key()
    );
    let rows = rows.fetch_all(connection).await.map_err(database(READ))?;
    Ok(rows.into_iter().map(Columns::decode).collect())
}
