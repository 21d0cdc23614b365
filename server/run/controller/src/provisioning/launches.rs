//! Launches of the machines of a recorded decision.

use std::collections::BTreeSet;

use super::plan_assignment::launch_view;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::guardrails::ClusterGuardrails;
use crate::nodeclaim::PendingRecovery;
use crate::nodeclaim::{NodeClaims, StageKind};
use crate::provisioning::Provisioner;
use crate::provisioning::probing::{close_launch, probe_holder};
use crate::{Decision, DecisionId, Instruction, PlannedMachine};
use cluster::ClusterState;
use model::resources::NODES;
use model::{ClaimName, PoolName, Resources};

/// Begins the launches of a durable decision that are still valid; the pods of the others are
/// planned again.
pub(crate) fn execute_launches(
    decision: &Decision,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    recovery: &mut PendingRecovery,
    provisioner: &mut Provisioner,
    state: &mut CopyOnWrite<ClusterState>,
    guardrails: &ClusterGuardrails,
) {
    let awaited: BTreeSet<ClaimName> =
        state.assignments().iter().filter_map(|(_, to)| to.target.claim()).cloned().collect();
    for planned in &decision.launches {
        let claim = &planned.claim.name;
        let Some(machine) = claims.get(claim) else {
            close_launch(claim, ctx, recovery);
            continue;
        };
        if machine.stage() != StageKind::Planned {
            continue;
        }
        let wanted = planned.pods.is_empty() || awaited.contains(claim) || state.has_booking(claim);
        if wanted && is_still_valid(decision.id, planned, ctx, claims, state, guardrails) {
            claims.get_mut(claim).map(|machine| machine.begin_creation(ctx.now));
            claims.instruct(Instruction::CreateClaim(planned.claim.clone()), ctx);
        } else {
            ctx.guardrails.launches.remove(&ctx.cluster, claim);
            claims.remove(claim);
            state.forget_claim(claim);
            close_launch(claim, ctx, recovery);
            provisioner.replan_displaced_pods(ctx.now);
        }
    }
}

/// Whether a planned machine may still be launched.
pub(crate) fn is_still_valid(
    id: DecisionId,
    planned: &PlannedMachine,
    ctx: &Context<'_>,
    claims: &NodeClaims,
    state: &ClusterState,
    guardrails: &ClusterGuardrails,
) -> bool {
    let claim = &planned.claim.name;
    let Some(machine) = claims.get(claim) else { return false };
    let Some(revision) = machine.revision() else { return false };
    let view = launch_view(&ctx.cluster, state, guardrails, ctx);
    let order = &planned.launch;
    view.launchable_pool(&planned.claim.pool, revision).is_some()
        && view.has_available(&order.options, order.capacity_type, Some(&probe_holder(claim, &ctx.cluster)))
        && within_limits(id, &planned.claim.pool, claims, state)
}

/// Whether the NodePool is within its limits without the machines of this decision, which were
/// planned within them.
fn within_limits(id: DecisionId, pool: &PoolName, claims: &NodeClaims, state: &ClusterState) -> bool {
    let Some(record) = state.pool(pool) else { return false };
    let decided = |claim: &ClaimName| claims.get(claim).is_some_and(|machine| machine.decision() == Some(id));
    let mut used = Resources::new();
    for claim in state.claims().filter(|claim| claim.pool == *pool && !decided(&claim.name)) {
        used.add(&claim.capacity);
        used.add(&Resources::from_iter([(NODES, 1)]));
    }
    record.pool.limits.iter().all(|(name, limit)| used.get(name) <= limit)
}
