//! Searches for cheaper plans, with the steps of all parts: request a search within the allowance of
//! all clusters, give back what it did not use, and use what it found
//! ([`window_search`](super::window_search)). Plans of disruption search within the same allowance.

use super::{PlanAnswer, PlanError, PlanJob, PlanNumber, PlanRequest, Planned};
use crate::Effect;
use crate::context::Context;
use crate::guardrails::ClusterGuardrails;
use crate::provisioning::Provisioner;
use crate::provisioning::plan_assignment::restrict_input;
use crate::search_allowance::SearchDemand;
use cluster::ClusterState;
use model::Timestamp;
use model::input::PlanningInput;

/// Scheduling steps of the packings of a search, for each pod and node: the 60 microseconds that the
/// allowance counts for them, at 50 nanoseconds a step.
const PACKING_STEP_LIMIT: u64 = 1_200;

/// The least limit of these steps: 50 milliseconds.
const LEAST_STEP_LIMIT: u64 = 1_000_000;

/// What the first packing of an input takes time for.
fn objects(input: &PlanningInput) -> usize {
    input.pods.len() + input.nodes.len()
}

fn packing_step_limit(input: &PlanningInput) -> u64 {
    let objects = u64::try_from(objects(input)).unwrap_or(u64::MAX);
    let limit = objects.saturating_mul(PACKING_STEP_LIMIT).max(LEAST_STEP_LIMIT);
    // 0 is no limit.
    if input.policy.step_limit == 0 { limit } else { limit.min(input.policy.step_limit) }
}

/// Requests a search for the pods of the batch window if one is due and allowed.
pub(crate) fn request_search_if_due(
    ctx: &mut Context<'_>,
    provisioner: &mut Provisioner,
    guardrails: &mut ClusterGuardrails,
    state: &ClusterState,
    connected: bool,
) {
    let due =
        provisioner.next_search_at(ctx.settings).filter(|due| *due <= ctx.now && (connected && state.is_synced()));
    let Some(deadline) = due.and_then(|_| provisioner.window_closes_at(ctx.settings)) else { return };
    let may_search = !state.demand(ctx.now).is_empty() && ctx.searches().has_room(&ctx.cluster, ctx.now);
    let draft = may_search.then(|| provisioner.draft_search(state, ctx.settings, ctx.now));
    let request = draft.flatten().and_then(|mut input| {
        // The input has to be what the plan will have when the window closes.
        let backed_off = restrict_input(&mut input, ctx, guardrails, provisioner, state);
        // A plan that launches nothing has no cheaper one.
        if backed_off.held.is_empty() { allow_search(input, deadline, ctx) } else { None }
    });
    let replaced = provisioner.attempt_search(request.as_ref().map(|request| request.number));
    if let Some(replaced) = replaced {
        ctx.searches().record_unused(replaced);
    }
    ctx.effects.extend(request.map(|request| Effect::Plan(Box::new(PlanJob::Pods(Box::new(request))))));
}

/// The plan of the window's search for `request`, if it is the same plan with a search.
pub(crate) fn take_search(
    request: &PlanRequest,
    ctx: &Context<'_>,
    provisioner: &mut Provisioner,
) -> Option<PlanAnswer> {
    match provisioner.finish_search(&request.input)? {
        Ok(PlanAnswer { request: PlanRequest { input, cluster, .. }, outcome, used }) => Some(PlanAnswer {
            request: PlanRequest { number: request.number, cluster, input, disruption: None },
            outcome,
            used,
        }),
        Err(unused) => {
            ctx.searches().record_unused(unused);
            None
        }
    }
}

/// Steps that the plan of disruption `number` may search for groups of nodes to replace, as far as the allowance of
/// all clusters grants them. It has no due time, so that it may take the largest search.
pub(crate) fn search_steps_of_groups(number: PlanNumber, objects: usize, ctx: &Context<'_>) -> u64 {
    if !ctx.settings.search.is_enabled() {
        return 0;
    }
    let demand = SearchDemand { cluster: &ctx.cluster, search: number, objects, deadline: None };
    ctx.searches().grant(demand, ctx.now).unwrap_or(0)
}

/// The request of a search with the steps that the allowance of all clusters grants.
fn allow_search(mut input: PlanningInput, deadline: Timestamp, ctx: &Context<'_>) -> Option<PlanRequest> {
    if input.pods.is_empty() {
        return None;
    }
    let (number, cluster) = (ctx.next_plan_number(), ctx.cluster.clone());
    let demand = SearchDemand { cluster: &cluster, search: number, objects: objects(&input), deadline: Some(deadline) };
    input.policy.search_steps = ctx.searches().grant(demand, ctx.now)?;
    // A packing that takes more than the allowance counts for it ends without a search.
    input.policy.step_limit = packing_step_limit(&input);
    Some(PlanRequest { number, cluster, input, disruption: None })
}

/// Gives back what a search did not use.
pub(crate) fn settle_search(answer: &PlanAnswer, ctx: &Context<'_>) {
    let PlanAnswer { request, outcome, .. } = answer;
    let (PlanRequest { number, input, .. }, granted) = (request, request.granted_steps());
    let (objects, granted, used) = match outcome {
        Ok(Planned::Pods(planned)) => (objects(input), granted, planned.1.search_steps),
        Err(PlanError::NotReached) => (0, 0, 0),
        Ok(Planned::Disruption(_)) | Err(_) => (objects(input), granted, granted),
    };
    ctx.searches().settle(*number, objects, granted, used);
}

#[cfg(test)]
mod tests;
