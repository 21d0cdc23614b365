//! What has become of machines and pods, for reports and metrics.

pub mod lifecycle_counters;
pub mod pod_durations;

use std::sync::Arc;

use super::cost_records::CostRecords;
use super::node_report::removed_nodes::RemovedNodes;
use cluster::{ClusterState, Observation};
use lifecycle_counters::{LifecycleCounter, LifecycleCounters};
use model::Timestamp;
use pod_durations::{PodDurationObserver, PodDurations};

/// What has become of machines and pods since this process owns the cluster.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) costs: CostRecords,
    /// What has become of machines, in numbers.
    pub(crate) lifecycle: LifecycleCounter,
    pod_durations: PodDurationObserver,
    /// The last nodes that went.
    pub(crate) removed_nodes: RemovedNodes,
}

/// What was counted and measured, for metrics. The view of a cluster carries it as one value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measurements {
    pub lifecycle: Arc<LifecycleCounters>,
    pub pod_durations: Arc<PodDurations>,
}

impl History {
    /// Measures what an observation shows that `state` does not show yet.
    pub(crate) fn observe(&mut self, observation: &Observation, state: &ClusterState, now: Timestamp) {
        self.pod_durations.observe(observation, state, now);
    }

    pub(crate) fn measurements(&self) -> Measurements {
        Measurements { lifecycle: self.lifecycle.counters(), pod_durations: self.pod_durations.durations() }
    }
}
