//! The rate limits that the replicas of an account and region share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_budget::{Limit, buckets_of};
use cloud_ec2::call_budget::{BudgetFuture, CallBudget, NotSent};
use model::PriorityLane;
use store::Store;
use store::lease::Scope;
use tokio::time::{Instant, timeout_at};

use super::CALLS;
use super::context::CallContext;
use super::driver::{BucketDriver, SharedStore};

/// How long a call outside of a command waits for its token: a lookup ends after 30 seconds.
const LOOKUP_WAIT: Duration = Duration::from_secs(25);

/// Tokens from the buckets in the store.
pub struct StoreBudget {
    shared: SharedStore,
    /// Percentage of EC2's default limits.
    percent: u32,
    buckets: Mutex<BTreeMap<String, Arc<BucketDriver>>>,
}

impl fmt::Debug for StoreBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBudget").field("scope", &self.shared.scope).finish_non_exhaustive()
    }
}

impl StoreBudget {
    /// The buckets of the account and region `scope`, for the process with this name among those on the same store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, scope: Scope, process: String) -> Self {
        CALLS.begin(&scope);
        Self { shared: SharedStore { store, scope, process }, percent: 100, buckets: Mutex::default() }
    }

    /// These buckets with `percent` of EC2's default limits.
    #[must_use]
    pub fn with_percent(self, percent: u32) -> Self {
        Self { percent, ..self }
    }

    fn bucket(&self, name: &str, limit: Limit) -> Arc<BucketDriver> {
        // Every critical section is one map operation, so a poisoned lock guards a consistent map.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            buckets
                .entry(name.to_owned())
                .or_insert_with(|| Arc::new(BucketDriver::new(name, limit.percent(self.percent)))),
        )
    }
}

impl CallBudget for StoreBudget {
    fn admit<'a>(&'a self, action: &'a str) -> BudgetFuture<'a, Result<(), NotSent>> {
        Box::pin(async move {
            let lookup = || CallContext::new(PriorityLane::Pending, Instant::now() + LOOKUP_WAIT);
            let context = CallContext::current().unwrap_or_else(lookup);
            for (name, limit) in buckets_of(action) {
                let admitted = self.bucket(name, limit).add(context.lane(), &self.shared);
                let Ok(Ok(())) = timeout_at(context.give_up_at(), admitted).await else {
                    CALLS.record_given_up(&self.shared.scope);
                    return Err(NotSent::NoToken);
                };
            }
            if context.may_send() { Ok(()) } else { Err(NotSent::LeaseExpired) }
        })
    }

    fn record_throttle<'a>(&'a self, action: &'a str) -> BudgetFuture<'a, ()> {
        CALLS.record_throttled(&self.shared.scope);
        Box::pin(async move {
            if let Some((name, limit)) = buckets_of(action).pop() {
                self.bucket(name, limit).record_throttle(action, &self.shared).await;
            }
        })
    }
}

#[cfg(test)]
mod tests;
