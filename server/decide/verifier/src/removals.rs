//! The rules of removals: an independent check that nodes may be removed together.
//!
//! [`check_removals`] judges a [`RemovalPlan`] as [`check`](crate::check) judges a plan, before it
//! is recorded. It receives the reason and the deadline of each removal, and not the method that
//! chose the node; it shares no code with the disruption methods of the controller. That the pods
//! of a plan fit their new nodes is judged by [`check`](crate::check) with the plan that places
//! them.
//!
//! Reading order: `violation` (the rules), `membership` (which nodes may be removed at all),
//! `budgets` (per NodePool and of the cluster), `eviction` (do-not-disrupt and PodDisruptionBudgets), `rescheduling`
//! (what becomes of the pods), `opt_in` (annotations of NodePools).
//!
//! Chosen interpretations:
//! - Removals are judged in the order of precedence of their reasons, all together: a violation
//!   names the removal that breaks the rule after those before it, so the others satisfy every rule
//!   without it.
//! - A forceful reason is exempt from all rules except that the node exists, is of this server and
//!   is removed once. Its removals count for the others.
//! - `Drifted` with a deadline ignores what protects pods (Karpenter: eventual disruption, where
//!   `terminationGracePeriod` is set), and not what protects the Node.
//! - A PodDisruptionBudget of DaemonSet pods holds their node if a drain evicts them: those that do not tolerate the
//!   taint of a drained node.
//! - A terminating pod of a StatefulSet is made anew under its name, and needs a place. A terminating pod is no eviction.

mod budgets;
mod eviction;
mod membership;
mod opt_in;
mod rescheduling;
mod violation;

pub use violation::{RemovalRule, RemovalViolation};

use membership::Removed;
use model::removal::{RemovalInput, RemovalPlan};
use violation::RemovalFindings;

/// All violations of `plan`, by rule and in the order of its removals; empty for a valid plan.
/// Accepts any plan, however broken: a removal of an unknown node is reported and excluded from the
/// other rules.
#[must_use]
pub fn check_removals(input: &RemovalInput, plan: &RemovalPlan) -> Vec<RemovalViolation> {
    let mut findings = RemovalFindings::default();
    let removals = check_nodes(input, plan, &mut findings);
    rescheduling::check_last_ready_pods(input, &removals, &mut findings);
    findings.violations
}

/// As [`check_removals`], without [`RemovalRule::LastReadyPod`]: for an input that does not know the pods of a workload
/// that run elsewhere.
#[must_use]
pub fn check_removals_but_last_pods(input: &RemovalInput, plan: &RemovalPlan) -> Vec<RemovalViolation> {
    let mut findings = RemovalFindings::default();
    check_nodes(input, plan, &mut findings);
    findings.violations
}

fn check_nodes<'a>(input: &'a RemovalInput, plan: &'a RemovalPlan, findings: &mut RemovalFindings) -> Vec<Removed<'a>> {
    let removals = membership::collect(input, plan, findings);
    budgets::check(input, &removals, findings);
    budgets::check_cluster(input, &removals, findings);
    eviction::check_do_not_disrupt(input, &removals, findings);
    eviction::check_pod_budgets(input, &removals, findings);
    rescheduling::check_room(input, plan, &removals, findings);
    opt_in::check(input, &removals, findings);
    removals
}
