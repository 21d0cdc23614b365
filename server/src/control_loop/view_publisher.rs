//! Publishes the views of the clusters of all control loops to the dashboard and `FleetService.Watch`, as one view of
//! the fleet.

use std::sync::Arc;
use std::time::Duration;

use controller::ClusterView;
use model::{ClusterName, Timestamp};
use tokio::sync::mpsc;

use super::state_log;
use crate::views::{FleetView, Publisher};

/// Minimum interval between two views of the fleet.
const MIN_INTERVAL: Duration = Duration::from_millis(200);

/// A changed view of a cluster.
pub(crate) struct ViewUpdate {
    pub(super) cluster: ClusterName,
    /// `None` if this process does not own the cluster any more.
    pub(super) view: Option<Box<ClusterView>>,
    pub(super) at: Timestamp,
}

/// Publishes until all senders are gone.
pub(crate) async fn publish_views(mut updates: mpsc::UnboundedReceiver<ViewUpdate>, publisher: Publisher) {
    let mut fleet = FleetView::default();
    while let Some(update) = updates.recv().await {
        apply(&mut fleet, update);
        while let Ok(update) = updates.try_recv() {
            apply(&mut fleet, update);
        }
        publisher.send_replace(Arc::new(fleet.clone()));
        tokio::time::sleep(MIN_INTERVAL).await;
    }
}

fn apply(fleet: &mut FleetView, ViewUpdate { cluster, view, at }: ViewUpdate) {
    fleet.taken_at = fleet.taken_at.max(at);
    match view {
        Some(view) => {
            let before = fleet.clusters.get(&cluster);
            for change in state_log::changes(before.map(AsRef::as_ref), &view) {
                change.log(&cluster);
            }
            fleet.clusters.insert(cluster, Arc::new(*view))
        }
        None => fleet.clusters.remove(&cluster),
    };
}
