//! The verifier: an independent check that a plan breaks no rule.
//!
//! [`check`] shares no code with the scheduler. It answers two questions. Would kube-scheduler, by
//! its documented rules, bind every pod where the plan places it, whichever launch option each node
//! turns out to be? Does the plan satisfy the pool rules, prices, limits and opt-in rules? A plan
//! with a violation is never carried out.
//!
//! Reading order: `violation` (the rules), `placements` (the host of each pod), `launch` (the
//! possible outcomes of a launch), `node_fit` (one pod on one node), `capacity`,
//! `ports_and_volumes`, `topology` (rules between pods, in the order of the plan); then the rules
//! per planned node (`purchase`, `credits`, `metadata`) and per pool (`pool_nodes`, `limits`, `opt_in_rules`,
//! `static_pools`). [`check_removals`] judges the removal of nodes in the same way (`removals`);
//! [`is_protected`] and [`blocking_pod_budgets`] judge the eviction of one pod.
//!
//! Chosen interpretations:
//! - Spread: the global minimum is taken over the domains of future nodes: nodes of the input that
//!   are not being deleted, and the plan's nodes for pods, both as far as the inclusion policies of
//!   the constraint admit them.
//! - If the value of a topology key is undecided on a planned node, the node counts in every domain
//!   that it may end up in where this tightens a rule, and in none where it would relax one. A pod
//!   with a hard constraint on a key needs a node whose value of that key is decided.
//! - DaemonSet pods that a node of the input still lacks reserve the smaller of two amounts there:
//!   the requests of the DaemonSets without a pod, and the expected sum less the bound sum.

mod capacity;
mod class;
mod credits;
mod eviction_step;
pub mod kernel;
mod launch;
mod limits;
mod metadata;
mod node_count;
mod node_fit;
mod opt_in_rules;
mod placements;
mod pool_nodes;
mod ports_and_volumes;
mod purchase;
mod removals;
mod static_pools;
mod topology;
mod violation;

pub use self::eviction_step::EvictionStep;
pub use self::removals::{RemovalRule, RemovalViolation, check_removals, check_removals_but_last_pods};
pub use self::violation::{Rule, Violation};

use model::Resources;
use model::input::PlanningInput;
use model::plan::{Plan, PlannedNode};
use violation::Findings;

/// All violations of `plan`, in a canonical order; empty for a valid plan. Accepts any plan,
/// however broken: an index out of range is reported and excluded from the other rules.
#[must_use]
pub fn check(input: &PlanningInput, plan: &Plan) -> Vec<Violation> {
    let mut findings = Findings::new(input);
    // Placements and launches come first: they report bad indices, and every later check relies on
    // valid ones.
    let placements = placements::collect(input, plan, &mut findings);
    let launches = launch::Launches::of(input, plan);
    purchase::check(plan, &launches, &mut findings);
    credits::check(input, plan, &launches, &mut findings);
    let daemons = capacity::Daemons::new(input, &launches);
    metadata::check(plan, &launches, &daemons, &mut findings);
    node_fit::check(input, &placements, &launches, &mut findings);
    capacity::check(input, plan, &placements, &launches, &daemons, &mut findings);
    ports_and_volumes::check(input, &placements, &launches, &daemons, &mut findings);
    topology::check(input, plan, &placements, &launches, &mut findings);
    limits::check(input, &launches, &mut findings);
    opt_in_rules::check(input, plan, &launches, &mut findings);
    static_pools::check(input, plan, &launches, &mut findings);
    findings.violations
}

/// What keeps kube-scheduler from binding the pods of `plan` where it places them while the nodes that they leave
/// are drained, step by step. [`check`] judges the same plan once these nodes are gone.
///
/// A Node that is drained is tainted, takes no pod, and stays in its zone and the other domains of its labels: a
/// spread constraint counts it unless its `nodeTaintsPolicy` is `Honor`. The nodes of all steps are there until the
/// end, because nothing says when the first of them is gone. In `input` they are being deleted, and the pods of
/// `plan` leave them; a pod is on its node ([`Pod::moved_from`](model::Pod::moved_from)) until its step, and so are the
/// pods of the nodes of a step that need no other place.
#[must_use]
pub fn check_steps(input: &PlanningInput, plan: &Plan, steps: &[EvictionStep]) -> Vec<Violation> {
    let mut findings = Findings::new(input);
    let placements = placements::collect(input, plan, &mut findings);
    // What is wrong with the placements themselves is found by `check`.
    findings.violations.clear();
    let launches = launch::Launches::of(input, plan);
    topology::check_steps((input, plan), steps, &placements, &launches, &mut findings);
    findings.violations
}

/// Requests of the DaemonSet pods on each of `nodes` if its first option launches in its first
/// zone.
pub fn daemon_requests(input: &PlanningInput, nodes: Vec<PlannedNode>) -> Vec<Resources> {
    let plan = Plan { nodes, ..Plan::default() };
    let launches = launch::Launches::of(input, &plan);
    let daemons = capacity::Daemons::new(input, &launches);
    let of = |number: &Option<u32>| {
        let number = number.map(|number| number as usize)?;
        Some(daemons.requests_of_first(number, launches.list.get(number)?))
    };
    launches.of_node.iter().map(|number| of(number).unwrap_or_default()).collect()
}
