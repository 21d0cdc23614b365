//! Machines that a method selected, divided by the budgets of NodePools and of the cluster.

use std::collections::BTreeMap;

use super::facts::PoolNodes;
use model::disruption_policy::DisruptionReason;
use model::removal::ClusterBudget;
use model::{DisruptionPolicy, PoolName, Timestamp};

/// Selected machines, divided by the budgets.
#[derive(Debug)]
pub(crate) struct Budgeted<T> {
    /// Those that may leave now, by NodePool, and in each in the order of the selection.
    pub allowed: Vec<T>,
    /// Number of those that budgets hold back, by NodePool.
    pub held: BTreeMap<PoolName, usize>,
}

/// The machines of a NodePool that a method selected, and what its budgets are applied to.
#[derive(Debug)]
pub(crate) struct PoolSelection<'p, T> {
    pub policy: &'p DisruptionPolicy,
    pub nodes: PoolNodes,
    pub selected: Vec<T>,
}

/// Divides the selected machines of `pools` by the budgets of each, and by `in_cluster`, the number that the budget
/// of the cluster allows.
pub(crate) fn divide<T>(
    pools: BTreeMap<&PoolName, PoolSelection<'_, T>>,
    mut in_cluster: usize,
    reason: DisruptionReason,
    now: Timestamp,
) -> Budgeted<T> {
    let mut budgeted = Budgeted { allowed: Vec::new(), held: BTreeMap::new() };
    for (pool, PoolSelection { policy, nodes, selected }) in pools {
        let allowed = policy.allowance(reason, nodes.total, nodes.unavailable_for(reason), now);
        let allowed = allowed.min(in_cluster).min(selected.len());
        in_cluster -= allowed;
        let held = selected.len() - allowed;
        if held > 0 {
            budgeted.held.insert(pool.clone(), held);
        }
        budgeted.allowed.extend(selected.into_iter().take(allowed));
    }
    budgeted
}

/// How many further nodes of a cluster `budget` allows to be removed for `reason`.
pub(crate) fn allowance_in_cluster(budget: Option<&ClusterBudget>, reason: DisruptionReason) -> usize {
    let Some(ClusterBudget { limit, total, unavailable, not_ready }) = budget else { return usize::MAX };
    let nodes = PoolNodes { total: *total, unavailable: *unavailable, not_ready: *not_ready };
    limit.of(nodes.total).saturating_sub(nodes.unavailable_for(reason))
}
