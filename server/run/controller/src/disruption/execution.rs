//! Decisions are checked, recorded, and executed: launches first, then drains.
//!
//! A removal begins when its decision is durable and its method selects the machine again;
//! an urgent one begins with the decision. What has to be replaced first is launched by the plan of its
//! pods ([`replacements`](super::replacements)), and its removal is decided when that capacity is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::method::{DisruptionView, Method};
use super::selection::{RemovalAnswer, RemovalCheck, RemovalRecord};
use super::{DecisionQueue, Disruption, Pass, Proposal, Selected, methods};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::disruption::decision_recorder::new_decision;
use crate::disruption::opt_in::keep_annotations;
use crate::disruption::removal_check::verify_removals;
use crate::disruption::replacements::record_replaced;
use crate::guardrails::Guard;
use crate::guardrails::enforcement::{cancel_removal, count_removals};
use crate::guardrails::replacement::{await_replacement, await_replacement_of_expired, pending_plan_due};
use crate::guardrails::shadow::{ShadowInput, shadow_removals};
use crate::moved_shares::moves_of_removal;
use crate::nodeclaim::{DrainTerms, TerminationReason};
use crate::provisioning::launches::execute_launches;
use crate::{Decision, DecisionId, DecisionReason, Removal};
use cluster::ClusterState;
use cost::SavingDecision;
use model::removal::RemovalReason;
use model::{ClaimName, MicroUsd, Timestamp};

impl ClusterController {
    /// Runs the methods when a pass is due, and decides the removals that they propose.
    pub(crate) fn reconcile_disruption(&mut self, ctx: &mut Context<'_>) {
        let interval = ctx.settings.disruption_pass_interval;
        if !self.disruption.is_due(interval, ctx.now) || !self.is_ready() {
            return;
        }
        let plan_due = pending_plan_due(ctx, &self.provisioner, &self.state);
        let state = &self.state;
        self.disruption.drop_old_notices(|claim| state.claim(claim).is_some(), ctx.now);
        let view = disruption_view(&self.state, &self.decisions, &self.disruption, ctx);
        let Pass { proposals, held_by_budget, blocked_repairs } = self.disruption.reconcile(&view, interval, plan_due);
        self.status_reporter.replace_blocked_repairs(blocked_repairs);
        if plan_due.is_none() {
            self.status_reporter.replace_budget_blocked(held_by_budget);
            self.status_reporter.mark_dirty();
            self.guardrails.replace_removal_block(None);
        }
        // Graceful methods have not run while a plan is pending; what they replace goes on.
        if plan_due.is_none() && !ctx.settings.is_shadow_removal(&self.cluster, RemovalReason::Drifted) {
            self.reconcile_replacements(&proposals, ctx);
        }
        for proposal in proposals {
            self.decide_removals(proposal, ctx);
        }
    }

    /// Decides what a method proposes, as far as it passes the checks.
    pub(super) fn decide_removals(&mut self, proposal: Proposal, ctx: &mut Context<'_>) {
        let (method, terms) = (proposal.method, proposal.drain_terms);
        let reason = DecisionReason::Disruption(method.reason());
        let replacements: Vec<Removal> = proposal.replacements.iter().map(|planned| planned.removal.clone()).collect();
        let (mut removals, basis) = self.check_removals(proposal, ctx);
        let basis = basis.map(Arc::new);
        if ctx.settings.is_shadow_removal(&self.cluster, method.reason()) {
            removals.extend(self.limit_removals(replacements, method.reason(), ctx));
            let input = ShadowInput::Removal(basis);
            return self.record_shadow(shadow_removals(reason, &removals, input, ctx, &self.claims, &self.state), ctx);
        }
        if removals.is_empty() {
            return;
        }
        if !reason.is_urgent() {
            count_removals(&removals, ctx, &self.claims);
        }
        let removed_cost = MicroUsd(removals.iter().map(|removal| self.claims.price_of(&removal.claim).0).sum());
        let mut decision =
            Decision { removals, removed_cost, removal_record: basis, ..new_decision(reason, ctx, &self.state) };
        let moved_by = (method.reason(), SavingDecision { number: decision.id.0, at: decision.at });
        let moving = decision.removals.iter();
        decision.moves = moving
            .filter_map(|removal| moves_of_removal(&removal.claim, moved_by, ctx.now, &self.history.costs, &self.state))
            .collect();
        let begun = if reason.is_urgent() { decision.removals.clone() } else { Vec::new() };
        let id = decision.id;
        self.record_decision(decision, ctx);
        for removal in &begun {
            self.begin_removal(method, id, removal, terms, ctx);
        }
    }

    /// The proposed removals that may be recorded: the guardrails limit those that are not urgent,
    /// and the verifier judges those that are left, of every method. With them, what they were decided from.
    fn check_removals(&mut self, proposal: Proposal, ctx: &mut Context<'_>) -> (Vec<Removal>, Option<RemovalRecord>) {
        let Proposal { method, selected, removals, drain_terms, .. } = proposal;
        let reason = method.reason();
        let removals = keep_annotations(removals, reason, &self.state, &self.decisions);
        let removals = if reason.is_urgent() { removals } else { self.limit_removals(removals, reason, ctx) };
        let (removals, check) = self.verify(removals, reason, drain_terms.deadline, ctx);
        let decided = removals.iter().map(|removal| removal.claim.clone()).collect();
        let basis = selected.map(|selected| {
            let Selected { input, selection } = *selected;
            RemovalRecord { input, check, answer: RemovalAnswer { selection, removals: decided } }
        });
        (removals, basis)
    }

