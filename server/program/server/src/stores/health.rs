//! Whether the store answers and takes writes: a database may read and refuse every write, as after a failover to a standby, or
//! when its disk is full.

use std::sync::Arc;
use std::time::Duration;

use store::{Store, StoreError, clock};
use tokio_util::sync::CancellationToken;

use fleet_api::conditions::{Conditions, Dependency, Failure};

const INTERVAL: Duration = Duration::from_secs(2);

/// Timeout of a check. The store retries by itself for longer, but a store that takes this long
/// makes decisions wait.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Checks the store until `stop`, by a write to the row of this replica, and logs what has ceased to work meanwhile.
///
/// # Errors
/// Never.
pub(crate) async fn run(
    store: Arc<dyn Store>,
    instance: String,
    conditions: Arc<Conditions>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        let answer = tokio::time::timeout(TIMEOUT, store.touch_replica(&instance)).await;
        let now = clock::now();
        conditions.report(&Dependency::Store, result(answer), now);
        conditions.log_failing(now);
    }
    Ok(())
}

fn result(answer: Result<Result<(), StoreError>, tokio::time::error::Elapsed>) -> Result<(), Failure> {
    match answer {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::no_answer(error.to_string())),
        Err(_) => Err(Failure::no_answer(format!("no answer within {} s", TIMEOUT.as_secs()))),
    }
}
