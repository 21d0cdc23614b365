//! Decisions are read back as written, with their replay data.

use std::time::Duration;

use super::{HOUR, cluster, decision, granted, lost_and_held, refused};
use store::lease::Scope;
use store::log::{Blob, BlobHash, DecisionFilter, Entry, LogChunk, Replay, Retention};
use store::{Store, clock};

pub(super) async fn all(store: &dyn Store, run: &str) {
    decisions_are_read_latest_first(store, &cluster(run, "decisions"), &cluster(run, "decisions-too")).await;
    replay_data_is_read_with_the_decision(store, &cluster(run, "replay")).await;
    events_of_decisions_are_read_with_their_segment(store, &cluster(run, "events")).await;
    a_segment_is_read_in_order(store, &cluster(run, "segment")).await;
    blobs_are_stored_once(store, run, &cluster(run, "blobs")).await;
    a_replica_that_lost_its_lease_logs_nothing(store, &cluster(run, "fenced-log")).await;
    pruning_deletes_old_rows_only(store, &cluster(run, "prune")).await;
    recent_moves_are_read_oldest_first(store, &cluster(run, "moves"), &cluster(run, "moves-too")).await;
}

async fn recent_moves_are_read_oldest_first(store: &dyn Store, scope: &Scope, other: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let (beside, _) = granted(store, other, "a", HOUR).await;
    let moving = |number: u64, minutes_ago: i64, moves: &str| {
        let mut entry = decision(number);
        entry.decision.kind = "consolidation".to_owned();
        entry.decision.decided_at_ms = clock::now().as_millis() - minutes_ago * 60_000;
        entry.decision.moves = moves.to_owned();
        entry
    };
    for entry in [moving(1, 61, "old"), moving(2, 40, "first"), moving(3, 30, ""), moving(4, 20, "second")] {
        store.record_decision(&lease, &entry).await.unwrap();
    }
    store.record_decision(&beside, &moving(5, 10, "of another cluster")).await.unwrap();
    assert_eq!(store.recent_moves(scope, HOUR).await.unwrap(), ["first", "second"]);
    assert_eq!(store.recent_moves(scope, Duration::ZERO).await.unwrap(), [""; 0]);
}

fn chunk(segment: u64, first_sequence: u64, last_sequence: u64) -> LogChunk {
    let bytes = vec![first_sequence.to_le_bytes()[0]; 3000];
    LogChunk { segment, first_sequence, last_sequence, at_ms: 1_763_765_432_123, bytes }
}

fn blob(run: &str, tag: u8) -> Blob {
    let mut hash = [tag; 32];
    hash.iter_mut().zip(run.bytes().rev()).for_each(|(byte, letter)| *byte ^= letter);
    Blob { hash: BlobHash(hash), kind: "catalogue".to_owned(), bytes: vec![tag; 70_000] }
}

fn of(scope: &Scope, limit: u32, before: Option<u64>) -> DecisionFilter {
    DecisionFilter { scope: Some(scope.clone()), limit, before }
}

async fn numbers(store: &dyn Store, filter: &DecisionFilter) -> Vec<u64> {
    store.decisions(filter).await.unwrap().iter().map(|stored| stored.decision.number).collect()
}

async fn decisions_are_read_latest_first(store: &dyn Store, scope: &Scope, other: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let (beside, _) = granted(store, other, "a", HOUR).await;
    // Above all numbers of the other checks, so that a query over all clusters returns these first.
    let base = 1_000_000 * clock::now().as_millis().unsigned_abs();
    for (lease, number) in [(&lease, base + 1), (&beside, base + 2), (&lease, base + 3), (&lease, base + 4)] {
        store.record_decision(lease, &decision(number)).await.unwrap();
        store.record_decision(lease, &decision(number)).await.unwrap();
    }
    assert_eq!(numbers(store, &of(scope, 2, None)).await, [base + 4, base + 3]);
    assert_eq!(numbers(store, &of(scope, 10, Some(base + 4))).await, [base + 3, base + 1]);
    let everywhere = DecisionFilter { scope: None, limit: 3, before: Some(base + 4) };
    assert_eq!(numbers(store, &everywhere).await, [base + 3, base + 2, base + 1]);
    let one = store.decision(base + 2).await.unwrap();
    assert_eq!(one.len(), 1);
    assert_eq!((&one[0].scope, one[0].epoch, &one[0].decision), (other, 1, &decision(base + 2).decision));
}

async fn replay_data_is_read_with_the_decision(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let replay = Replay {
        segment: 3,
        sequence: 41,
        stance: vec![1, 0, 255],
        plan: vec![7; 5000],
        policy: Some(BlobHash([1; 32])),
        catalogues: vec![BlobHash([2; 32]), BlobHash([3; 32])],
        engine_version: "0.1.0".to_owned(),
        input_digest: vec![4; 32],
        plan_digest: vec![5; 32],
    };
    let mut entry = Entry { chunks: vec![chunk(3, 40, 41)], ..decision(5) };
    entry.decision.replay = Some(replay);
    store.record_decision(&lease, &entry).await.unwrap();
    let read = store.decisions(&of(scope, 1, None)).await.unwrap();
    assert_eq!(read[0].decision, entry.decision);
    let segment = store.log_segment(scope, 3).await.unwrap().unwrap();
    assert_eq!((segment.epoch, segment.started_ms, segment.chunks), (1, 1_763_765_432_123, entry.chunks));
}

