//! One attempt of an instruction: its result, and the delay before the next one.

use std::time::Duration;

use agent::Done;
use agent::link::backoff::Backoff;
use fleetwright_proto::v1;

use crate::error::{ApiError, ErrorKind};

/// Duration for which transient errors are retried. Then the instruction fails, and the server
/// decides again. A drain is retried without limit: an unreachable API server must not leave a Node
/// tainted and not drained.
pub(super) const RETRY_LIMIT: Duration = Duration::from_secs(300);

/// Wait before an object is read again after a conflict.
const CONFLICT_DELAY: Duration = Duration::from_millis(20);

/// Consecutive conflicts that are retried at once. An object that changes under every attempt is
/// written by a competing controller, and every round costs the API server.
const MAX_QUICK_CONFLICTS: u32 = 5;

/// Result of one attempt: done, or an error that may be retried.
pub(super) type Attempt = Result<Done, ApiError>;

/// Delay after `error`, the last of `conflicts` consecutive conflicts.
pub(super) fn retry_delay(error: &ApiError, conflicts: u32, backoff: &mut Backoff) -> Duration {
    if (1..=MAX_QUICK_CONFLICTS).contains(&conflicts) {
        return CONFLICT_DELAY;
    }
    let least = Duration::from_millis(backoff.next_wait_ms());
    error.retry_after.map_or(least, |asked| asked.max(least))
}

/// The result of an instruction that the API server permanently rejects.
pub(super) fn failed_instruction(error: &ApiError) -> Done {
    let outcome = if error.kind == ErrorKind::NotFound { v1::Outcome::NotFound } else { v1::Outcome::Failed };
    Done::failed(outcome, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_changes_under_every_attempt_is_not_written_fifty_times_a_second() {
        let conflict = ApiError { kind: ErrorKind::Conflict, ..ApiError::unreachable("PATCH /x".into(), "changed") };
        let mut backoff = Backoff::new(1);
        let waits: Vec<Duration> = (1..=12).map(|number| retry_delay(&conflict, number, &mut backoff)).collect();
        assert!(waits[..5].iter().all(|wait| *wait == CONFLICT_DELAY), "{waits:?}");
        // The seventh growing wait is 16 s, the longest 10 s; each is reduced by at most a half.
        assert!(waits[5] >= Duration::from_millis(125) && waits[11] >= Duration::from_secs(5), "{waits:?}");
    }

    #[test]
    fn an_api_server_that_asks_for_no_time_is_given_some() {
        let busy = ApiError {
            kind: ErrorKind::TooMany,
            retry_after: Some(Duration::ZERO),
            ..ApiError::unreachable("".into(), "")
        };
        assert!(retry_delay(&busy, 0, &mut Backoff::new(1)) >= Duration::from_millis(125));
        let asks = ApiError { retry_after: Some(Duration::from_secs(7)), ..busy };
        assert_eq!(retry_delay(&asks, 0, &mut Backoff::new(1)), Duration::from_secs(7));
    }
}
