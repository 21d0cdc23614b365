//! What has become of machines and pods.

use super::cost_records::CostRecords;
use super::lifecycle_counters::LifecycleCounter;
use super::node_report::removed_nodes::RemovedNodes;
use super::pod_durations::PodDurationObserver;

/// What has become of machines and pods since this process owns the cluster.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) costs: CostRecords,
    /// What has become of machines, in numbers.
    pub(crate) lifecycle: LifecycleCounter,
    pub(crate) pod_durations: PodDurationObserver,
    /// The last nodes that went.
    pub(crate) removed_nodes: RemovedNodes,
}
