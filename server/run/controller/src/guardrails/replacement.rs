//! Replacement before removal: a machine whose pods need other capacity is drained once that
//! capacity is planned. Planning takes a batch window; if it fails, the drain waits no longer than
//! the setting allows.
//!
//! The capacity stays assigned to those pods until the drain has ended, which a PodDisruptionBudget
//! may delay for days: a machine launched as a replacement is not treated as an empty node. Neither
//! is any node while pods wait for a plan that may use it. After a takeover the new owner restores
//! the assignments of the same plan.
//!
//! With `fleetwright.dev/expire-replace-first` on its NodePool, an expired machine is drained later: once the
//! Nodes that its pods are assigned to are ready. So is one that the cloud recommends to leave.
//! Both are forceful, so that the wait ends after the time
//! that a launch may take, and an interruption ends it. The wait is not stored: a new owner selects the machine
//! again.

use super::disabled_guards::Guard;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::disruption::Disruption;
use crate::guardrails::ClusterGuardrails;
use crate::nodeclaim::{ManagedClaim, NodeClaims, StageKind};
use crate::provisioning::Provisioner;
use crate::step_view::StepView;
use cluster::{ClusterState, NodeRecord, PodRecord, Target};
use model::{ClaimName, Millis, Timestamp};

/// Drains that waited for replacements which are ready. Forgets ended waits.
pub(crate) fn replaced_drains(
    now: Timestamp,
    guardrails: &mut ClusterGuardrails,
    claims: &NodeClaims,
    state: &ClusterState,
) -> Vec<ClaimName> {
    let waits = |claim: &ClaimName| {
        let machine = claims.get(claim);
        machine.is_some_and(|machine| machine.stage() == StageKind::Draining && machine.waits_for_time(now))
    };
    let awaited: Vec<ClaimName> = guardrails.awaited_replacements().cloned().collect();
    let (replaced, waiting): (Vec<ClaimName>, Vec<ClaimName>) =
        awaited.into_iter().partition(|claim| waits(claim) && is_replaced(claim, now, state));
    for claim in replaced.iter().chain(waiting.iter().filter(|claim| !waits(claim))) {
        guardrails.stop_awaiting_replacement(claim);
    }
    replaced
}

/// Until when the drain of `claim` waits for the plan of its pods or, if it is replaced first, for its replacements;
/// `None` if it begins now.
pub(crate) fn drain_postponed_until(claim: &ClaimName, view: &StepView<'_>, ctx: &Context<'_>) -> Option<Timestamp> {
    if !view.is_ready() || !has_demand_on(claim, ctx, view.state) {
        return None;
    }
    let wait = ctx.settings.guardrails.replacement_wait;
    let planned = (wait > Millis::ZERO).then_some(ctx.now + wait);
    view.guardrails.replacement_awaited_until(claim).or(planned)
}

/// Expires assignments, except those of pods on draining nodes.
pub(crate) fn expire_assignments(
    ctx: &mut Context<'_>,
    disruption: &mut Disruption,
    provisioner: &mut Provisioner,
    state: &mut CopyOnWrite<ClusterState>,
) {
    if ctx.disabled_guards.is_enabled(Guard::Replacement) {
        state.extend_assignments(ctx.now);
    } else {
        state.clear_successors();
    }
    if state.expire_assignments(ctx.now) {
        provisioner.replan_displaced_pods(ctx.now);
        disruption.mark_changed();
    }
}

/// When pending pods are planned, or the plan in progress is abandoned; until then it is
/// unknown which empty nodes they need.
pub(crate) fn pending_plan_due(
    ctx: &Context<'_>,
    provisioner: &Provisioner,
    state: &ClusterState,
) -> Option<Timestamp> {
    if !ctx.disabled_guards.is_enabled(Guard::Replacement) {
        return None;
    }
    provisioner.needs_nodes_until(state, ctx.settings, ctx.now)
}

/// Has the drain of an expired machine wait for its replacements, if its NodePool asks for it.
pub(crate) fn await_replacement_of_expired(
    claim: &ClaimName,
    ctx: &Context<'_>,
    guardrails: &mut ClusterGuardrails,
    state: &ClusterState,
) {
    let Some(record) = state.claim(claim) else { return };
    if state.pool(&record.pool).is_some_and(|pool| pool.disruption.expire_replace_first) {
        await_replacement(claim, ctx, guardrails, state);
    }
}

/// Has the drain of a machine wait for its replacements.
pub(crate) fn await_replacement(
    claim: &ClaimName,
    ctx: &Context<'_>,
    guardrails: &mut ClusterGuardrails,
    state: &ClusterState,
) {
    let Some(record) = state.claim(claim) else { return };
    let launch = ctx.settings.launch_timeout + ctx.settings.registration_timeout;
    // The rest of the grace period is left to the pods.
    let grace = record.termination_grace_period.map(|grace| Millis::new(grace.get() / 2));
    guardrails.await_replacement(claim.clone(), ctx.now + grace.map_or(launch, |grace| grace.min(launch)));
}

/// NodeClaims of machines that wait for a plan of their pods before they are drained.
pub(crate) fn waiting_drains(now: Timestamp, claims: &NodeClaims) -> Vec<ClaimName> {
    let waits = |machine: &&ManagedClaim| machine.stage() == StageKind::Draining && machine.waits_for_time(now);
    let waiting = claims.iter().filter(waits);
    waiting.map(|machine| machine.name().clone()).collect()
}

/// Those of `planned` that still wait for their plan, and not for more.
pub(crate) fn planned_drains(
    planned: &[ClaimName],
    now: Timestamp,
    claims: &NodeClaims,
    guardrails: &ClusterGuardrails,
) -> Vec<ClaimName> {
    let is_planned =
        |claim: &ClaimName| planned.contains(claim) && guardrails.replacement_awaited_until(claim).is_none();
    waiting_drains(now, claims).into_iter().filter(is_planned).collect()
}

fn has_demand_on(claim: &ClaimName, ctx: &Context<'_>, state: &ClusterState) -> bool {
    let Some(node) = state.node_of_claim(claim) else { return false };
    state.pods_on(&node.name).any(|pod| state.is_demand(pod, ctx.now))
}

/// Whether every pod that the drain of `claim` evicts is assigned to a ready Node.
fn is_replaced(claim: &ClaimName, now: Timestamp, state: &ClusterState) -> bool {
    let Some(node) = state.node_of_claim(claim) else { return true };
    let is_usable = |node: Option<&NodeRecord>| node.is_some_and(|node| node.ready && node.is_initialized());
    let has_place = |pod: &PodRecord| match state.assignments().get(&pod.key).map(|found| &found.target) {
        Some(Target::Node(name)) => is_usable(state.node(name)),
        Some(Target::Claim(claim)) => is_usable(state.node_of_claim(claim)),
        None => false,
    };
    state.pods_to_move_from(&node.name, now).all(has_place)
}
