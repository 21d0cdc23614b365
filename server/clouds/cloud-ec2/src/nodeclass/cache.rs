//! Answers of AWS by normalised request, shared by all clusters of the account and region.
//!
//! One call is in flight for each request; others wait for its answer. A failed refresh serves the last answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::{Millis, Timestamp};
use tracing::{info, warn};

use crate::call_error::{CallError, CallErrorClass};
use crate::slot::{Served, Slot, spread};

/// Longest time of a lookup with all its pages; a call without an answer must not hold its waiters for longer.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// An answer without a request during this time is dropped.
const UNUSED: Millis = Millis::from_hours(24);
/// Time between searches for unused answers.
const SWEEP_INTERVAL: Millis = Millis::from_mins(10);

/// Actions that the credentials lack, so that each is logged once and not once for every request.
pub(super) type DeniedActions = Arc<Mutex<BTreeSet<&'static str>>>;

/// Answers of one kind of request.
pub(super) struct Cache<K, V> {
    entries: Mutex<Entries<K, V>>,
    clock: fn() -> Timestamp,
    denied: DeniedActions,
}

struct Entries<K, V> {
    by_request: BTreeMap<K, Entry<V>>,
    swept: Timestamp,
}

struct Entry<V> {
    slot: Arc<tokio::sync::Mutex<Slot<V>>>,
    used: Timestamp,
}

impl<K: Ord + Clone + Debug, V: Clone> Cache<K, V> {
    pub(super) fn new(clock: fn() -> Timestamp, denied: &DeniedActions) -> Self {
        let entries = Entries { by_request: BTreeMap::new(), swept: Timestamp::default() };
        Self { entries: Mutex::new(entries), clock, denied: Arc::clone(denied) }
    }

    /// The answer to `request`: the one that is known while it is current, else what `call` returns, which is not begun before. `ttl` says how long
    /// an answer is current.
    ///
    /// # Errors
    /// The failure of `call` when there has never been an answer.
    pub(super) async fn get(
        &self,
        action: &'static str,
        request: &K,
        ttl: impl Fn(&V) -> Millis,
        call: impl Future<Output = Result<V, CallError>> + Send,
    ) -> Result<Served<V>, CallError> {
        let slot = self.slot(request);
        // Held during the call: this is what the others wait for.
        let mut slot = slot.lock().await;
        if slot.is_due((self.clock)()) {
            let timeout = || CallError::new(action, CallErrorClass::Unclear, "timeout", format!("{CALL_TIMEOUT:?}"));
            let result = tokio::time::timeout(CALL_TIMEOUT, call).await.unwrap_or_else(|_| Err(timeout()));
            let (now, spread) = ((self.clock)(), spread(request));
            match result {
                Ok(value) => {
                    self.log_success(action);
                    let ttl = ttl(&value);
                    slot.succeed(value, now, ttl, spread);
                }
                Err(error) => {
                    let served = slot.served(now).ok().map(|served| served.age);
                    self.log_failure(&error, served);
                    slot.fail(error, now, spread);
                }
            }
        }
        slot.served((self.clock)())
    }

    fn slot(&self, request: &K) -> Arc<tokio::sync::Mutex<Slot<V>>> {
        let now = (self.clock)();
        // Every change leaves the map valid, so a poisoned lock holds valid data.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.sweep(now);
        let entry =
            entries.by_request.entry(request.clone()).or_insert_with(|| Entry { slot: Arc::default(), used: now });
        entry.used = now;
        Arc::clone(&entry.slot)
    }

    fn log_success(&self, action: &'static str) {
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        if denied.remove(action) {
            info!(action, "right granted");
        }
    }

    fn log_failure(&self, error: &CallError, age: Option<Millis>) {
        if error.class() == CallErrorClass::NotAssumable {
            // The session logs it, once for all lookups.
            return;
        }
        if error.class() == CallErrorClass::Denied {
            let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
            if !denied.insert(error.action()) {
                return;
            }
        }
        match age {
            Some(age) => {
                warn!(action = error.action(), code = error.code(), age_s = age.as_secs(), %error, "last good answer kept");
            }
            None => warn!(action = error.action(), code = error.code(), %error, "lookup failed"),
        }
    }
}

impl<K: Ord, V> Entries<K, V> {
    /// Drops answers without a request during [`UNUSED`].
    fn sweep(&mut self, now: Timestamp) {
        if now.duration_since(self.swept) < SWEEP_INTERVAL {
            return;
        }
        self.swept = now;
        self.by_request.retain(|_, entry| now.duration_since(entry.used) < UNUSED);
    }
}

#[cfg(test)]
mod tests;
