//! Termination, whatever the cause, by the same steps: drain the Node, terminate the instance,
//! delete Node and NodeClaim.

use super::{DrainTerms, ManagedClaim, StageKind, TerminationReason};
use crate::cluster_controller::{ClusterController, Context};
use crate::{Effect, Finding, Instruction};
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
        self.record_pods_moved_again(claim, ctx);
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
                || self.snapshot_suspicious(1, 1, ctx)
                || !self.may_terminate_without_node(claim, ctx) =>
            {
                let grace = self.state.claim(claim).and_then(|claim| claim.termination_grace_period);
                let by_grace = grace.map(|grace| ctx.now + grace);
                let terms = DrainTerms { deadline: terms.deadline.into_iter().chain(by_grace).min(), ..terms };
                self.claims.get_mut(claim).map(|machine| machine.begin_drain(reason, terms, ctx.now));
                self.drain_when_replaced(claim, ctx);
            }
            _ => self.terminate_instance(claim, Some(reason), ctx),
        }
    }

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
                self.instruct(drain, ctx);
            }
            None if self.snapshot_suspicious(1, 1, ctx) => {
                self.retry_later(claim, ctx);
                self.report_missing_claims(Finding::ClaimsMissing { missing: 1, of: 1 }, ctx);
            }
            None if !self.may_terminate_without_node(claim, ctx) => self.retry_later(claim, ctx),
            None => self.terminate_instance(claim, None, ctx),
        }
    }

    /// Cancels the termination of `claim`: its Node was to be drained as empty, and the API server
    /// lists pods on it. For a while its observed pods are not trusted. A machine that has to be
    /// terminated for another reason by now is drained all the same.
    pub(crate) fn keep_occupied_machine(&mut self, claim: &ClaimName, why: &str, ctx: &mut Context<'_>) {
        if !self.claims.get_mut(claim).is_some_and(|machine| machine.cancel_drain(ctx.now)) {
            return;
        }
        self.keep_machine(claim, ctx);
        self.report_finding(Finding::NodeOccupied { claim: claim.clone(), why: Text::from(why) }, ctx);
    }

    /// Cancels the terminations of machines that wait for the plan of their pods, because their NodeClaims had disappeared,
    /// and whose NodeClaims are there again: the lists of the agent lacked them.
    pub(crate) fn keep_claimed_machines(&mut self, ctx: &mut Context<'_>) {
        let is_claimed = |machine: &&ManagedClaim| {
            machine.is_drained_without_claim()
                && self.state.is_claim_observed(machine.name())
                && self.state.claim(machine.name()).is_some_and(|claim| !claim.deleting)
        };
        let claimed: Vec<ClaimName> =
            self.claims.iter().filter(is_claimed).map(|machine| machine.name().clone()).collect();
        for claim in claimed {
            if self.claims.get_mut(&claim).is_some_and(|machine| machine.cancel_drain_of_claimed(ctx.now)) {
                self.keep_machine(&claim, ctx);
            }
        }
    }

    /// Follows from a termination that was cancelled.
    fn keep_machine(&mut self, claim: &ClaimName, ctx: &mut Context<'_>) {
        self.state.unmark_for_deletion(claim);
        self.status_reporter.clear_disruption(claim);
        ctx.guardrails.cancel_removal(&self.cluster, claim);
        self.provisioner.plan_with_kept_node(ctx.now);
    }

    /// Checks the obstacle again after the retry time.
    pub(crate) fn retry_later(&mut self, claim: &ClaimName, ctx: &Context<'_>) {
        let again = ctx.now + ctx.settings.retry_delay;
        if let Some(machine) = self.claims.get_mut(claim) {
            machine.postpone(again);
        }
    }

    /// Terminates the instance of `claim`. `reason` is needed for a machine that is not
    /// terminating.
    pub(crate) fn terminate_instance(
        &mut self,
        claim: &ClaimName,
        reason: Option<TerminationReason>,
        ctx: &mut Context<'_>,
    ) {
        let Some(machine) = self.claims.get_mut(claim) else { return };
        if !machine.begin_instance_termination(reason, ctx.now) {
            return;
        }
        let (cluster, cluster_uid) = (self.cluster.clone(), self.uid.clone());
        let provider_id = machine.provider_id().clone();
        ctx.effects.push(Effect::Terminate { cluster, cluster_uid, claim: claim.clone(), provider_id });
    }

    /// Deletes Node and NodeClaim of a machine whose instance is gone, or was never launched.
    /// `reason` is needed for a machine that is not terminating.
    pub(crate) fn delete_claim(&mut self, claim: &ClaimName, reason: Option<TerminationReason>, ctx: &mut Context<'_>) {
        let Some(machine) = self.claims.get_mut(claim) else { return };
        if !machine.begin_deletion(reason, ctx.now) {
            return;
        }
        let (provider_id, reason) = (machine.provider_id().clone(), machine.termination_message());
        let node = self.state.node_of_claim(claim).map(|node| node.name.clone());
        // The NodeClaim may be deleted before its Node, which is then the Node of no machine.
        if let Some(node) = &node {
            self.removed_nodes.record(node.clone(), machine, ctx.now);
        }
        self.state.mark_for_deletion(claim);
        self.instruct(Instruction::DeleteClaim { claim: claim.clone(), node, provider_id, reason }, ctx);
    }
}
