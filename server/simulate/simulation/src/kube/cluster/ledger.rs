//! Ground truth of a cluster: which pods were created, ran and were removed; which nodes joined and
//! were removed.

use std::collections::{BTreeMap, BTreeSet};

use model::{Millis, NodeName, PodKey, ProviderId, Timestamp};

/// Moves of a pod are counted over a day.
const DAY: Millis = Millis::from_hours(24);

/// Counters and names since the start, without DaemonSet pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterLedger {
    pub pods_created: u64,
    pub pods_ran: u64,
    pub(crate) pods_evicted: u64,
    /// When pods were evicted, oldest first, and the moves of each within the day before, this one included.
    pub(crate) moves: Vec<(Timestamp, usize)>,
    /// Pods evicted although a PodDisruptionBudget allowed no disruption and no deadline had
    /// passed.
    pub(crate) budgets_violated: u64,
    /// When Nodes were tainted for their removal, by provider id.
    pub(crate) tainted: BTreeMap<ProviderId, Timestamp>,
    pub(crate) nodes_joined: u64,
    pub(crate) nodes_removed: u64,
    /// Longest time from creation to running, in milliseconds.
    pub longest_wait_ms: i64,
    /// Existing pods that have not run yet, with their creation time.
    not_run: BTreeMap<PodKey, Timestamp>,
    /// Pods removed before they ran.
    withdrawn: u64,
    nodes: BTreeSet<NodeName>,
}

impl ClusterLedger {
    pub(super) fn record_created(&mut self, pod: &PodKey, at: Timestamp) {
        self.pods_created += 1;
        self.not_run.insert(pod.clone(), at);
    }

    pub(super) fn record_running(&mut self, pod: &PodKey, at: Timestamp) {
        if let Some(made) = self.not_run.remove(pod) {
            self.pods_ran += 1;
            self.longest_wait_ms = self.longest_wait_ms.max(at.duration_since(made).get());
        }
    }

    /// Records an eviction; `earlier` are those of the pods that this one succeeds.
    pub(super) fn record_move(&mut self, earlier: &[Timestamp], at: Timestamp) {
        self.pods_evicted += 1;
        let of_day = earlier.iter().filter(|earlier| at.duration_since(**earlier) < DAY).count();
        self.moves.push((at, of_day + 1));
    }

    pub(super) fn record_removed(&mut self, pod: &PodKey) {
        if self.not_run.remove(pod).is_some() {
            self.withdrawn += 1;
        }
    }

    pub(super) fn record_node_joined(&mut self, node: &NodeName) {
        self.nodes_joined += 1;
        self.nodes.insert(node.clone());
    }

    pub(super) fn record_node_removed(&mut self, node: &NodeName) {
        if self.nodes.remove(node) {
            self.nodes_removed += 1;
        }
    }

    /// Existing pods that have not run yet, by namespace and name.
    pub(crate) fn never_ran(&self) -> impl Iterator<Item = &PodKey> {
        self.not_run.keys()
    }

    /// Pods removed, by their workload or with their node, before they ran.
    #[must_use]
    pub fn withdrawn(&self) -> u64 {
        self.withdrawn
    }
}
