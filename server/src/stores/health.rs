//! Whether the store answers: one log line when it stops and one when it answers again, a gauge,
//! and a notice on the dashboard.

use std::sync::Arc;
use std::time::Duration;

use store::{Store, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::metrics::Family;

/// Time between two checks.
const INTERVAL: Duration = Duration::from_secs(2);

/// Timeout of a check. The store retries by itself for longer, but a store that takes this long
/// makes decisions wait.
const TIMEOUT: Duration = Duration::from_secs(3);

/// What the last check found.
#[derive(Debug, Clone)]
pub struct StoreHealth(watch::Receiver<bool>);

impl StoreHealth {
    /// Whether the store answered the last check.
    #[must_use]
    pub fn is_up(&self) -> bool {
        *self.0.borrow()
    }

    /// The gauge.
    pub(crate) fn family(&self) -> Family {
        Family::gauge("fleetwright_store_up", "Whether the store answers. Without it no decision is made.")
            .with(Vec::new(), self.is_up().into())
    }
}

/// Both ends; the store is up at first, because the server has just read from it.
#[must_use]
pub fn channel() -> (watch::Sender<bool>, StoreHealth) {
    let (sender, receiver) = watch::channel(true);
    (sender, StoreHealth(receiver))
}

/// Checks the store until `stop`.
///
/// # Errors
/// Never.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    health: watch::Sender<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut down_since: Option<Instant> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let begun = Instant::now();
        let answer = tokio::time::timeout(TIMEOUT, store.ping()).await;
        match (reason(answer), down_since) {
            (Some(reason), None) => {
                error!(reason, "store unavailable; deciding nothing until it answers");
                down_since = Some(begun);
            }
            (None, Some(since)) => {
                info!(unavailable_s = since.elapsed().as_secs(), "store available again");
                down_since = None;
            }
            _ => {}
        }
        health.send_if_modified(|up| std::mem::replace(up, down_since.is_none()) != down_since.is_none());
    }
}

/// Why a check failed.
fn reason(answer: Result<Result<(), StoreError>, tokio::time::error::Elapsed>) -> Option<String> {
    match answer {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer within {} s", TIMEOUT.as_secs())),
    }
}
