//! The other replicas: which are there, and how they are asked. Each is told apart by the instance, one life of a process.
//!
//! One task for each replica keeps the directory's clusters of it up to date, by the same API that clients use, restricted
//! to the clusters that the other one decides for ([`PART_KEY`]) and that the client may see.

mod connection;
mod follower;
mod registry;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use store::Store;
use store::replicas::ReplicaRow;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::directory::Directory;
pub(crate) use connection::{CapacityClient, PART_KEY, ReplicaClient};
pub use registry::ReplicaClients;

/// Interval at which new replicas are looked for.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(2);

/// The same until those are known that are there at the start.
const FIRST_INTERVAL: Duration = Duration::from_millis(100);

/// Looks for replicas and follows each, until `stop`.
///
/// # Errors
/// Never: a store that does not answer is asked again.
pub async fn run(
    store: Arc<dyn Store>,
    instance: String,
    clients: ReplicaClients,
    directory: Arc<Directory>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut due = tokio::time::interval(DISCOVERY_INTERVAL);
    // One that has just started is not ready before it knows the others.
    let mut soon = tokio::time::interval(FIRST_INTERVAL);
    let mut followed: BTreeMap<Arc<str>, (ReplicaRow, CancellationToken)> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    while stop.run_until_cancelled(if clients.is_settled() { due.tick() } else { soon.tick() }).await.is_some() {
        while tasks.try_join_next().is_some() {}
        let others = match store.other_replicas(&instance).await {
            Ok(others) => others,
            Err(error) => {
                warn!(%error, "could not look for other replicas");
                continue;
            }
        };
        // A new certificate or address is followed anew.
        followed.retain(|instance, (row, ended)| {
            let stays = others.iter().any(|other| *other.instance == **instance && other.endpoint == row.endpoint);
            if !stays {
                ended.cancel();
            }
            stays
        });
        for row in others {
            let instance: Arc<str> = row.instance.as_str().into();
            if followed.contains_key(&instance) {
                continue;
            }
            let ended = stop.child_token();
            tasks.spawn(follower::follow(row.clone(), clients.clone(), Arc::clone(&directory), ended.clone()));
            followed.insert(instance, (row, ended));
        }
        if !clients.is_settled() {
            clients.settle(followed.keys());
        }
    }
    Ok(())
}
