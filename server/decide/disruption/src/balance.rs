//! The consolidation policy `Balanced`: a node goes only where the saving is worth the disruption (Karpenter:
//! balanced consolidation).

use std::collections::BTreeMap;

use model::eviction_cost::{UNIT, eviction_cost};
use model::input::PlanningInput;
use model::removal::RemovalReason;
use model::{ConsolidationPolicy, MicroUsd, PoolName};

use crate::candidates::Candidate;
use crate::{Block, BlockCode};

/// The score that approves a removal is one over this number.
const K: i128 = 2;

/// Price per hour and disruption cost, of a NodePool or of nodes that go together.
#[derive(Debug, Clone, Copy, Default)]
struct PriceAndDisruption {
    price: i128,
    disruption: i128,
}

/// The NodePools with the policy, as they run.
#[derive(Debug)]
pub(crate) struct Balance<'i> {
    input: &'i PlanningInput,
    pools: BTreeMap<&'i PoolName, PriceAndDisruption>,
}

impl<'i> Balance<'i> {
    pub(crate) fn new(input: &'i PlanningInput, candidates: &[Option<Candidate<'i>>]) -> Self {
        let mut balance = Self { input, pools: BTreeMap::new() };
        let balanced = |candidate: &&Candidate<'_>| candidate.policy.policy == ConsolidationPolicy::Balanced;
        for candidate in candidates.iter().flatten().filter(balanced) {
            let share = balance.share_of(candidate);
            let pool = balance.pools.entry(&candidate.pool.name).or_default();
            pool.price += share.price;
            pool.disruption += share.disruption;
        }
        balance
    }

    fn share_of(&self, candidate: &Candidate<'_>) -> PriceAndDisruption {
        let costs = candidate.node.pods.iter().filter_map(|pod| {
            let priority = self.input.shapes[pod.pod.as_ref()?.shape as usize].priority;
            Some(eviction_cost(pod.stated_cost, priority).max(0))
        });
        PriceAndDisruption { price: i128::from(candidate.node.price.0), disruption: UNIT + costs.sum::<i128>() }
    }

    /// What blocks nodes that would go together and save `saved`: a NodePool with the policy whose part of the
    /// saving is too small. The saving is divided by the prices of the nodes.
    pub(crate) fn block(&self, nodes: &[&Candidate<'i>], saved: MicroUsd) -> Option<Block> {
        if self.pools.is_empty() {
            return None;
        }
        let all: i128 = nodes.iter().map(|candidate| i128::from(candidate.node.price.0)).sum();
        let mut moved: BTreeMap<&PoolName, PriceAndDisruption> = BTreeMap::new();
        for candidate in nodes {
            let share = self.share_of(candidate);
            let of_pool = moved.entry(&candidate.pool.name).or_default();
            of_pool.price += share.price;
            of_pool.disruption += share.disruption;
        }
        let refuses = |(name, share): &(&PoolName, PriceAndDisruption)| {
            let Some(pool) = self.pools.get(name) else { return false };
            // score = (saved × share.price / all / pool.price) / (share.disruption / pool.disruption) ≥ 1 / K
            let benefit = K * i128::from(saved.0) * share.price / all.max(1) * pool.disruption;
            benefit < pool.price * share.disruption || benefit <= 0
        };
        let (pool, _) = moved.into_iter().find(refuses)?;
        let message = format!(
            "has consolidationPolicy: Balanced, and ${saved} an hour is too little for the pods that would be moved"
        );
        Some(Block::new(BlockCode::Policy, format!("NodePool/{pool}"), message))
    }

    /// As [`Balance::block`], for one node.
    pub(crate) fn block_of_node(&self, candidate: &Candidate<'i>, saved: MicroUsd) -> Option<Block> {
        self.block(&[candidate], saved).filter(|_| candidate.may_go(RemovalReason::Underutilized))
    }
}
