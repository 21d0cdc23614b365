//! How a run went.

use std::collections::BTreeSet;

use super::Simulation;
use super::fault::Counts;
use super::invariants::Violation;

/// How a run went, by the books of cloud and clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    /// When it ended, in milliseconds of virtual time.
    pub(crate) ended_ms: i64,
    pub(crate) steps: u64,
    /// Faults that took place.
    pub(crate) faults: Counts,
    /// Calls that felt one.
    pub(crate) felt: Counts,
    pub(crate) instructions: u64,
    pub(crate) sold: u64,
    pub(crate) pods_ran: u64,
    pub(crate) violations: BTreeSet<Violation>,
}

impl Report {
    /// Whether an invariant of this kind was broken.
    pub(crate) fn shows(&self, kind: &str) -> bool {
        self.violations.iter().any(|found| found.kind() == kind)
    }
}

impl Simulation {
    pub(super) fn report(self) -> Report {
        let cloud = self.stage.outside.cloud();
        Report {
            seed: self.seed,
            ended_ms: self.stage.now().0,
            steps: self.steps,
            faults: self.stage.faults.clone(),
            felt: self.stage.outside.books().felt.clone(),
            instructions: self.sites.iter().map(|site| site.book.instructions).sum(),
            sold: cloud.book().sold() as u64,
            pods_ran: self.sites.iter().map(|site| site.cluster.book().pods_ran).sum(),
            violations: self.violations.clone(),
        }
    }
}
