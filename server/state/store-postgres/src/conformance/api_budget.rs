//! Replicas share the rate limits of the cloud's API.

use std::time::Duration;

use ::api_budget::Limit;
use model::PriorityLane::{self, Interruption, Pending, Voluntary};

use super::HOUR;
use store::Store;
use store::api_budget::{TokenGrant, TokenRequest, WaitingCalls};
use store::lease::Scope;

/// Ten tokens, and one more in 1,000 seconds.
const TEN: Limit = Limit::new(1, 10).starting_with(10);

/// A million tokens per second, and none at first: the time between any two statements is worth many.
const FAST: Limit = Limit::new(1_000_000_000, 1_000_000_000).starting_with(0);

/// More calls than there are ever tokens for.
const ENDLESS: u32 = 1_000_000_000;

pub(super) async fn all(store: &dyn Store, run: &str) {
    replicas_together_get_no_more_than_the_bucket(store, run).await;
    buckets_and_regions_are_separate(store, run).await;
    a_throttled_call_halves_the_rate_of_all(store, run).await;
    a_higher_lane_of_one_replica_holds_back_the_lower_lane_of_another(store, run).await;
    calls_of_a_dead_replica_expire(store, run).await;
    a_replica_whose_calls_are_served_holds_back_nothing(store, run).await;
}

fn region(run: &str, name: &str) -> Scope {
    Scope::Region { account: run.to_owned(), region: name.to_owned() }
}

fn request(limit: Limit, process: &str, lane: PriorityLane, count: u32) -> TokenRequest {
    let mut waiting = [WaitingCalls::default(); 4];
    waiting[lane.index()] = WaitingCalls { count, age: Duration::ZERO };
    TokenRequest { bucket: "CreateFleet".to_owned(), limit, process: process.to_owned(), waiting, expires_in: HOUR }
}

async fn take(store: &dyn Store, scope: &Scope, request: &TokenRequest) -> TokenGrant {
    store.take_call_tokens(scope, request).await.unwrap()
}

async fn replicas_together_get_no_more_than_the_bucket(store: &dyn Store, run: &str) {
    let scope = region(run, "shared-bucket");
    let takers = (0..8).map(|number| {
        let (scope, request) = (&scope, request(TEN, &format!("replica-{number}"), Pending, 3));
        async move { take(store, scope, &request).await }
    });
    let grants = futures::future::join_all(takers).await;
    let granted: Vec<u32> = grants.iter().map(|grant| grant.tokens[Pending.index()]).collect();
    assert_eq!(granted.iter().sum::<u32>(), 10, "{granted:?}");
    for grant in grants {
        let is_served = grant.tokens[Pending.index()] == 3;
        assert_eq!(grant.ask_again.is_none(), is_served, "{grant:?}");
    }
}

async fn buckets_and_regions_are_separate(store: &dyn Store, run: &str) {
    let here = region(run, "separate-buckets");
    let ten = request(TEN, "a", Voluntary, 10);
    let other = TokenRequest { bucket: "DescribeImages".to_owned(), ..ten.clone() };
    for (scope, request) in [(&here, &ten), (&here, &other), (&region(run, "separate-region"), &ten)] {
        assert_eq!(take(store, scope, request).await.tokens[Voluntary.index()], 10);
    }
}

async fn a_throttled_call_halves_the_rate_of_all(store: &dyn Store, run: &str) {
    let (scope, limit) = (region(run, "throttled"), Limit::new(1_000, 100).starting_with(100));
    let before = take(store, &scope, &request(limit, "a", Pending, 1)).await;
    assert_eq!((before.tokens[Pending.index()], before.rate), (1, 1_000));
    let throttled = store.record_throttle(&scope, "CreateFleet", limit).await.unwrap();
    assert_eq!((throttled.rate, throttled.is_halved), (500, true));
    for process in ["a", "b"] {
        let after = take(store, &scope, &request(limit, process, Pending, 50)).await;
        // Every granted token adds 1,000 / 200 to the rate: 100 tokens at most would take it back to 1,000.
        let granted = i64::from(after.tokens[Pending.index()]);
        assert!(granted < 50, "the bucket was emptied: {after:?}");
        assert!((500..=500 + 5 * 50).contains(&after.rate), "{after:?}");
    }
}

/// Interruption keeps nine tenths of what is added, whatever time passes between the statements.
pub(super) async fn a_higher_lane_of_one_replica_holds_back_the_lower_lane_of_another(store: &dyn Store, run: &str) {
    let scope = region(run, "lanes");
    let (voluntary, urgent) = (request(FAST, "a", Voluntary, ENDLESS), request(FAST, "b", Interruption, ENDLESS));
    // Both wait from here on.
    take(store, &scope, &urgent).await;
    take(store, &scope, &voluntary).await;
    let (mut urgent_tokens, mut voluntary_tokens) = (0_u64, 0_u64);
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    // Those of a tenth of a second.
    while urgent_tokens + voluntary_tokens < 100_000 {
        voluntary_tokens += u64::from(take(store, &scope, &voluntary).await.tokens[Voluntary.index()]);
        urgent_tokens += u64::from(take(store, &scope, &urgent).await.tokens[Interruption.index()]);
        assert!(std::time::Instant::now() < deadline, "a bucket gives no tokens");
    }
    let all = urgent_tokens + voluntary_tokens;
    // What was added before the first of the statements counts too: it was divided in the same way.
    assert!(8 * voluntary_tokens <= urgent_tokens, "{LANES_HOLD}: {voluntary_tokens} of {all} tokens");
    assert!(20 * voluntary_tokens >= all, "the lower lane starves: {voluntary_tokens} of {all} tokens");
}

/// Failure message for a store without lanes.
pub(super) const LANES_HOLD: &str = "voluntary calls get more than their tenth while interruptions wait";

/// Five tokens per second, and none at first.
const FIVE: Limit = Limit::new(5_000, 50).starting_with(0);

/// Whether a voluntary call gets the next token, and not a tenth of the refill: after 200 ms at the latest, not after two
/// seconds.
async fn has_the_whole_rate(store: &dyn Store, scope: &Scope) -> bool {
    let grant = take(store, scope, &request(FIVE, "live", Voluntary, ENDLESS)).await;
    grant.ask_again.is_some_and(|wait| wait <= Duration::from_millis(200))
}

async fn calls_of_a_dead_replica_expire(store: &dyn Store, run: &str) {
    let scope = region(run, "dead-replica");
    let dead = TokenRequest { expires_in: Duration::ZERO, ..request(FIVE, "dead", Interruption, ENDLESS) };
    take(store, &scope, &dead).await;
    assert!(has_the_whole_rate(store, &scope).await, "calls of a dead replica hold back those of a live one");
}

async fn a_replica_whose_calls_are_served_holds_back_nothing(store: &dyn Store, run: &str) {
    let scope = region(run, "served");
    take(store, &scope, &request(FIVE, "a", Interruption, ENDLESS)).await;
    // They were given up.
    take(store, &scope, &request(FIVE, "a", Interruption, 0)).await;
    assert!(has_the_whole_rate(store, &scope).await, "calls that no longer wait hold back others");
}
