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
use scheduler::{CompileCache, pods_on_lighter_pools, schedule_by_search};
use verifier::{Violation, check};

use crate::{realised, retry};

/// Distance from the lower bound at which the search ends, in thousandths of the cost.
const GAP_PER_MILLE: i128 = 1;

/// Plans whose costs differ by at most so many thousandths cost the same: of these, the one with the
/// lower realised cost is taken, then the one with fewer nodes (plan contract, Choice).
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
    /// Realised cost of `plan`, if the policy has one.
    pub(super) realised_cost: Option<MicroUsd>,
    /// Violations of plans that the check refused, one for each plan.
    pub(super) refused: Vec<Violation>,
}

/// The plans that a search found, the cheapest last, and what it spent.
#[derive(Debug, Default)]
struct Found {
    plans: Vec<Plan>,
    steps: u64,
    refused: Vec<Violation>,
}

/// The best plan that is found within the steps of the policy, `first` among them. `bound` is the
/// lower bound on the cost of plans for the same pods; a sharper one takes a part of the steps.
pub(super) fn best_plan(input: &PlanningInput, first: Plan, bound: MicroUsd, cache: &mut CompileCache) -> SearchResult {
    let left_out = first.unschedulable.clone();
    let (mut bound, mut found) = (bound, Found::default());
    if is_close(cost(input, &first), bound) {
        found.plans.push(first);
    } else {
        bound = bound.max(sharper_bound(input, &first, input.policy.search_steps / BOUND_PART, cache));
        found = plans_by(input, first, bound, |start, seed, steps| {
            let (found, used) = schedule_by_search(input, start, (seed, steps), cache);
            let plan = retry::place_unscheduled(input, found.plan, retry::MAX_WORK);
            (retry::without_needless_machines(input, plan, retry::NEEDLESS_WORK), used)
        });
    }
    let (plan, realised_cost) = without_needless_machines(input, found.plans, cache);
    if plan.unschedulable != left_out {
        bound = lower_bound_with(input, &plan, cache);
    }
    SearchResult { plan, lower_bound: bound, steps: found.steps, realised_cost, refused: found.refused }
}

/// The plan that is chosen of `plans`, of which the last is the cheapest, without the machines that more work
/// finds needless; with its realised cost.
fn without_needless_machines(
    input: &PlanningInput,
    mut plans: Vec<Plan>,
    cache: &mut CompileCache,
) -> (Plan, Option<MicroUsd>) {
    let give_up = |plan| retry::without_needless_machines(input, plan, retry::WORK_AFTER_SEARCH);
    // The realised cost takes long, and is computed again for another plan than the cheapest only.
    let cheapest = plans.pop().map(give_up);
    plans.extend(cheapest.clone());
    let (chosen, realised_cost) =
        choose(input, plans, |plan, plans| realised::reported_cost(input, plan, plans, cache));
    if Some(&chosen) == cheapest.as_ref() {
        return (chosen, realised_cost);
    }
    let before = (chosen.nodes.len(), chosen.unschedulable.len());
    let plan = give_up(chosen);
    // A machine that is bought instead of one that is given up places a pod.
    let is_changed = (plan.nodes.len(), plan.unschedulable.len()) != before;
    let realised_cost = if is_changed { realised::reported_cost(input, &plan, 1, cache) } else { realised_cost };
    (plan, realised_cost)
}

