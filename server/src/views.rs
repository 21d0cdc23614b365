//! Latest view of every cluster, published by the control loop for the dashboard and the API.
//! Readers share it; a slow reader skips views, never the latest.

mod summary;

use std::collections::BTreeMap;
use std::sync::Arc;

use controller::Decision;
use controller::view::ClusterView;
use model::{ClusterName, MicroUsd, Timestamp};
use tokio::sync::watch;

pub(crate) use summary::{reasons, summary};

/// Maximum decisions in a fleet view, over all clusters.
pub(crate) const DECISIONS_SHOWN: usize = 100;

/// View of the fleet at one time.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetView {
    /// Time of the latest change.
    pub(crate) taken_at: Timestamp,
    /// Views by cluster name.
    pub(crate) clusters: BTreeMap<ClusterName, Arc<ClusterView>>,
}

impl FleetView {
    /// Total price of all instances, per hour.
    pub(crate) fn cost(&self) -> MicroUsd {
        MicroUsd(self.clusters.values().map(|cluster| cluster.cost.0).sum())
    }

    /// Latest decisions of all clusters, newest first.
    pub(crate) fn decisions(&self) -> Vec<&Decision> {
        let mut decisions: Vec<&Decision> =
            self.clusters.values().flat_map(|cluster| cluster.decisions.iter().map(AsRef::as_ref)).collect();
        decisions.sort_by_key(|decision| std::cmp::Reverse((decision.at, decision.id)));
        decisions.truncate(DECISIONS_SHOWN);
        decisions
    }
}

/// Publishing end.
pub(crate) type Publisher = watch::Sender<Arc<FleetView>>;

/// Reading end.
pub(crate) type Views = watch::Receiver<Arc<FleetView>>;

/// Both ends, with an empty fleet.
pub(crate) fn channel() -> (Publisher, Views) {
    watch::channel(Arc::new(FleetView::default()))
}
