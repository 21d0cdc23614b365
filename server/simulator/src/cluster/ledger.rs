//! What really happened in a cluster: which pods were made, ran, and went; which nodes came and went.

use std::collections::{BTreeMap, BTreeSet};

use engine::cluster::PodKey;
use engine::control::{EventOrder, ObjectRef, StatusOrder, StatusPatch};
use engine::model::{Text, Timestamp};

/// Counts and names, kept from the first moment on. DaemonSet pods are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterLedger {
    /// Pods that were made.
    pub pods_created: u64,
    /// Pods that ran.
    pub pods_ran: u64,
    /// Pods that were evicted.
    pub pods_evicted: u64,
    /// Pods that were evicted although a PodDisruptionBudget had nothing to spare and no deadline was over.
    pub budgets_broken: u64,
    /// Nodes that joined.
    pub nodes_joined: u64,
    /// Nodes that were removed.
    pub nodes_removed: u64,
    /// Milliseconds from making to running, summed over the pods that ran.
    pub waited_ms: i64,
    /// The longest of them.
    pub longest_wait_ms: i64,
    /// Pods that exist and have not run yet, with the moment they were made.
    not_run: BTreeMap<PodKey, Timestamp>,
    /// Pods that were taken away before they ran.
    withdrawn: u64,
    /// Nodes that are there.
    nodes: BTreeSet<Text>,
    /// What stands in the status of objects.
    statuses: BTreeMap<ObjectRef, StatusPatch>,
    /// Statuses that were written.
    pub statuses_written: u64,
    /// Events, by reason.
    events: BTreeMap<&'static str, u64>,
}

impl ClusterLedger {
    pub(super) fn made(&mut self, pod: &PodKey, at: Timestamp) {
        self.pods_created += 1;
        self.not_run.insert(pod.clone(), at);
    }

    pub(super) fn ran(&mut self, pod: &PodKey, at: Timestamp) {
        if let Some(made) = self.not_run.remove(pod) {
            let waited = at.millis_since(made);
            self.pods_ran += 1;
            self.waited_ms = self.waited_ms.saturating_add(waited);
            self.longest_wait_ms = self.longest_wait_ms.max(waited);
        }
    }

    pub(super) fn gone(&mut self, pod: &PodKey) {
        if self.not_run.remove(pod).is_some() {
            self.withdrawn += 1;
        }
    }

    pub(super) fn joined(&mut self, node: &Text) {
        self.nodes_joined += 1;
        self.nodes.insert(node.clone());
    }

    pub(super) fn left(&mut self, node: &Text) {
        if self.nodes.remove(node) {
            self.nodes_removed += 1;
        }
    }

    pub(super) fn note_status(&mut self, order: &StatusOrder) {
        self.statuses_written += 1;
        self.statuses.insert(order.subject.clone(), order.content.clone());
    }

    pub(super) fn note_event(&mut self, order: &EventOrder) {
        *self.events.entry(order.reason).or_default() += 1;
    }

    /// What stands in the status of an object.
    #[must_use]
    pub fn status(&self, subject: &ObjectRef) -> Option<&StatusPatch> {
        self.statuses.get(subject)
    }

    /// How many events of that reason were told.
    #[must_use]
    pub fn events(&self, reason: &str) -> u64 {
        self.events.get(reason).copied().unwrap_or(0)
    }

    /// Pods that exist and have not run yet, by namespace and name.
    pub fn never_ran(&self) -> impl Iterator<Item = &PodKey> {
        self.not_run.keys()
    }

    /// Pods that were taken away by their workload, or their node, before they ran.
    #[must_use]
    pub fn withdrawn(&self) -> u64 {
        self.withdrawn
    }
}
