//! Selection of machines without pods.

use std::collections::BTreeMap;

use super::allowances::{Budgeted, PoolSelection, allowance_in_cluster, divide};
use super::facts::{MachineNames, PoolFacts, Protections};
use super::result::Selection;
use crate::Removal;
use model::disruption_policy::DisruptionReason;
use model::removal::ClusterBudget;
use model::{PoolName, Timestamp};

/// The candidates without pods, by name of the Node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmptyMachines {
    pub machines: Vec<EmptyMachine>,
    pub pools: BTreeMap<PoolName, PoolFacts>,
    pub cluster: Option<ClusterBudget>,
}

/// A candidate without pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyMachine {
    pub machine: MachineNames,
    pub protections: Protections,
    /// When a pod was bound to its Node or left it last.
    pub last_pod_event: Option<Timestamp>,
}

impl EmptyMachines {
    pub(super) fn select(&self, now: Timestamp) -> Selection {
        let mut selection = Selection::default();
        let mut due: BTreeMap<&PoolName, PoolSelection<'_, &EmptyMachine>> = BTreeMap::new();
        for one in &self.machines {
            let Some(pool) = self.pools.get(&one.machine.pool) else { continue };
            match one.removable_at(pool, now) {
                Some(at) if at <= now => {
                    let of_pool = || PoolSelection { policy: &pool.policy, nodes: pool.nodes, selected: Vec::new() };
                    due.entry(&one.machine.pool).or_insert_with(of_pool).selected.push(one);
                }
                later => selection.check_at(later),
            }
        }
        let reason = DisruptionReason::Empty;
        let in_cluster = allowance_in_cluster(self.cluster.as_ref(), reason);
        let Budgeted { allowed, held } = divide(due, in_cluster, reason, now);
        selection.removals = allowed.into_iter().map(|one| self.removal(one)).collect();
        selection.held_by_budget = held;
        selection
    }

    /// Number of those that may be removed now but for budgets.
    pub(super) fn eligible(&self, now: Timestamp) -> usize {
        let is_due = |one: &&EmptyMachine| {
            let pool = self.pools.get(&one.machine.pool);
            pool.and_then(|pool| one.removable_at(pool, now)).is_some_and(|at| at <= now)
        };
        self.machines.iter().filter(is_due).count()
    }

    fn removal(&self, one: &EmptyMachine) -> Removal {
        let MachineNames { node, pool, .. } = &one.machine;
        let wait = self.pools.get(pool).and_then(|pool| pool.policy.consolidate_after);
        let waited = wait.unwrap_or_default().as_secs();
        one.machine.removal(format!(
            "node {node} holds only DaemonSet pods and had no pod event for {waited} s, the consolidateAfter of NodePool {pool}"
        ))
    }
}

impl EmptyMachine {
    fn removable_at(&self, pool: &PoolFacts, now: Timestamp) -> Option<Timestamp> {
        if self.protections.is_protected(now) {
            return self.protections.next_end(now);
        }
        if pool.replicas.is_some() {
            return None;
        }
        pool.policy.consolidatable_from(self.last_pod_event?)
    }
}
