//! Report of a run, from the ledgers of cloud and clusters, not from the controller's state.

use std::collections::BTreeSet;
use std::fmt;

use engine::cluster::PodKey;
use engine::control::ClusterId;
use engine::model::{MicroUsd, Text, Timestamp};

use super::{Simulation, Violation};

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// End of the run.
    pub ended: Timestamp,
    /// Recorded decisions.
    pub decisions: u64,
    /// Pods created, without DaemonSet pods.
    pub pods_created: u64,
    /// Pods that started running.
    pub pods_ran: u64,
    /// Existing pods that never ran.
    pub never_ran: Vec<(ClusterId, PodKey)>,
    /// Longest time from a pod's creation to its running, in milliseconds.
    pub longest_wait_ms: i64,
    /// Instances launched.
    pub launched: usize,
    /// Spot instances interrupted.
    pub interrupted: usize,
    /// Launches that failed for insufficient capacity.
    pub refused: u64,
    /// Cloud calls that were throttled.
    pub throttled: u64,
    /// Answers of the cloud that were lost.
    pub answers_lost: u64,
    /// Instances that still run.
    pub active: usize,
    /// Nodes at the end without pods other than those of DaemonSets.
    pub empty_nodes: Vec<(ClusterId, Text)>,
    /// Cost of all instances.
    pub spent: MicroUsd,
    /// Violated invariants.
    pub violations: BTreeSet<Violation>,
}

impl Report {
    /// Whether every pod ran, every empty node was removed, and no invariant was violated.
    #[must_use]
    pub fn is_successful(&self) -> bool {
        self.never_ran.is_empty() && self.empty_nodes.is_empty() && self.violations.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ended at {} ms after {} decisions", self.ended.0, self.decisions)?;
        writeln!(
            f,
            "pods: {} created, {} ran, longest wait {} ms",
            self.pods_created, self.pods_ran, self.longest_wait_ms
        )?;
        writeln!(
            f,
            "instances: {} launched, {} interrupted, {} active, ${} spent",
            self.launched, self.interrupted, self.active, self.spent
        )?;
        writeln!(
            f,
            "cloud: {} without capacity, {} throttled, {} answers lost",
            self.refused, self.throttled, self.answers_lost
        )?;
        for (cluster, pod) in &self.never_ran {
            writeln!(f, "never ran: {pod} in {cluster}")?;
        }
        for (cluster, node) in &self.empty_nodes {
            writeln!(f, "still empty: {node} in {cluster}")?;
        }
        for violation in &self.violations {
            writeln!(f, "violated: {violation}")?;
        }
        Ok(())
    }
}

impl Simulation {
    pub(super) fn report(&self) -> Report {
        let ledgers = || self.clusters.values().map(|managed| managed.cluster.ledger());
        let ledger = self.cloud.ledger();
        // Leaks are checked only here: an instance may lack its NodeClaim for a moment during a run.
        let mut violations = self.violations.clone();
        violations.extend(self.leaked_instances());
        let never_ran = self
            .clusters
            .iter()
            .flat_map(|(name, managed)| managed.cluster.ledger().never_ran().map(|pod| (name.clone(), pod.clone())));
        let empty = self
            .clusters
            .iter()
            .flat_map(|(name, managed)| managed.cluster.empty_nodes().map(|node| (name.clone(), node.clone())));
        Report {
            ended: self.now,
            decisions: self.decisions,
            pods_created: ledgers().map(|ledger| ledger.pods_created).sum(),
            pods_ran: ledgers().map(|ledger| ledger.pods_ran).sum(),
            never_ran: never_ran.collect(),
            longest_wait_ms: ledgers().map(|ledger| ledger.longest_wait_ms).max().unwrap_or(0),
            launched: ledger.launched_count(),
            interrupted: ledger.interrupted(),
            refused: ledger.refused,
            throttled: ledger.throttled,
            answers_lost: ledger.answers_lost,
            active: ledger.active().count(),
            empty_nodes: empty.collect(),
            spent: ledger.spent(self.now),
            violations,
        }
    }
}
