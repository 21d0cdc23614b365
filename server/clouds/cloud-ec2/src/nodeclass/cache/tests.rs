use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use super::*;

const ACTION: &str = "ec2:DescribeSubnets";

fn throttle() -> CallError {
    CallError::new(ACTION, CallErrorClass::Throttled, "RequestLimitExceeded", "slow down")
}

fn minute(_: &u32) -> Millis {
    Millis::from_mins(1)
}

#[tokio::test]
async fn waiters_get_the_answer_of_the_one_call_in_flight() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let cache = Arc::new(Cache::<&str, u32>::new(Timestamp::default, &DeniedActions::default()));
    let (release, released) = tokio::sync::watch::channel(false);
    let ask = |cache: Arc<Cache<&'static str, u32>>, mut released: tokio::sync::watch::Receiver<bool>| async move {
        let call = async {
            let number = CALLS.fetch_add(1, Ordering::SeqCst) + 1;
            released.wait_for(|open| *open).await.unwrap();
            Ok(u32::try_from(number).unwrap())
        };
        cache.get(ACTION, &"a", minute, call).await.unwrap().value
    };
    let asked: Vec<_> = (0..50).map(|_| tokio::spawn(ask(Arc::clone(&cache), released.clone()))).collect();
    while CALLS.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    release.send(true).unwrap();
    for answer in asked {
        assert_eq!(answer.await.unwrap(), 1);
    }
    assert_eq!(CALLS.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn waiters_of_a_failed_call_do_not_repeat_it() {
    let cache = Cache::<&str, u32>::new(Timestamp::default, &DeniedActions::default());
    for _ in 0..3 {
        let call = async { Err(throttle()) };
        assert_eq!(cache.get(ACTION, &"a", minute, call).await, Err(throttle()));
    }
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let counted = async {
        CALLS.fetch_add(1, Ordering::SeqCst);
        Ok(1)
    };
    // The clock stands still, so no retry is due.
    assert_eq!(cache.get(ACTION, &"a", minute, counted).await, Err(throttle()));
    assert_eq!(CALLS.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_failed_refresh_serves_the_last_answer_with_its_age() {
    static NOW_MS: AtomicI64 = AtomicI64::new(0);
    let clock = || Timestamp::from_millis(NOW_MS.load(Ordering::SeqCst));
    let cache = Cache::<&str, u32>::new(clock, &DeniedActions::default());
    cache.get(ACTION, &"a", minute, async { Ok(7) }).await.unwrap();
    NOW_MS.store(60_000, Ordering::SeqCst);
    let served = cache.get(ACTION, &"a", minute, async { Err(throttle()) }).await;
    assert_eq!(served, Ok(Served { value: 7, age: Millis::from_mins(1) }));
    NOW_MS.store(120_000, Ordering::SeqCst);
    let served = cache.get(ACTION, &"a", minute, async { Ok(8) }).await;
    assert_eq!(served, Ok(Served { value: 8, age: Millis::ZERO }));
}

#[tokio::test]
async fn answers_without_a_request_are_dropped_after_a_day() {
    static NOW_MS: AtomicI64 = AtomicI64::new(0);
    let clock = || Timestamp::from_millis(NOW_MS.load(Ordering::SeqCst));
    let cache = Cache::<&str, u32>::new(clock, &DeniedActions::default());
    cache.get(ACTION, &"a", minute, async { Ok(7) }).await.unwrap();
    NOW_MS.store(23 * 3_600_000, Ordering::SeqCst);
    cache.get(ACTION, &"b", minute, async { Ok(7) }).await.unwrap();
    let known = || cache.entries.lock().unwrap().by_request.keys().copied().collect::<Vec<_>>();
    assert_eq!(known(), ["a", "b"]);
    NOW_MS.store(24 * 3_600_000, Ordering::SeqCst);
    cache.get(ACTION, &"b", minute, async { Ok(7) }).await.unwrap();
    assert_eq!(known(), ["b"]);
}
