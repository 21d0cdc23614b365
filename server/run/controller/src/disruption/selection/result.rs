//! What a method selected.

use std::collections::BTreeMap;

use crate::Removal;
use model::{PoolName, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Machines that may be removed now.
    pub removals: Vec<Removal>,
    /// Machines that other capacity has to replace before they may be removed. One that is under way and
    /// neither here nor among `removals` stays.
    pub replacements: Vec<PlannedReplacement>,
    /// When the next machine may become removable.
    pub next_check: Option<Timestamp>,
    /// Number of machines that budgets hold back, by NodePool.
    pub held_by_budget: BTreeMap<PoolName, usize>,
    pub blocked_repairs: BTreeMap<PoolName, BlockedRepair>,
}

impl Selection {
    /// Has the method called again at `at`, unless it is called earlier.
    pub fn check_at(&mut self, at: Option<Timestamp>) {
        self.next_check = self.next_check.into_iter().chain(at).min();
    }
}

/// A machine to replace before it is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedReplacement {
    pub removal: Removal,
    /// Whether its pods are planned elsewhere now.
    pub moves_pods: bool,
}

/// A NodePool with too many unhealthy Nodes for a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockedRepair {
    pub unhealthy: usize,
    pub nodes: usize,
}