/// A decision in segment 7, with its event.
fn event(number: u64, sequence: u64, bytes: &[u8]) -> Entry {
    let mut entry = decision(number);
    entry.decision.decided_at_ms += i64::try_from(sequence).unwrap() * 60_000;
    entry.decision.replay = Some(Replay {
        segment: 7,
        sequence,
        stance: vec![1],
        plan: [b"plan", bytes].concat(),
        policy: Some(BlobHash([1; 32])),
        catalogues: vec![BlobHash([2; 32])],
        engine_version: "0.1.0".to_owned(),
        input_digest: vec![4; 32],
        plan_digest: vec![5; 32],
    });
    let at_ms = entry.decision.decided_at_ms;
    entry.chunks =
        vec![LogChunk { segment: 7, first_sequence: sequence, last_sequence: sequence, at_ms, bytes: bytes.to_vec() }];
    entry
}

async fn events_of_decisions_are_read_with_their_segment(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    // The first is a complete input; others resemble each other, or nothing; one is large; one is
    // empty.
    let mixed: Vec<u8> = (0..40_000_u32).map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()[3]).collect();
    let texts: [&[u8]; 6] = [&[7; 9000], b"ten pods came", b"nine pods came", &mixed[..300], &mixed, b""];
    let entries: Vec<Entry> = (texts.iter().zip(1..)).map(|(text, place)| event(6 + place, place, text)).collect();
    for entry in entries.iter().chain(&entries) {
        store.record_decision(&lease, entry).await.unwrap();
    }
    let segment = store.log_segment(scope, 7).await.unwrap().unwrap();
    let chunks: Vec<LogChunk> = entries.iter().flat_map(|entry| entry.chunks.clone()).collect();
    assert_eq!((segment.epoch, segment.chunks), (1, chunks));
    let read = store.decisions(&of(scope, 10, None)).await.unwrap();
    let decisions: Vec<_> = entries.into_iter().rev().map(|entry| entry.decision).collect();
    assert_eq!(read.into_iter().map(|stored| stored.decision).collect::<Vec<_>>(), decisions);
}

async fn a_segment_is_read_in_order(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let chunks =
        [vec![chunk(1, 1, 9), chunk(2, 20, 29)], vec![chunk(1, 10, 19)], vec![chunk(1, 10, 19), chunk(1, 1, 9)]];
    for (chunks, number) in chunks.into_iter().zip(1..) {
        store.record_decision(&lease, &Entry { chunks, ..decision(number) }).await.unwrap();
    }
    let first = store.log_segment(scope, 1).await.unwrap().unwrap();
    assert_eq!(first.chunks, [chunk(1, 1, 9), chunk(1, 10, 19)]);
    assert_eq!(store.log_segment(scope, 9).await.unwrap(), None);
}

async fn blobs_are_stored_once(store: &dyn Store, run: &str, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let (one, two) = (blob(run, 1), blob(run, 2));
    assert_eq!(store.blob(&one.hash).await.unwrap(), None);
    for (blobs, number) in [vec![one.clone(), two.clone()], vec![one.clone()]].into_iter().zip(1..) {
        store.record_decision(&lease, &Entry { blobs, ..decision(number) }).await.unwrap();
    }
    assert_eq!(store.blob(&one.hash).await.unwrap(), Some(one));
    assert_eq!(store.blob(&two.hash).await.unwrap(), Some(two));
}

async fn a_replica_that_lost_its_lease_logs_nothing(store: &dyn Store, scope: &Scope) {
    let (old, new) = lost_and_held(store, scope).await;
    let entry = Entry { chunks: vec![chunk(1, 1, 9)], ..decision(1) };
    refused(store.record_decision(&old, &entry).await);
    assert_eq!(store.log_segment(scope, 1).await.unwrap(), None);
    assert_eq!(store.decisions(&of(scope, 10, None)).await.unwrap(), []);
    store.record_decision(&new, &entry).await.unwrap();
    assert_eq!(store.log_segment(scope, 1).await.unwrap().map(|segment| segment.epoch), Some(2));
}

async fn pruning_deletes_old_rows_only(store: &dyn Store, scope: &Scope) {
    const DAY_MS: i64 = 86_400_000;
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    let now = clock::now().as_millis();
    for (number, age_days) in [(1, 90), (2, 0)] {
        let at_ms = now - age_days * DAY_MS;
        let mut entry = Entry { chunks: vec![LogChunk { at_ms, ..chunk(number, 1, 2) }], ..decision(number) };
        entry.decision.decided_at_ms = at_ms;
        store.record_decision(&lease, &entry).await.unwrap();
    }
    let retention = Retention { log: Duration::from_secs(30 * 86_400), ended: HOUR, ..Retention::default() };
    store.prune(&retention).await.unwrap();
    assert_eq!(numbers(store, &of(scope, 10, None)).await, [2]);
    assert_eq!(store.log_segment(scope, 1).await.unwrap(), None);
    assert!(store.log_segment(scope, 2).await.unwrap().is_some());
}
