//! The realised cost: what a plan ends at when kube-scheduler binds its pods by its default scores.
//!
//! It depends on the order in which pods are tried and nodes become ready, which nobody knows in
//! advance. The plan is therefore carried out in three seeded orders that differ most in how nodes
//! join, and the realised cost is the mean: what launches of this kind cost on average. It is never
//! below the planned cost, and equal to it when pods carry nominations.
//!
//! It takes longer than the plan itself, so a plan without a search is made without it: that of
//! `plan --search 0`. A server nominates its pods, so that the realised cost of its plans is the
//! planned one, which takes no time. A search may call [`realised_cost`] for the few plans that it
//! chooses between.

use binding::{Joining, Order, Steps, realise};
use model::MicroUsd;
use model::input::PlanningInput;
use model::plan::Plan;
use scheduler::{CompileCache, PackingMethod, schedule_by};

/// How nodes join in each of the orders. The first is the one between the others, for inputs that
/// are too large for all three.
const ORDERS: [Joining; 3] = [Joining::InGroups, Joining::Together, Joining::OneByOne];

/// Limit on the work of all orders of all plans of a decision: 0.3 seconds, at 20 nanoseconds
/// for a step. It is more than 10,000 pods on 400 nodes need.
pub const MAX_STEPS: u64 = 16_000_000;

/// The realised cost for the report of one of `plans` plans between which a search chooses: with
/// nominations the planned cost, otherwise computed if the policy has a search. The plans share the
/// work, so that the same orders are counted for each.
pub(crate) fn reported_cost(
    input: &PlanningInput,
    plan: &Plan,
    plans: usize,
    cache: &mut CompileCache,
) -> Option<MicroUsd> {
    let part = MAX_STEPS / u64::try_from(plans.max(1)).unwrap_or(MAX_STEPS);
    let is_wanted = input.policy.nominations || input.policy.search_steps > 0;
    if is_wanted { realised_cost(input, plan, part, cache) } else { None }
}

/// The realised cost of `plan`, by the seed of the policy: the mean of the orders that `limit` steps
/// have room for; `None` if they have room for none. Pods left over are placed by a single packing,
/// which is not checked. A step takes about 20 nanoseconds.
pub fn realised_cost(input: &PlanningInput, plan: &Plan, limit: u64, cache: &mut CompileCache) -> Option<MicroUsd> {
    if input.policy.nominations || (plan.nodes.is_empty() && plan.placements.is_empty()) {
        return Some(planned_cost(plan));
    }
    let mut replan = |cluster: &PlanningInput| schedule_by(cluster, PackingMethod::Full, cache).plan;
    let mut steps = Steps::new(limit);
    let (mut sum, mut count) = (0_i64, 0);
    for (number, joining) in (0..).zip(ORDERS) {
        let order = Order { seed: input.policy.seed.wrapping_add(number), joining };
        let Some(realised) = realise(input, plan, order, &mut replan, &mut steps) else { break };
        sum = sum.saturating_add(realised.cost.0);
        count += 1;
    }
    // The mean of amounts that are not below the planned cost, rounded down, is not below it either.
    sum.checked_div(count).map(MicroUsd)
}

/// Hourly cost of the nodes of `plan`, static nodes excluded.
pub(crate) fn planned_cost(plan: &Plan) -> MicroUsd {
    MicroUsd(plan.nodes.iter().map(|node| node.cost().0).sum())
}
