//! Publishes the views of the clusters of all control loops, as one view of the fleet, as summaries in the directory, and as
//! changes of resources.

use std::sync::Arc;
use std::time::Duration;

use controller::ClusterView;
use fleetwright_proto::v1;
use model::{ClusterName, Timestamp};
use tokio::sync::mpsc;

use super::state_log;
use crate::fleet::change_log::{Change, ChangeLog};
use crate::fleet::decision_effects;
use crate::fleet::directory::Directory;
use crate::fleet::encode::{self, Owner};
use crate::fleet::rows::{self, RowChanges};
use crate::views::{FleetView, PublishedCluster, Publisher, ResourceChanges};

/// Minimum interval between two views of the fleet.
const MIN_INTERVAL: Duration = Duration::from_millis(200);

/// A changed view of a cluster.
pub struct ViewUpdate {
    cluster: ClusterName,
    /// `None` if this process does not own the cluster any more.
    view: Option<Box<(ClusterView, Owner)>>,
    at: Timestamp,
}

impl ViewUpdate {
    /// The view of a cluster at `at`, and who decides for it; `None` if this process does not any more.
    pub fn new(cluster: ClusterName, view: Option<Box<(ClusterView, Owner)>>, at: Timestamp) -> Self {
        Self { cluster, view, at }
    }
}

/// Where views go.
pub struct ViewPublisher {
    pub views: Publisher,
    pub directory: Arc<Directory>,
    pub changes: Arc<ResourceChanges>,
}

/// Publishes until all senders are gone.
pub async fn publish_views(mut updates: mpsc::UnboundedReceiver<ViewUpdate>, publisher: ViewPublisher) {
    let mut fleet = FleetView::default();
    while let Some(update) = updates.recv().await {
        let mut batch = vec![update];
        while let Ok(update) = updates.try_recv() {
            batch.push(update);
        }
        publisher.publish(&mut fleet, batch);
        tokio::time::sleep(MIN_INTERVAL).await;
    }
}

struct ClusterChange {
    cluster: ClusterName,
    before: Option<Arc<PublishedCluster>>,
    /// `None` if this process does not own the cluster any more.
    after: Option<Arc<PublishedCluster>>,
    rows: RowChanges,
}

impl ViewPublisher {
    /// A publisher of views, summaries and changes.
    pub fn new(views: Publisher, directory: &Arc<Directory>, changes: &Arc<ResourceChanges>) -> Self {
        Self { views, directory: Arc::clone(directory), changes: Arc::clone(changes) }
    }

    /// Publishes `fleet` with these updates. Log lines come last: a reader of the log finds what they say in the API and in
    /// the metrics.
    pub fn publish(&self, fleet: &mut FleetView, updates: Vec<ViewUpdate>) {
        let (mut summaries, mut changes) = (Vec::new(), Vec::new());
        for update in updates {
            let (summary, change) = apply(fleet, update);
            summaries.push((change.cluster.clone(), summary));
            changes.push(change);
        }
        let published = Arc::new(fleet.clone());
        self.directory.publish_own(summaries, fleet.taken_at, || {
            self.views.send_replace(published);
        });
        for change in changes {
            self.publish_change(change);
        }
    }

    fn publish_change(&self, ClusterChange { cluster, before, after, rows }: ClusterChange) {
        let Some(after) = after else { return };
        let before = before.as_ref().map(|before| &before.view);
        push(&self.changes.pools, &cluster, before.is_none(), rows.pools);
        push(&self.changes.nodes, &cluster, before.is_none(), rows.nodes);
        push(&self.changes.pods, &cluster, before.is_none(), rows.pods);
        self.push_decisions(before, &after.view);
        for change in state_log::changes(before, &after.view) {
            change.log(&cluster);
        }
    }

    /// Decisions that the view before did not have, oldest first.
    fn push_decisions(&self, before: Option<&ClusterView>, view: &ClusterView) {
        let last = before.and_then(|before| before.decisions.first()).map(|decision| decision.id);
        let new: Vec<_> = view.decisions.iter().take_while(|decision| Some(decision.id) > last).collect();
        let rows = new.into_iter().rev().map(|decision| Arc::new(decision_effects::decision(decision)));
        self.changes.decisions.push(&view.cluster, rows.map(|row| Change::Set { row, before: None }));
    }
}

/// Applies an update to `fleet`; returns the cluster's summary, if this process owns it, and what changed.
fn apply(fleet: &mut FleetView, ViewUpdate { cluster, view, at }: ViewUpdate) -> (Option<v1::Cluster>, ClusterChange) {
    fleet.taken_at = fleet.taken_at.max(at);
    let Some(view) = view else {
        let before = fleet.clusters.remove(&cluster);
        return (None, ClusterChange { cluster, before, after: None, rows: RowChanges::default() });
    };
    let (view, owner) = *view;
    let before = fleet.clusters.get(&cluster).cloned();
    let summary = encode::cluster(&view, &owner, at);
    let (rows, changed) = rows::refresh(before.as_ref().map(|before| (&before.view, &before.rows)), &view, at);
    let after = Arc::new(PublishedCluster { view, rows });
    fleet.clusters.insert(cluster.clone(), Arc::clone(&after));
    (Some(summary), ClusterChange { cluster, before, after: Some(after), rows: changed })
}

/// Adds the changes to the log; `reset` voids what other replicas said about the cluster.
fn push<M>(log: &ChangeLog<M>, cluster: &ClusterName, reset: bool, changes: Vec<Change<M>>) {
    let begin = reset.then_some(Change::Reset);
    log.push(cluster, begin.into_iter().chain(changes));
}
