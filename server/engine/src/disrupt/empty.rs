//! Nodes that hold nothing but DaemonSet pods (Karpenter: emptiness).
//!
//! A node goes when it is in service, nobody is expected on it, nothing on it refuses disruption, its NodePool's
//! `consolidateAfter` has passed since the last pod event, and the pool's budgets allow it. Whatever the pool's
//! consolidation policy says, empty nodes go.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::assignments::Target;
use crate::cluster::{ClusterState, DisruptionReason, NodeRecord, PodRecord, PoolRecord};
use crate::control::Removal;
use crate::model::{Text, Timestamp};

/// What a look at the nodes found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmptyNodes {
    /// Machines that may go, by NodePool and node.
    pub removals: Vec<Removal>,
    /// When a node that is empty already will have waited long enough, if one has not yet.
    pub again: Option<Timestamp>,
    /// Empty nodes that a budget keeps.
    pub held: usize,
    /// How many of each NodePool.
    pub held_pools: BTreeMap<Text, usize>,
}

/// The machines that may go at `now`. `proposed` are NodeClaims whose removal is decided and not under way yet: they are
/// not named again and count against budgets.
#[must_use]
pub fn empty_nodes(state: &ClusterState, proposed: &BTreeSet<Text>, now: Timestamp) -> EmptyNodes {
    let promised = promised_nodes(state);
    let mut found = EmptyNodes::default();
    let mut by_pool: BTreeMap<Text, PoolNodes<'_>> = BTreeMap::new();
    for node in state.nodes().filter(|node| node.is_initialized()) {
        let Some(claim) = state.claim_of_node(node).filter(|claim| claim.ours) else { continue };
        let Some(pool) = state.pool(&claim.pool).filter(|pool| state.left_to_others(pool).is_none()) else { continue };
        let nodes = by_pool.entry(claim.pool.clone()).or_default();
        let going = state.is_going_node(&node.name) || proposed.contains(&claim.name);
        nodes.total += 1;
        nodes.gone += usize::from(going || !node.ready);
        if going || promised.contains(&node.name) || !is_empty(state, node, now) {
            continue;
        }
        match due(state, pool, node) {
            Some(due) if due <= now => nodes.empty.push((node, &claim.name)),
            Some(due) => found.again = Some(found.again.map_or(due, |again| again.min(due))),
            None => {}
        }
    }
    for (pool, nodes) in by_pool {
        let Some(record) = state.pool(&pool) else { continue };
        let allowed = record.life.allowance(DisruptionReason::Empty, nodes.total, nodes.gone, now);
        let held = nodes.empty.len().saturating_sub(allowed);
        found.held += held;
        if held > 0 {
            found.held_pools.insert(pool.clone(), held);
        }
        let may_go = nodes.empty.iter().take(allowed);
        found.removals.extend(may_go.map(|(node, claim)| removal(node, claim, record)));
    }
    found
}

/// The nodes of one pool.
#[derive(Default)]
struct PoolNodes<'s> {
    total: usize,
    gone: usize,
    /// Node and NodeClaim.
    empty: Vec<(&'s NodeRecord, &'s Text)>,
}

fn promised_nodes(state: &ClusterState) -> BTreeSet<Text> {
    let name = |target: &Target| match target {
        Target::Node(node) => Some(node.clone()),
        Target::Claim(claim) => state.node_of_claim(claim).map(|node| node.name.clone()),
    };
    let nominated = state.nominated_pods().filter_map(|pod| state.nominated_node(pod).cloned());
    state.promises.targets().filter_map(name).chain(nominated).collect()
}

fn is_empty(state: &ClusterState, node: &NodeRecord, now: Timestamp) -> bool {
    let kept = |pod: &PodRecord| pod.is_reschedulable() || pod.refuses_disruption(now);
    !node.do_not_disrupt && !state.pods_on(&node.name).any(kept)
}

fn due(state: &ClusterState, pool: &PoolRecord, node: &NodeRecord) -> Option<Timestamp> {
    if pool.pool.replicas.is_some() {
        return None;
    }
    pool.life.consolidatable_from(state.quiet_since(&node.name)?)
}

fn removal(node: &NodeRecord, claim: &Text, pool: &PoolRecord) -> Removal {
    let waited = pool.life.consolidate_after_ms.unwrap_or(0) / 1000;
    let reason = format!(
        "node {} holds only DaemonSet pods and had no pod event for {waited} s, the consolidateAfter of NodePool {}",
        node.name, pool.pool.name
    );
    Removal { claim: claim.clone(), node: node.name.clone(), reason: Text::from(reason) }
}

#[cfg(test)]
mod tests;
