//! Outcomes of launches, written by any replica and read by all.

use std::time::Duration;

use super::HOUR;
use store::Store;
use store::log::Retention;
use store::outcomes::{OutcomeRow, StoredOutcome};

pub(super) async fn all(store: &dyn Store, run: &str) {
    an_outcome_is_stored_once_and_read_back(store, run).await;
    readers_continue_after_the_last_number(store, run).await;
    a_read_looks_back_for_a_limited_time(store, run).await;
    concurrent_writers_hide_no_outcome_from_a_reader(store, run).await;
    recent_outcomes_are_not_pruned(store, run).await;
}

fn outcome(process: &str, sequence: u64) -> OutcomeRow {
    OutcomeRow {
        process: process.to_owned(),
        sequence,
        account: None,
        zone: "use1-az1".to_owned(),
        instance_type: "m5.large".to_owned(),
        capacity_type: "spot".to_owned(),
        asked: 3,
        launched: 2,
    }
}

/// The outcomes of a process, and the last number of all.
async fn read(store: &dyn Store, process: &str, after: u64) -> (Vec<OutcomeRow>, u64) {
    let stored: Vec<StoredOutcome> = store.launch_outcomes(after, HOUR).await.unwrap();
    assert!(stored.is_sorted_by(|one, next| one.number < next.number), "{stored:?}");
    assert!(stored.iter().all(|stored| stored.age < HOUR), "just stored: {stored:?}");
    let last = stored.last().map_or(after, |stored| stored.number);
    (stored.into_iter().map(|stored| stored.row).filter(|row| row.process == process).collect(), last)
}

async fn an_outcome_is_stored_once_and_read_back(store: &dyn Store, run: &str) {
    let process = format!("{run}-once");
    let of_account = OutcomeRow { account: Some("1234".to_owned()), launched: 0, ..outcome(&process, 2) };
    let rows = [outcome(&process, 1), of_account];
    store.put_launch_outcomes(&rows).await.unwrap();
    // The response was lost, and the write is repeated with more.
    let more = [rows[0].clone(), rows[1].clone(), outcome(&process, 3)];
    store.put_launch_outcomes(&more).await.unwrap();
    store.put_launch_outcomes(&[]).await.unwrap();
    assert_eq!(read(store, &process, 0).await.0, more);
    // The same number of another process is another outcome.
    let other = format!("{run}-other");
    store.put_launch_outcomes(&[outcome(&other, 1)]).await.unwrap();
    assert_eq!(read(store, &other, 0).await.0, [outcome(&other, 1)]);
}

async fn readers_continue_after_the_last_number(store: &dyn Store, run: &str) {
    let process = format!("{run}-continued");
    store.put_launch_outcomes(&[outcome(&process, 1)]).await.unwrap();
    let (rows, last) = read(store, &process, 0).await;
    assert_eq!(rows, [outcome(&process, 1)]);
    assert_eq!(read(store, &process, last).await.0, []);
    store.put_launch_outcomes(&[outcome(&process, 2)]).await.unwrap();
    assert_eq!(read(store, &process, last).await.0, [outcome(&process, 2)]);
}

async fn a_read_looks_back_for_a_limited_time(store: &dyn Store, run: &str) {
    store.put_launch_outcomes(&[outcome(&format!("{run}-recent"), 1)]).await.unwrap();
    assert_eq!(store.launch_outcomes(0, Duration::ZERO).await.unwrap(), []);
}

/// Each of 8 writers stores 25 outcomes, one at a time, while a reader continues after the highest number that it saw.
async fn concurrent_writers_hide_no_outcome_from_a_reader(store: &dyn Store, run: &str) {
    let process = format!("{run}-concurrent");
    let process = process.as_str();
    let write = async |writer: u64| {
        for number in 0..25 {
            store.put_launch_outcomes(&[outcome(process, 100 * writer + number)]).await.unwrap();
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
            read = read(store, process, last) => read,
        };
        let is_end = written && next == last;
        (seen, last) = (seen + rows.len(), next);
        if is_end {
            break;
        }
    }
    assert_eq!(seen, 200);
}

async fn recent_outcomes_are_not_pruned(store: &dyn Store, run: &str) {
    let process = format!("{run}-unpruned");
    store.put_launch_outcomes(&[outcome(&process, 1)]).await.unwrap();
    store.prune(&Retention::default()).await.unwrap();
    assert_eq!(read(store, &process, 0).await.0.len(), 1);
}
