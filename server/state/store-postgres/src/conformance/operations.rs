//! Operations in flight are handed to a successor, and end once.

use super::{HOUR, cluster, granted, intent, launching, lost_and_held, refused};
use store::lease::{Lease, Scope};
use store::operations::{AttemptOutcome, IntentState, OpenIntent};
use store::{Store, StoreError};

pub(super) async fn all(store: &dyn Store, run: &str) {
    open_operations_are_returned_with_the_lease(store, &cluster(run, "intents")).await;
    orders_are_read_byte_for_byte(store, &cluster(run, "orders")).await;
    the_first_outcome_of_a_launch_is_kept(store, &cluster(run, "first-outcome")).await;
    the_next_attempt_begins_only_after_a_failure(store, &cluster(run, "attempts")).await;
    a_second_launch_of_an_open_claim_is_refused(store, &cluster(run, "living")).await;
    a_closed_launch_is_not_reopened(store, &cluster(run, "closed")).await;
    closed_attempts_are_read_within_the_window(store, &cluster(run, "past")).await;
    a_replica_that_lost_its_lease_writes_nothing(store, &cluster(run, "fenced")).await;
}

fn open(claim: &str, attempt: u32) -> OpenIntent {
    OpenIntent { intent: intent(claim, attempt), state: IntentState::Open }
}

fn failed(why: &str) -> AttemptOutcome {
    AttemptOutcome::Failed { why: why.to_owned() }
}

fn launched(provider_id: &str) -> AttemptOutcome {
    AttemptOutcome::Launched { provider_id: provider_id.to_owned() }
}

/// Launches that are not closed, read by a restart under the same name. `lease` is its new lease.
async fn open_intents(store: &dyn Store, lease: &mut Lease) -> Vec<OpenIntent> {
    let (next, open) = granted(store, &lease.scope, &lease.owner, HOUR).await;
    *lease = next;
    open.intents
}

async fn open_operations_are_returned_with_the_lease(store: &dyn Store, scope: &Scope) {
    let (lease, nothing) = granted(store, scope, "a", HOUR).await;
    assert_eq!(nothing, store::lease::OpenOperations::default());
    let entry = launching(1, &[intent("pool-2", 1), intent("pool-1", 1)]);
    store.record_decision(&lease, &entry).await.unwrap();
    store.record_decision(&lease, &entry).await.unwrap();
    let (_, left) = granted(store, scope, "a", HOUR).await;
    assert_eq!(left.intents, [open("pool-1", 1), open("pool-2", 1)]);
}

/// Orders that resemble each other, orders that resemble nothing, a large one, and an empty one.
async fn orders_are_read_byte_for_byte(store: &dyn Store, scope: &Scope) {
    let (mut lease, _) = granted(store, scope, "a", HOUR).await;
    let mixed: Vec<u8> = (0..50_000_u32).map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()[3]).collect();
    let like = |n: u8| [&mixed[..2_000], &[n]].concat();
    let requests = [like(1), like(2), mixed[5_000..7_000].to_vec(), like(3), mixed.clone(), Vec::new()];
    let intents: Vec<_> = (requests.into_iter().zip(0_u32..))
        .map(|(request, n)| {
            let claim_order = if n == 5 { String::new() } else { format!("für Pod {n}") };
            store::operations::Intent { request, claim_order, ..intent(&format!("pool-{n}"), 1) }
        })
        .collect();
    store.record_decision(&lease, &launching(1, &intents[..4])).await.unwrap();
    store.record_decision(&lease, &launching(2, &intents[4..])).await.unwrap();
    let read = open_intents(store, &mut lease).await;
    assert_eq!(read.into_iter().map(|open| open.intent).collect::<Vec<_>>(), intents);
    let past = store.recent_attempts(scope, HOUR).await.unwrap();
    let orders: Vec<_> = past.into_iter().map(|past| past.claim_order).collect();
    assert_eq!(orders, intents.into_iter().map(|intent| intent.claim_order).collect::<Vec<_>>());
}

/// The second attempt closes the first one; open attempts are returned regardless of age.
async fn closed_attempts_are_read_within_the_window(store: &dyn Store, scope: &Scope) {
    let (lease, _) = granted(store, scope, "a", HOUR).await;
    store
        .record_decision(&lease, &launching(1, &[intent("pool-1", 1), intent("pool-2", 1), intent("pool-3", 1)]))
        .await
        .unwrap();
    store.finish_attempt(&lease, "pool-1", 1, &failed("no capacity")).await.unwrap();
    store.begin_attempt(&lease, &intent("pool-1", 2)).await.unwrap();
    store.finish_attempt(&lease, "pool-2", 1, &launched("aws:///a/i-2")).await.unwrap();
    store.close_intents(&lease, &["pool-2".to_owned()]).await.unwrap();
    let read_back = async |within| {
        let read = store.recent_attempts(scope, within).await.unwrap();
        let brief = read.into_iter().map(|past| {
            assert!((0..3_600_000).contains(&past.begun_ago_ms), "{past:?}");
            assert_eq!(past.claim_order, intent(&past.claim, 1).claim_order);
            (past.claim, past.launched, past.closed_ago_ms.is_some())
        });
        brief.collect::<Vec<_>>()
    };
    let of = |claim: &str, launched, closed| (claim.to_owned(), launched, closed);
    let open = [of("pool-1", None, false), of("pool-3", None, false)];
    let closed = [of("pool-1", Some(false), true), of("pool-2", Some(true), true)];
    let all = [closed[0].clone(), open[0].clone(), closed[1].clone(), open[1].clone()];
    assert_eq!(read_back(HOUR).await, all);
    assert_eq!(read_back(std::time::Duration::ZERO).await, open);
}

