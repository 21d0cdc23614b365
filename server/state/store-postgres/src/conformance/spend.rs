//! What machines have cost: written by the owner of the cluster, continued by the next one, and summed for reports.

use std::time::Duration;

use cost::{CostCause, CostInterval, CostParts, CostedMachine, MovedShare, SavingDecision};
use model::{CapacityType, MicroUsd, Timestamp};

use super::{HOUR, cluster, granted, lost_and_held, refused};
use store::Store;
use store::clock;
use store::lease::Scope;
use store::log::Retention;
use store::spend::{DAY_MS, HOUR_MS, IntervalFilter, SpendGroup, SpendPeriod, SpendQuery, SpendRow};

pub(super) async fn all(store: &dyn Store, run: &str) {
    an_interval_is_replaced_until_it_ends(store, &cluster(run, "costs")).await;
    the_last_intervals_come_back_with_the_lease(store, &cluster(run, "costs-continued")).await;
    every_report_adds_up_to_the_same_sum(store, run).await;
    machines_of_saving_decisions_are_found(store, run).await;
    intervals_are_read_page_by_page(store, &cluster(run, "costs-pages")).await;
    a_replica_that_lost_its_lease_writes_no_costs(store, &cluster(run, "costs-fenced")).await;
    hours_become_days_without_changing_a_sum(store, run).await;
}

/// Midnight (UTC) two days ago, in milliseconds since 1970.
fn recently() -> i64 {
    let now = clock::now().as_millis();
    now - now % DAY_MS - 2 * DAY_MS
}

fn machine(claim: &str) -> CostedMachine {
    CostedMachine {
        claim: claim.into(),
        pool: "default".into(),
        provider_id: format!("aws:///us-east-1a/i-{claim}").as_str().into(),
        instance_type: "m6i.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        price: MicroUsd(96_000),
        launched_by: Some(7),
        removed_by: None,
        moved: Vec::new(),
    }
}

/// Launched half for pods that this decision has moved, and a quarter for those of a decision long ago.
fn moved_by(decision: u64) -> Vec<MovedShare> {
    vec![MovedShare { decision, ppm: 500_000 }, MovedShare { decision: 1, ppm: 250_000 }]
}

fn saving(number: u64, hour: i64) -> SavingDecision {
    SavingDecision { number, at: Timestamp::from_millis(recently() + hour * HOUR_MS) }
}

/// From one hour of the day to another, of which `useful` micro-dollars were useful, and one was not.
fn interval(claim: &str, hours: (i64, i64), useful: i64) -> CostInterval {
    let at = |hours: i64| Timestamp::from_millis(recently() + hours * HOUR_MS);
    let mut parts = CostParts::of(CostCause::Useful, useful);
    parts.add(CostCause::Unexplained, 1);
    let (start, end) = (at(hours.0), at(hours.1));
    CostInterval { machine: machine(claim), launched: at(0), start, end, parts, is_running: true }
}

fn everything(scope: &Scope) -> SpendQuery {
    SpendQuery {
        clusters: Some(vec![scope.cluster_name().unwrap_or_default().to_owned()]),
        from_ms: 0,
        to_ms: i64::MAX / 2_000,
        period: SpendPeriod::Whole,
        group: SpendGroup::None,
    }
}

async fn total(store: &dyn Store, scope: &Scope) -> (i64, i64) {
    let rows = store.spend(&everything(scope)).await.unwrap();
    rows.first().map_or((0, 0), |row| (row.parts.total(), row.machine_ms / HOUR_MS))
}

