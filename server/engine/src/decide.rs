//! One decision, whole: schedule, doubt, bound, explain.

use crate::bound::lower_bound;
use crate::check::{Violation, check};
use crate::explain;
use crate::input::PlanningInput;
use crate::model::MicroUsd;
use crate::plan::{Plan, PlanReport};
use crate::schedule::{Memo, schedule_with};

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
    let plan = schedule_with(input, memo);
    let violations = check(input, &plan);
    if !violations.is_empty() {
        return Err(violations);
    }
    let report = PlanReport {
        unschedulable: explain::unschedulable(input, &plan),
        new_cost: MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum()),
        lower_bound: lower_bound(input, &plan),
        notes: explain::notes(input, &plan),
        search_steps: 0,
    };
    Ok(Decision { plan, report })
}