async fn the_first_outcome_of_a_launch_is_kept(store: &dyn Store, scope: &Scope) {
    let (mut lease, _) = granted(store, scope, "a", HOUR).await;
    store.record_decision(&lease, &launching(1, &[intent("pool-1", 1)])).await.unwrap();
    store.finish_attempt(&lease, "pool-1", 1, &launched("aws:///a/i-1")).await.unwrap();
    store.finish_attempt(&lease, "pool-1", 1, &launched("aws:///a/i-1")).await.unwrap();
    store.finish_attempt(&lease, "pool-1", 1, &failed("late news")).await.unwrap();
    let read = open_intents(store, &mut lease).await;
    assert_eq!(read.len(), 1, "launched is not closed: {read:?}");
    assert_eq!(read[0].state, IntentState::Ended(launched("aws:///a/i-1")));
    assert_eq!(read[0].intent.token, "pool-1-1");
    assert!(read[0].intent.request.is_empty(), "a request that is never resent is not read");
}

async fn assert_refused(store: &dyn Store, lease: &Lease, attempt: u32) {
    let answer = store.begin_attempt(lease, &intent("pool-1", attempt)).await;
    assert!(matches!(answer, Err(StoreError::AttemptRefused { .. })), "attempt {attempt}: {answer:?}");
}

async fn the_next_attempt_begins_only_after_a_failure(store: &dyn Store, scope: &Scope) {
    let (mut lease, _) = granted(store, scope, "a", HOUR).await;
    assert_refused(store, &lease, 2).await;
    store.begin_attempt(&lease, &intent("pool-1", 1)).await.unwrap();
    assert_refused(store, &lease, 2).await;
    store.finish_attempt(&lease, "pool-1", 1, &failed("no capacity")).await.unwrap();
    let state = IntentState::Ended(failed("no capacity"));
    let failure = OpenIntent { intent: intent("pool-1", 1), state };
    assert_eq!(open_intents(store, &mut lease).await, [failure], "a failure stays open until it is retried or closed");
    assert_refused(store, &lease, 3).await;
    store.begin_attempt(&lease, &intent("pool-1", 2)).await.unwrap();
    store.begin_attempt(&lease, &intent("pool-1", 2)).await.unwrap();
    store.begin_attempt(&lease, &intent("pool-1", 1)).await.unwrap();
    assert_eq!(open_intents(store, &mut lease).await, [open("pool-1", 2)]);
    store.finish_attempt(&lease, "pool-1", 1, &launched("aws:///a/i-1")).await.unwrap();
    assert_refused(store, &lease, 3).await;
    store.finish_attempt(&lease, "pool-1", 2, &launched("aws:///a/i-2")).await.unwrap();
    assert_refused(store, &lease, 3).await;
}

async fn a_second_launch_of_an_open_claim_is_refused(store: &dyn Store, scope: &Scope) {
    let (mut lease, _) = granted(store, scope, "a", HOUR).await;
    store.begin_attempt(&lease, &intent("pool-1", 1)).await.unwrap();
    store.finish_attempt(&lease, "pool-1", 1, &failed("no capacity")).await.unwrap();
    store.begin_attempt(&lease, &intent("pool-1", 2)).await.unwrap();
    let entry = launching(7, &[intent("pool-0", 1), intent("pool-1", 4)]);
    assert!(matches!(store.record_decision(&lease, &entry).await, Err(StoreError::AttemptRefused { attempt: 4, .. })));
    assert_eq!(open_intents(store, &mut lease).await, [open("pool-1", 2)], "all or nothing");
    assert_eq!(store.decision(7).await.unwrap(), [], "all or nothing");
}

async fn a_closed_launch_is_not_reopened(store: &dyn Store, scope: &Scope) {
    let (mut lease, _) = granted(store, scope, "a", HOUR).await;
    let entry = launching(1, &[intent("pool-1", 1), intent("pool-2", 1), intent("pool-3", 1)]);
    store.record_decision(&lease, &entry).await.unwrap();
    let claims = ["pool-1".to_owned(), "pool-3".to_owned(), "unheard-of".to_owned()];
    store.close_intents(&lease, &claims).await.unwrap();
    store.close_intents(&lease, &claims).await.unwrap();
    assert_eq!(open_intents(store, &mut lease).await, [open("pool-2", 1)]);
    store.record_decision(&lease, &entry).await.unwrap();
    assert_eq!(open_intents(store, &mut lease).await, [open("pool-2", 1)], "a late repetition reopens nothing");
}

async fn a_replica_that_lost_its_lease_writes_nothing(store: &dyn Store, scope: &Scope) {
    let (old, new) = lost_and_held(store, scope).await;
    store.record_decision(&new, &launching(1, &[intent("pool-1", 1)])).await.unwrap();
    refused(store.record_decision(&old, &launching(2, &[intent("pool-2", 1)])).await);
    refused(store.begin_attempt(&old, &intent("pool-3", 1)).await);
    refused(store.finish_attempt(&old, "pool-1", 1, &failed("too late")).await);
    refused(store.close_intents(&old, &["pool-1".to_owned()]).await);
    let (_, left) = granted(store, scope, "b", HOUR).await;
    assert_eq!(left.intents, [open("pool-1", 1)]);
}