async fn an_interval_is_replaced_until_it_ends(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    store.put_costs(&lease, &[]).await.unwrap();
    assert_eq!(total(store, scope).await, (0, 0));
    store.put_costs(&lease, &[interval("m-1", (0, 1), 10), interval("m-2", (0, 1), 100)]).await.unwrap();
    assert_eq!(total(store, scope).await, (112, 2));
    // It goes on, and ends with a decision; what is repeated late changes nothing.
    let removed =
        CostedMachine { removed_by: Some(saving(u64::MAX / 2, 1)), moved: moved_by(u64::MAX / 2), ..machine("m-1") };
    let ended = CostInterval { machine: removed, is_running: false, ..interval("m-1", (0, 2), 20) };
    store.put_costs(&lease, std::slice::from_ref(&ended)).await.unwrap();
    store.put_costs(&lease, &[interval("m-1", (0, 1), 10)]).await.unwrap();
    store.put_costs(&lease, &[interval("m-1", (2, 3), 1_000)]).await.unwrap();
    assert_eq!(total(store, scope).await, (20 + 100 + 1_000 + 3, 4));
    let name = scope.cluster_name().unwrap_or_default().to_owned();
    let all = IntervalFilter { cluster: name, from_ms: 0, to_ms: i64::MAX / 2_000, after: None, limit: 100 };
    let expected = [ended, interval("m-2", (0, 1), 100), interval("m-1", (2, 3), 1_000)];
    assert_eq!(store.cost_intervals(&all).await.unwrap(), expected, "as they were written");
}

async fn the_last_intervals_come_back_with_the_lease(store: &dyn Store, scope: &Scope) {
    let (lease, open) = granted(store, scope, "a", HOUR).await;
    assert_eq!(open.costs, []);
    let gone = CostInterval { is_running: false, ..interval("m-3", (4, 5), 1) };
    let rows = [
        interval("m-1", (4, 5), 10),
        interval("m-1", (5, 6), 11),
        interval("m-2", (5, 6), 12),
        gone,
        // Not written lately: it ran when no replica looked, or its end was lost.
        interval("m-4", (1, 2), 13),
    ];
    store.put_costs(&lease, &rows).await.unwrap();
    let (_, open) = granted(store, scope, "a", HOUR).await;
    assert_eq!(open.costs, [rows[1].clone(), rows[2].clone()]);
    // Nothing of it is lost with the cluster.
    let name = scope.cluster_name().unwrap_or_default();
    store.forget_cluster(name, "alice", true).await.unwrap();
    assert_eq!(total(store, scope).await.0, 10 + 11 + 12 + 1 + 13 + 5);
}

/// Two clusters, two pools, three capacity types, types and zones, on two days.
async fn every_report_adds_up_to_the_same_sum(store: &dyn Store, run: &str) {
    let scopes = ["costs-one", "costs-other"].map(|name| cluster(run, name));
    let (mut expected, mut number) = (CostParts::default(), 1);
    for scope in &scopes {
        let (lease, _) = granted(store, scope, "a", HOUR).await;
        let mut rows = Vec::new();
        for (hour, capacity_type) in
            [(1, CapacityType::Spot), (1, CapacityType::OnDemand), (30, CapacityType::Reserved)]
        {
            for pool in ["blue", "green"] {
                number *= 2;
                let mut row = interval(&format!("m-{number}"), (hour, hour + 1), number);
                (row.machine.pool, row.machine.capacity_type) = (pool.into(), capacity_type);
                row.machine.instance_type = format!("{}.large", capacity_type.as_str()).as_str().into();
                row.machine.zone = format!("us-east-1{}", &pool[..1]).as_str().into();
                expected += row.parts;
                rows.push(row);
            }
        }
        store.put_costs(&lease, &rows).await.unwrap();
    }
    let names: Vec<String> = scopes.iter().filter_map(|scope| scope.cluster_name().map(str::to_owned)).collect();
    let query = |period, group| SpendQuery { clusters: Some(names.clone()), period, group, ..everything(&scopes[0]) };
    let groups = [
        (SpendGroup::None, 1),
        (SpendGroup::Cluster, 2),
        (SpendGroup::Pool, 4),
        (SpendGroup::CapacityType, 3),
        (SpendGroup::InstanceType, 3),
        (SpendGroup::Zone, 2),
    ];
    for (group, count) in groups {
        for period in [SpendPeriod::Hour, SpendPeriod::Day, SpendPeriod::Whole] {
            let rows = store.spend(&query(period, group)).await.unwrap();
            let mut sum = CostParts::default();
            rows.iter().for_each(|row| sum += row.parts);
            assert_eq!(
                (sum, rows.iter().map(|row| row.machine_ms).sum::<i64>()),
                (expected, 12 * HOUR_MS),
                "{group:?}"
            );
            if period == SpendPeriod::Whole {
                assert_eq!(rows.len(), count, "{rows:?}");
            }
        }
    }
    let brief = |row: &SpendRow| (row.cluster.clone(), row.group.clone(), row.parts.get(CostCause::Useful));
    let pools = store.spend(&query(SpendPeriod::Whole, SpendGroup::Pool)).await.unwrap();
    let (one, other) = (names[0].clone(), names[1].clone());
    let expected = [
        (one.clone(), "blue".to_owned(), 2 + 8 + 32),
        (one, "green".to_owned(), 4 + 16 + 64),
        (other.clone(), "blue".to_owned(), 128 + 512 + 2_048),
        (other, "green".to_owned(), 256 + 1_024 + 4_096),
    ];
    assert_eq!(pools.iter().map(brief).collect::<Vec<_>>(), expected);
    let days = store.spend(&query(SpendPeriod::Day, SpendGroup::None)).await.unwrap();
    let starts: Vec<i64> = days.iter().map(|row| (row.period_ms - recently()) / DAY_MS).collect();
    assert_eq!(starts, [0, 1]);
    // A part of the time, of one cluster.
    let part = SpendQuery { from_ms: recently() + DAY_MS, ..everything(&scopes[0]) };
    assert_eq!(store.spend(&part).await.unwrap()[0].parts.get(CostCause::Useful), 32 + 64);
    let before = SpendQuery { to_ms: recently() + DAY_MS, ..everything(&scopes[0]) };
    assert_eq!(store.spend(&before).await.unwrap()[0].parts.get(CostCause::Useful), 2 + 4 + 8 + 16);
}

