//! Calls that a termination consists of: the drain, the termination of the instance, the deletion of the NodeClaim.

use super::managed_claim::CloudRetry;
use super::{DrainTerms, ManagedClaim, TerminationReason};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::history::History;
use crate::nodeclaim::NodeClaims;
use crate::nodeclaim::missing_claims::{report_missing_claims, snapshot_suspicious};
use crate::{ClusterCall, Finding, Instruction};
use cluster::ClusterState;
use model::{ClaimName, Text};

impl ClusterController {
    /// Instructs the agent to drain the Node of `claim`. Without a Node the instance is terminated,
    /// unless the snapshot is suspicious.
    pub(crate) fn drain_node(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) {
        let Some(machine) = self.claims.get(claim) else { return };
        let Some(terms) = machine.drain_terms() else { return };
        let DrainTerms { deadline, interrupted: interruption, only_if_empty } = terms;
        // The agent repeats it in the Events of the pods that it evicts.
        let reason = Text::from(format!("{}{}", machine.termination_message(), machine.removal_origin()));
        let provider_id = machine.provider_id().clone();
        match self.state.node_of_claim(claim).map(|node| node.name.clone()) {
            Some(node) => {
                self.claims.get_mut(claim).map(ManagedClaim::record_drain_instruction);
                let claim = claim.clone();
                let drain =
                    Instruction::Drain { claim, node, provider_id, deadline, interruption, only_if_empty, reason };
                self.claims.instruct(drain, ctx);
            }
            None if snapshot_suspicious(1, 1, &self.step_view(ctx.now)) => {
                retry_later(claim, ctx, &mut self.claims);
                report_missing_claims(Finding::ClaimsMissing { missing: 1, of: 1 }, ctx, &mut self.gc);
            }
            None if !self.may_terminate_without_node(claim, ctx) => retry_later(claim, ctx, &mut self.claims),
            None => terminate_instance(claim, None, ctx, &mut self.claims),
        }
    }
}

/// Deletes Node and NodeClaim of a machine whose instance is gone, or was never launched.
/// `reason` is needed for a machine that is not terminating.
pub(crate) fn delete_claim(
    claim: &ClaimName,
    reason: Option<TerminationReason>,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
    history: &mut History,
    state: &mut CopyOnWrite<ClusterState>,
) {
    let Some(machine) = claims.get_mut(claim) else { return };
    if !machine.begin_deletion(reason, ctx.now) {
        return;
    }
    let (provider_id, reason) = (machine.provider_id().clone(), machine.termination_message());
    let node = state.node_of_claim(claim).map(|node| node.name.clone());
    // The NodeClaim may be deleted before its Node, which is then the Node of no machine.
    if let Some(node) = &node {
        history.removed_nodes.record(node.clone(), machine, ctx.now);
    }
    state.mark_for_deletion(claim);
    claims.instruct(Instruction::DeleteClaim { claim: claim.clone(), node, provider_id, reason }, ctx);
}

/// Retries the cloud call for `claim` that was refused, or whose instance was unknown, when it
/// is due.
pub(crate) fn retry_cloud_call(claim: &ClaimName, ctx: &mut Context<'_>, claims: &mut NodeClaims) {
    let Some(machine) = claims.get_mut(claim) else { return };
    match machine.take_cloud_retry(ctx.now) {
        Some(CloudRetry::Terminate) => terminate_instance(claim, None, ctx, claims),
        Some(CloudRetry::Describe { attempt }) => {
            let provider_id = machine.provider_id().clone();
            ctx.call(ClusterCall::Describe { claim: claim.clone(), attempt, provider_id });
        }
        None => {}
    }
}

/// Terminates the instance of `claim`. `reason` is needed for a machine that is not
/// terminating.
pub(crate) fn terminate_instance(
    claim: &ClaimName,
    reason: Option<TerminationReason>,
    ctx: &mut Context<'_>,
    claims: &mut NodeClaims,
) {
    let Some(machine) = claims.get_mut(claim) else { return };
    if !machine.begin_instance_termination(reason, ctx.now) {
        return;
    }
    let (cluster_uid, provider_id) = (ctx.uid.clone(), machine.provider_id().clone());
    ctx.call(ClusterCall::Terminate { cluster_uid, claim: claim.clone(), provider_id });
}

/// Checks the obstacle again after the retry time.
pub(crate) fn retry_later(claim: &ClaimName, ctx: &Context<'_>, claims: &mut NodeClaims) {
    let again = ctx.now + ctx.settings.retry_delay;
    if let Some(machine) = claims.get_mut(claim) {
        machine.postpone(again);
    }
}
