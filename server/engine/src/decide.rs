//! One decision, whole: schedule, doubt, bound, explain.

use crate::bound::lower_bound;
use crate::check::{Violation, check};
use crate::explain;
use crate::input::PlanningInput;
use crate::model::MicroUsd;
use crate::plan::{Plan, PlanReport, Reason, ReasonCode, Unschedulable};
use crate::schedule::{Memo, Scheduled, schedule_within};

/// A plan that has passed its own check, with its reasons.
#[derive(Debug, Clone)]
#[must_use = "a decision that nobody reads places no pod"]
pub struct Decision {
    /// What to do.
    pub plan: Plan,
    /// Why.
    pub report: PlanReport,
}

/// Plans for `input`. The same input gives the same decision on every machine.
///
/// # Errors
/// The violations that [`check`] found: a fault of the scheduler. Such a plan is never carried out, and never printed.
pub fn plan(input: &PlanningInput) -> Result<Decision, Vec<Violation>> {
    plan_with(input, &mut Memo::default())
}

/// The same decision, sooner if `memo` has served alike inputs.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(input: &PlanningInput, memo: &mut Memo) -> Result<Decision, Vec<Violation>> {
    let Scheduled { plan, not_reached, cut_off } = schedule_within(input, memo);
    let violations = check(input, &plan);
    if !violations.is_empty() {
        return Err(violations);
    }
    let report = PlanReport {
        unschedulable: reasons(input, &plan, &not_reached, &cut_off),
        new_cost: MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum()),
        lower_bound: lower_bound(input, &plan),
        notes: explain::notes(input, &plan),
        search_steps: 0,
    };
    Ok(Decision { plan, report })
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
