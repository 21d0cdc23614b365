//! Static scale-down: removes machines of a static NodePool beyond its `replicas` (Karpenter: static capacity,
//! deprovisioning).
//!
//! Neither budgets nor PodDisruptionBudgets nor do-not-disrupt hold it, as an operator asked for fewer
//! machines. It takes machines first that nobody misses: those that are not launched, then those without
//! pods, then those whose pods cost least to move.

use std::collections::BTreeMap;

use crate::disruption::candidates::protections_of;
use crate::disruption::method::{DisruptionView, Method};
use crate::disruption::selection::{
    RankedMachine, SelectionFacts, SelectionInput, SurplusMachines, SurplusPool, surplus,
};
use cluster::{ClaimRecord, PodRecord};
use model::PoolName;
use model::eviction_cost::eviction_cost;
use model::removal::RemovalReason;

#[derive(Debug)]
pub(crate) struct StaticScaleDown;

impl Method for StaticScaleDown {
    fn reason(&self) -> RemovalReason {
        RemovalReason::Surplus
    }

    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput {
        let mut facts = SurplusMachines::default();
        for (pool, claims) in claims_by_static_pool(view) {
            let replicas = view.state.pool(pool).and_then(|record| record.pool.replicas).unwrap_or(i64::MAX);
            if surplus(claims.len(), replicas) > 0 {
                let machines = claims.into_iter().map(|claim| ranked(claim, view)).collect();
                facts.pools.insert(pool.clone(), SurplusPool { replicas, machines });
            }
        }
        self.input(view, SelectionFacts::Surplus(facts))
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

fn ranked(claim: &ClaimRecord, view: &DisruptionView<'_>) -> RankedMachine {
    let node = view.state.node_of_claim(&claim.name);
    let pods: Vec<&PodRecord> = node.into_iter().flat_map(|node| view.state.pods_on(&node.name)).collect();
    let moved = || pods.iter().filter(|pod| pod.is_reschedulable());
    RankedMachine {
        machine: view.machine(&claim.name),
        is_launched: claim.is_launched(),
        created: claim.created,
        expire_after: claim.expire_after,
        protections: node.map(|node| protections_of(node, view.state)).unwrap_or_default(),
        has_pods: moved().next().is_some(),
        cost: moved().map(|pod| eviction_cost(pod.stated_cost, pod.shape.priority)).sum(),
    }
}

#[cfg(test)]
mod tests;
