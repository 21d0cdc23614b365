//! Selection of unhealthy machines, which are removed at once.

use std::collections::BTreeMap;

use super::facts::MachineNames;
use super::result::{BlockedRepair, Selection};
use model::repair_policy;
use model::{Millis, PoolName, Text, Timestamp};

/// When blocked repairs are evaluated again.
const BLOCKED_RETRY: Millis = Millis::from_mins(5);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnhealthyMachines {
    pub pools: BTreeMap<PoolName, UnhealthyPool>,
}

/// The unhealthy machines of a NodePool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnhealthyPool {
    pub nodes: usize,
    /// The unhealthy ones, by name of the Node. Those that leave already count too: they say as much about
    /// the cause.
    pub machines: Vec<UnhealthyMachine>,
}

/// A machine whose Node has a condition that matches a repair policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnhealthyMachine {
    pub machine: MachineNames,
    /// Its condition, as a sentence.
    pub why: Text,
    /// When the condition has lasted for the toleration of the policy.
    pub due: Timestamp,
    /// Whether it stays so far and may be repaired.
    pub is_repairable: bool,
}

impl UnhealthyMachines {
    pub(super) fn select(&self, now: Timestamp) -> Selection {
        let mut selection = Selection::default();
        for (pool, UnhealthyPool { nodes, machines }) in &self.pools {
            let due = |one: &&UnhealthyMachine| one.due <= now && one.is_repairable;
            selection.check_at(machines.iter().map(|one| one.due).filter(|due| *due > now).min());
            if !repair_policy::is_blocked(machines.len(), *nodes) {
                let removals = machines.iter().filter(due).map(|one| one.machine.removal(one.why.clone()));
                selection.removals.extend(removals);
            } else if machines.iter().any(|one| due(&one)) {
                selection.check_at(Some(now + BLOCKED_RETRY));
                let blocked = BlockedRepair { unhealthy: machines.len(), nodes: *nodes };
                selection.blocked_repairs.insert(pool.clone(), blocked);
            }
        }
        selection
    }
}
