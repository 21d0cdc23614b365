//! What each process saw is heard by all others, once.

use std::time::Duration;

use crate::store::Store;
use crate::store::shares::{CounterRow, RemoteCounters, Seen};

const WINDOW: Duration = Duration::from_secs(600);

pub(super) async fn all(store: &dyn Store, run: &str) {
    what_one_process_told_others_hear_once(store, run).await;
    what_is_older_than_the_window_is_not_heard(store, run).await;
}

fn row(part: i64, ago_ms: i64, failed: i64, launched: i64) -> CounterRow {
    let seen = Seen { failed, launched, launched_cost: 10 * launched, ..Seen::default() };
    CounterRow { part, ago_ms, seen }
}

/// What `process` hears within the last ten minutes.
async fn heard(store: &dyn Store, process: &str) -> RemoteCounters {
    store.shares_elsewhere(process, WINDOW).await.unwrap()
}

/// Machines, and all that was seen, beyond what was heard `before`: a database that outlives the test knows other processes.
fn since(before: &RemoteCounters, heard: &RemoteCounters) -> (i64, Seen) {
    let all = |sign: i64, elsewhere: &RemoteCounters, from: Seen| {
        elsewhere.parts.iter().fold(from, |all, (_, one)| Seen {
            joined: all.joined + sign * one.joined,
            failed: all.failed + sign * one.failed,
            launched: all.launched + sign * one.launched,
            launched_cost: all.launched_cost + sign * one.launched_cost,
            removed: all.removed + sign * one.removed,
            removed_cost: all.removed_cost + sign * one.removed_cost,
        })
    };
    (heard.machines - before.machines, all(-1, before, all(1, heard, Seen::default())))
}

async fn what_one_process_told_others_hear_once(store: &dyn Store, run: &str) {
    let name = |process: &str| format!("{run}-{process}");
    let (a, b, c) = (name("a"), name("b"), name("c"));
    let before = heard(store, &c).await;
    // The part that ended five minutes and five seconds ago, and the one that is running: told, and told again.
    let rows = [row(7, 305_000, 1, 2), row(8, 0, 1, 0)];
    for _ in 0..2 {
        store.tell_shares(&a, 40, &rows).await.unwrap();
    }
    let told = Seen { failed: 2, launched: 2, launched_cost: 20, ..Seen::default() };
    assert_eq!(since(&before, &heard(store, &a).await), (0, Seen::default()), "nobody hears of itself");
    assert_eq!(since(&before, &heard(store, &c).await), (40, told));
    // More is known of the running part, and one launch of the other did not come about.
    store.tell_shares(&a, 41, &[row(8, 4_000, 3, 0), row(7, 309_000, 1, 1)]).await.unwrap();
    // Another process that saw something in the same parts of time.
    let seen = Seen { joined: 2, failed: 0, launched: 1, launched_cost: 10, removed: 3, removed_cost: 70 };
    store.tell_shares(&b, 9, &[CounterRow { part: 8, ago_ms: 0, seen }]).await.unwrap();
    let both = Seen { joined: 2, failed: 4, launched: 2, launched_cost: 20, removed: 3, removed_cost: 70 };
    assert_eq!(since(&before, &heard(store, &c).await), (50, both));
    let of_a = Seen { failed: 4, launched: 1, launched_cost: 10, ..Seen::default() };
    assert_eq!(since(&before, &heard(store, &b).await), (41, of_a));
    // What is 305 s old, or older by what this test takes, is summed up with what is 300 s old and more.
    let ages: Vec<i64> = heard(store, &c).await.parts.iter().map(|(ago, _)| *ago).collect();
    assert!(ages.iter().any(|age| *age >= 300_000), "{ages:?}");
    assert!(ages.is_sorted_by(|a, b| a > b) && ages.iter().all(|age| age % 10_000 == 0), "{ages:?}");
}

async fn what_is_older_than_the_window_is_not_heard(store: &dyn Store, run: &str) {
    let (old, here) = (format!("{run}-old"), format!("{run}-here"));
    let before = heard(store, &here).await;
    store.tell_shares(&old, 1_000, &[row(1, 600_000, 5, 5), row(2, 61_000, 0, 1)]).await.unwrap();
    let one = Seen { launched: 1, launched_cost: 10, ..Seen::default() };
    // Of a process that has told nothing for a minute nobody knows what machines it has.
    assert_eq!(since(&before, &heard(store, &here).await), (0, one));
}