/// Plans made by `find` from a plan, a seed and the steps that are left; it returns the steps that it
/// took. The first of them is `first`, and each costs less than the one before, except that the last but
/// one may cost a little more than the last.
fn plans_by(
    input: &PlanningInput,
    first: Plan,
    bound: MicroUsd,
    mut find: impl FnMut(&Plan, u64, u64) -> (Plan, u64),
) -> Found {
    let budget = input.policy.search_steps - input.policy.search_steps / BOUND_PART;
    let (mut cheapest, mut found) = (first, Found::default());
    // Each round starts from the cheapest plan so far, with another seed, while it finds a cheaper one.
    while budget - found.steps > budget / LEAST_PART
        && !cheapest.nodes.is_empty()
        && !is_close(cost(input, &cheapest), bound)
    {
        let seed = input.policy.seed.wrapping_add(found.plans.len() as u64);
        let (plan, used) = find(&cheapest, seed, budget - found.steps);
        found.steps = budget.min(found.steps + used.max(1));
        let competes = is_within(cost(input, &plan), cost(input, &cheapest), EQUAL_PER_MILLE);
        if !competes || badly_placed(input, &plan) > badly_placed(input, &cheapest) {
            break;
        }
        if let Some(violation) = check(input, &plan).into_iter().next() {
            found.refused.push(violation);
            break;
        }
        if cost(input, &plan) >= cost(input, &cheapest) {
            found.plans.push(plan);
            break;
        }
        found.plans.push(std::mem::replace(&mut cheapest, plan));
    }
    found.plans.push(cheapest);
    found
}

/// What choices compare, in micro-dollars per hour: prices, credits, and the overhead of each node.
pub(super) fn cost(input: &PlanningInput, plan: &Plan) -> i64 {
    let overhead = |pool: u32| input.pools[pool as usize].rules.node_overhead.unwrap_or_default();
    plan.nodes.iter().map(|node| node.cost().0 + overhead(node.pool).0).sum()
}

fn is_close(cost: i64, bound: MicroUsd) -> bool {
    i128::from(cost - bound.0) * 1_000 <= i128::from(cost) * GAP_PER_MILLE
}

/// Whether `cost` exceeds `least` by at most so many thousandths of it.
fn is_within(cost: i64, least: i64, per_mille: i128) -> bool {
    i128::from(cost) * 1_000 <= i128::from(least) * (1_000 + per_mille)
}

/// Pods without a place, and pods that the limits of a heavier NodePool keep off it, each by priority, highest first:
/// (priority, pods). The less, the better the plan.
fn badly_placed(input: &PlanningInput, plan: &Plan) -> [Vec<(i32, u32)>; 2] {
    [left_out(input, plan), pods_on_lighter_pools(input, plan)]
}

/// Pods without a place, by priority, highest first: (priority, pods).
fn left_out(input: &PlanningInput, plan: &Plan) -> Vec<(i32, u32)> {
    let mut by_priority: BTreeMap<Reverse<i32>, u32> = BTreeMap::new();
    for pod in &plan.unschedulable {
        let priority = input.shapes[input.pods[*pod as usize].shape as usize].priority;
        *by_priority.entry(Reverse(priority)).or_default() += 1;
    }
    by_priority.into_iter().map(|(Reverse(priority), pods)| (priority, pods)).collect()
}

/// Among the plans of nearly the least cost the one with the least realised cost, then the one with the
/// fewest nodes, then the cheapest; with its realised cost. Nominations make the realised cost the planned
/// one, so that it is not looked at.
fn choose(
    input: &PlanningInput,
    plans: Vec<Plan>,
    mut realised_cost: impl FnMut(&Plan, usize) -> Option<MicroUsd>,
) -> (Plan, Option<MicroUsd>) {
    let least = plans.iter().map(|plan| cost(input, plan)).min().unwrap_or_default();
    let equal = plans.into_iter().filter(|plan| is_within(cost(input, plan), least, EQUAL_PER_MILLE));
    let equal: Vec<Plan> = equal.collect();
    let count = equal.len();
    let with_realised = equal.into_iter().map(|plan| {
        let realised = realised_cost(&plan, count);
        (plan, realised)
    });
    let best = with_realised.min_by_key(|(plan, realised)| {
        let realised = realised.filter(|_| !input.policy.nominations);
        (realised.is_none(), realised, plan.nodes.len(), cost(input, plan))
    });
    best.unwrap_or_default()
}

#[cfg(test)]
mod tests;
