//! Lets go of what is older than it must be kept, and makes room for the days to come.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Store;
use super::log::Retention;

/// Rows are prepared for a week ahead, so an hour that is missed costs nothing.
const INTERVAL: Duration = Duration::from_secs(3600);

/// From the start to the first time, at least and at most: a server that lives for less than an hour, again and again, prunes as
/// well, and a fleet of servers that start together does not prune at one moment.
const FIRST: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(70));

/// How long to wait for the first time; `chance` differs from server to server.
pub(crate) fn first_wait(chance: u64) -> Duration {
    let spread = FIRST.1.saturating_sub(FIRST.0).as_millis();
    FIRST.0 + Duration::from_millis(chance % u64::try_from(spread).unwrap_or(1).max(1))
}

/// Prunes after `first`, and once an hour from there, until `stop`.
///
/// # Errors
/// Never: a store that does not answer is asked again an hour later.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    retention: Retention,
    first: Duration,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut wait = first;
    while stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
        match store.prune(&retention).await {
            Ok(pruned) => debug!(?pruned, "let old rows go"),
            Err(error) => warn!(%error, "old rows stay for an hour more"),
        }
        wait = INTERVAL;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::log::{Blob, BlobHash};
    use super::super::memory::MemoryStore;
    use super::super::{Archive, Store};
    use super::*;

    #[test]
    fn the_first_time_is_within_the_first_minutes_and_differs() {
        let waits: Vec<Duration> = [0, 1, 59_999, 60_000, u64::MAX].map(first_wait).into();
        let (least, most) = (Duration::from_secs(10), Duration::from_secs(70));
        assert!(waits.iter().all(|wait| (least..most).contains(wait)), "{waits:?}");
        assert!(waits[0] != waits[1] && waits[0] == waits[3], "{waits:?}");
    }

    #[tokio::test]
    async fn a_server_prunes_before_it_has_lived_for_an_hour() {
        // Every question finds a store that is two months older.
        let asked = AtomicU64::new(0);
        let months = move || Duration::from_secs(60 * 86_400 * asked.fetch_add(1, Ordering::Relaxed));
        let store = Arc::new(MemoryStore::on(months));
        let blob = Blob { hash: BlobHash([7; 32]), kind: "policy".to_owned(), bytes: vec![1] };
        store.put_blobs(std::slice::from_ref(&blob)).await.unwrap();
        let stop = CancellationToken::new();
        let kept = Arc::clone(&store) as Arc<dyn Store>;
        let keeper = tokio::spawn(run(kept, Retention::default(), Duration::ZERO, stop.clone()));
        let pruned = async {
            while store.blob(&blob.hash).await.unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        };
        let pruned = tokio::time::timeout(Duration::from_secs(60), pruned).await;
        assert!(pruned.is_ok(), "it was used two months ago, and two weeks are kept");
        stop.cancel();
        keeper.await.unwrap().unwrap();
    }
}