/// Decision 5 removes "old" and launches "new", which decision 6 removes on the next day. Decision 7 launches "later" in part
/// for pods that decision 5 has moved.
async fn machines_of_saving_decisions_are_found(store: &dyn Store, run: &str) {
    let scopes = ["costs-saved", "costs-saved-too"].map(|name| cluster(run, name));
    let ended = |claim: &str, hours, by, hour| {
        let machine = CostedMachine { removed_by: Some(saving(by, hour)), launched_by: None, ..machine(claim) };
        CostInterval { machine, is_running: false, ..interval(claim, hours, 1) }
    };
    let mut new = interval("new", (10, 11), 1);
    new.machine.launched_by = Some(5);
    let mut gone = ended("new", (30, 31), 6, 30);
    gone.machine.launched_by = Some(5);
    let mut later = interval("later", (12, 13), 1);
    later.machine.moved = moved_by(5);
    // "old" was in use before; "other" is of another decision, which saves nothing.
    let other = interval("other", (10, 11), 1);
    let rows = [interval("old", (9, 10), 1), new, ended("old", (10, 11), 5, 10), other, later, gone];
    for scope in &scopes {
        let (lease, _) = granted(store, scope, "a", HOUR).await;
        store.put_costs(&lease, &rows).await.unwrap();
    }
    let names: Vec<String> = scopes.iter().filter_map(|scope| scope.cluster_name().map(str::to_owned)).collect();
    let read = async |clusters: &[String], hours: (i64, i64)| {
        let ms = |hour: i64| recently() + hour * HOUR_MS;
        let found = store.saving_intervals(Some(clusters), ms(hours.0), ms(hours.1)).await.unwrap();
        let brief = |(cluster, one): (String, CostInterval)| {
            (cluster, one.machine.claim.to_string(), (one.start.as_millis() - recently()) / HOUR_MS)
        };
        found.into_iter().map(brief).collect::<Vec<_>>()
    };
    let of = |name: &str, rows: &[(&str, i64)]| -> Vec<(String, String, i64)> {
        rows.iter().map(|(claim, hour)| (name.to_owned(), (*claim).to_owned(), *hour)).collect()
    };
    let first = [("old", 9), ("new", 10), ("old", 10), ("later", 12), ("new", 30)];
    assert_eq!(read(&names[..1], (10, 11)).await, of(&names[0], &first));
    assert_eq!(read(&names[..1], (11, 31)).await, of(&names[0], &[("new", 10), ("new", 30)]));
    assert_eq!(read(&names[..1], (11, 12)).await, []);
    assert_eq!(read(&names, (10, 11)).await, [of(&names[0], &first), of(&names[1], &first)].concat());
}

