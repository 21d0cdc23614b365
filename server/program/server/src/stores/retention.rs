//! Periodic pruning of rows past their retention.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Store;
use store::log::Retention;

/// Interval of pruning. Partitions exist a week ahead, so a missed hour has no effect.
const INTERVAL: Duration = Duration::from_secs(3600);

/// Delay from startup to the first pruning, minimum and maximum. A server that restarts more often
/// than hourly still prunes, and servers that start together prune at different times.
const FIRST: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(70));

/// Delay before the first pruning; `chance` differs from server to server.
pub(crate) fn first_wait(chance: u64) -> Duration {
    let spread = FIRST.1.saturating_sub(FIRST.0).as_millis();
    FIRST.0 + Duration::from_millis(chance % u64::try_from(spread).unwrap_or(1).max(1))
}

/// Prunes after `first`, then every hour until `stop`.
///
/// # Errors
/// Never: a failed pruning is repeated an hour later.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    retention: Retention,
    first: Duration,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut wait = first;
    while stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_some() {
        match store.prune(&retention).await {
            Ok(pruned) => debug!(?pruned, "pruned old rows"),
            Err(error) => warn!(%error, "pruning failed; next attempt in one hour"),
        }
        wait = INTERVAL;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use store::lease::{LeaseOutcome, Scope};
    use store::log::{Blob, BlobHash, Entry};
    use store::memory::MemoryStore;
    use store::{Archive, Store};

    #[test]
    fn the_first_pruning_is_jittered_within_70_seconds() {
        let waits: Vec<Duration> = [0, 1, 59_999, 60_000, u64::MAX].map(first_wait).into();
        let (least, most) = (Duration::from_secs(10), Duration::from_secs(70));
        assert!(waits.iter().all(|wait| (least..most).contains(wait)), "{waits:?}");
        assert!(waits[0] != waits[1] && waits[0] == waits[3], "{waits:?}");
    }

    #[tokio::test]
    async fn a_server_prunes_within_its_first_hour() {
        // Every clock read is two months after the previous one.
        let asked = AtomicU64::new(0);
        let months = move || Duration::from_secs(60 * 86_400 * asked.fetch_add(1, Ordering::Relaxed));
        let store = Arc::new(MemoryStore::with_clock(months));
        let blob = Blob { hash: BlobHash([7; 32]), kind: "policy".to_owned(), bytes: vec![1] };
        let answer = store.acquire_lease(&Scope::cluster("blue"), "a", 0, Duration::ZERO).await.unwrap();
        let LeaseOutcome::Granted { lease, .. } = answer else { panic!("{answer:?}") };
        let entry = Entry { blobs: vec![blob.clone()], ..Entry::default() };
        store.record_decision(&lease, &entry).await.unwrap();
        let stop = CancellationToken::new();
        let kept = Arc::clone(&store) as Arc<dyn Store>;
        let keeper = tokio::spawn(run(kept, Retention::default(), Duration::ZERO, stop.clone()));
        let pruned = async {
            while store.blob(&blob.hash).await.unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        };
        let pruned = tokio::time::timeout(Duration::from_secs(60), pruned).await;
        assert!(pruned.is_ok(), "last use was two months ago, retention is two weeks");
        stop.cancel();
        keeper.await.unwrap().unwrap();
    }
}
