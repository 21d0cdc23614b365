//! Disruption budgets and disruption windows of NodePools, and the budget of the cluster.

use model::disruption_policy::{Budget, BudgetLimit, DisruptionReason};
use model::removal::{ClusterBudget, RemovalInput, RemovalPool};
use model::{NodeStage, Timestamp};

use super::membership::Removed;
use super::violation::{RemovalFindings, RemovalRule};

/// Every removal of an initialized node uses the budget of its pool, forceful ones too; a voluntary
/// one must leave no more nodes unavailable than the budgets for its reason allow, and begins in a
/// window of the pool if the pool has any.
pub(super) fn check(input: &RemovalInput, removals: &[Removed<'_>], findings: &mut RemovalFindings) {
    for pool in &input.pools {
        let mut unavailable = pool.unavailable;
        let closed = !pool.windows.is_empty() && pool.windows.iter().all(|window| !window.contains(input.now));
        for removed in removals.iter().filter(|removed| removed.node.pool == pool.name) {
            let counts = matches!(removed.node.stage, NodeStage::Initialized | NodeStage::Deleting);
            unavailable += usize::from(counts);
            let Some(reason) = removed.voluntary_reason() else { continue };
            if closed {
                let message = format!("no disruption window of NodePool {} is open", pool.name);
                findings.report(RemovalRule::Budget, removed.node, message);
                continue;
            }
            let Some(allowed) = allowed_unavailable(pool, reason, input.now) else { continue };
            let unavailable = unavailable - not_counted(reason, pool.not_ready, unavailable);
            if unavailable > allowed {
                let message = format!(
                    "with it {unavailable} of {} nodes of NodePool {} are unavailable; its budgets allow {allowed} for \
                     {}",
                    pool.total,
                    pool.name,
                    reason.as_str()
                );
                findings.report(RemovalRule::Budget, removed.node, message);
            }
        }
    }
}

/// Every removal of an initialized node uses the budget of the cluster, whatever its NodePool; a
/// voluntary one must leave no more nodes unavailable than it allows.
pub(super) fn check_cluster(input: &RemovalInput, removals: &[Removed<'_>], findings: &mut RemovalFindings) {
    let Some(ClusterBudget { limit, total, mut unavailable, not_ready }) = input.cluster_budget else { return };
    let allowed = allowed_of(limit, total);
    for removed in removals {
        unavailable += usize::from(matches!(removed.node.stage, NodeStage::Initialized | NodeStage::Deleting));
        let Some(reason) = removed.voluntary_reason() else { continue };
        let unavailable = unavailable - not_counted(reason, not_ready, unavailable);
        if unavailable > allowed {
            let message = format!(
                "with it {unavailable} of {total} nodes of the cluster are unavailable; its budget allows {allowed}"
            );
            findings.report(RemovalRule::ClusterBudget, removed.node, message);
        }
    }
}

/// How many of the unavailable nodes do not count for `reason`: those that are only not ready do not hold a repair.
fn not_counted(reason: DisruptionReason, not_ready: usize, unavailable: usize) -> usize {
    if reason == DisruptionReason::Unhealthy { not_ready.min(unavailable) } else { 0 }
}

fn allowed_of(limit: BudgetLimit, total: usize) -> usize {
    match limit {
        BudgetLimit::Unreadable => 0,
        BudgetLimit::Nodes(nodes) => nodes as usize,
        BudgetLimit::Percent(percent) => (total * percent as usize).div_ceil(100),
    }
}

/// How many nodes of `pool` may be unavailable at once for `reason`: the smallest of its budgets
/// that apply; `None` when none applies.
fn allowed_unavailable(pool: &RemovalPool, reason: DisruptionReason, now: Timestamp) -> Option<usize> {
    pool.budgets.iter().filter_map(|budget| limit(budget, reason, pool.total, now)).min()
}

fn limit(budget: &Budget, reason: DisruptionReason, total: usize, now: Timestamp) -> Option<usize> {
    let concerned = budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason));
    let open = budget.window.as_ref().is_none_or(|window| window.contains(now));
    match budget.limit {
        // A budget that cannot be read stops every removal, whatever else it says.
        BudgetLimit::Unreadable => Some(0),
        _ if !concerned || !open => None,
        limit => Some(allowed_of(limit, total)),
    }
}
