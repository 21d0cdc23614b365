//! The realised cost: what a plan ends at when kube-scheduler binds its pods by its default scores.
//!
//! It depends on the order in which pods are tried and nodes become ready, which nobody knows in
//! advance. The plan is therefore carried out in three seeded orders that differ most in how nodes
//! join, and the realised cost is the mean: what launches of this kind cost on average. It is never
//! below the planned cost, and equal to it when pods carry nominations.
//!
//! It takes about as long as the plan itself, so a plan without a search is made without it: that of
//! a server in its hot path, which nominates its pods, and that of `plan --search 0`.

use binding::{Joining, Order, Steps, realise};
use model::MicroUsd;
use model::input::PlanningInput;
use model::plan::Plan;
use scheduler::{CompileCache, PackingMethod, schedule_by};

/// How nodes join in each of the orders.
const ORDERS: [Joining; 3] = [Joining::Together, Joining::InGroups, Joining::OneByOne];

/// Limit on the work of all orders: more than three times what 10,000 pods on 400 nodes need. A
/// step takes about 10 nanoseconds.
const MAX_STEPS: u64 = 50_000_000;

/// The realised cost for the report of `plan`: with nominations the planned cost, otherwise computed
/// if the policy has a search.
pub(crate) fn reported_cost(input: &PlanningInput, plan: &Plan, cache: &mut CompileCache) -> Option<MicroUsd> {
    if input.policy.nominations || input.policy.search_steps > 0 { realised_cost(input, plan, cache) } else { None }
}

/// The realised cost of `plan`, by the seed of the policy; `None` for an input that takes too many
/// steps. Pods left over are placed by a single packing, which is not checked.
pub fn realised_cost(input: &PlanningInput, plan: &Plan, cache: &mut CompileCache) -> Option<MicroUsd> {
    if input.policy.nominations || plan.nodes.is_empty() && plan.placements.is_empty() {
        return Some(planned_cost(plan));
    }
    let mut replan = |cluster: &PlanningInput| schedule_by(cluster, PackingMethod::Full, cache).plan;
    let mut steps = Steps::new(MAX_STEPS);
    let mut sum = 0_i64;
    for (number, joining) in (0..).zip(ORDERS) {
        let order = Order { seed: input.policy.seed.wrapping_add(number), joining };
        let realised = realise(input, plan, order, &mut replan, &mut steps)?;
        sum = sum.saturating_add(realised.cost.0);
    }
    // A mean of amounts that are not below the planned cost, rounded down, is not below it either.
    Some(MicroUsd(sum / 3))
}

/// Hourly cost of the nodes of `plan`, static nodes excluded.
pub(crate) fn planned_cost(plan: &Plan) -> MicroUsd {
    MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum())
}
