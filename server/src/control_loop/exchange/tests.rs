use engine::control::{RegionController, Settings};

use super::super::replica::{Input, Output, Replica};
use super::*;
use crate::store::lease::{Lease, LeaseAnswer, Open, Scope};

const WINDOW_MS: i64 = 600_000;

fn told(machines: usize, parts: &[(i64, usize)]) -> CounterSnapshot {
    let share = |failed: usize| LocalCounters { failed, ..LocalCounters::default() };
    CounterSnapshot {
        machines,
        parts: parts.iter().map(|(part, failed)| (*part, share(*failed))).collect(),
        window_ms: WINDOW_MS,
    }
}

/// What is told at `now`, as part, age and failures.
fn telling(exchange: &mut CounterSync, told: &CounterSnapshot, now: i64) -> Option<CounterUpdate> {
    let Some(Call::CounterSync { telling, within, .. }) = exchange.due(9, told, Timestamp(now)) else {
        panic!("one is under way")
    };
    assert_eq!(within, Duration::from_secs(600));
    telling
}

fn rows(telling: &CounterUpdate) -> Vec<(i64, i64, i64)> {
    telling.rows.iter().map(|row| (row.part, row.ago_ms, row.seen.failed)).collect()
}

fn taken(exchange: &mut CounterSync, telling: Option<&CounterUpdate>) {
    let heard = exchange.done(telling, Ok(RemoteCounters::default()), Timestamp(0));
    assert_eq!(heard, Some(Event::RemoteCounters { machines: 0, parts: Vec::new() }));
}

#[test]
fn what_has_changed_is_told_until_the_store_has_taken_it_and_then_no_more() {
    let mut exchange = CounterSync::default();
    let failures = told(7, &[(2, 1), (3, 4)]);
    // At 35,000 the third part ended 5,001 ms ago and the fourth is running.
    let first = telling(&mut exchange, &failures, 35_000).unwrap();
    assert_eq!((first.machines, rows(&first)), (7, vec![(2, 5_001, 1), (3, 0, 4)]));
    assert!(exchange.due(9, &failures, Timestamp(36_000)).is_none(), "one at a time");
    taken(&mut exchange, None);
    let again = telling(&mut exchange, &failures, 40_000).unwrap();
    assert_eq!(rows(&again), [(2, 10_001, 1), (3, 1, 4), (4, 0, 0)], "the store did not take it");
    taken(&mut exchange, Some(&again));
    assert_eq!(telling(&mut exchange, &failures, 45_000), None);
    taken(&mut exchange, None);
    // What did not come about after all is told as well.
    let fewer = telling(&mut exchange, &told(7, &[(3, 4)]), 50_000).unwrap();
    assert_eq!(rows(&fewer), [(2, 20_001, 0), (5, 0, 0)]);
}

#[test]
fn machines_are_told_every_twenty_seconds_though_nothing_happens() {
    let mut exchange = CounterSync::default();
    let mut moments = Vec::new();
    for now in (0..60_000).step_by(5_000) {
        let telling = telling(&mut exchange, &told(3, &[]), now);
        moments.extend(telling.as_ref().map(|telling| (now, rows(telling))));
        taken(&mut exchange, telling.as_ref());
    }
    assert_eq!(moments, [(0, vec![(0, 0, 0)]), (20_000, vec![(2, 0, 0)]), (40_000, vec![(4, 0, 0)])]);
    // A process that ends has none.
    let last = exchange.last_words(&told(3, &[]), Timestamp(45_000)).unwrap();
    assert_eq!((last.machines, rows(&last)), (0, vec![(4, 0, 0)]));
}

#[test]
fn what_has_left_the_window_is_told_no_more_and_a_store_that_fails_changes_nothing() {
    let mut exchange = CounterSync::default();
    let first = telling(&mut exchange, &told(0, &[(0, 5)]), 1_000).unwrap();
    taken(&mut exchange, Some(&first));
    // The engine has forgotten it, and so have the others.
    let later = telling(&mut exchange, &told(0, &[]), 615_000).unwrap();
    assert_eq!(rows(&later), [(61, 0, 0)]);
    let away = StoreError::Server { what: "read what came and went elsewhere", why: "cut".to_owned() };
    assert_eq!(exchange.done(None, Err(away), Timestamp(616_000)), None);
    let seen = Seen { failed: 2, ..Seen::default() };
    let answer = RemoteCounters { machines: 9, parts: vec![(300_000, seen), (0, Seen::default())] };
    let parts = vec![
        (Timestamp(320_000), LocalCounters { failed: 2, ..LocalCounters::default() }),
        (Timestamp(620_000), LocalCounters::default()),
    ];
    let heard = exchange.done(None, Ok(answer), Timestamp(620_000));
    assert_eq!(heard, Some(Event::RemoteCounters { machines: 9, parts }));
}

/// Why nothing is removed in `blue`, by a replica that has heard of so many launches that failed elsewhere.
fn brake_after(failed: i64) -> Option<String> {
    let region = Scope::Region { account: "1".to_owned(), region: "east".to_owned() };
    let controller = RegionController::new(Settings::default());
    let mut replica = Replica::new(controller, 9, region);
    let lease = Lease { scope: Scope::cluster("blue"), owner: "me".to_owned(), epoch: 4 };
    let answer = Ok(LeaseAnswer::Granted { lease, open: Open::default() });
    replica.handle(Input::Leased { cluster: "blue".into(), answer, past: Vec::new() }, Timestamp(0));
    let asked = replica.handle(Input::ExchangeDue, Timestamp(1_000));
    let [Output::Call(Call::CounterSync { life: 9, telling: taken, .. })] = &*asked else { panic!("{asked:?}") };
    assert!(replica.handle(Input::ExchangeDue, Timestamp(2_000)).is_empty(), "one at a time");
    let seen = Seen { failed, joined: 1, ..Seen::default() };
    let answer = Ok(RemoteCounters { machines: 9, parts: vec![(0, seen)] });
    replica.handle(Input::Exchanged { taken: taken.clone(), answer }, Timestamp(2_000));
    assert_eq!(replica.handle(Input::ExchangeDue, Timestamp(6_000)).len(), 1, "and then the next one");
    replica.controller().view("blue").and_then(|view| view.rails.brake).map(|why| why.to_string())
}

#[test]
fn launches_that_fail_in_clusters_of_other_replicas_stop_removals_here_and_people_are_told() {
    // Four of five failed, and five are enough to say something.
    let why = brake_after(4).unwrap();
    assert!(why.starts_with("launches fail in several clusters, of this replica or of others"), "{why}");
    assert_eq!(brake_after(3), None, "four outcomes say nothing");
}
