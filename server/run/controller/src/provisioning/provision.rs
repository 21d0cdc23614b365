//! From a due plan to its decision: request the plan, limit what arrives, assign its pods, have the decision recorded.
//! `launches` creates the NodeClaims of a recorded decision.

use std::sync::Arc;

use super::{ArrivedPlan, PlanAnswer, PlanJob};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::disruption::replacements::unplaced_replacements;
use crate::guardrails::enforcement::{limit_launches, remaining};
use crate::guardrails::replacement::{planned_drains, waiting_drains};
use crate::guardrails::shadow::shadow_plan;
use crate::holds::strangers::explain_pods_of_holds;
use crate::provisioning::plan_assignment::{assign_plan, price_date, restrict_input};
use crate::provisioning::search::take_search;
use crate::{Decision, DecisionReason, Effect, order};
use model::MicroUsd;

impl ClusterController {
    /// Requests a plan if one is due and there is anything to plan.
    pub(crate) fn request_plan_if_due(&mut self, ctx: &mut Context<'_>) {
        let may_plan = self.is_ready() && !self.holds.is_planning();
        let due = self.provisioner.next_plan_at(ctx.settings, ctx.now).filter(|due| *due <= ctx.now && may_plan);
        let Some(due) = due else { return };
        self.holds.begin_plan_of_pods();
        self.guardrails.replace_launch_block(None);
        let has_backed_off_pods = self.guardrails.has_unbound_pods();
        let draft = self.provisioner.draft_plan(due, &self.state, has_backed_off_pods, ctx.settings, ctx.now);
        let Some(mut draft) = draft else { return self.guardrails.forget_shadow_plan() };
        let backed_off =
            restrict_input(draft.input_mut(), ctx, &mut self.guardrails, &mut self.provisioner, &self.state);
        draft.hold_pods(backed_off);
        if draft.is_empty() {
            return self.guardrails.forget_shadow_plan();
        }
        let (number, cluster, drains) =
            (ctx.next_plan_number(), self.cluster.clone(), waiting_drains(ctx.now, &self.claims));
        let request = self.provisioner.request_plan(draft, number, cluster, drains, &self.state, ctx.now);
        match take_search(&request, ctx, &mut self.provisioner) {
            Some(answer) => self.apply_answer(answer, ctx),
            None => ctx.effects.push(Effect::Plan(Box::new(PlanJob::Pods(Box::new(request))))),
        }
    }

    /// Applies the answer to the plan in progress.
    pub(crate) fn apply_answer(&mut self, answer: PlanAnswer, ctx: &mut Context<'_>) {
        let is_ready = self.is_ready();
        let view = super::plan_assignment::launch_view(&self.cluster, &self.state, &self.guardrails, ctx);
        let arrived = self.provisioner.take_answer(answer, is_ready, ctx.settings, &view);
        let Some(mut arrived) = arrived else { return };
        let drains = std::mem::take(&mut arrived.drains);
        let ArrivedPlan { basis, plan, report, .. } = &mut arrived;
        let waiting = limit_launches(
            &basis.input,
            plan,
            report,
            remaining(&self.claims, &self.decisions),
            ctx,
            &mut self.guardrails,
            &mut self.provisioner,
        );
        if basis.input.policy.search_steps > 0 {
            let saved = report.first_cost.map_or(0, |first| first.0 - report.new_cost.0);
            ctx.searches().record_applied(MicroUsd(saved));
        }
        arrived.unplaced.extend(waiting);
        explain_pods_of_holds(&mut arrived.unplaced, &self.holds, &self.state);
        let unplaced = if self.state.replacements().is_empty() { Vec::new() } else { arrived.unplaced.clone() };
        self.apply_plan(arrived, ctx);
        self.fail_replacements(unplaced_replacements(&unplaced, &self.state), ctx);
        for claim in planned_drains(&drains, ctx.now, &self.claims, &self.guardrails) {
            self.drain_node(&claim, ctx);
        }
    }

    /// Assigns the pods of a plan, and records its decision if it changes anything.
    fn apply_plan(&mut self, arrived: ArrivedPlan, ctx: &mut Context<'_>) {
        let ArrivedPlan { basis, plan, report, unplaced, due, version, .. } = arrived;
        if ctx.settings.is_shadow(&self.cluster) {
            let decision = shadow_plan(basis, &plan, report, unplaced, ctx, &self.state);
            return self.record_shadow(decision, ctx);
        }
        let (id, machines, placed) = assign_plan(
            &basis.input,
            &plan,
            ctx,
            &mut self.claims,
            &mut self.state,
            &self.provisioner,
            &mut self.nominator,
        );
        let unchanged = self.provisioner.record_unplaced(&unplaced);
        if machines.is_empty() && placed.is_empty() && unchanged {
            return;
        }
        let new_cost = order::charged_cost(&basis.input, &plan);
        let decision = Decision {
            due,
            price_date: price_date(&machines, &self.state),
            launches: machines,
            assignments: placed,
            unplaced,
            new_cost,
            lower_bound: report.lower_bound,
            notes: report.notes,
            basis: Some(Arc::new(basis)),
            ..Decision::new(id, self.cluster.clone(), DecisionReason::Provision, version, ctx.now)
        };
        self.record_decision(decision, ctx);
    }
}
