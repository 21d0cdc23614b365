//! Nodes that have only DaemonSet pods (Karpenter: emptiness).
//!
//! A node is removed when it is initialized, no pod is assigned to it, no pod blocks its
//! disruption, its NodePool's `consolidateAfter` has passed since the last pod event, and the
//! pool's budgets allow it, under each consolidation policy.

use std::collections::{BTreeMap, BTreeSet};

use crate::Removal;
use crate::cluster::assignments::Target;
use crate::cluster::{ClusterState, NodeRecord, PodRecord, PoolRecord};
use model::disruption_policy::DisruptionReason;
use model::{ClaimName, NodeName, PoolName, Text, Timestamp};

/// Result of the pass for empty nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmptyNodes {
    /// Machines that may be removed, by NodePool and node.
    pub removals: Vec<Removal>,
    /// When the next empty node becomes consolidatable.
    pub next_check: Option<Timestamp>,
    /// Number of empty nodes that budgets hold back.
    pub held_by_budget: usize,
    /// The same for each NodePool.
    pub held_by_pool: BTreeMap<PoolName, usize>,
}

/// The machines that may be removed at `now`. `proposed` are NodeClaims whose removal is decided
/// and not durable: they are not selected again and count against budgets.
#[must_use]
pub fn empty_nodes(state: &ClusterState, proposed: &BTreeSet<ClaimName>, now: Timestamp) -> EmptyNodes {
    let assigned = assigned_nodes(state);
    let mut found = EmptyNodes::default();
    let mut by_pool: BTreeMap<PoolName, PoolNodes<'_>> = BTreeMap::new();
    // Every initialized node of a pool counts for its budgets, before any is selected.
    for node in state.nodes().filter(|node| node.is_initialized()) {
        let Some(claim) = state.claim_of_node(node).filter(|claim| claim.ours) else { continue };
        let Some(pool) = state.pool(&claim.pool).filter(|pool| state.unmanaged_reason(pool).is_none()) else {
            continue;
        };
        let nodes = by_pool.entry(claim.pool.clone()).or_default();
        let terminating = state.is_node_terminating(&node.name) || proposed.contains(&claim.name);
        nodes.total += 1;
        nodes.gone += usize::from(terminating || !node.ready);
        if terminating || assigned.contains(&node.name) || !is_empty(state, node, now) {
            continue;
        }
        match consolidatable_at(state, pool, node) {
            Some(due) if due <= now => nodes.empty.push((node, &claim.name)),
            Some(due) => found.next_check = Some(found.next_check.map_or(due, |again| again.min(due))),
            None => {}
        }
    }
    for (pool, nodes) in by_pool {
        let Some(record) = state.pool(&pool) else { continue };
        let allowed = record.disruption.allowance(DisruptionReason::Empty, nodes.total, nodes.gone, now);
        let held = nodes.empty.len().saturating_sub(allowed);
        found.held_by_budget += held;
        if held > 0 {
            found.held_by_pool.insert(pool.clone(), held);
        }
        let may_go = nodes.empty.iter().take(allowed);
        found.removals.extend(may_go.map(|(node, claim)| removal(node, claim, record)));
    }
    found
}

/// The nodes of one NodePool.
#[derive(Default)]
struct PoolNodes<'s> {
    total: usize,
    gone: usize,
    /// Empty nodes with their NodeClaim.
    empty: Vec<(&'s NodeRecord, &'s ClaimName)>,
}

fn assigned_nodes(state: &ClusterState) -> BTreeSet<NodeName> {
    let name = |target: &Target| match target {
        Target::Node(node) => Some(node.clone()),
        Target::Claim(claim) => state.node_of_claim(claim).map(|node| node.name.clone()),
    };
    let nominated = state.nominated_pods().filter_map(|pod| state.nominated_node(pod).cloned());
    state.assignments.targets().filter_map(name).chain(nominated).collect()
}

fn is_empty(state: &ClusterState, node: &NodeRecord, now: Timestamp) -> bool {
    let kept = |pod: &PodRecord| pod.is_reschedulable() || pod.blocks_disruption(now);
    !node.do_not_disrupt && !state.pods_on(&node.name).any(kept)
}

fn consolidatable_at(state: &ClusterState, pool: &PoolRecord, node: &NodeRecord) -> Option<Timestamp> {
    if pool.pool.replicas.is_some() {
        return None;
    }
    pool.disruption.consolidatable_from(state.last_pod_event(&node.name)?)
}

fn removal(node: &NodeRecord, claim: &ClaimName, pool: &PoolRecord) -> Removal {
    let waited = pool.disruption.consolidate_after.unwrap_or_default().as_secs();
    let reason = format!(
        "node {} holds only DaemonSet pods and had no pod event for {waited} s, the consolidateAfter of NodePool {}",
        node.name, pool.pool.name
    );
    Removal { claim: claim.clone(), node: node.name.clone(), reason: Text::from(reason) }
}

#[cfg(test)]
mod tests;
