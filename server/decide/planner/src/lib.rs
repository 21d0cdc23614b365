//! One complete decision: schedule, check, repair, retry, search, bound, realised cost, explain.
//!
//! Scheduler, verifier and explanations do not know each other; this crate is above the three. The
//! controller gets [`plan_with`] as a function and does not depend on this crate.
//!
//! Reading order: [`plan`], `repair` (a simpler packing for a plan that fails the check), `retry`
//! (pods that the packing left out, tried by the rules of the check, alone or with the pods that they must
//! stand beside, and machines whose pods fit on the other nodes), `search` (cheaper plans),
//! `realised` (what the launch ends at when kube-scheduler binds the pods). `replacement` finds cheaper machines for the
//! pods of a running node.

#![warn(missing_docs)]

mod realised;
mod repair;
mod replacement;
mod retry;
mod search;

pub use realised::{MAX_STEPS as REALISED_COST_STEPS, realised_cost};
pub use repair::FailedChecks;
pub use replacement::{NoReplacement, Replaced, ReplacementMachines};

use model::input::{PlanningInput, PreferencePolicy};
use model::plan::{Plan, PlanReport, PlannedNode, Reason, ReasonCode, Unschedulable};
use model::{CapacityType, MicroUsd, NodeName, Resources, Stop, Text};
pub use scheduler::CompileCache;
use scheduler::bound::lower_bound_with;
use scheduler::{PackingMethod, ScheduleResult, schedule_by};
use verifier::{Violation, check};

/// A plan that passed the check, with its reasons.
#[derive(Debug, Clone)]
#[must_use = "an unread decision places no pod"]
pub struct PlannedDecision {
    /// The plan, which the verifier accepts.
    pub plan: Plan,
    /// The reasons for the plan.
    pub report: PlanReport,
    /// Packings that failed the check before this plan: scheduler bugs, which the caller must
    /// report.
    pub failed_checks: FailedChecks,
}

/// Plans for `input`. The same input gives the same decision on every machine.
///
/// # Errors
/// As [`plan_with`].
pub fn plan(input: &PlanningInput) -> Result<PlannedDecision, Vec<Violation>> {
    plan_with(input, &mut CompileCache::default())
}

/// Same decision as [`plan`]; faster when `cache` holds compiled pools of similar inputs.
///
/// # Errors
/// The violations that [`check`] finds even in a plan that places no pod: `input` itself is
/// invalid. Otherwise the plan has passed the check; pods that prevented that are left out, with
/// the code `Internal`.
pub fn plan_with(input: &PlanningInput, cache: &mut CompileCache) -> Result<PlannedDecision, Vec<Violation>> {
    plan_packed_by(input, cache, |method, cache| schedule_by(input, method, cache))
}

/// The decision for `input` with packings made by `pack`, which pass the same check as the
/// scheduler's own.
///
/// # Errors
/// As [`plan_with`].
pub fn plan_packed_by(
    input: &PlanningInput,
    cache: &mut CompileCache,
    pack: impl FnMut(PackingMethod, &mut CompileCache) -> ScheduleResult,
) -> Result<PlannedDecision, Vec<Violation>> {
    match plan_in_phases(input, cache, pack, &Stop::never()) {
        Ok(decision) => Ok(decision),
        Err(NoPlan::Invalid(violations)) => Err(violations),
        // It never stops.
        Err(NoPlan::Stopped) => Err(Vec::new()),
    }
}

/// Why there is no plan.
#[derive(Debug, Clone)]
pub enum NoPlan {
    /// The input is invalid: even a plan that places no pod has these violations.
    Invalid(Vec<Violation>),
    /// Nobody needs the plan any more.
    Stopped,
}

/// Same decision as [`plan_with`], for a caller that may stop needing it: `stop` is asked between the parts of the work, and
/// then nothing more is done.
///
/// # Errors
/// As [`plan_with`], and [`NoPlan::Stopped`].
pub fn plan_until(input: &PlanningInput, cache: &mut CompileCache, stop: &Stop) -> Result<PlannedDecision, NoPlan> {
    let before = cache.replace_stop(stop.clone());
    let decision = plan_in_phases(input, cache, |method, cache| schedule_by(input, method, cache), stop);
    cache.replace_stop(before);
    decision
}

