//! Repair of a packing that fails the check: a simpler packing, and then without the pods that
//! violate a rule.
//!
//! A failed packing is a scheduler bug, which the check exists to detect. One faulty rule must not
//! leave a whole cluster without machines, so the valid part of a packing is kept; removed pods may
//! get another place afterwards (`retry`). Removing pods can violate other rules (pod affinity to a
//! removed pod), so the plan is checked again after each round. A plan without any pod is valid,
//! and is the result after [`MAX_ROUNDS`] rounds.

use std::collections::BTreeSet;

use model::NodeName;
use model::input::PlanningInput;
use model::plan::Plan;
use scheduler::{PackingMethod, ScheduleResult};
use verifier::{Rule, Violation, check};

/// Maximum rounds of removal. Most faults are resolved after one or two; each round costs a check.
const MAX_ROUNDS: u32 = 24;
/// Rounds in which an overcommitted machine loses its pods one by one, so that only those that do
/// not fit are removed.
const SINGLE_POD_ROUNDS: u32 = 12;
/// Maximum violations kept for the report.
const MAX_VIOLATIONS: usize = 8;

/// Packings that failed the check before a valid plan was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailedChecks {
    /// Number of failed packings; zero for nearly every decision.
    pub count: u32,
    /// The first violations of the first packing, in the check's order.
    pub violations: Vec<Violation>,
    /// Pods left out because every packing with them failed, by index, ascending.
    pub left_out: Vec<u32>,
    /// Plans of the search that failed the check, not among `count`; a plan found before was taken.
    pub refused: u32,
}

impl FailedChecks {
    /// Adds plans of the search that failed, with a violation of each.
    pub(super) fn add_refused(&mut self, violations: Vec<Violation>) {
        self.refused += u32::try_from(violations.len()).unwrap_or(u32::MAX);
        self.violations.extend(violations);
        self.violations.truncate(MAX_VIOLATIONS);
    }
}

/// A valid plan for `input` from the packings of `pack`.
pub(super) fn valid_plan(
    input: &PlanningInput,
    mut pack: impl FnMut(PackingMethod) -> ScheduleResult,
) -> (ScheduleResult, FailedChecks) {
    let full = pack(PackingMethod::Full);
    let mut violations = check(input, &full.plan);
    if violations.is_empty() {
        return (full, FailedChecks::default());
    }
    let plain = pack(PackingMethod::Plain);
    let broken = check(input, &plain.plan);
    if broken.is_empty() {
        violations.truncate(MAX_VIOLATIONS);
        return (plain, FailedChecks { count: 1, violations, ..FailedChecks::default() });
    }
    let mended = |mut scheduled: ScheduleResult, broken: Vec<Violation>| {
        let (plan, left_out) = without_offenders(input, scheduled.plan, broken);
        scheduled.plan = plan;
        (scheduled, left_out)
    };
    let (full, plain) = (mended(full, violations.clone()), mended(plain, broken));
    violations.truncate(MAX_VIOLATIONS);
    let (scheduled, left_out) = if full.1.len() < plain.1.len() { full } else { plain };
    (scheduled, FailedChecks { count: 2, violations, left_out: left_out.into_iter().collect(), refused: 0 })
}

/// `plan` without the pods that violate a rule, and those pods.
fn without_offenders(input: &PlanningInput, mut plan: Plan, mut violations: Vec<Violation>) -> (Plan, BTreeSet<u32>) {
    let mut left_out = BTreeSet::new();
    for round in 0..MAX_ROUNDS {
        if violations.is_empty() {
            return (plan, left_out);
        }
        let at_fault: BTreeSet<&NodeName> = violations.iter().filter_map(|found| found.node.as_ref()).collect();
        plan.static_nodes.retain(|node| !at_fault.contains(&node.name));
        let mut offenders = offenders(input, &plan, &violations, round);
        if offenders.is_empty() {
            offenders = last_launched(input, &plan);
        }
        remove_pods(input, &mut plan, &offenders);
        left_out.extend(offenders);
        violations = check(input, &plan);
    }
    if violations.is_empty() {
        return (plan, left_out);
    }
    let all = 0..u32::try_from(input.pods.len()).unwrap_or(u32::MAX);
    left_out.extend(all.clone().filter(|pod| !plan.unschedulable.contains(pod)));
    (Plan { unschedulable: all.collect(), ..Plan::default() }, left_out)
}

