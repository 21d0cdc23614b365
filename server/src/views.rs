//! What people see of the fleet: the latest view of every cluster, published by the control loop and read by everybody
//! else. Readers share it; a slow one misses views, never the latest.

mod sentence;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::control::view::ClusterView;
use engine::control::{ClusterId, Decision};
use engine::model::{MicroUsd, Timestamp};
use tokio::sync::watch;

pub(crate) use sentence::{reasons, summary};

/// Decisions that a view of the fleet shows, over all clusters.
pub(crate) const DECISIONS_SHOWN: usize = 100;

/// The fleet at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetView {
    /// When it was taken.
    pub(crate) taken_at: Timestamp,
    /// Clusters by name.
    pub(crate) clusters: BTreeMap<ClusterId, Arc<ClusterView>>,
}

impl FleetView {
    /// What all machines cost per hour.
    pub(crate) fn cost(&self) -> MicroUsd {
        MicroUsd(self.clusters.values().map(|cluster| cluster.cost.0).sum())
    }

    /// The last decisions of all clusters, latest first.
    pub(crate) fn decisions(&self) -> Vec<&Decision> {
        let mut decisions: Vec<&Decision> =
            self.clusters.values().flat_map(|cluster| cluster.decisions.iter().map(AsRef::as_ref)).collect();
        decisions.sort_by_key(|decision| std::cmp::Reverse((decision.at, decision.id)));
        decisions.truncate(DECISIONS_SHOWN);
        decisions
    }
}

/// The publishing end.
pub(crate) type Publisher = watch::Sender<Arc<FleetView>>;

/// The reading end.
pub(crate) type Views = watch::Receiver<Arc<FleetView>>;

/// Both ends, with an empty fleet.
pub(crate) fn channel() -> (Publisher, Views) {
    watch::channel(Arc::new(FleetView::default()))
}
