use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use model::PriorityLane::{Interruption, Voluntary};
use store::memory::MemoryStore;

use super::super::within;
use super::*;

const REGION: &str = "eu-west-1";

fn scope() -> Scope {
    Scope::Region { account: "default".to_owned(), region: REGION.to_owned() }
}

/// A budget on a store whose clock stands still, so that only the tokens of the first second are there.
fn budget() -> (Arc<dyn Store>, StoreBudget) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::with_clock(|| Duration::from_secs(1_000)));
    (Arc::clone(&store), StoreBudget::new(store, scope(), "a".to_owned()))
}

fn context(lane: PriorityLane) -> CallContext {
    CallContext::new(lane, Instant::now() + Duration::from_secs(60))
}

#[tokio::test]
async fn calls_get_the_tokens_of_the_store_and_then_wait() {
    let (_, budget) = budget();
    // Five per second, shared by fleets and launch templates.
    for action in ["CreateFleet", "CreateLaunchTemplate", "CreateFleet", "DeleteLaunchTemplate", "CreateFleet"] {
        assert_eq!(within(context(Voluntary), budget.admit(action)).await, Ok(()));
    }
    let soon = CallContext::new(Interruption, Instant::now() + Duration::from_millis(50));
    assert_eq!(within(soon, budget.admit("CreateFleet")).await, Err(NotSent::NoToken));
    assert_eq!(budget.admit("DescribeImages").await, Ok(()), "another bucket");
}

#[tokio::test]
async fn a_call_that_waits_does_not_hold_back_a_more_urgent_one() {
    let now = Arc::new(std::sync::atomic::AtomicU64::new(1_000_000));
    let clock = Arc::clone(&now);
    let store: Arc<dyn Store> =
        Arc::new(MemoryStore::with_clock(move || Duration::from_millis(clock.load(Ordering::SeqCst))));
    let budget = StoreBudget::new(store, scope(), "a".to_owned());
    for _ in 0..5 {
        budget.admit("CreateLaunchTemplate").await.unwrap();
    }
    let voluntary = within(context(Voluntary), budget.admit("CreateLaunchTemplate"));
    tokio::pin!(voluntary);
    assert!(voluntary.as_mut().now_or_never().is_none());
    let urgent = within(context(Interruption), budget.admit("CreateLaunchTemplate"));
    tokio::pin!(urgent);
    assert!(urgent.as_mut().now_or_never().is_none());
    // A token and a ninth: the urgent call's, and the part that the other one keeps.
    now.fetch_add(223, Ordering::SeqCst);
    tokio::select! {
        biased;
        _ = &mut voluntary => panic!("the voluntary call got the token"),
        admitted = &mut urgent => assert_eq!(admitted, Ok(())),
    }
}

#[tokio::test]
async fn a_call_whose_lease_ended_while_it_waited_is_not_sent() {
    let (_, budget) = budget();
    let is_held = Arc::new(AtomicBool::new(true));
    let held = Arc::clone(&is_held);
    let of_command = context(Interruption).only_if(move || held.load(Ordering::SeqCst));
    assert_eq!(within(of_command.clone(), budget.admit("CreateFleet")).await, Ok(()));
    is_held.store(false, Ordering::SeqCst);
    assert_eq!(within(of_command, budget.admit("CreateFleet")).await, Err(NotSent::LeaseExpired));
}

#[tokio::test]
async fn a_throttled_call_is_recorded_for_all_replicas() {
    let (store, budget) = budget();
    budget.record_throttle("CreateFleet").await;
    let other = StoreBudget::new(store, scope(), "b".to_owned());
    let soon = CallContext::new(Interruption, Instant::now() + Duration::from_millis(50));
    assert_eq!(within(soon, other.admit("CreateLaunchTemplate")).await, Err(NotSent::NoToken));
}
