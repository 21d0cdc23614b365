//! Lets go of what is older than it must be kept, and makes room for the days to come.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Store;
use super::log::Retention;

/// Rows are prepared for a week ahead, so an hour that is missed costs nothing.
const INTERVAL: Duration = Duration::from_secs(3600);

/// Prunes once an hour until `stop`, first an hour after the start.
///
/// # Errors
/// Never: a store that does not answer is asked again an hour later.
pub(crate) async fn run(store: Arc<dyn Store>, retention: Retention, stop: CancellationToken) -> anyhow::Result<()> {
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        match store.prune(&retention).await {
            Ok(pruned) => debug!(?pruned, "let old rows go"),
            Err(error) => warn!(%error, "old rows stay for an hour more"),
        }
    }
    Ok(())
}
