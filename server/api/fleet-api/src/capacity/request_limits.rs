//! How many plans, quotes and holds a client may ask for in a minute (`max-requests-per-minute` in the trust file). Each
//! replica counts for itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use auth::Client;
use model::Timestamp;
use tonic::Status;

use api_messages::errors::{Reason, retry_after};

const MINUTE_MS: i64 = 60_000;

/// Requests that each client has left.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestLimits {
    clients: Arc<Mutex<BTreeMap<String, Bucket>>>,
}

/// A token bucket of a minute's requests.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// In milliseconds of the refill of one request times the limit.
    level: i64,
    at: Timestamp,
}

impl RequestLimits {
    /// Takes a request of `client` at `now`.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` with the time after which the client has one again.
    pub fn take(&self, client: Option<&Client>, now: Timestamp) -> Result<(), Status> {
        let limited = client.and_then(|client| Some((&client.name, client.quota.requests_per_minute?)));
        let Some((name, limit)) = limited else { return Ok(()) };
        let wait = self.wait(name, i64::from(limit), now);
        if wait == 0 {
            return Ok(());
        }
        let why = format!("{name} may ask for {limit} plans, quotes and holds a minute (max-requests-per-minute)");
        Err(retry_after(Reason::TooManyRequests, why, Duration::from_millis(wait.unsigned_abs())))
    }

    /// Takes a request, or returns the milliseconds until there is one.
    fn wait(&self, name: &str, limit: i64, now: Timestamp) -> i64 {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let full = MINUTE_MS * limit.max(1);
        let bucket = clients.entry(name.to_owned()).or_insert(Bucket { level: full, at: now });
        let passed = now.duration_since(bucket.at).get().clamp(0, MINUTE_MS);
        let level = bucket.level.saturating_add(passed * limit).min(full);
        if level < MINUTE_MS || limit == 0 {
            *bucket = Bucket { level, at: now };
            return ((MINUTE_MS - level) / limit.max(1)).max(1);
        }
        *bucket = Bucket { level: level - MINUTE_MS, at: now };
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_its_requests_of_a_minute_and_then_one_at_a_time() {
        let limits = RequestLimits::default();
        let wait = |limit, at| limits.wait("kueue", limit, Timestamp::from_millis(at));
        assert_eq!((wait(2, 0), wait(2, 0)), (0, 0));
        assert_eq!(wait(2, 0), 30_000, "two a minute");
        assert_eq!(wait(2, 29_999), 1);
        assert_eq!(wait(2, 30_000), 0);
        assert_eq!(limits.wait("another", 2, Timestamp::from_millis(30_000)), 0);
        // A clock that was set back refills nothing.
        assert_eq!(wait(2, 10_000), 30_000);
    }

    #[test]
    fn a_limit_of_zero_refuses_all_and_without_a_limit_all_pass() {
        let limits = RequestLimits::default();
        assert!(limits.wait("none", 0, Timestamp::from_millis(0)) > 0);
        assert!(limits.take(None, Timestamp::from_millis(0)).is_ok());
    }
}
