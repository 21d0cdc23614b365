//! Summaries of clusters in the store: this replica writes those of its own clusters, and reads those of all, for the
//! clusters of replicas that it does not reach.

use std::sync::Arc;
use std::time::Duration;

use store::{Store, StoreError};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::directory::Directory;

/// Interval of reading. A summary is read only for clusters of which no replica tells.
const READ_INTERVAL: Duration = Duration::from_secs(5);

/// Every how many readings this replica writes what has changed since: a thousand clusters that change all the time are
/// some ten kilobytes a second.
const WRITE_EVERY: u32 = 6;

/// Reads and writes until `stop`.
///
/// # Errors
/// Never: a store that does not answer is asked again.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    directory: Arc<Directory>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut due = tokio::time::interval(READ_INTERVAL);
    let mut round = 0;
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
