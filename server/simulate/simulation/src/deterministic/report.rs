//! Report of a run.

use std::collections::BTreeSet;

use super::fault::FaultCounts;
use super::violation::Violation;

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
    pub(crate) fn violates(&self, kind: &str) -> bool {
        self.violations.iter().any(|found| found.kind() == kind)
    }
}
