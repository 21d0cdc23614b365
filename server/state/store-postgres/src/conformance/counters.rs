//! Counters of each process reach all others once.

use std::time::Duration;

use store::Store;
use store::counters::{CounterRow, CounterValues, RemoteCounters};

const WINDOW: Duration = Duration::from_secs(600);

pub(super) async fn all(store: &dyn Store, run: &str) {
    counters_of_one_process_are_read_once_by_others(store, run).await;
    counters_older_than_the_window_are_not_read(store, run).await;
}

fn row(bucket: i64, ago_ms: i64, failed: i64, launched: i64) -> CounterRow {
    let seen = CounterValues { failed, launched, launched_cost: 10 * launched, ..CounterValues::default() };
    CounterRow { bucket, ago_ms, seen }
}

/// Remote counters of `process` over the last ten minutes.
async fn remote_counters(store: &dyn Store, process: &str) -> RemoteCounters {
    store.remote_counters(process, WINDOW).await.unwrap()
}

/// Instances and summed counters, minus those read `before`: a shared database may hold other
/// processes.
fn since(before: &RemoteCounters, remote_counters: &RemoteCounters) -> (i64, CounterValues) {
    let all = |sign: i64, elsewhere: &RemoteCounters, from: CounterValues| {
        elsewhere.buckets.iter().fold(from, |all, (_, one)| CounterValues {
            joined: all.joined + sign * one.joined,
            failed: all.failed + sign * one.failed,
            launched: all.launched + sign * one.launched,
            launched_cost: all.launched_cost + sign * one.launched_cost,
            removed: all.removed + sign * one.removed,
            removed_cost: all.removed_cost + sign * one.removed_cost,
        })
    };
    (remote_counters.machines - before.machines, all(-1, before, all(1, remote_counters, CounterValues::default())))
}

async fn counters_of_one_process_are_read_once_by_others(store: &dyn Store, run: &str) {
    let name = |process: &str| format!("{run}-{process}");
    let (a, b, c) = (name("a"), name("b"), name("c"));
    let before = remote_counters(store, &c).await;
    // A bucket that ended 305 s ago and the running one, written twice.
    let rows = [row(7, 305_000, 1, 2), row(8, 0, 1, 0)];
    for _ in 0..2 {
        store.put_counters(&a, 40, &rows).await.unwrap();
    }
    let read_back = CounterValues { failed: 2, launched: 2, launched_cost: 20, ..CounterValues::default() };
    assert_eq!(
        since(&before, &remote_counters(store, &a).await),
        (0, CounterValues::default()),
        "a process does not read its own counters"
    );
    assert_eq!(since(&before, &remote_counters(store, &c).await), (40, read_back));
    // The running bucket grows, and one launch of the other was cancelled.
    store.put_counters(&a, 41, &[row(8, 4_000, 3, 0), row(7, 309_000, 1, 1)]).await.unwrap();
    // Another process with counters in the same buckets.
    let seen = CounterValues { joined: 2, failed: 0, launched: 1, launched_cost: 10, removed: 3, removed_cost: 70 };
    store.put_counters(&b, 9, &[CounterRow { bucket: 8, ago_ms: 0, seen }]).await.unwrap();
    let both = CounterValues { joined: 2, failed: 4, launched: 2, launched_cost: 20, removed: 3, removed_cost: 70 };
    assert_eq!(since(&before, &remote_counters(store, &c).await), (50, both));
    let of_a = CounterValues { failed: 4, launched: 1, launched_cost: 10, ..CounterValues::default() };
    assert_eq!(since(&before, &remote_counters(store, &b).await), (41, of_a));
    // A bucket of 305 s, or older by the duration of this test, is summed with those of 300 s and
    // more.
    let ages: Vec<i64> = remote_counters(store, &c).await.buckets.iter().map(|(ago, _)| *ago).collect();
    assert!(ages.iter().any(|age| *age >= 300_000), "{ages:?}");
    assert!(ages.is_sorted_by(|a, b| a > b) && ages.iter().all(|age| age % 10_000 == 0), "{ages:?}");
}

async fn counters_older_than_the_window_are_not_read(store: &dyn Store, run: &str) {
    let (old, here) = (format!("{run}-old"), format!("{run}-here"));
    let before = remote_counters(store, &here).await;
    store.put_counters(&old, 1_000, &[row(1, 600_000, 5, 5), row(2, 61_000, 0, 1)]).await.unwrap();
    let one = CounterValues { launched: 1, launched_cost: 10, ..CounterValues::default() };
    // The instance count of a process expires after a minute without a report.
    assert_eq!(since(&before, &remote_counters(store, &here).await), (0, one));
}
