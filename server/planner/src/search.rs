//! The search for plans that cost less than the first packing.
//!
//! Every plan that the scheduler's search leads to is judged by the verifier; one that violates a
//! rule is a scheduler bug, which is counted and reported, and the best plan so far goes out.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::MicroUsd;
use model::input::PlanningInput;
use model::plan::Plan;
use scheduler::bound::{lower_bound_with, sharper_bound};
use scheduler::{CompileCache, schedule_by_search};
use verifier::{Violation, check};

use crate::retry;

/// Distance from the lower bound at which the search ends, in thousandths of the cost.
const GAP_PER_MILLE: i128 = 1;

/// Plans whose costs differ by at most so many thousandths cost the same: of these, the one with
/// fewer nodes is taken (plan contract, Choice).
const EQUAL_PER_MILLE: i128 = 2;

/// The part of the steps for the lower bound.
const BOUND_PART: u64 = 4;

/// The smallest part of the steps with which the search begins once more.
const LEAST_PART: u64 = 8;

/// What the search found.
#[derive(Debug)]
pub(super) struct SearchResult {
    pub(super) plan: Plan,
    /// Lower bound on the cost of any plan for the pods that `plan` places.
    pub(super) lower_bound: MicroUsd,
    /// Steps of the search.
    pub(super) steps: u64,
    /// Violations of plans that the check refused, one for each plan.
    pub(super) refused: Vec<Violation>,
}

/// The best plan that is found within the steps of the policy, `first` among them. `bound` is the
/// lower bound on the cost of plans for the same pods; a sharper one takes a part of the steps.
pub(super) fn best_plan(input: &PlanningInput, first: Plan, bound: MicroUsd, cache: &mut CompileCache) -> SearchResult {
    if is_close(cost(input, &first), bound) {
        return SearchResult { plan: first, lower_bound: bound, steps: 0, refused: Vec::new() };
    }
    let bound = bound.max(sharper_bound(input, &first, input.policy.search_steps / BOUND_PART, cache));
    let left_out = first.unschedulable.clone();
    let mut result = best_plan_by(input, first, bound, |start, seed, steps| {
        let (found, used) = schedule_by_search(input, start, (seed, steps), cache);
        (retry::place_unscheduled(input, found.plan, retry::MAX_WORK), used)
    });
    if result.plan.unschedulable != left_out {
        result.lower_bound = lower_bound_with(input, &result.plan, cache);
    }
    result
}

/// [`best_plan`] with plans made by `find` from a plan, a seed and the steps that are left; it
/// returns the steps that it took.
fn best_plan_by(
    input: &PlanningInput,
    first: Plan,
    bound: MicroUsd,
    mut find: impl FnMut(&Plan, u64, u64) -> (Plan, u64),
) -> SearchResult {
    let budget = input.policy.search_steps - input.policy.search_steps / BOUND_PART;
    let (mut known, mut refused) = (Vec::new(), Vec::new());
    let (mut cheapest, mut steps) = (first, 0);
    // Each round starts from the cheapest plan so far, with another seed, while it finds a cheaper one.
    while budget - steps > budget / LEAST_PART && !cheapest.nodes.is_empty() && !is_close(cost(input, &cheapest), bound)
    {
        let seed = input.policy.seed.wrapping_add(known.len() as u64);
        let (found, used) = find(&cheapest, seed, budget - steps);
        steps = budget.min(steps + used.max(1));
        if cost(input, &found) >= cost(input, &cheapest) || left_out(input, &found) > left_out(input, &cheapest) {
            break;
        }
        if let Some(violation) = check(input, &found).into_iter().next() {
            refused.push(violation);
            break;
        }
        known.push(std::mem::replace(&mut cheapest, found));
    }
    known.push(cheapest);
    SearchResult { plan: choose(input, known), lower_bound: bound, steps, refused }
}

/// What choices compare, in micro-dollars per hour: prices, credits, and the overhead of each node.
fn cost(input: &PlanningInput, plan: &Plan) -> i64 {
    let overhead = |pool: u32| input.pools[pool as usize].rules.node_overhead.unwrap_or_default();
    plan.nodes.iter().map(|node| node.cost().0 + overhead(node.pool).0).sum()
}

fn is_close(cost: i64, bound: MicroUsd) -> bool {
    i128::from(cost - bound.0) * 1_000 <= i128::from(cost) * GAP_PER_MILLE
}

/// Pods without a place, by priority, highest first: (priority, pods). The less, the better the plan.
fn left_out(input: &PlanningInput, plan: &Plan) -> Vec<(i32, u32)> {
    let mut by_priority: BTreeMap<Reverse<i32>, u32> = BTreeMap::new();
    for pod in &plan.unschedulable {
        let priority = input.shapes[input.pods[*pod as usize].shape as usize].priority;
        *by_priority.entry(Reverse(priority)).or_default() += 1;
    }
    by_priority.into_iter().map(|(Reverse(priority), pods)| (priority, pods)).collect()
}

/// Among the plans of nearly the least cost the one with the fewest nodes, then the cheapest.
fn choose(input: &PlanningInput, plans: Vec<Plan>) -> Plan {
    let least = plans.iter().map(|plan| cost(input, plan)).min().unwrap_or_default();
    let most = i128::from(least) * (1_000 + EQUAL_PER_MILLE);
    let equal = plans.into_iter().filter(|plan| i128::from(cost(input, plan)) * 1_000 <= most);
    equal.min_by_key(|plan| (plan.nodes.len(), cost(input, plan))).unwrap_or_default()
}

#[cfg(test)]
mod tests;
