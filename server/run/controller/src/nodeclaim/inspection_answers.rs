//! What the cloud answers about instances: it lists one no more, or refuses its termination.

use super::StageKind;
use crate::Inspection;
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::guardrails::ClusterGuardrails;
use crate::guardrails::enforcement::count_removal;
use crate::guardrails::removal::{BlockCause, Evidence, RemovalRefusal, evaluate_removal};
use crate::guardrails::removal_gate::{apply_gate_decision, machine_facts, removal_constraints};
use crate::nodeclaim::NodeClaims;
use crate::nodeclaim::lifecycle::delete_gone_machine;
use crate::nodeclaim::other_region::{claim_of_instance_elsewhere, refusal_elsewhere};
use model::{ClaimName, Millis, ProviderId};

/// Time until a refused termination is retried.
const REFUSED_RETRY_DELAY: Millis = Millis::from_mins(5);
/// Time until a call is retried for an instance that the cloud does not know but that has a Node.
const UNKNOWN_RETRY_DELAY: Millis = Millis::from_mins(1);

impl ClusterController {
    /// Handles the cloud's answer about one instance.
    pub(crate) fn handle_inspection(&mut self, provider_id: &ProviderId, found: Inspection, ctx: &mut Context<'_>) {
        if let Some(claim) = claim_of_instance_elsewhere(provider_id, found, &self.claims, &self.region) {
            let refusal = refusal_elsewhere(provider_id, &self.region);
            self.guardrails.block_removal(BlockCause::Foreign, &claim, refusal, ctx.now);
            return schedule_cloud_retry(&claim, REFUSED_RETRY_DELAY, ctx, &mut self.claims);
        }
        self.gc.record_answer(found == Inspection::Ended);
        if found == Inspection::Ended {
            self.gc.record_ended(provider_id.clone());
        }
        if found == Inspection::Foreign {
            self.gc.record_foreign(provider_id.clone());
        } else {
            self.gc.remove_foreign(provider_id);
        }
        let Some(claim) = self.claims.name_of_instance(provider_id) else { return };
        match found {
            Inspection::Runs => {
                self.gc.clear_missing(&claim);
                self.guardrails.release_removal(BlockCause::Missing, &claim);
            }
            Inspection::Foreign => hold_foreign(&claim, provider_id, ctx, &mut self.guardrails),
            Inspection::Ended => self.apply_evidence(&claim, Evidence::Ended, ctx),
            Inspection::Unknown => self.apply_evidence(&claim, Evidence::Unknown, ctx),
        }
    }

    /// Deletes the machine of `claim` as gone, if the removal gate accepts the evidence.
    fn apply_evidence(&mut self, claim: &ClaimName, evidence: Evidence, ctx: &mut Context<'_>) {
        let Some(stage) = self.claims.get(claim).map(|machine| machine.stage()) else { return };
        if stage == StageKind::Deleting {
            return;
        }
        let facts = machine_facts(claim, &self.step_view(ctx.now));
        let mut circumstances = removal_constraints(claim, &self.step_view(ctx.now), ctx);
        if stage.is_terminating() {
            // A terminating machine was counted against the limits when its removal was decided.
            (circumstances.frozen, circumstances.capped) = (None, None);
        }
        let verdict = evaluate_removal(evidence, facts, &circumstances);
        if apply_gate_decision(BlockCause::Missing, claim, verdict, ctx.now, &mut self.guardrails) {
            if evidence == Evidence::Unknown && !stage.is_terminating() {
                count_removal(claim, ctx, &self.claims);
            }
            delete_gone_machine(
                claim,
                ctx,
                &mut self.claims,
                &mut self.history,
                &mut self.provisioner,
                &mut self.state,
            );
        } else if matches!(stage, StageKind::Launching | StageKind::Terminating) {
            schedule_cloud_retry(claim, UNKNOWN_RETRY_DELAY, ctx, &mut self.claims);
        }
    }

    /// Holds the machine of `claim`: the cloud refused its termination because its tags name
    /// another cluster.
    pub(crate) fn handle_terminate_refused(
        &mut self,
        claim: &ClaimName,
        provider_id: &ProviderId,
        ctx: &mut Context<'_>,
    ) {
        self.gc.record_foreign(provider_id.clone());
        let held = self.claims.name_of_instance(provider_id).filter(|known| known == claim);
        let Some(claim) = held else { return };
        if let Some(machine) = self.claims.get_mut(&claim) {
            machine.record_termination_refusal();
            let zone = machine.instance().map(|instance| instance.zone.clone()).unwrap_or_default();
            self.history.lifecycle.count_termination_failure(zone);
        }
        hold_foreign(&claim, provider_id, ctx, &mut self.guardrails);
        schedule_cloud_retry(&claim, REFUSED_RETRY_DELAY, ctx, &mut self.claims);
    }
}

fn hold_foreign(
    claim: &ClaimName,
    provider_id: &ProviderId,
    ctx: &mut Context<'_>,
    guardrails: &mut ClusterGuardrails,
) {
    let (cluster, cluster_uid) = (ctx.cluster.clone(), ctx.uid.clone());
    let refusal = RemovalRefusal::ForeignInstance { provider_id: provider_id.clone(), cluster, cluster_uid };
    guardrails.block_removal(BlockCause::Foreign, claim, refusal, ctx.now);
}

/// Schedules a retry of the cloud call for `claim`.
fn schedule_cloud_retry(claim: &ClaimName, after: Millis, ctx: &Context<'_>, claims: &mut NodeClaims) {
    if let Some(machine) = claims.get_mut(claim) {
        machine.schedule_cloud_retry(ctx.now + after);
    }
}
