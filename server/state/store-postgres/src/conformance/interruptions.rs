//! Notices about instances, written by any replica and read by all.

use std::time::Duration;

use super::{HOUR, cluster};
use store::Store;
use store::interruptions::InterruptionRow;
use store::lease::Scope;
use store::log::Retention;

pub(super) async fn all(store: &dyn Store, run: &str) {
    a_notice_is_stored_once(store, run).await;
    readers_continue_after_the_last_number(store, run).await;
    regions_have_their_own_notices(store, run).await;
    a_read_looks_back_for_a_limited_time(store, run).await;
    concurrent_writers_hide_no_notice_from_a_reader(store, run).await;
    recent_notices_are_not_pruned(store, run).await;
}

fn region(run: &str, name: &str) -> Scope {
    Scope::Region { account: run.to_owned(), region: name.to_owned() }
}

fn spot(instance: &str, sent_ms: i64) -> InterruptionRow {
    InterruptionRow {
        instance: instance.to_owned(),
        kind: "spot_interrupted".to_owned(),
        sent_ms,
        ends_ms: Some(sent_ms + 120_000),
    }
}

async fn read(store: &dyn Store, scope: &Scope, after: u64) -> (Vec<InterruptionRow>, u64) {
    let stored = store.interruptions(scope, after, HOUR).await.unwrap();
    let numbers: Vec<u64> = stored.iter().map(|stored| stored.number).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert!(stored.iter().all(|stored| stored.age < HOUR), "just stored: {stored:?}");
    let last = numbers.last().copied().unwrap_or(after);
    (stored.into_iter().map(|stored| stored.row).collect(), last)
}

async fn a_notice_is_stored_once(store: &dyn Store, run: &str) {
    let scope = region(run, "once");
    let first = spot("i-1", 5);
    assert_eq!(store.put_interruptions(&scope, &[first.clone(), first.clone()]).await.unwrap(), 1);
    let later = InterruptionRow { ends_ms: None, ..first.clone() };
    assert_eq!(store.put_interruptions(&scope, &[later]).await.unwrap(), 0, "the first row is kept");
    let (rows, _) = read(store, &scope, 0).await;
    assert_eq!(rows, std::slice::from_ref(&first));
    // Another instance, kind or time is another notice.
    let other_kind = InterruptionRow { kind: "instance_stopped".to_owned(), ends_ms: None, ..first.clone() };
    let others = [spot("i-2", 5), other_kind, spot("i-1", 6)];
    assert_eq!(store.put_interruptions(&scope, &others).await.unwrap(), 3);
    assert_eq!(store.put_interruptions(&scope, &others).await.unwrap(), 0);
    assert_eq!(store.put_interruptions(&scope, &[]).await.unwrap(), 0);
    let (mut rows, _) = read(store, &scope, 0).await;
    rows.sort();
    let mut expected = [&others[..], &[first]].concat();
    expected.sort();
    assert_eq!(rows, expected);
}

async fn readers_continue_after_the_last_number(store: &dyn Store, run: &str) {
    let scope = region(run, "continued");
    store.put_interruptions(&scope, &[spot("i-1", 1)]).await.unwrap();
    let (rows, last) = read(store, &scope, 0).await;
    assert_eq!(rows, [spot("i-1", 1)]);
    assert_eq!(read(store, &scope, last).await.0, []);
    store.put_interruptions(&scope, &[spot("i-1", 1), spot("i-2", 1)]).await.unwrap();
    assert_eq!(read(store, &scope, last).await.0, [spot("i-2", 1)]);
}

async fn regions_have_their_own_notices(store: &dyn Store, run: &str) {
    let (one, other) = (region(run, "notices-a"), region(run, "notices-b"));
    assert_eq!(store.put_interruptions(&one, &[spot("i-1", 1)]).await.unwrap(), 1);
    assert_eq!(store.put_interruptions(&other, &[spot("i-1", 1)]).await.unwrap(), 1);
    assert_eq!(read(store, &one, 0).await.0.len(), 1);
    assert_eq!(read(store, &cluster(run, "notices-c"), 0).await.0, []);
}

async fn a_read_looks_back_for_a_limited_time(store: &dyn Store, run: &str) {
    let scope = region(run, "recent");
    store.put_interruptions(&scope, &[spot("i-1", 1)]).await.unwrap();
    assert_eq!(store.interruptions(&scope, 0, Duration::ZERO).await.unwrap(), []);
}

/// Each of 8 writers stores 25 notices, one at a time, while a reader continues after the highest number that it saw.
async fn concurrent_writers_hide_no_notice_from_a_reader(store: &dyn Store, run: &str) {
    let scope = region(run, "concurrent");
    let write = async |writer: i64| {
        for number in 0..25 {
            let row = spot(&format!("i-{writer}-{number}"), 1);
            store.put_interruptions(&scope, &[row]).await.unwrap();
        }
    };
    let writers = futures::future::join_all((0..8).map(write));
    tokio::pin!(writers);
    let (mut seen, mut last, mut written) = (0, 0, false);
    loop {
        let (rows, next) = tokio::select! {
            biased;
            _ = &mut writers, if !written => {
                written = true;
                continue;
            }
            read = read(store, &scope, last) => read,
        };
        (seen, last) = (seen + rows.len(), next);
        if written && rows.is_empty() {
            break;
        }
    }
    assert_eq!(seen, 200);
}

async fn recent_notices_are_not_pruned(store: &dyn Store, run: &str) {
    let scope = region(run, "unpruned");
    store.put_interruptions(&scope, &[spot("i-1", 1)]).await.unwrap();
    store.prune(&Retention::default()).await.unwrap();
    assert_eq!(read(store, &scope, 0).await.0.len(), 1);
}