    /// Has the verifier judge removals, and counts those that it rejects.
    pub(super) fn verify(
        &mut self,
        removals: Vec<Removal>,
        reason: RemovalReason,
        deadline: Option<Timestamp>,
        ctx: &mut Context<'_>,
    ) -> (Vec<Removal>, RemovalCheck) {
        let proposed = removals.len();
        let (removals, check) = verify_removals(removals, reason, deadline, &self.step_view(ctx.now), ctx);
        self.guardrails.count_rejected_removals(proposed - removals.len());
        (removals, check)
    }

    /// Executes a durable decision as far as it is still valid; the rest is decided again.
    pub(crate) fn execute_decision(&mut self, id: DecisionId, ctx: &mut Context<'_>) {
        let Some(decision) = self.decisions.take_recorded(id) else { return };
        self.holds.record_durable(id);
        execute_launches(
            &decision,
            ctx,
            &mut self.claims,
            &mut self.recovery,
            &mut self.provisioner,
            &mut self.state,
            &self.guardrails,
        );
        self.execute_removals(&decision, ctx);
    }

    /// Begins the removals that are still valid; the others are not counted any more.
    fn execute_removals(&mut self, decision: &Decision, ctx: &mut Context<'_>) {
        let method = methods::method_of(decision.reason).filter(|method| !method.reason().is_urgent());
        let Some(method) = method.filter(|_| !decision.removals.is_empty()) else { return };
        // A plan in progress may assign pods to these nodes; graceful removals are decided again after it.
        let planning = !method.reason().is_forceful()
            && self.provisioner.is_planning()
            && pending_plan_due(ctx, &self.provisioner, &self.state).is_some();
        let valid = if planning {
            BTreeSet::new()
        } else {
            selected_again(method, ctx, &self.decisions, &self.disruption, &self.state)
        };
        let terms = method.drain_terms(&disruption_view(&self.state, &self.decisions, &self.disruption, ctx));
        for removal in &decision.removals {
            if valid.contains(&removal.claim)
                && self.step_view(ctx.now).may_remove(&removal.claim, method.reason(), ctx)
            {
                self.begin_removal(method, decision.id, removal, terms, ctx);
            } else {
                cancel_removal(&removal.claim, ctx, &self.claims, &self.state);
            }
        }
    }

    /// Begins the drain of a machine that a method removes by `decision`.
    fn begin_removal(
        &mut self,
        method: &dyn Method,
        decision: DecisionId,
        removal: &Removal,
        terms: DrainTerms,
        ctx: &mut Context<'_>,
    ) {
        if let Some(reason) = method.reason().disruption_reason() {
            self.status_reporter.record_disruption(removal.claim.clone(), reason.as_str());
        }
        record_replaced(&removal.claim, &mut self.disruption, &self.claims, &self.state);
        if method.reason() == RemovalReason::Underutilized {
            let moves = self.state.moves_of(&removal.claim, self.history.costs.removed_by(&removal.claim), ctx.now);
            self.state.record_moves(moves, ctx.settings.consolidation.move_interval, ctx.now);
        }
        match method.reason() {
            RemovalReason::Expired => {
                await_replacement_of_expired(&removal.claim, ctx, &mut self.guardrails, &self.state)
            }
            RemovalReason::Rebalanced if ctx.disabled_guards.is_enabled(Guard::ReplacedFirst) => {
                await_replacement(&removal.claim, ctx, &mut self.guardrails, &self.state);
            }
            _ => {}
        }
        let reason = TerminationReason::Decided { why: removal.reason.clone(), decision };
        self.begin_termination(&removal.claim, reason, terms, ctx);
    }
}

/// NodeClaims that the method selects now, besides the removals of decisions that are not
/// durable.
fn selected_again(
    method: &dyn Method,
    ctx: &Context<'_>,
    decisions: &DecisionQueue,
    disruption: &Disruption,
    state: &ClusterState,
) -> BTreeSet<ClaimName> {
    method
        .select(&disruption_view(state, decisions, disruption, ctx))
        .removals
        .into_iter()
        .map(|removal| removal.claim)
        .collect()
}

/// What the methods of disruption read, and what reports of nodes judge by.
pub(crate) fn disruption_view<'v>(
    state: &'v ClusterState,
    decisions: &DecisionQueue,
    disruption: &Disruption,
    ctx: &Context<'_>,
) -> DisruptionView<'v> {
    DisruptionView {
        backoff: disruption.backoff.clone(),
        recommended: disruption.recommended.clone(),
        maintenance: disruption.maintenance(),
        waits_for_initialization: ctx.disabled_guards.is_enabled(Guard::InitializedReplacement),
        being_removed: decisions.claims_being_removed(),
        feature_gates: ctx.settings.feature_gates,
        repair: ctx.settings.disruption.repair,
        max_unavailable_nodes: ctx.settings.disruption.max_unavailable_nodes,
        move_interval: ctx.settings.consolidation.move_interval,
        ..DisruptionView::of(state, ctx.now)
    }
}
