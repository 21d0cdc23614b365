//! What the cloud announces, or reports, about an instance: its machine is removed at once, and its pods are
//! planned with those of all other machines that are announced in the same batch window.
//!
//! The drain begins when that plan has arrived, or after `guardrails.replacement-wait`, and runs while the
//! new machines boot. A notice for a machine that is being drained brings the end of the drain forward.
//!
//! A notice that cannot be true is refused, and one that should not be believed alone waits for the cloud's answer
//! ([`notices`](super::notices)). Scheduled maintenance leaves time: its machine is replaced as an unhealthy one is where
//! repairs are voluntary, held by budgets, freezes and PodDisruptionBudgets.

use super::method::{DisruptionView, InterruptionNotice};
use super::settings::RebalanceRecommendations;
use super::{Disruption, Proposal};
use crate::Finding;
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::guardrails::Guard;
use crate::nodeclaim::NodeClaims;
use crate::provisioning::probing::offering;
use crate::unavailable_offerings::OfferingOutcome;
use cluster::ClusterState;
use model::interruption::InterruptionKind;
use model::{CapacityType, ClaimName, Millis, ProviderId, RefusalCause, Text, Timestamp};

/// Time between the announcement and the end of an instance whose capacity is taken back (EC2: two minutes).
const NOTICE_PERIOD: Millis = Millis::from_mins(2);

impl ClusterController {
    /// Handles what the cloud says about an instance, which ends at `ends` if the cloud has set a time.
    pub(crate) fn handle_interruption(
        &mut self,
        provider_id: &ProviderId,
        kind: InterruptionKind,
        ends: Option<Timestamp>,
        ctx: &mut Context<'_>,
    ) {
        let Some(claim) = self.claims.name_of_instance(provider_id) else { return };
        let paid =
            self.claims.get(&claim).and_then(|machine| machine.instance()).map(|instance| instance.capacity_type);
        if paid.is_some_and(|paid| !concerns(kind, paid)) {
            return ctx.report_finding(Finding::ImpossibleNotice { claim, kind });
        }
        if self.disruption.notices.is_believed(&claim, kind, most_notices(ctx, &self.claims), ctx.now) {
            self.follow_notice(&claim, kind, ends, ctx);
        } else {
            self.disruption.notices.await_answer(claim, kind, ends, ctx.now);
        }
    }

    /// Does what follows from a notice that is believed.
    pub(super) fn follow_notice(
        &mut self,
        claim: &ClaimName,
        kind: InterruptionKind,
        ends: Option<Timestamp>,
        ctx: &mut Context<'_>,
    ) {
        let is_recommendation = kind == InterruptionKind::RebalanceRecommendation;
        let is_followed = !is_recommendation || ctx.settings.disruption.rebalance == RebalanceRecommendations::Replace;
        self.with_part(
            |parts| &mut parts.status_reporter,
            ctx.now,
            |reporter, view| reporter.note_notice(claim, kind, view),
        );
        if !is_followed {
            return;
        }
        if kind.takes_capacity_back() && ctx.disabled_guards.is_enabled(Guard::WarnedOffering) {
            exclude_offering_of(claim, ctx, &self.claims, &self.state);
        }
        match kind {
            InterruptionKind::RebalanceRecommendation => return self.disruption.recommend_removal(claim.clone()),
            InterruptionKind::ScheduledChange => return self.disruption.announce_maintenance(claim.clone(), ctx.now),
            _ => {}
        }
        self.provisioner.interrupted_owners.record(self.state.moves_of(claim, None, ctx.now).owners, ctx.now);
        self.remove_interrupted(claim, kind, deadline_of(kind, ends, ctx.now), ctx);
        self.with_part(
            |parts| &mut parts.status_reporter,
            ctx.now,
            |reporter, view| reporter.note_interrupted_removal(claim, kind, view),
        );
    }

