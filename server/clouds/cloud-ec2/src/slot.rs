//! One value that is looked up from time to time: when it is due, and what is served meanwhile. Without I/O.

use std::fmt::Debug;

use model::{Millis, Timestamp};
use sha2::{Digest, Sha256};

use crate::call_error::{CallError, CallErrorClass};

/// Wait after the first failure; it doubles up to [`LONGEST_RETRY`].
const FIRST_RETRY: Millis = Millis::from_secs(5);
/// Longest wait after failures, and the wait after a denied call: policies change rarely.
const LONGEST_RETRY: Millis = Millis::from_mins(5);

/// Part of an interval by which refreshes are spread, so that values fetched together are not refreshed together.
const SPREAD_PART: i64 = 10;

/// A value that was found, and how current it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served<V> {
    pub(crate) value: V,
    /// Time since it was found.
    pub(crate) age: Millis,
}

#[derive(Debug)]
pub(crate) struct Slot<V> {
    found: Option<(V, Timestamp)>,
    error: Option<CallError>,
    /// Failures since the last success.
    failures: u32,
    due: Timestamp,
}

impl<V> Default for Slot<V> {
    fn default() -> Self {
        Self { found: None, error: None, failures: 0, due: Timestamp::default() }
    }
}

impl<V: Clone> Slot<V> {
    /// When the value is to be looked up.
    pub(crate) fn due(&self) -> Timestamp {
        self.due
    }

    /// The value found last, of any age.
    pub(crate) fn last(&self) -> Option<&V> {
        self.found.as_ref().map(|(value, _)| value)
    }

    /// The failure of the last lookup, if it failed.
    pub(crate) fn error(&self) -> Option<&CallError> {
        self.error.as_ref()
    }

    /// Whether the value is to be looked up now.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        now >= self.due
    }

    /// Records a value that holds for `ttl`. `spread`, in thousandths, shortens it by up to a tenth.
    pub(crate) fn succeed(&mut self, value: V, now: Timestamp, ttl: Millis, spread: i64) {
        self.due = now + shortened(ttl, spread);
        self.found = Some((value, now));
        (self.error, self.failures) = (None, 0);
    }

    /// Records a failure. The value found last stays.
    pub(crate) fn fail(&mut self, error: CallError, now: Timestamp, spread: i64) {
        let doubled = FIRST_RETRY * (1 << self.failures.min(10));
        let is_denied = matches!(error.class(), CallErrorClass::Denied | CallErrorClass::NotAssumable);
        let wait = if is_denied { LONGEST_RETRY } else { doubled.min(LONGEST_RETRY) };
        self.due = now + shortened(wait, spread);
        self.failures = self.failures.saturating_add(1);
        self.error = Some(error);
    }

    /// The value found last.
    ///
    /// # Errors
    /// The last failure, when there has never been a value.
    pub(crate) fn served(&self, now: Timestamp) -> Result<Served<V>, CallError> {
        match (&self.found, &self.error) {
            (Some((value, since)), _) => Ok(Served { value: value.clone(), age: now.duration_since(*since) }),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err(CallError::new("lookup", CallErrorClass::Unclear, "not sent", "nothing was looked up")),
        }
    }
}

fn shortened(interval: Millis, spread: i64) -> Millis {
    interval - interval * spread.clamp(0, 1_000) / (1_000 * SPREAD_PART)
}

/// A number from 0 to 999 that depends on the request only.
pub(crate) fn spread(request: &impl Debug) -> i64 {
    let digest = Sha256::digest(format!("{request:?}"));
    i64::from(u16::from_be_bytes([digest[0], digest[1]])) % 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::from_millis(1_000_000);

    fn throttle() -> CallError {
        CallError::new("ec2:DescribeSubnets", CallErrorClass::Throttled, "RequestLimitExceeded", "slow down")
    }

    #[test]
    fn a_value_is_due_after_its_time_less_a_spread_of_at_most_a_tenth() {
        let mut slot = Slot::default();
        assert!(slot.is_due(T0));
        for (spread, due_s) in [(0, 60), (500, 57), (1_000, 54)] {
            slot.succeed(7, T0, Millis::from_mins(1), spread);
            assert!(!slot.is_due(T0 + Millis::from_secs(due_s) - Millis::new(1)), "{spread}");
            assert!(slot.is_due(T0 + Millis::from_secs(due_s)), "{spread}");
        }
    }

    #[test]
    fn a_failed_refresh_serves_the_last_value_with_its_age() {
        let mut slot = Slot::default();
        slot.succeed(7, T0, Millis::from_mins(1), 0);
        slot.fail(throttle(), T0 + Millis::from_secs(60), 0);
        assert_eq!(slot.served(T0 + Millis::from_secs(61)), Ok(Served { value: 7, age: Millis::from_secs(61) }));
    }

    #[test]
    fn without_a_value_the_failure_is_served() {
        let mut slot = Slot::<i32>::default();
        slot.fail(throttle(), T0, 0);
        assert_eq!(slot.served(T0), Err(throttle()));
    }

    #[test]
    fn waits_after_failures_double_up_to_five_minutes_and_a_success_ends_them() {
        let mut slot = Slot::default();
        let mut waits = Vec::new();
        for _ in 0..8 {
            slot.fail(throttle(), T0, 0);
            waits.push((slot.due - T0).as_secs());
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
        slot.succeed(7, T0, Millis::from_mins(1), 0);
        slot.fail(throttle(), T0, 0);
        assert_eq!(slot.due - T0, Millis::from_secs(5));
    }

    #[test]
    fn a_denied_call_is_repeated_after_five_minutes() {
        let mut slot = Slot::<i32>::default();
        slot.fail(CallError::new("eks:DescribeCluster", CallErrorClass::Denied, "AccessDenied", "no"), T0, 0);
        assert_eq!(slot.due - T0, Millis::from_mins(5));
    }

    #[test]
    fn spreads_depend_on_the_request_only_and_differ() {
        let all: std::collections::BTreeSet<i64> = (0..100).map(|number| spread(&number)).collect();
        assert!(all.len() > 80 && all.iter().all(|spread| (0..1_000).contains(spread)), "{all:?}");
        assert_eq!(spread(&"a"), spread(&"a"));
    }
}
