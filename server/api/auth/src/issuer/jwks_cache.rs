//! Cached keys of one issuer and their refresh schedule. Pure: times are arguments.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::JwkSet;

use super::error::KeySetError;
use crate::AuthError;

/// Minimum interval between fetches after a success, whatever key id a token has.
const MIN_REFETCH: Duration = Duration::from_secs(10);
/// Keys are refetched after this age even if all key ids are known, so that revoked keys expire.
const REFRESH_AFTER: Duration = Duration::from_secs(15 * 60);
/// Maximum age of keys while the issuer is unreachable.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum backoff of a failing issuer.
const MAX_BACKOFF: Duration = Duration::from_secs(5 * 60);

/// Cached keys and failures of one issuer.
#[derive(Debug, Default)]
pub(super) struct JwksCache {
    keys: Option<(Arc<JwkSet>, Instant)>,
    /// Consecutive failures, time of the last one, and its error.
    failed: Option<(u32, Instant, KeySetError)>,
}

#[derive(Debug)]
pub(super) enum Lookup {
    /// Verify with these keys.
    Use(Arc<JwkSet>),
    /// Wait for the fetch in flight.
    Wait,
    Fetch,
    /// No keys, and the backoff has not passed.
    Refuse(AuthError),
}

impl JwksCache {
    /// Looks up the keys for a token with `key_id`.
    pub(super) fn look_up(&self, key_id: Option<&str>, in_flight: bool, now: Instant) -> Lookup {
        let Some((keys, age)) = self.valid_keys(now) else {
            return match (in_flight, self.is_backing_off(now)) {
                (true, _) => Lookup::Wait,
                (false, false) => Lookup::Fetch,
                (false, true) => Lookup::Refuse(self.fetch_error()),
            };
        };
        let has = key_id.is_none_or(|id| keys.find(id).is_some());
        match (has, in_flight) {
            (true, true) => Lookup::Use(keys),
            (false, true) => Lookup::Wait,
            (true, false) if age < REFRESH_AFTER => Lookup::Use(keys),
            _ if age < MIN_REFETCH || self.is_backing_off(now) => Lookup::Use(keys),
            _ => Lookup::Fetch,
        }
    }

    pub(super) fn record_fetch(&mut self, result: Result<JwkSet, KeySetError>, now: Instant) {
        match result {
            Ok(keys) => (self.keys, self.failed) = (Some((Arc::new(keys), now)), None),
            Err(error) => {
                let previous = self.failed.take().map_or(0, |(times, ..)| times);
                self.failed = Some((previous.saturating_add(1), now, error));
            }
        }
    }

    /// Keys that are not too old.
    ///
    /// # Errors
    /// Why there are none.
    pub(super) fn cached(&self, now: Instant) -> Result<Arc<JwkSet>, AuthError> {
        self.valid_keys(now).map(|(keys, _)| keys).ok_or_else(|| self.fetch_error())
    }

    fn valid_keys(&self, now: Instant) -> Option<(Arc<JwkSet>, Duration)> {
        let (keys, at) = self.keys.as_ref()?;
        let age = now.duration_since(*at);
        (age < MAX_AGE).then(|| (Arc::clone(keys), age))
    }

    /// Whether the backoff is in effect: 10 s after the first failure, doubled by each further one.
    fn is_backing_off(&self, now: Instant) -> bool {
        self.failed.as_ref().is_some_and(|(times, at, _)| {
            let wait = MIN_REFETCH * 2_u32.saturating_pow((times - 1).min(10));
            now.duration_since(*at) < wait.min(MAX_BACKOFF)
        })
    }

    fn fetch_error(&self) -> AuthError {
        let why = self.failed.as_ref().map(|(_, _, error)| error.to_string());
        let why = why.unwrap_or_else(|| "they were never fetched".to_owned());
        AuthError(format!("cannot fetch the issuer's keys: {why}"))
    }
}
