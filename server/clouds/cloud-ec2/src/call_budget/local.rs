//! The rate limits of a process that shares them with nobody.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_budget::{Bucket, Limit, Waiting, buckets_of};
use model::{PriorityLane, Timestamp};
use tokio::time::{Instant, sleep};

use super::{BudgetFuture, CallBudget, NotSent};

/// Full buckets at the known limits, for commands that make a few calls, and for tests. All calls have one lane.
#[derive(Debug)]
pub struct LocalBudget {
    begun: Instant,
    buckets: Mutex<BTreeMap<String, Bucket>>,
}

impl Default for LocalBudget {
    fn default() -> Self {
        Self { begun: Instant::now(), buckets: Mutex::default() }
    }
}

impl LocalBudget {
    /// Time since the buckets exist: a clock that is set would empty or fill them.
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    fn buckets(&self) -> MutexGuard<'_, BTreeMap<String, Bucket>> {
        // Every method leaves the buckets valid, so a poisoned lock holds valid data.
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a token, or returns how long to wait for one.
    fn try_take(&self, name: &str, limit: Limit, now: Timestamp) -> Option<Duration> {
        let mut buckets = self.buckets();
        let bucket = buckets.entry(name.to_owned()).or_insert_with(|| Bucket::full(limit, now));
        let grant = bucket.grant(limit, &Waiting::of(PriorityLane::Pending, 1, now), &[], now);
        grant.ask_again.map(|wait| Duration::from_millis(wait.get().unsigned_abs()))
    }
}

impl CallBudget for LocalBudget {
    fn admit<'a>(&'a self, action: &'a str) -> BudgetFuture<'a, Result<(), NotSent>> {
        Box::pin(async move {
            for (name, limit) in buckets_of(action) {
                while let Some(wait) = self.try_take(name, limit, self.now()) {
                    sleep(wait).await;
                }
            }
            Ok(())
        })
    }

    fn record_throttle<'a>(&'a self, action: &'a str) -> BudgetFuture<'a, ()> {
        if let Some((name, limit)) = buckets_of(action).last() {
            let now = self.now();
            let mut buckets = self.buckets();
            let bucket = buckets.entry((*name).to_owned()).or_insert_with(|| Bucket::full(*limit, now));
            bucket.record_throttle(*limit, now);
        }
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour after the start, which no test takes.
    const LATER: Timestamp = Timestamp::from_millis(3_600_000);

    #[test]
    fn a_full_bucket_is_taken_and_then_waited_for() {
        let budget = LocalBudget::default();
        let (name, limit) = buckets_of("CreateLaunchTemplate")[0];
        // A burst of 50, and 5 per second.
        assert!((0..50).all(|_| budget.try_take(name, limit, LATER).is_none()));
        assert_eq!(budget.try_take(name, limit, LATER), Some(Duration::from_millis(200)));
    }

    #[tokio::test]
    async fn a_throttled_call_halves_the_rate_of_its_action() {
        let budget = LocalBudget::default();
        budget.record_throttle("CreateFleet").await;
        let (name, limit) = buckets_of("CreateLaunchTemplate")[0];
        // Launch templates share the bucket of fleets, whose burst is 25 now. Each token adds 5 / 200 to 2.5 per second.
        assert!((0..25).all(|_| budget.try_take(name, limit, LATER).is_none()));
        assert_eq!(budget.try_take(name, limit, LATER), Some(Duration::from_millis(320)));
        // The instances of an account have a bucket of their own.
        let (name, limit) = buckets_of("CreateFleet")[0];
        assert_eq!((name, budget.try_take(name, limit, LATER)), ("LaunchedInstances", None));
    }
}