/// Each phase leaves a valid plan or a report of one. A phase that `stop` cut short is followed by no other, so that what it
/// left is never shown.
fn plan_in_phases(
    input: &PlanningInput,
    cache: &mut CompileCache,
    mut pack: impl FnMut(PackingMethod, &mut CompileCache) -> ScheduleResult,
    stop: &Stop,
) -> Result<PlannedDecision, NoPlan> {
    let (ScheduleResult { plan, not_reached, cut_off }, mut failed_checks) =
        repair::valid_plan(input, |method| pack(method, cache));
    check_stop(stop)?;
    if failed_checks.count > 0 {
        let violations = check(input, &plan);
        if !violations.is_empty() {
            return Err(NoPlan::Invalid(violations));
        }
    }
    // Pods that the step limit left out are planned next, so no further work is spent on them now.
    let complete = not_reached.is_empty() && cut_off.is_empty();
    let plan = if complete { retry::place_unscheduled(input, plan, retry::MAX_WORK) } else { plan };
    let plan = if complete && failed_checks.count == 0 {
        retry::without_needless_machines(input, plan, retry::NEEDLESS_WORK)
    } else {
        plan
    };
    failed_checks.left_out.retain(|pod| plan.unschedulable.binary_search(pod).is_ok());
    let (mut plan, mut search_steps, mut first_cost, mut sold) = (plan, 0, None, None);
    check_stop(stop)?;
    let mut lower_bound = lower_bound_with(input, &plan, cache);
    check_stop(stop)?;
    let realised_cost;
    if complete && failed_checks.count == 0 && input.policy.search_steps > 0 {
        first_cost = Some(realised::planned_cost(&plan));
        let first = states_preferences(input).then(|| plan.clone());
        let found = search::best_plan(input, plan, lower_bound, cache);
        failed_checks.add_refused(found.refused);
        (plan, lower_bound, search_steps) = (found.plan, found.lower_bound, found.steps);
        sold = first.and_then(|first| sold_preferences(input, &first, &plan));
        realised_cost = found.realised_cost;
    } else {
        realised_cost = realised::reported_cost(input, &plan, 1, cache);
    }
    check_stop(stop)?;
    let unschedulable = reasons(input, &plan, (&not_reached, &cut_off), stop);
    check_stop(stop)?;
    let mut report = PlanReport {
        unschedulable,
        new_cost: realised::planned_cost(&plan),
        lower_bound,
        realised_cost,
        first_cost,
        notes: explain::notes(input, &plan),
        search_steps,
    };
    report.notes.extend(sold);
    report.notes.sort();
    check_stop(stop)?;
    report_failed_checks(&failed_checks, &mut report);
    Ok(PlannedDecision { plan, report, failed_checks })
}

fn states_preferences(input: &PlanningInput) -> bool {
    input.policy.preferences == PreferencePolicy::Respect && input.shapes.iter().any(|shape| shape.preferences() > 0)
}

/// What is saved by preferences that `first` keeps and the cheaper `plan` does not.
fn sold_preferences(input: &PlanningInput, first: &Plan, plan: &Plan) -> Option<String> {
    let saved = realised::planned_cost(first).0 - realised::planned_cost(plan).0;
    if saved <= 0 || first.unschedulable != plan.unschedulable {
        return None;
    }
    let violated = |plan: &Plan| explain::violated_preferences(input, plan);
    let more = violated(plan).checked_sub(violated(first)).filter(|more| *more > 0)?;
    Some(format!(
        "{more} {} for ${} an hour: a plan that keeps {} costs so much more",
        if more == 1 { "preference is given up" } else { "preferences of pods are given up" },
        MicroUsd(saved),
        if more == 1 { "it" } else { "them" }
    ))
}

fn check_stop(stop: &Stop) -> Result<(), NoPlan> {
    if stop.is_due() { Err(NoPlan::Stopped) } else { Ok(()) }
}

