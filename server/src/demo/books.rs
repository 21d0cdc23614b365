//! What a simulated cluster writes down about itself, as one line of JSON from the agent's process to the demo's.

use engine::cluster::PodPhase;
use serde::{Deserialize, Serialize};
use simulator::SimulatedCluster;

/// Pods that a line names; all of them are counted.
const NAMES_MAX: usize = 200;

/// A cluster's own account at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Books {
    /// What the script is doing.
    pub(super) scene: String,
    /// The script has come to its end.
    pub(super) finished: bool,
    /// Pods that were made.
    pub(super) created: u64,
    /// Pods that ran.
    pub(super) ran: u64,
    /// Pods that were evicted, or not wanted any more, before they ran; their workload made others.
    pub(super) withdrawn: u64,
    /// Pods that run at this moment.
    pub(super) running: usize,
    /// Pods that exist and have not run yet.
    pub(super) waiting: usize,
    /// Their names.
    pub(super) waiting_names: Vec<String>,
    /// Nodes that joined.
    pub(super) joined: u64,
    /// Nodes that were removed.
    pub(super) removed: u64,
    /// Nodes that are there.
    pub(super) nodes: usize,
    /// Nodes that hold nothing but DaemonSet pods.
    pub(super) empty_nodes: Vec<String>,
    /// The longest that a pod waited before it ran.
    pub(super) longest_wait_ms: i64,
}

impl Books {
    /// What `cluster` says of itself.
    pub(super) fn of(cluster: &SimulatedCluster, scene: &str, finished: bool) -> Self {
        let book = cluster.book();
        Self {
            scene: scene.to_owned(),
            finished,
            created: book.pods_created,
            ran: book.pods_ran,
            withdrawn: book.withdrawn(),
            running: cluster.pods().filter(|pod| pod.daemon.is_none() && pod.phase == PodPhase::Running).count(),
            waiting: book.never_ran().count(),
            waiting_names: book.never_ran().take(NAMES_MAX).map(ToString::to_string).collect(),
            joined: book.nodes_joined,
            removed: book.nodes_removed,
            nodes: cluster.nodes().count(),
            empty_nodes: cluster.empty_nodes().take(NAMES_MAX).map(ToString::to_string).collect(),
            longest_wait_ms: book.longest_wait_ms,
        }
    }
}