/// The pods that the violations name, and those on the nodes that they name.
fn offenders(input: &PlanningInput, plan: &Plan, violations: &[Violation], round: u32) -> BTreeSet<u32> {
    let mut offenders: BTreeSet<u32> = violations.iter().filter_map(|found| found.pod).collect();
    for found in violations.iter().filter(|found| found.pod.is_none()) {
        let Some(node) = &found.node else { continue };
        let pods = pods_on(input, plan, node);
        let overcommitted = matches!(found.rule, Rule::Resources | Rule::AttachLimits);
        if overcommitted && round < SINGLE_POD_ROUNDS {
            offenders.extend(plan.order.iter().rev().find(|pod| pods.contains(pod)));
        } else {
            offenders.extend(pods);
        }
    }
    offenders
}

/// The pods that `plan` puts on the node or machine with this name.
fn pods_on(input: &PlanningInput, plan: &Plan, name: &NodeName) -> BTreeSet<u32> {
    let is_named = |at: u32| input.nodes.get(at as usize).is_some_and(|node| node.name == *name);
    let placed = plan.placements.iter().filter(|(_, node)| is_named(*node)).map(|(pod, _)| *pod);
    let launched = plan.nodes.iter().filter(|node| node.name == *name).flat_map(|node| &node.pods);
    placed.chain(launched.copied()).collect()
}

/// The pods on the machines to remove so that fewer plan-wide rules (a limit, a share) are
/// violated: as few as possible of the last machines of the first pool that is involved.
fn last_launched(input: &PlanningInput, plan: &Plan) -> BTreeSet<u32> {
    let broken = |kept: &BTreeSet<usize>| {
        let mut less = plan.clone();
        let gone: BTreeSet<u32> = pods_outside(plan, kept);
        remove_pods(input, &mut less, &gone);
        check(input, &less).iter().filter(|found| found.pod.is_none() && found.node.is_none()).count()
    };
    let all: BTreeSet<usize> = (0..plan.nodes.len()).collect();
    let now = broken(&all);
    let pools: BTreeSet<u32> = plan.nodes.iter().map(|node| node.pool).collect();
    for pool in pools {
        let own: Vec<usize> = all.iter().copied().filter(|at| plan.nodes[*at].pool == pool).collect();
        let keeping =
            |count: usize| -> BTreeSet<usize> { all.iter().copied().filter(|at| !own[count..].contains(at)).collect() };
        if broken(&keeping(0)) >= now {
            continue;
        }
        let (mut enough, mut too_many) = (0, own.len());
        while enough + 1 < too_many {
            let middle = enough + (too_many - enough) / 2;
            if broken(&keeping(middle)) < now { enough = middle } else { too_many = middle }
        }
        return pods_outside(plan, &keeping(enough));
    }
    plan.order.iter().copied().collect()
}

fn pods_outside(plan: &Plan, kept: &BTreeSet<usize>) -> BTreeSet<u32> {
    let gone = plan.nodes.iter().enumerate().filter(|(at, _)| !kept.contains(at));
    gone.flat_map(|(_, node)| node.pods.iter().copied()).collect()
}

/// Removes `pods` from `plan`, and machines that are empty then.
fn remove_pods(input: &PlanningInput, plan: &mut Plan, pods: &BTreeSet<u32>) {
    plan.placements.retain(|(pod, _)| !pods.contains(pod));
    plan.order.retain(|pod| !pods.contains(pod));
    for node in &mut plan.nodes {
        for pod in node.pods.iter().filter(|pod| pods.contains(pod)) {
            if let Some(pod) = input.pods.get(*pod as usize) {
                node.requests.subtract(&input.shapes[pod.shape as usize].requests);
            }
        }
        node.pods.retain(|pod| !pods.contains(pod));
    }
    plan.nodes.retain(|node| !node.pods.is_empty());
    plan.unschedulable.extend(pods.iter().filter(|pod| (**pod as usize) < input.pods.len()));
    plan.unschedulable.sort_unstable();
    plan.unschedulable.dedup();
}
