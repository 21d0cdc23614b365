//! Conversions between the port and the driver: errors, durations and numbers.

use std::time::Duration;

use store::StoreError;

/// The error of a failed operation. `what` is a verb phrase for its text.
pub(super) fn database(what: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |source| StoreError::Database { what, source: source.into() }
}

/// Whole milliseconds of `duration`.
pub(super) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Numbers count acquisitions, events or milliseconds, and stay far below 2^63.
pub(super) fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
