//! One decision, whole: schedule, check, mend, try what is left once more, bound, explain.

mod repair;
mod retry;

pub use repair::FailedChecks;

use crate::bound::lower_bound;
use crate::check::{Violation, check};
use crate::explain;
use crate::input::PlanningInput;
use crate::model::MicroUsd;
use crate::plan::{Plan, PlanReport, Reason, ReasonCode, Unschedulable};
use crate::schedule::{CompileCache, Method, Scheduled, schedule_by};

/// A plan that has passed its own check, with its reasons.
#[derive(Debug, Clone)]
#[must_use = "a decision that nobody reads places no pod"]
pub struct Decision {
    /// What to do.
    pub plan: Plan,
    /// Why.
    pub report: PlanReport,
    /// Packings that failed their check on the way to this plan: faults of the scheduler, to be told loudly.
    pub failed_checks: FailedChecks,
}

/// Plans for `input`. The same input gives the same decision on every machine.
///
/// # Errors
/// As [`plan_with`].
pub fn plan(input: &PlanningInput) -> Result<Decision, Vec<Violation>> {
    plan_with(input, &mut CompileCache::default())
}

/// The same decision, sooner if `memo` has served alike inputs.
///
/// # Errors
/// The violations that [`check`] finds even in a plan that places no pod: `input` itself is broken. Otherwise the plan has
/// passed its check; pods that stood in the way of that are left out, with the code `Internal`.
pub fn plan_with(input: &PlanningInput, memo: &mut CompileCache) -> Result<Decision, Vec<Violation>> {
    plan_packed_by(input, |method| schedule_by(input, method, memo))
}

/// The decision for `input` when `pack` makes its packings, which are believed no more than the scheduler's own.
///
/// # Errors
/// As [`plan_with`].
pub fn plan_packed_by(
    input: &PlanningInput,
    pack: impl FnMut(Method) -> Scheduled,
) -> Result<Decision, Vec<Violation>> {
    let (Scheduled { plan, not_reached, cut_off }, mut failed_checks) = repair::sound_plan(input, pack);
    if failed_checks.count > 0 {
        let violations = check(input, &plan);
        if !violations.is_empty() {
            return Err(violations);
        }
    }
    // Pods that no steps were left for are planned next, and cost nothing more now.
    let complete = not_reached.is_empty() && cut_off.is_empty();
    let plan = if complete { retry::place_left(input, plan, retry::MOST_WORK) } else { plan };
    failed_checks.left_out.retain(|pod| plan.unschedulable.binary_search(pod).is_ok());
    let mut report = PlanReport {
        unschedulable: reasons(input, &plan, &not_reached, &cut_off),
        new_cost: MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum()),
        lower_bound: lower_bound(input, &plan),
        notes: explain::notes(input, &plan),
        search_steps: 0,
    };
    tell(&failed_checks, &mut report);
    Ok(Decision { plan, report, failed_checks })
}

/// Says in `report` that packings failed, and of each pod that is left out why.
fn tell(failed: &FailedChecks, report: &mut PlanReport) {
    let Some(first) = failed.violations.first() else { return };
    let what = if failed.left_out.is_empty() {
        "the plan is a plainer packing than usual".to_owned()
    } else {
        format!("{} pods are left out (code Internal)", failed.left_out.len())
    };
    report.notes.push(format!(
        "the program's own check refused {} of its packings ({first}): {what}; please report this with the input",
        failed.count
    ));
    report.notes.sort();
    let message = format!(
        "every packing with this pod failed the program's own check ({first}); please report this with the input"
    );
    for entry in report.unschedulable.iter_mut().filter(|entry| failed.left_out.binary_search(&entry.pod).is_ok()) {
        entry.reasons = vec![Reason { pool: None, code: ReasonCode::Internal, message: message.clone() }];
        entry.fits_if.clear();
    }
}

/// Why pods have no place. Those that the step limit left out were not looked at, so nothing else is known of them.
fn reasons(input: &PlanningInput, plan: &Plan, not_reached: &[u32], cut_off: &[u32]) -> Vec<Unschedulable> {
    if not_reached.is_empty() && cut_off.is_empty() {
        return explain::unschedulable(input, plan);
    }
    let limit = input.policy.step_limit;
    let next = format!("planning took its {limit} steps before it came to this pod; it is planned next");
    let cut = format!(
        "planning took its {limit} steps before it had tried everything for this pod; it is planned again. Preferences, affinity terms \
         and spread constraints are what takes steps: state fewer"
    );
    let held = |pod: &u32, code: ReasonCode, message: &str| Unschedulable {
        pod: *pod,
        reasons: vec![Reason { pool: None, code, message: message.to_owned() }],
        fits_if: Vec::new(),
    };
    let left_out = |pod: &u32| not_reached.binary_search(pod).is_ok() || cut_off.binary_search(pod).is_ok();
    let tried = plan.unschedulable.iter().filter(|pod| !left_out(pod)).copied().collect();
    let mut all = explain::unschedulable_among(input, plan, tried);
    all.extend(not_reached.iter().map(|pod| held(pod, ReasonCode::HeldBack, &next)));
    all.extend(cut_off.iter().map(|pod| held(pod, ReasonCode::StepLimit, &cut)));
    all.sort_by_key(|entry| entry.pod);
    all
}
