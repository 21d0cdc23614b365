use controller::Settings;

use super::*;
use crate::{Input, Output, Replica};
use store::lease::{Lease, LeaseOutcome, Scope};

const WINDOW: Millis = Millis::from_mins(10);

fn snapshot(machines: usize, parts: &[(i64, usize)]) -> CounterSnapshot {
    let share = |failed: usize| LocalCounters { failed, ..LocalCounters::default() };
    CounterSnapshot {
        machines,
        buckets: parts.iter().map(|(bucket, failed)| (*bucket, share(*failed))).collect(),
        window: WINDOW,
    }
}

/// The update at `now`.
fn next_update(counter_sync: &mut CounterSync, local: &CounterSnapshot, now: i64) -> Option<CounterUpdate> {
    let Some(Call::SyncCounters { update, within, .. }) =
        counter_sync.begin_sync(9, local, Timestamp::from_millis(now))
    else {
        panic!("one is in flight")
    };
    assert_eq!(within, Duration::from_secs(600));
    update
}

fn rows(update: &CounterUpdate) -> Vec<(i64, i64, i64)> {
    update.rows.iter().map(|row| (row.bucket, row.ago_ms, row.seen.failed)).collect()
}

fn finish(counter_sync: &mut CounterSync, update: Option<&CounterUpdate>) {
    let event = counter_sync.finish_sync(update, Ok(RemoteCounters::default()), Timestamp::from_millis(0));
    assert_eq!(event, Some(RegionEvent::RemoteCounters { machines: 0, parts: Vec::new() }));
}

#[test]
fn changed_counters_are_written_until_the_store_acknowledges_them() {
    let mut counter_sync = CounterSync::default();
    let failures = snapshot(7, &[(2, 1), (3, 4)]);
    // At 35,000 the third bucket ended 5,001 ms ago and the fourth is current.
    let first = next_update(&mut counter_sync, &failures, 35_000).unwrap();
    assert_eq!((first.machines, rows(&first)), (7, vec![(2, 5_001, 1), (3, 0, 4)]));
    assert!(counter_sync.begin_sync(9, &failures, Timestamp::from_millis(36_000)).is_none(), "one at a time");
    finish(&mut counter_sync, None);
    let again = next_update(&mut counter_sync, &failures, 40_000).unwrap();
    assert_eq!(rows(&again), [(2, 10_001, 1), (3, 1, 4), (4, 0, 0)], "the store did not acknowledge it");
    finish(&mut counter_sync, Some(&again));
    assert_eq!(next_update(&mut counter_sync, &failures, 45_000), None);
    finish(&mut counter_sync, None);
    // A decreased counter is written as well.
    let fewer = next_update(&mut counter_sync, &snapshot(7, &[(3, 4)]), 50_000).unwrap();
    assert_eq!(rows(&fewer), [(2, 20_001, 0), (5, 0, 0)]);
}

#[test]
fn the_machine_count_is_rewritten_every_twenty_seconds_without_changes() {
    let mut counter_sync = CounterSync::default();
    let mut moments = Vec::new();
    for now in (0..60_000).step_by(5_000) {
        let update = next_update(&mut counter_sync, &snapshot(3, &[]), now);
        moments.extend(update.as_ref().map(|update| (now, rows(update))));
        finish(&mut counter_sync, update.as_ref());
    }
    assert_eq!(moments, [(0, vec![(0, 0, 0)]), (20_000, vec![(2, 0, 0)]), (40_000, vec![(4, 0, 0)])]);
    // A process that shuts down has no machines.
    let last = counter_sync.final_update(&snapshot(3, &[]), Timestamp::from_millis(45_000)).unwrap();
    assert_eq!((last.machines, rows(&last)), (0, vec![(4, 0, 0)]));
}

#[test]
fn buckets_outside_the_window_are_not_written_and_a_store_failure_changes_nothing() {
    let mut counter_sync = CounterSync::default();
    let first = next_update(&mut counter_sync, &snapshot(0, &[(0, 5)]), 1_000).unwrap();
    finish(&mut counter_sync, Some(&first));
    // The bucket has left the window, here and at the other replicas.
    let later = next_update(&mut counter_sync, &snapshot(0, &[]), 615_000).unwrap();
    assert_eq!(rows(&later), [(61, 0, 0)]);
    let away = StoreError::Server { what: "read what came and went elsewhere", why: "cut".to_owned() };
    assert_eq!(counter_sync.finish_sync(None, Err(away), Timestamp::from_millis(616_000)), None);
    let seen = CounterValues { failed: 2, ..CounterValues::default() };
    let answer = RemoteCounters { machines: 9, buckets: vec![(300_000, seen), (0, CounterValues::default())] };
    let parts = vec![
        (Timestamp::from_millis(320_000), LocalCounters { failed: 2, ..LocalCounters::default() }),
        (Timestamp::from_millis(620_000), LocalCounters::default()),
    ];
    let event = counter_sync.finish_sync(None, Ok(answer), Timestamp::from_millis(620_000));
    assert_eq!(event, Some(RegionEvent::RemoteCounters { machines: 9, parts }));
}

/// Why removals are stopped in `blue`, on a replica that has read so many failed launches of other
/// replicas.
fn breaker_reason_after(failed: i64) -> Option<String> {
    let region = Scope::Region { account: "1".to_owned(), region: "east".to_owned() };
    let mut replica = Replica::new(Settings::default(), 9, region);
    let lease = Lease { scope: Scope::cluster("blue"), owner: "me".to_owned(), epoch: 4 };
    let answer = Ok(LeaseOutcome::Granted { lease, open: Box::default() });
    replica.handle(
        Input::LeaseAnswered { cluster: "blue".into(), answer, past: Vec::new(), moves: Vec::new() },
        Timestamp::from_millis(0),
    );
    let asked = replica.handle(Input::CounterSyncDue, Timestamp::from_millis(1_000));
    let [Output::Call(Call::SyncCounters { generation: 9, update: acknowledged, .. })] = &*asked else {
        panic!("{asked:?}")
    };
    assert!(replica.handle(Input::CounterSyncDue, Timestamp::from_millis(2_000)).is_empty(), "one at a time");
    let seen = CounterValues { failed, joined: 1, ..CounterValues::default() };
    let answer = Ok(RemoteCounters { machines: 9, buckets: vec![(0, seen)] });
    replica.handle(Input::CountersSynced { acknowledged: acknowledged.clone(), answer }, Timestamp::from_millis(2_000));
    assert_eq!(replica.handle(Input::CounterSyncDue, Timestamp::from_millis(6_000)).len(), 1, "the next one follows");
    replica
        .cluster(&"blue".into())
        .and_then(|cluster| cluster.step_view(Timestamp::from_millis(6_000)).cluster_view().guardrails.circuit_breaker)
        .map(|why| why.to_string())
}

#[test]
fn failing_launches_on_other_replicas_stop_removals_here_with_a_reason() {
    // Four of five failed, and five outcomes are enough to engage the circuit breaker.
    let why = breaker_reason_after(4).unwrap();
    assert!(why.starts_with("launches fail in several clusters, of this replica or of others"), "{why}");
    assert_eq!(breaker_reason_after(3), None, "four outcomes are too few");
}
