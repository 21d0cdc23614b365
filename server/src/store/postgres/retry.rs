//! Trying again what failed for a reason that passes: two transactions that met, a connection that was cut, a server that
//! restarts. Only for work that is harmless twice, since a commit whose answer was lost may have happened.

use std::time::Duration;

use futures::future::FutureExt;
use tokio::time::Instant;
use tracing::debug;

use super::super::{Answer, StoreError};

/// How long the store tries by itself. Longer troubles are the caller's, who has other things to do meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pauses between attempts double from the first to the last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// Failures of PostgreSQL that pass, by SQLSTATE: serialisation failure, deadlock, lock not available in time, too many
/// connections, idle in a transaction for too long (this process was paused), shutdown, crash of another session, starting.
const PASSING: [&str; 9] = ["40001", "40P01", "55P03", "53300", "25P03", "57P01", "57P02", "57P03", "57P05"];

/// Does `work` until it succeeds, fails for good, or patience ends.
pub(super) fn repeated<'a, T, F>(work: impl Fn() -> F + Send + 'a) -> Answer<'a, T>
where
    T: Send + 'a,
    F: Future<Output = Result<T, StoreError>> + Send + 'a,
{
    repeated_for(PATIENCE, work)
}

fn repeated_for<'a, T, F>(patience: Duration, work: impl Fn() -> F + Send + 'a) -> Answer<'a, T>
where
    T: Send + 'a,
    F: Future<Output = Result<T, StoreError>> + Send + 'a,
{
    async move {
        let deadline = Instant::now() + patience;
        let mut pause = PAUSES.0;
        loop {
            match work().await {
                Err(error) if passes(&error) && Instant::now() + pause < deadline => {
                    debug!(%error, "trying again in {} ms", pause.as_millis());
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
                done => return done,
            }
        }
    }
    .boxed()
}

fn passes(error: &StoreError) -> bool {
    let StoreError::Database { source, .. } = error else { return false };
    match source {
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(said) => {
            said.code().is_some_and(|code| code.starts_with("08") || PASSING.contains(&&*code))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn cut() -> StoreError {
        StoreError::Database { what: "test", source: sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()) }
    }

    #[tokio::test]
    async fn a_connection_that_was_cut_is_tried_again_until_it_works() {
        let calls = AtomicU32::new(0);
        let answer =
            repeated(|| async { if calls.fetch_add(1, Ordering::Relaxed) < 3 { Err(cut()) } else { Ok("done") } });
        assert_eq!(answer.await.unwrap(), "done");
        assert_eq!(calls.into_inner(), 4);
    }

    #[tokio::test]
    async fn a_failure_that_stays_is_told_at_once() {
        let calls = AtomicU32::new(0);
        let answer: Answer<'_, ()> = repeated(|| async {
            calls.fetch_add(1, Ordering::Relaxed);
            Err(StoreError::Database { what: "test", source: sqlx::Error::RowNotFound })
        });
        assert!(answer.await.is_err());
        assert_eq!(calls.into_inner(), 1);
    }

    #[tokio::test]
    async fn patience_ends() {
        let calls = AtomicU32::new(0);
        let answer: Answer<'_, ()> = repeated_for(Duration::from_millis(20), || async {
            calls.fetch_add(1, Ordering::Relaxed);
            Err(cut())
        });
        assert!(answer.await.is_err());
        assert!(calls.into_inner() <= 3, "pauses of 5 and 10 ms fit into 20 ms, one of 20 ms does not");
    }
}
