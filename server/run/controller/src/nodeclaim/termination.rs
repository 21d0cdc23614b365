//! Termination, whatever the cause, by the same steps: drain the Node, terminate the instance,
//! delete Node and NodeClaim.

use super::{DrainTerms, ManagedClaim, StageKind, TerminationReason};
use crate::Finding;
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::guardrails::replacement::drain_postponed_until;
use crate::moved_shares::record_pods_moved_again;
use crate::nodeclaim::NodeClaims;
use crate::nodeclaim::missing_claims::snapshot_suspicious;
use crate::nodeclaim::termination_calls::terminate_instance;
use crate::provisioning::Provisioner;
use crate::status_reporter::StatusReporter;
use cluster::ClusterState;
use model::{ClaimName, Text};

impl ClusterController {
    /// Begins the termination of `claim` in any stage. The NodeClaim's grace period applies to its
    /// drain besides the deadline of `terms`.
    pub(crate) fn begin_termination(
        &mut self,
        claim: &ClaimName,
        reason: TerminationReason,
        terms: DrainTerms,
        ctx: &mut Context<'_>,
    ) {
        let Some(stage) = self.claims.get(claim).map(ManagedClaim::stage) else { return };
        if stage.is_terminating() {
            return;
        }
        record_pods_moved_again(claim, ctx, &mut self.state);
        self.state.mark_for_deletion(claim);
        self.provisioner.replan_displaced_pods(ctx.now);
        match stage {
            StageKind::Planned => {
                self.claims.remove(claim);
                self.state.forget_claim(claim);
            }
            // The pending call or instruction is answered first; its answer continues the
            // termination.
            StageKind::Creating | StageKind::Launching => {
                self.claims.get_mut(claim).map(|machine| machine.cancel_launch(reason));
            }
            _ if self.state.node_of_claim(claim).is_some()
                || snapshot_suspicious(1, 1, &self.step_view(ctx.now))
                || !self.may_terminate_without_node(claim, ctx) =>
            {
                let grace = self.state.claim(claim).and_then(|claim| claim.termination_grace_period);
                let by_grace = grace.map(|grace| ctx.now + grace);
                let terms = DrainTerms { deadline: terms.deadline.into_iter().chain(by_grace).min(), ..terms };
                self.claims.get_mut(claim).map(|machine| machine.begin_drain(reason, terms, ctx.now));
                match drain_postponed_until(claim, &self.step_view(ctx.now), ctx) {
                    Some(until) => self.claims.get_mut(claim).into_iter().for_each(|machine| machine.postpone(until)),
                    None => self.drain_node(claim, ctx),
                }
            }
            _ => terminate_instance(claim, Some(reason), ctx, &mut self.claims),
        }
    }
}

/// Cancels the terminations of machines that wait for the plan of their pods, because their NodeClaims had disappeared,
/// and whose NodeClaims are there again: the lists of the agent lacked them.
pub(crate) fn keep_claimed_machines(
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    provisioner: &mut Provisioner,
    state: &mut CopyOnWrite<ClusterState>,
    status_reporter: &mut StatusReporter,
) {
    let is_claimed = |machine: &&ManagedClaim| {
        machine.is_drained_without_claim()
            && state.is_claim_observed(machine.name())
            && state.claim(machine.name()).is_some_and(|claim| !claim.deleting)
    };
    let claimed: Vec<ClaimName> = claims.iter().filter(is_claimed).map(|machine| machine.name().clone()).collect();
    for claim in claimed {
        if claims.get_mut(&claim).is_some_and(|machine| machine.cancel_drain_of_claimed(ctx.now)) {
            keep_machine(&claim, ctx, provisioner, state, status_reporter);
        }
    }
}

/// Cancels the termination of `claim`: its Node was to be drained as empty, and the API server
/// lists pods on it. For a while its observed pods are not trusted. A machine that has to be
/// terminated for another reason by now is drained all the same.
pub(crate) fn keep_occupied_machine(
    claim: &ClaimName,
    why: &str,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    provisioner: &mut Provisioner,
    state: &mut CopyOnWrite<ClusterState>,
    status_reporter: &mut StatusReporter,
) {
    if !claims.get_mut(claim).is_some_and(|machine| machine.cancel_drain(ctx.now)) {
        return;
    }
    keep_machine(claim, ctx, provisioner, state, status_reporter);
    ctx.report_finding(Finding::NodeOccupied { claim: claim.clone(), why: Text::from(why) });
}

/// Follows from a termination that was cancelled.
fn keep_machine(
    claim: &ClaimName,
    ctx: &mut Context<'_>,
    provisioner: &mut Provisioner,
    state: &mut CopyOnWrite<ClusterState>,
    status_reporter: &mut StatusReporter,
) {
    state.unmark_for_deletion(claim);
    status_reporter.clear_disruption(claim);
    ctx.guardrails.removals.remove(&ctx.cluster, claim);
    provisioner.plan_with_kept_node(ctx.now);
}
