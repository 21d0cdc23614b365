//! Publishes the views of the clusters of all control loops, as one view of the fleet, as summaries in the directory, and as
//! changes of resources.

use std::sync::Arc;
use std::time::Duration;

use controller::ClusterView;
use model::{ClusterName, Timestamp};
use tokio::sync::mpsc;

use super::state_log;
use crate::fleet::change_log::{Change, ChangeLog};
use crate::fleet::directory::Directory;
use crate::fleet::encode::{self, Owner};
use crate::fleet::rows;
use crate::views::{FleetView, PublishedCluster, Publisher, ResourceChanges};

/// Minimum interval between two views of the fleet.
const MIN_INTERVAL: Duration = Duration::from_millis(200);

/// A changed view of a cluster.
pub(crate) struct ViewUpdate {
    cluster: ClusterName,
    /// `None` if this process does not own the cluster any more.
    view: Option<Box<(ClusterView, Owner)>>,
    at: Timestamp,
}

impl ViewUpdate {
    /// The view of a cluster at `at`, and who decides for it; `None` if this process does not any more.
    pub(crate) fn new(cluster: ClusterName, view: Option<Box<(ClusterView, Owner)>>, at: Timestamp) -> Self {
        Self { cluster, view, at }
    }
}

/// Where views go.
pub(crate) struct ViewPublisher {
    pub(crate) views: Publisher,
    pub(crate) directory: Arc<Directory>,
    pub(crate) changes: Arc<ResourceChanges>,
}

/// Publishes until all senders are gone.
pub(crate) async fn publish_views(mut updates: mpsc::UnboundedReceiver<ViewUpdate>, publisher: ViewPublisher) {
    let mut fleet = FleetView::default();
    while let Some(update) = updates.recv().await {
        publisher.apply(&mut fleet, update);
        while let Ok(update) = updates.try_recv() {
            publisher.apply(&mut fleet, update);
        }
        publisher.views.send_replace(Arc::new(fleet.clone()));
        tokio::time::sleep(MIN_INTERVAL).await;
    }
}

impl ViewPublisher {
    /// A publisher of views, summaries and changes.
    pub(crate) fn new(views: Publisher, directory: &Arc<Directory>, changes: &Arc<ResourceChanges>) -> Self {
        Self { views, directory: Arc::clone(directory), changes: Arc::clone(changes) }
    }

    pub(crate) fn apply(&self, fleet: &mut FleetView, ViewUpdate { cluster, view, at }: ViewUpdate) {
        fleet.taken_at = fleet.taken_at.max(at);
        let Some(view) = view else {
            fleet.clusters.remove(&cluster);
            self.directory.release_own(&cluster);
            return;
        };
        let (view, owner) = *view;
        let before = fleet.clusters.get(&cluster).cloned();
        // Before the log lines: a reader of the log finds what they say in the API.
        self.directory.set_own(&cluster, encode::cluster(&view, &owner, at));
        for change in state_log::changes(before.as_ref().map(|before| &before.view), &view) {
            change.log(&cluster);
        }
        let (rows, changes) = rows::refresh(before.as_ref().map(|before| (&before.view, &before.rows)), &view);
        let reset = before.is_none();
        push(&self.changes.pools, &cluster, reset, changes.pools);
        push(&self.changes.nodes, &cluster, reset, changes.nodes);
        push(&self.changes.pods, &cluster, reset, changes.pods);
        self.push_decisions(before.as_ref().map(|before| &before.view), &view);
        fleet.clusters.insert(cluster, Arc::new(PublishedCluster { view, rows }));
    }

    /// Decisions that the view before did not have, oldest first.
    fn push_decisions(&self, before: Option<&ClusterView>, view: &ClusterView) {
        let last = before.and_then(|before| before.decisions.first()).map(|decision| decision.id);
        let new: Vec<_> = view.decisions.iter().take_while(|decision| Some(decision.id) > last).collect();
        let rows = new.into_iter().rev().map(|decision| Arc::new(encode::decision(decision)));
        self.changes.decisions.push(&view.cluster, rows.map(|row| Change::Set { row, before: None }));
    }
}

/// Adds the changes to the log; `reset` voids what other replicas said about the cluster.
fn push<M>(log: &ChangeLog<M>, cluster: &ClusterName, reset: bool, changes: Vec<Change<M>>) {
    let begin = reset.then_some(Change::Reset);
    log.push(cluster, begin.into_iter().chain(changes));
}
