//! Summaries of clusters in the store: this replica writes those of its own clusters, and reads those of all, for the
//! clusters of replicas that it does not reach.

use std::sync::Arc;
use std::time::Duration;

use store::{Store, StoreError};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::directory::Directory;

/// Interval of reading. A summary is read only for clusters of which no replica tells.
const READ_INTERVAL: Duration = Duration::from_secs(5);

/// Every how many readings this replica writes what has changed since: a thousand clusters that change all the time are
/// some ten kilobytes a second.
const WRITE_EVERY: u32 = 6;

/// Reads what the store has, and keeps reading and writing in a task until `stop`.
///
/// The first reading comes before the API is served: a cluster that is in no source does not exist for those who ask.
///
/// # Errors
/// The store does not answer the first reading.
pub async fn follow(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    store: &Arc<dyn Store>,
    directory: &Arc<Directory>,
    stop: &CancellationToken,
) -> Result<(), StoreError> {
    read(&**store, directory).await?;
    tasks.spawn(run(Arc::clone(store), Arc::clone(directory), stop.clone()));
    Ok(())
}

/// Reads and writes until `stop`. A store that does not answer is asked again.
async fn run(store: Arc<dyn Store>, directory: Arc<Directory>, stop: CancellationToken) -> anyhow::Result<()> {
    let mut due = tokio::time::interval_at(Instant::now() + READ_INTERVAL, READ_INTERVAL);
    let mut round = 1;
    while stop.run_until_cancelled(due.tick()).await.is_some() {
        if let Err(error) = read(&*store, &directory).await {
            warn!(%error, "could not read cluster summaries");
        }
        if round % WRITE_EVERY == 1 {
            write(&*store, &directory).await;
        }
        round += 1;
    }
    write(&*store, &directory).await;
    Ok(())
}

async fn read(store: &dyn Store, directory: &Directory) -> Result<(), StoreError> {
    // In this order: a summary without a cluster is ignored, and a cluster without a summary is shown.
    let rows = store.cluster_summaries().await?;
    let clusters = store.clusters().await?;
    directory.set_stored(&clusters, rows);
    Ok(())
}

async fn write(store: &dyn Store, directory: &Directory) {
    let rows = directory.take_unwritten();
    if rows.is_empty() {
        return;
    }
    if let Err(error) = store.put_cluster_summaries(&rows).await {
        warn!(%error, clusters = rows.len(), "could not write cluster summaries");
        directory.mark_unwritten(&rows);
    }
}

#[cfg(test)]
mod tests {
    use store::lease::Scope;
    use store::memory::MemoryStore;

    use super::*;
    use crate::fleet::directory::Source;

    #[tokio::test]
    async fn a_server_knows_the_clusters_of_the_store_before_it_answers() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        store.acquire_lease(&Scope::cluster("a"), "two", 0, Duration::from_secs(15)).await.unwrap();
        let (mut tasks, directory, stop) = (JoinSet::new(), Arc::<Directory>::default(), CancellationToken::new());
        follow(&mut tasks, &store, &directory, &stop).await.unwrap();
        // Nothing is awaited in between, so that the task has not run yet.
        assert_eq!(directory.source(&"a".into()), Some(Source::Stored));
    }
}
