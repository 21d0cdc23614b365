//! Retries after transient failures: serialization conflicts, lost connections, restarts of the
//! server. Only for idempotent operations, since a commit whose response was lost may have
//! succeeded.

use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::timeouts::RETRY_BUDGET;
use store::{StoreError, StoreResult};

/// First and maximum pause between attempts; pauses double.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// Transient SQLSTATE codes: serialization failure, deadlock, lock timeout, too many connections,
/// idle-in-transaction timeout (this process was paused), shutdown, crash of another session,
/// startup.
const TRANSIENT_CODES: [&str; 9] = ["40001", "40P01", "55P03", "53300", "25P03", "57P01", "57P02", "57P03", "57P05"];

/// Repeats `work` until it succeeds, fails permanently, or the retry budget is used up.
pub(super) async fn retry<T, F: Future<Output = StoreResult<T>>>(work: impl Fn() -> F) -> StoreResult<T> {
    retry_for(RETRY_BUDGET, work).await
}

async fn retry_for<T, F: Future<Output = StoreResult<T>>>(patience: Duration, work: impl Fn() -> F) -> StoreResult<T> {
    let deadline = Instant::now() + patience;
    let mut pause = BACKOFF.0;
    loop {
        match work().await {
            Err(error) if is_transient(&error) && Instant::now() + pause < deadline => {
                debug!(%error, pause_ms = pause.as_millis(), "retrying store operation");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(BACKOFF.1);
            }
            done => return done,
        }
    }
}

fn is_transient(error: &StoreError) -> bool {
    let StoreError::Database { cause, .. } = error else { return false };
    match cause.downcast_ref() {
        Some(sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed) => true,
        Some(sqlx::Error::Database(error)) => {
            error.code().is_some_and(|code| code.starts_with("08") || TRANSIENT_CODES.contains(&&*code))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::conversion::database;
    use super::*;

    fn connection_reset() -> StoreError {
        database("test")(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()))
    }

    #[tokio::test]
    async fn a_reset_connection_is_retried_until_it_works() {
        let calls = AtomicU32::new(0);
        let answer = retry(|| async {
            if calls.fetch_add(1, Ordering::Relaxed) < 3 { Err(connection_reset()) } else { Ok("done") }
        });
        assert_eq!(answer.await.unwrap(), "done");
        assert_eq!(calls.into_inner(), 4);
    }

    #[tokio::test]
    async fn a_permanent_failure_is_returned_at_once() {
        let calls = AtomicU32::new(0);
        let answer: StoreResult<()> = retry(|| async {
            calls.fetch_add(1, Ordering::Relaxed);
            Err(database("test")(sqlx::Error::RowNotFound))
        })
        .await;
        assert!(answer.is_err());
        assert_eq!(calls.into_inner(), 1);
    }

    #[tokio::test]
    async fn the_retry_budget_ends() {
        let calls = AtomicU32::new(0);
        let answer: StoreResult<()> = retry_for(Duration::from_millis(20), || async {
            calls.fetch_add(1, Ordering::Relaxed);
            Err(connection_reset())
        })
        .await;
        assert!(answer.is_err());
        assert!(calls.into_inner() <= 3, "pauses of 5 and 10 ms fit into 20 ms, one of 20 ms does not");
    }
}