    /// Decides the removal of the machine, whose drain ends by `deadline`.
    fn remove_interrupted(
        &mut self,
        claim: &ClaimName,
        kind: InterruptionKind,
        deadline: Option<Timestamp>,
        ctx: &mut Context<'_>,
    ) {
        if self.claims.get(claim).is_some_and(|machine| machine.stage().is_terminating()) {
            return self.hasten_removal(claim, deadline, ctx);
        }
        let notice = InterruptionNotice { claim: claim.clone(), reason: Text::from(kind.to_string()), deadline };
        let view = DisruptionView { notice: Some(notice), ..DisruptionView::of(&self.state, ctx.now) };
        let proposals: Vec<Proposal> = Disruption::reconcile_urgent(&view);
        for proposal in proposals {
            self.decide_removals(proposal, ctx);
        }
    }

    /// The machine is removed already: its drain waits for nothing any more and ends by `deadline`, whether its
    /// Node is empty or not.
    fn hasten_removal(&mut self, claim: &ClaimName, deadline: Option<Timestamp>, ctx: &mut Context<'_>) {
        let Some(machine) = self.claims.get_mut(claim) else { return };
        machine.require_drain();
        let is_earlier = ctx.disabled_guards.is_enabled(Guard::HastenedDrain) && machine.hasten_drain(deadline);
        // A drain that waits for the plan of its pods begins with the earlier end.
        if is_earlier && !machine.is_postponed(ctx.now) {
            self.drain_node(claim, ctx);
        }
        if self.guardrails.stop_awaiting_replacement(claim) {
            self.drain_node(claim, ctx);
        }
    }
}

/// Excludes the offering of a machine whose capacity is taken back, for as long as one without capacity.
fn exclude_offering_of(claim: &ClaimName, ctx: &Context<'_>, claims: &NodeClaims, state: &ClusterState) {
    let instance = claims.get(claim).and_then(|machine| machine.instance());
    let Some(instance) = instance.filter(|instance| instance.capacity_type != CapacityType::OnDemand) else {
        return;
    };
    let refusal = Some((RefusalCause::Capacity, Text::from("Interrupted")));
    let offering = offering(claim, &instance.instance_type, &instance.zone, instance.capacity_type, claims, state);
    ctx.offerings.record_outcome(&OfferingOutcome { offering, asked: 1, launched: 0, refusal }, ctx.now);
}

/// How many machines may be named by notices in a minute that are followed without a question: as many as may be
/// deleted by hand at once.
fn most_notices(ctx: &Context<'_>, claims: &NodeClaims) -> usize {
    ctx.settings.guardrails.removal.by_hand(claims.len())
}

/// When pods are deleted regardless of PodDisruptionBudgets. An instance that stops now, or fails its status
/// checks, leaves no time for them; Karpenter waits for them on a stopping instance, whose kubelet answers no
/// more.
fn deadline_of(kind: InterruptionKind, ends: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    match kind {
        InterruptionKind::SpotInterrupted | InterruptionKind::CapacityReservationInterrupted => {
            Some(ends.unwrap_or(now + NOTICE_PERIOD))
        }
        InterruptionKind::InstanceStopped
        | InterruptionKind::InstanceTerminated
        | InterruptionKind::StatusCheckFailed => Some(now),
        InterruptionKind::RebalanceRecommendation | InterruptionKind::ScheduledChange => None,
    }
}

/// Whether the cloud sends such a notice about an instance that is paid so.
fn concerns(kind: InterruptionKind, paid: CapacityType) -> bool {
    match kind {
        InterruptionKind::SpotInterrupted | InterruptionKind::RebalanceRecommendation => paid == CapacityType::Spot,
        InterruptionKind::CapacityReservationInterrupted => paid == CapacityType::Reserved,
        InterruptionKind::ScheduledChange
        | InterruptionKind::InstanceStopped
        | InterruptionKind::InstanceTerminated
        | InterruptionKind::StatusCheckFailed => true,
    }
}
