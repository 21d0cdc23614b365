//! Latest view of every cluster that this process decides for, published by the control loops for the API, the dashboard
//! and the metrics. Readers share it; a slow reader skips views, never the latest.

pub mod publisher;
mod state_log;
mod summary;

use std::collections::BTreeMap;
use std::sync::Arc;

use controller::view::ClusterView;
use fleetwright_proto::v1;
use model::{ClusterName, Timestamp};
use tokio::sync::watch;

use crate::fleet::change_log::ChangeLog;
use crate::fleet::rows::ClusterRows;
pub use summary::{reasons, summary};

/// A cluster that this process decides for.
#[derive(Debug)]
pub struct PublishedCluster {
    pub view: ClusterView,
    /// The same as resources of the API.
    pub rows: ClusterRows,
}

/// View of the clusters that this process decides for, at one time.
#[derive(Debug, Clone, Default)]
pub struct FleetView {
    pub taken_at: Timestamp,
    pub clusters: BTreeMap<ClusterName, Arc<PublishedCluster>>,
}

impl FleetView {
    /// The views, by name of the cluster.
    pub fn views(&self) -> impl Iterator<Item = &ClusterView> {
        self.clusters.values().map(|cluster| &cluster.view)
    }

    pub fn view(&self, cluster: &str) -> Option<&ClusterView> {
        self.clusters.get(cluster).map(|cluster| &cluster.view)
    }
}

/// Changes of the resources of the clusters that this process decides for.
#[derive(Default)]
pub struct ResourceChanges {
    pub(crate) pools: ChangeLog<v1::Pool>,
    pub(crate) nodes: ChangeLog<v1::Node>,
    pub(crate) pods: ChangeLog<v1::Pod>,
    pub(crate) decisions: ChangeLog<v1::Decision>,
}

pub(crate) type Publisher = watch::Sender<Arc<FleetView>>;

pub type Views = watch::Receiver<Arc<FleetView>>;

/// Both ends, with an empty fleet.
pub fn channel() -> (Publisher, Views) {
    watch::channel(Arc::new(FleetView::default()))
}
