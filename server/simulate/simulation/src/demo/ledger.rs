//! The ledger of a simulated cluster: one line of JSON from the agent's process to the demo's.

use crate::kube::SimulatedCluster;
use cluster::PodPhase;
use serde::{Deserialize, Serialize};

/// Pod names per line; all pods are counted.
const NAMES_MAX: usize = 200;

/// Ground truth of a cluster at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterLedger {
    /// Name of the current scenario step.
    pub(super) scene: String,
    pub(super) finished: bool,
    pub(super) created: u64,
    pub(super) ran: u64,
    /// Pods that were evicted or deleted before they ran; their workload created others.
    pub(super) withdrawn: u64,
    pub(super) running: usize,
    /// Pods that exist and have never run.
    pub(super) waiting: usize,
    pub(super) waiting_names: Vec<String>,
    pub(super) joined: u64,
    pub(super) removed: u64,
    pub(super) nodes: usize,
    /// Nodes with no pods except DaemonSet pods.
    pub(super) empty_nodes: Vec<String>,
    /// Longest time from a pod's creation to its running.
    pub(super) longest_wait_ms: i64,
}

impl ClusterLedger {
    /// The ledger of `cluster`.
    pub(super) fn of(cluster: &SimulatedCluster, scene: &str, finished: bool) -> Self {
        let ledger = cluster.ledger();
        Self {
            scene: scene.to_owned(),
            finished,
            created: ledger.pods_created,
            ran: ledger.pods_ran,
            withdrawn: ledger.withdrawn(),
            running: cluster.pods().filter(|pod| pod.daemon.is_none() && pod.phase == PodPhase::Running).count(),
            waiting: ledger.never_ran().count(),
            waiting_names: ledger.never_ran().take(NAMES_MAX).map(ToString::to_string).collect(),
            joined: ledger.nodes_joined,
            removed: ledger.nodes_removed,
            nodes: cluster.nodes().count(),
            empty_nodes: cluster.empty_nodes().take(NAMES_MAX).map(ToString::to_string).collect(),
            longest_wait_ms: ledger.longest_wait_ms,
        }
    }
}
