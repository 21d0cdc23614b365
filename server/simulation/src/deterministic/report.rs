//! Report of a run.

use std::collections::BTreeSet;

use super::Simulation;
use super::fault::FaultCounts;
use super::invariants::Violation;

/// Report of a run, from the ledgers of cloud and clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub seed: u64,
    /// Virtual duration in milliseconds.
    pub ended_ms: i64,
    pub steps: u64,
    /// Injected faults by kind.
    pub faults: FaultCounts,
    /// Calls that a fault affected, by effect.
    pub effects: FaultCounts,
    pub instructions: u64,
    pub launched: u64,
    pub pods_ran: u64,
    pub violations: BTreeSet<Violation>,
}

impl Report {
    /// Whether this invariant was broken.
    pub(crate) fn violates(&self, kind: &str) -> bool {
        self.violations.iter().any(|found| found.kind() == kind)
    }
}

impl Simulation {
    pub(super) fn report(self) -> Report {
        let cloud = self.events.environment.cloud();
        Report {
            seed: self.seed,
            ended_ms: self.events.now().as_millis(),
            steps: self.steps,
            faults: self.events.faults.clone(),
            effects: self.events.environment.ledger().effects.clone(),
            instructions: self.sim_clusters.iter().map(|sim_cluster| sim_cluster.ledger.instructions).sum(),
            launched: cloud.ledger().launched_count() as u64,
            pods_ran: self.sim_clusters.iter().map(|sim_cluster| sim_cluster.cluster.ledger().pods_ran).sum(),
            violations: self.violations.clone(),
        }
    }
}
