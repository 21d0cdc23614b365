//! Conversions between the port and the driver: errors, durations and numbers.

use std::time::Duration;

use super::timeouts::ACQUIRE_TIMEOUT;
use store::StoreError;

/// The error of a failed operation. `what` is a verb phrase for its text.
pub(super) fn database(what: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| match error {
        sqlx::Error::PoolTimedOut => StoreError::Database { what, cause: NoConnection.into() },
        error => StoreError::Database { what, cause: error.into() },
    }
}

/// The pool had no connection within [`ACQUIRE_TIMEOUT`]. The driver retries refused connections by
/// itself, and its error has no cause.
#[derive(Debug, thiserror::Error)]
#[error("no connection to PostgreSQL within {} s; is it down or overloaded?", ACQUIRE_TIMEOUT.as_secs())]
struct NoConnection;

/// Whole milliseconds of `duration`.
pub(super) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Numbers count acquisitions, events or milliseconds, and stay far below 2^63.
pub(super) fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_without_a_connection_fails_with_its_name_and_the_cause_once() {
        let error = database("freeze")(sqlx::Error::PoolTimedOut);
        let expected = "the store could not freeze: no connection to PostgreSQL within 10 s; is it down or overloaded?";
        assert_eq!(error.to_string(), expected);
        // Programs print the chain of sources after the text.
        assert!(std::error::Error::source(&error).is_none());
    }
}
