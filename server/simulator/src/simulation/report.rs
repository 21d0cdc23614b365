//! How a run went, by the books of cloud and clusters, not by what the controller believes.

use std::collections::BTreeSet;
use std::fmt;

use engine::cluster::PodKey;
use engine::control::ClusterId;
use engine::model::{MicroUsd, Text, Timestamp};

use super::{Simulation, Violation};

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// When it ended.
    pub ended: Timestamp,
    /// Decisions that were recorded.
    pub decisions: u64,
    /// Pods that were made, those of DaemonSets apart.
    pub pods_created: u64,
    /// Pods that ran.
    pub pods_ran: u64,
    /// Pods that exist and never ran.
    pub never_ran: Vec<(ClusterId, PodKey)>,
    /// The longest time from a pod's making to its running, in milliseconds.
    pub longest_wait_ms: i64,
    /// Machines that were sold.
    pub sold: usize,
    /// Machines that were taken back.
    pub interrupted: usize,
    /// Launches that found no capacity.
    pub refused: u64,
    /// Calls to the cloud that came too often.
    pub throttled: u64,
    /// Answers of the cloud that got lost.
    pub answers_lost: u64,
    /// Machines that are still paid for.
    pub alive: usize,
    /// Nodes that hold nothing but DaemonSet pods at the end.
    pub empty_nodes: Vec<(ClusterId, Text)>,
    /// What all machines have cost.
    pub spent: MicroUsd,
    /// What must never be, and was.
    pub violations: BTreeSet<Violation>,
}

impl Report {
    /// Whether every pod ran, every empty node was removed, and nothing happened that must never be.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.never_ran.is_empty() && self.empty_nodes.is_empty() && self.violations.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ended at {} ms after {} decisions", self.ended.0, self.decisions)?;
        writeln!(
            f,
            "pods: {} made, {} ran, longest wait {} ms",
            self.pods_created, self.pods_ran, self.longest_wait_ms
        )?;
        writeln!(
            f,
            "machines: {} sold, {} taken back, {} left, ${} spent",
            self.sold, self.interrupted, self.alive, self.spent
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
            writeln!(f, "must never be: {violation}")?;
        }
        Ok(())
    }
}

impl Simulation {
    pub(super) fn report(&self) -> Report {
        let books = || self.clusters.values().map(|scene| scene.cluster.book());
        let book = self.cloud.book();
        let mut violations = self.violations.clone();
        violations.extend(self.leaked());
        let never_ran = self
            .clusters
            .iter()
            .flat_map(|(name, scene)| scene.cluster.book().never_ran().map(|pod| (name.clone(), pod.clone())));
        let empty = self
            .clusters
            .iter()
            .flat_map(|(name, scene)| scene.cluster.empty_nodes().map(|node| (name.clone(), node.clone())));
        Report {
            ended: self.now,
            decisions: self.decisions,
            pods_created: books().map(|book| book.pods_created).sum(),
            pods_ran: books().map(|book| book.pods_ran).sum(),
            never_ran: never_ran.collect(),
            longest_wait_ms: books().map(|book| book.longest_wait_ms).max().unwrap_or(0),
            sold: book.sold(),
            interrupted: book.interrupted(),
            refused: book.refused,
            throttled: book.throttled,
            answers_lost: book.answers_lost,
            alive: book.alive().count(),
            empty_nodes: empty.collect(),
            spent: book.spent(self.now),
            violations,
        }
    }
}