/// A lower bound, of at most `most`, on the price per hour of new machines for all pods of `input`, beside the
/// capacity that it has.
pub fn price_bound(mut input: PlanningInput, most: MicroUsd, cache: &mut CompileCache) -> MicroUsd {
    input.pools.iter_mut().for_each(|pool| pool.rules.ignores_credits = true);
    lower_bound_with(&input, &one_machine(&input, most), cache)
}

/// The value of a unit of each resource, in micro-dollars per hour: what the pods of `input` need at least is
/// paid by it.
#[must_use]
pub fn resource_prices(input: &PlanningInput) -> Vec<(Text, f64)> {
    scheduler::bound::resource_prices(input, &one_machine(input, MicroUsd(1)))
}

/// All pods on one machine of that price.
fn one_machine(input: &PlanningInput, price: MicroUsd) -> Plan {
    let all = PlannedNode {
        name: NodeName::default(),
        pool: 0,
        capacity_type: CapacityType::OnDemand,
        zones: [].into(),
        types: [].into(),
        price,
        credits: MicroUsd(0),
        reservation: None,
        pods: (0..).zip(&input.pods).map(|(pod, _)| pod).collect(),
        labels: Default::default(),
        taints: [].into(),
        requests: Resources::new(),
    };
    Plan { nodes: vec![all], ..Plan::default() }
}

/// Adds the failed checks to `report`, and the reason of each pod that is left out.
fn report_failed_checks(failed: &FailedChecks, report: &mut PlanReport) {
    let Some(first) = failed.violations.first() else { return };
    let what = match (failed.left_out.len(), failed.count) {
        (0, 0) => "the plan was found before those".to_owned(),
        (0, _) => "the plan is a simpler packing than usual".to_owned(),
        (pods, _) => format!("{pods} pods are left out (code Internal)"),
    };
    report.notes.push(format!(
        "the program's own check refused {} packings ({first}): {what}; please report this with the input",
        failed.count + failed.refused
    ));
    report.notes.sort();
    let message = format!(
        "every packing with this pod failed the program's own check ({first}); please report this with the input"
    );
    for entry in report.unschedulable.iter_mut().filter(|entry| failed.left_out.binary_search(&entry.pod).is_ok()) {
        entry.reasons = [Reason { pool: None, code: ReasonCode::Internal, message: message.clone() }].into();
        entry.fits_if = [].into();
    }
}

/// Why pods are unschedulable. Pods left out by the step limit were not evaluated, so no other
/// reason is known.
fn reasons(
    input: &PlanningInput,
    plan: &Plan,
    (not_reached, cut_off): (&[u32], &[u32]),
    stop: &Stop,
) -> Vec<Unschedulable> {
    if not_reached.is_empty() && cut_off.is_empty() {
        return explain::unschedulable_until(input, plan, plan.unschedulable.iter().copied().collect(), stop);
    }
    let limit = input.policy.step_limit;
    let next = format!("the step limit of {limit} was reached before this pod was tried; it is planned next");
    let cut = format!(
        "the step limit of {limit} was reached before everything was tried for this pod; it is planned again. \
         Preferences, affinity terms and spread constraints cost steps: use fewer"
    );
    let held = |pod: &u32, code: ReasonCode, message: &str| Unschedulable {
        pod: *pod,
        reasons: [Reason { pool: None, code, message: message.to_owned() }].into(),
        fits_if: [].into(),
    };
    let left_out = |pod: &u32| not_reached.binary_search(pod).is_ok() || cut_off.binary_search(pod).is_ok();
    let tried = plan.unschedulable.iter().filter(|pod| !left_out(pod)).copied().collect();
    let mut all = explain::unschedulable_until(input, plan, tried, stop);
    all.extend(not_reached.iter().map(|pod| held(pod, ReasonCode::HeldBack, &next)));
    all.extend(cut_off.iter().map(|pod| held(pod, ReasonCode::StepLimit, &cut)));
    all.sort_by_key(|entry| entry.pod);
    all
}

#[cfg(test)]
mod tests;