async fn intervals_are_read_page_by_page(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let rows = [interval("a", (1, 2), 1), interval("b", (1, 2), 2), interval("a", (2, 3), 3), interval("a", (3, 4), 4)];
    store.put_costs(&lease, &rows).await.unwrap();
    let name = scope.cluster_name().unwrap_or_default().to_owned();
    let to_ms = recently() + 3 * HOUR_MS;
    let mut filter = IntervalFilter { cluster: name, from_ms: recently(), to_ms, after: None, limit: 2 };
    assert_eq!(store.cost_intervals(&filter).await.unwrap(), rows[..2]);
    filter.after = Some((rows[1].start.as_millis(), "b".to_owned()));
    assert_eq!(store.cost_intervals(&filter).await.unwrap(), rows[2..3], "the last one begins at the end");
}

async fn a_replica_that_lost_its_lease_writes_no_costs(store: &dyn Store, scope: &Scope) {
    let (old, new) = lost_and_held(store, scope).await;
    store.put_costs(&new, &[interval("m-1", (0, 1), 1)]).await.unwrap();
    refused(store.put_costs(&old, &[interval("m-1", (0, 2), 2)]).await);
    assert_eq!(total(store, scope).await, (2, 1));
}

/// Nine days ago, and what is older than the retention.
async fn hours_become_days_without_changing_a_sum(store: &dyn Store, run: &str) {
    let scope = cluster(run, "costs-days");
    let (lease, _) = granted(store, &scope, "a", HOUR).await;
    let hour = |number: i64| -7 * 24 + number;
    let mut last = interval("m-1", (hour(2), hour(3)), 4);
    last.machine.removed_by = Some(saving(9, -7 * 24));
    last.machine.moved = moved_by(9);
    last.is_running = false;
    let rows = [
        interval("m-1", (hour(0), hour(1)), 1),
        interval("m-1", (hour(1), hour(2)), 2),
        last,
        interval("m-2", (hour(3), hour(4)), 8),
        // The next day, and a day that is kept by the hour.
        interval("m-1", (hour(24), hour(25)), 16),
        interval("m-1", (0, 1), 32),
        interval("m-1", (1, 2), 64),
    ];
    store.put_costs(&lease, &rows).await.unwrap();
    let before = total(store, &scope).await;
    store.prune(&Retention::default()).await.unwrap();
    store.prune(&Retention::default()).await.unwrap();
    assert_eq!(total(store, &scope).await, before);
    let name = scope.cluster_name().unwrap_or_default().to_owned();
    let all = IntervalFilter { cluster: name, from_ms: 0, to_ms: i64::MAX / 2_000, after: None, limit: 100 };
    let read = store.cost_intervals(&all).await.unwrap();
    let brief: Vec<_> = read.iter().map(|one| (one.machine.claim.as_ref(), one.parts.get(CostCause::Useful))).collect();
    assert_eq!(brief, [("m-1", 7), ("m-2", 8), ("m-1", 16), ("m-1", 32), ("m-1", 64)]);
    assert_eq!((read[0].machine.removed_by, read[0].is_running), (Some(saving(9, -7 * 24)), false));
    assert_eq!(read[0].machine.moved, moved_by(9));
    assert_eq!((read[0].start, read[0].end), (rows[0].start, rows[2].end));
    // All of the run's costs but the last two days'.
    store.prune(&Retention { costs: Duration::from_secs(3 * 86_400), ..Retention::default() }).await.unwrap();
    assert_eq!(total(store, &scope).await.0, 32 + 64 + 2);
}
