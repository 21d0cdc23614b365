//! Static scale-down: removes machines of a static NodePool beyond its `replicas` (Karpenter: static capacity,
//! deprovisioning).
//!
//! Neither budgets nor PodDisruptionBudgets nor do-not-disrupt hold it, as an operator asked for fewer
//! machines. It takes machines first that nobody misses: those that are not launched, then those without
//! pods, then those whose pods cost least to move.

use std::collections::BTreeMap;

use crate::MethodReason;
use crate::cluster::{ClaimRecord, PodRecord};
use crate::disruption::method::{DisruptionView, Method, Selection};
use crate::nodeclaim::DrainTerms;
use model::eviction_cost::eviction_cost;
use model::removal::RemovalReason;
use model::{PoolName, Timestamp};

/// The reason of its decisions.
pub const STATIC_SCALE_DOWN: MethodReason =
    MethodReason { kind: "static-scale-down", summary: "more than replicas", removal: RemovalReason::Surplus };

/// The method.
#[derive(Debug)]
pub(crate) struct StaticScaleDown;

impl Method for StaticScaleDown {
    fn reason(&self) -> MethodReason {
        STATIC_SCALE_DOWN
    }

    fn select(&self, view: &DisruptionView<'_>) -> Selection {
        let mut selection = Selection::default();
        for (pool, mut claims) in claims_by_static_pool(view) {
            let replicas = view.state.pool(pool).and_then(|record| record.pool.replicas).unwrap_or(i64::MAX);
            let surplus = claims.len().saturating_sub(usize::try_from(replicas).unwrap_or(0));
            claims.sort_by_cached_key(|claim| (rank(claim, view), &claim.name));
            let reason = format!("NodePool {pool} has more machines than its replicas, {replicas}");
            let removals = claims.into_iter().take(surplus).map(|claim| view.removal(&claim.name, reason.as_str()));
            selection.removals.extend(removals);
        }
        selection
    }

    fn drain_terms(&self, _view: &DisruptionView<'_>) -> DrainTerms {
        DrainTerms::default()
    }
}

/// The NodeClaims of this server that stay so far, of each managed static NodePool.
fn claims_by_static_pool<'v>(view: &DisruptionView<'v>) -> BTreeMap<&'v PoolName, Vec<&'v ClaimRecord>> {
    let state = view.state;
    let is_static = |pool: &PoolName| {
        state.pool(pool).is_some_and(|pool| pool.pool.replicas.is_some() && state.unmanaged_reason(pool).is_none())
    };
    let mut pools: BTreeMap<&PoolName, Vec<&ClaimRecord>> = BTreeMap::new();
    for claim in state.claims().filter(|claim| claim.ours && is_static(&claim.pool)) {
        // A machine that is being replaced is more than `replicas` on purpose.
        if !view.is_leaving(claim) && state.replacement_of(&claim.name).is_none() {
            pools.entry(&claim.pool).or_default().push(claim);
        }
    }
    pools
}

/// How much a machine is missed, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    NotLaunched,
    /// Without pods that run elsewhere again, and without active do-not-disrupt.
    Empty,
    InUse {
        is_protected: bool,
        /// Sum of the costs of evicting its pods, by the part of its lifetime that is left.
        cost: i128,
    },
}

fn rank(claim: &ClaimRecord, view: &DisruptionView<'_>) -> Rank {
    if claim.provider_id.is_empty() {
        return Rank::NotLaunched;
    }
    let node = view.state.node_of_claim(&claim.name);
    let pods: Vec<&PodRecord> = node.into_iter().flat_map(|node| view.state.pods_on(&node.name)).collect();
    let is_protected = node.is_some_and(|node| node.blocks_disruption(view.now))
        || pods.iter().any(|pod| pod.blocks_disruption(view.now));
    let mut moved = pods.iter().filter(|pod| pod.is_reschedulable()).peekable();
    if moved.peek().is_none() && !is_protected {
        return Rank::Empty;
    }
    let cost: i128 = moved.map(|pod| eviction_cost(pod.stated_cost, pod.shape.priority)).sum();
    Rank::InUse { is_protected, cost: cost * i128::from(lifetime_left_per_mille(claim, view.now)) / 1_000 }
}

/// All of it for a NodeClaim that never expires.
fn lifetime_left_per_mille(claim: &ClaimRecord, now: Timestamp) -> i64 {
    let (Some(created), Some(lifetime)) = (claim.created, claim.expire_after) else { return 1_000 };
    let left = (lifetime - now.duration_since(created)).get();
    (left * 1_000 / lifetime.get().max(1)).clamp(0, 1_000)
}

#[cfg(test)]
mod tests;
