//! Consolidation: requests for plans of disruption, and what follows from their answers.
//!
//! A plan of disruption reads the whole cluster, so the controller requests it and never computes it, as with
//! plans of pods. Its input is built where it is planned ([`DisruptionJob`]). At most one is in progress, at most one is requested in an interval, and none while a plan of
//! pods is pending or nothing that makes a removal possible has changed since one that found nothing. Plans of all clusters
//! share an [allowance](crate::disruption_allowance).
//!
//! An answer is carried out as a whole or not at all: the moves of one command count on those of others. If
//! everything that it was made from is as it was, its machines are launched and its pods assigned, and the
//! removed machines are put under [replacement](super::replacements). The method
//! [`Underutilized`](super::methods::consolidation::Underutilized) removes them once their pods have
//! initialized nodes to go to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::consolidation_check::{Facts, is_outdated};
use super::consolidation_schedule::PendingConsolidation;
use super::method::DisruptionView;
use super::methods::consolidation::{ConsolidatableNodes, consolidatable};
use super::plan_input::{build, candidates};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::disruption::DecisionQueue;
use crate::disruption::Disruption;
use crate::disruption::replacements::end_replacement;
use crate::disruption::taken_room::{consolidations, still_saves};
use crate::disruption_allowance::DisruptionDemand;
use crate::guardrails::enforcement::limit_launches;
use crate::guardrails::enforcement::{remaining, replacement_room, reserve_removals};
use crate::guardrails::rate_limits::RateLimitRoom;
use crate::guardrails::replacement::pending_plan_due;
use crate::guardrails::shadow::{ShadowInput, shadow_removals};
use crate::guardrails::{Guard, ReplacementRoom};
use crate::node_report::planned_blocks::PlannedBlocks;
use crate::nodeclaim::NodeClaims;
use crate::order::charged_cost;
use crate::provisioning::pending_plan::have_limits_room;
use crate::provisioning::plan_assignment::assign_plan;
use crate::provisioning::plan_assignment::{may_launch, price_date};
use crate::provisioning::search::search_steps_of_groups;
use crate::provisioning::{
    DisruptionFacts, DisruptionJob, DisruptionOutcome, PlanJob, PlanNumber, PlanRequest, PlannedPool,
};
use crate::settings::ConsolidationSettings;
use crate::status_reporter::Rejection;
use crate::step_view::StepView;
use crate::unavailable_offerings::Probing;
use crate::{Decision, DecisionAnswer, DecisionInput, DecisionReason, Effect, Removal};
use cluster::{ClusterState, DecidedMoves, Target};
use model::disruption_plan::{Command, DisruptionPlan, DisruptionPlanSettings, MachineAllowance};
use model::disruption_policy::DisruptionReason;
use model::plan::PlanReport;
use model::removal::RemovalReason;
use model::{ClaimName, MicroUsd, Millis, NodePool, Text, Timestamp};

/// A cluster in which a request found nothing is planned again after this time without a change: windows of
/// budgets and prices change without an event.
const RECHECK: Millis = Millis::from_mins(5);

/// A cluster in which a request without a search found nothing, because other clusters searched, is planned again after
/// this time.
const SEARCH_RETRY: Millis = Millis::from_mins(1);

/// Number of commands that the notes of a decision name.
const COMMANDS_NAMED: usize = 10;

impl Disruption {
    /// Requests a plan of disruption if one is due and a node may be consolidated.
    pub(crate) fn request_consolidation_if_due(&mut self, view: &StepView<'_>, ctx: &mut Context<'_>) {
        self.consolidation.next_wakeup = None;
        let ConsolidationSettings { is_enabled, interval, .. } = ctx.settings.consolidation;
        let is_held = view.guardrails.is_quarantined() || self.consolidation.pending.is_some();
        if !is_enabled || is_held || !view.is_ready() {
            return;
        }
        let version = view.state.removal_opportunity_version();
        let due = self.consolidation.due_at(version, interval, ctx.now);
        // Demand is counted only when a request is due.
        let plan_due =
            || pending_plan_due(ctx, view.provisioner, view.state).map(|due| due.max(ctx.now + Millis::from_secs(1)));
        let due = if due > ctx.now { due } else { plan_due().unwrap_or(due) };
        if due > ctx.now {
            self.consolidation.next_wakeup = Some(due);
            return;
        }
        let found = nodes_to_consolidate(ctx, view.state);
        let is_held = ctx.guardrails.removal_block(&ctx.settings.guardrails, view.cluster).is_some();
        let may_launch = !is_held && !has_unused_machine_under_way(view.state);
        // A further removal would take the room that it may find.
        let may_move = view.state.moved_pod_without_room().is_none();
        ctx.release_guardrails();
        if found.is_any_now && may_launch && may_move {
            request_consolidation(ctx, self, view.state, view.claims, view.decisions);
        } else {
            self.consolidation.checked_at = Some(ctx.now);
            self.consolidation.stop_waiting();
            let until = next_look(ctx, self, view.state);
            self.consolidation.record_idle(version, until);
            let due = self.consolidation.due_at(version, interval, ctx.now);
            self.consolidation.next_wakeup = Some(due);
        }
    }
}

impl ClusterController {
    /// Handles the answer to a request: carries it out if it still holds as a whole.
    pub(crate) fn handle_disruption_plan(
        &mut self,
        request: PlanRequest,
        outcome: DisruptionOutcome,
        ctx: &mut Context<'_>,
    ) {
        let pending = self.disruption.consolidation.pending.take_if(|pending| pending.number == request.number);
        let Some(pending) = pending else { return };
        let searched_at = if pending.is_searched { ctx.now + RECHECK } else { ctx.now + SEARCH_RETRY };
        // More may be removed when a window of the rate limits moves on.
        let idle_until =
            pending.more_room_at.into_iter().chain([next_look(ctx, &self.disruption, &self.state), searched_at]).min();
        let idle_until = idle_until.unwrap_or(searched_at);
        self.disruption.consolidation.record_idle(pending.version, idle_until);
        let Ok(planned) = outcome else { return };
        self.disruption.consolidation.planned_blocks = PlannedBlocks::of(&planned, request.input.now);
        let removals = consolidated(&planned, &self.state);
        self.disruption.consolidation.found_savings = !removals.is_empty();
        if removals.is_empty() {
            return;
        }
        if let Err((rejection, why)) =
            check_plan(&pending, &request, &planned, &removals, ctx, &self.step_view(ctx.now))
        {
            return self.note_rejected_plan(&removals, rejection, why, ctx.now);
        }
        if !have_limits_room(&self.state, &planned.input, &planned.plan) {
            // Machines that are replaced count until they are gone.
            self.disruption.consolidation.exceeded_limits = true;
            self.disruption.consolidation.idle = None;
            let why = "the limits of a NodePool leave no room for the new machines";
            return self.note_rejected_plan(&removals, Rejection::Scheduling, why, ctx.now);
        }
        if ctx.settings.is_shadow_removal(&self.cluster, RemovalReason::Underutilized) {
            let removals = self.limit_removals(removals, RemovalReason::Underutilized, ctx);
            let (reason, basis) = (DecisionReason::Disruption(RemovalReason::Underutilized), basis(request, planned));
            let input = ShadowInput::Plan(basis.map(Arc::new));
            return self.record_shadow(shadow_removals(reason, &removals, input, ctx, &self.claims, &self.state), ctx);
        }
        let view = self.step_view(ctx.now);
        if removals.iter().all(|removal| view.may_remove(&removal.claim, RemovalReason::Underutilized, ctx)) {
            self.apply_consolidation(request, planned, &removals, ctx);
        }
    }

    /// Launches the machines of the plan, assigns its pods, and puts the removed machines under replacement.
    /// If a guardrail limits a launch or a removal, nothing is done: the moves count on each machine, and a machine that
    /// is launched for one that may not be removed then costs and saves nothing. The removals are reserved last, when
    /// nothing else holds the plan back.
    fn apply_consolidation(
        &mut self,
        request: PlanRequest,
        planned: DisruptionPlan,
        removals: &[Removal],
        ctx: &mut Context<'_>,
    ) {
        let notes = notes(&planned);
        let input = &planned.input;
        // The plan as it was made is recorded.
        let mut plan = planned.plan.clone();
        let machines = plan.nodes.len();
        let new_cost = charged_cost(input, &plan);
        limit_launches(
            input,
            &mut plan,
            &mut PlanReport::default(),
            remaining(&self.claims, &self.decisions),
            ctx,
            &mut self.guardrails,
            &mut self.provisioner,
        );
        if plan.nodes.len() < machines {
            let why = "a guardrail holds back a launch of the plan";
            return self.note_rejected_plan(removals, Rejection::Budget, why, ctx.now);
        }
        if !reserve_removals(removals, ctx, &mut self.guardrails, &self.claims, &self.decisions) {
            // Others took what was left since the plan was requested: the next one has what is left now.
            self.disruption.consolidation.idle = None;
            let why = "a guardrail holds back a removal of the plan";
            return self.note_rejected_plan(removals, Rejection::Budget, why, ctx.now);
        }
        let (id, mut launches, assignments) =
            assign_plan(input, &plan, ctx, &mut self.claims, &mut self.state, &self.provisioner, &mut self.nominator);
        for machine in &mut launches {
            machine.reason =
                format!("decision {}: its pods leave nodes that it replaces at a lower price", id.0).into();
        }
        for removal in removals {
            self.state.begin_consolidation(&removal.claim, ctx.now);
        }
        self.with_part(
            |parts| &mut parts.status_reporter,
            ctx.now,
            |reporter, view| reporter.note_consolidation(removals, id, view),
        );
        self.disruption.consolidation.idle = None;
        self.disruption.mark_changed();
        let reason = DecisionReason::Disruption(RemovalReason::Underutilized);
        let decision = Decision {
            price_date: price_date(&launches, &self.state),
            launches,
            assignments,
            new_cost,
            notes,
            basis: basis(request, planned).map(Arc::new),
            ..Decision::new(id, self.cluster.clone(), reason, self.state.version(), ctx.now)
        };
        self.record_decision(decision, ctx);
    }

    /// Notes and counts that a plan which removes these machines is not carried out.
    fn note_rejected_plan(&mut self, removals: &[Removal], rejection: Rejection, why: &str, now: Timestamp) {
        self.history.lifecycle.count_failed_validation(removals.len());
        self.with_part(
            |parts| &mut parts.status_reporter,
            now,
            |reporter, view| reporter.note_rejected_plan(removals, rejection, why, view),
        );
    }

    /// Ends the consolidation of machines with pods that have no place any more, before a plan launches
    /// machines for them, or whose places cost as much as the machine: the pods stay where they run.
    pub(crate) fn end_invalid_consolidations(&mut self, ctx: &Context<'_>) {
        if self.state.replacements().is_empty() || !ctx.disabled_guards.is_enabled(Guard::ConsolidationEnd) {
            return;
        }
        let has_place = |claim: &ClaimName| {
            let Some(node) = self.state.node_of_claim(claim) else { return true };
            let mut pods = self.state.pods_to_move_from(&node.name, ctx.now);
            pods.all(|pod| self.state.assignments().get(&pod.key).is_some())
        };
        let of_consolidation = self.state.replacements().iter().filter(|(claim, begun)| {
            begun.reason == DisruptionReason::Underutilized && !self.state.is_marked_for_deletion(claim)
        });
        let consolidations = consolidations(&self.decisions);
        let why = |claim: &ClaimName| match has_place(claim) {
            false => Some("a pod has no other place any more"),
            true if !still_saves(claim, &consolidations, ctx.now, &self.claims, &self.state) => {
                Some("other pods took the room, and what its pods have instead costs as much as the node")
            }
            true => None,
        };
        let invalid: BTreeMap<ClaimName, &str> =
            of_consolidation.filter_map(|(claim, _)| Some((claim.clone(), why(claim)?))).collect();
        for (claim, why) in invalid {
            self.note_ended_replacement(&claim, Rejection::Scheduling, why, ctx.now);
            end_replacement(&claim, ctx, &mut self.disruption, &mut self.provisioner, &mut self.state);
        }
    }
}

/// Whether everything that the plan was made from is as it was; what differs otherwise.
fn check_plan(
    pending: &PendingConsolidation,
    request: &PlanRequest,
    planned: &DisruptionPlan,
    removals: &[Removal],
    ctx: &mut Context<'_>,
    view: &StepView<'_>,
) -> Result<(), (Rejection, &'static str)> {
    if !ctx.disabled_guards.is_enabled(Guard::ConsolidationCheck) {
        return Ok(());
    }
    let has_changed = Err((Rejection::Churn, "the cluster has changed since the plan was made"));
    let is_free = view.is_ready()
        && !view.guardrails.is_quarantined()
        && pending_plan_due(ctx, view.provisioner, view.state).is_none()
        && !has_unused_machine_under_way(view.state)
        && view.decisions.last_id() == pending.last_decision;
    let expected: usize = underutilized(planned).map(|command| command.nodes.len()).sum();
    let Some(disruption) = request.disruption.as_ref().filter(|_| is_free && removals.len() == expected) else {
        return has_changed;
    };
    let facts = disruption_facts(ctx, view.state, view.decisions, view.disruption);
    if removals.len() > candidates(&facts).cluster_allowance(DisruptionReason::Underutilized) {
        return Err((Rejection::Budget, "disruption.max-unavailable-nodes allows fewer removals by now"));
    }
    let (input, running) = build(&facts);
    let before = Facts { input: &request.input, running: &disruption.running };
    let removable = DisruptionView {
        being_removed: view.decisions.claims_being_removed(),
        ..DisruptionView::of(view.state, ctx.now)
    };
    let may_launch = planned.plan.nodes.iter().all(|node| {
        let pool = &planned.input.pools[node.pool as usize];
        pending
            .revisions
            .get(&pool.name)
            .is_some_and(|revision| may_launch(pool, node, revision, ctx, view.guardrails, view.state))
    });
    if !may_launch {
        return Err((Rejection::Scheduling, "a new machine of the plan cannot be launched any more"));
    }
    if is_outdated(before, Facts { input: &input, running: &running }, planned, removals, &removable) {
        return has_changed;
    }
    Ok(())
}

/// Requests a plan if the allowance of all clusters grants it.
pub(crate) fn request_consolidation(
    ctx: &mut Context<'_>,
    disruption: &mut Disruption,
    state: &CopyOnWrite<ClusterState>,
    claims: &NodeClaims,
    decisions: &DecisionQueue,
) {
    let consolidation = &mut disruption.consolidation;
    let since = *consolidation.waiting_since.get_or_insert(ctx.now);
    let is_promising = consolidation.found_savings || consolidation.pods_left != state.pods_left();
    let number = ctx.next_plan_number();
    let demand = DisruptionDemand { cluster: &ctx.cluster, plan: number, since, is_promising };
    if let Err(again) = ctx.disruption_plans().begin(demand, ctx.now) {
        consolidation.asks_again = Some(again);
        consolidation.next_wakeup = Some(again);
        return;
    }
    consolidation.begin(ctx.now, state.pods_left());
    let room = replacement_room(ctx, claims, decisions);
    let job = disruption_job(number, room, ctx, disruption, state, decisions);
    let revisions = state.pools().map(|record| (record.pool.name.clone(), record.revision.clone())).collect();
    let is_searched = job.search_steps > 0 || !ctx.settings.search.is_enabled();
    let (version, last_decision) = (state.removal_opportunity_version(), decisions.last_id());
    let more_room_at = room.and_then(|room| room.removals.more_at.into_iter().chain(room.launches.more_at).min());
    disruption.consolidation.pending =
        Some(PendingConsolidation { number, version, last_decision, revisions, is_searched, more_room_at });
    ctx.effects.push(Effect::Plan(Box::new(PlanJob::Disruption(Box::new(job)))));
}

pub(crate) fn disruption_job(
    number: PlanNumber,
    room: Option<ReplacementRoom>,
    ctx: &mut Context<'_>,
    disruption: &mut Disruption,
    state: &CopyOnWrite<ClusterState>,
    decisions: &DecisionQueue,
) -> DisruptionJob {
    let ConsolidationSettings { min_savings, churn_price, .. } = ctx.settings.consolidation;
    let spot_to_spot = ctx.settings.feature_gates.spot_to_spot_consolidation;
    let mut job = DisruptionJob {
        number,
        cluster: ctx.cluster.clone(),
        facts: disruption_facts(ctx, state, decisions, disruption),
        build,
        settings: DisruptionPlanSettings {
            min_savings,
            churn_price,
            spot_to_spot,
            node_repair: false,
            removals: room.map(|room| allowance(room.removals)),
            launches: room.map(|room| allowance(room.launches)),
        },
        search_steps: 0,
        are_limits_exhausted: std::mem::take(&mut disruption.consolidation.exceeded_limits),
    };
    // A search takes many times what the rest of the plan does, while other clusters wait.
    let may_search = disruption.consolidation.is_search_overdue(ctx.now) || !ctx.disruption_plans().has_waiting();
    let steps = if may_search { search_steps_of_groups(number, job.facts.nodes(), ctx) } else { 0 };
    if steps > 0 {
        disruption.consolidation.searched_at = Some(ctx.now);
    }
    job.grant(steps);
    job
}

/// What a plan of disruption is made from now.
pub(crate) fn disruption_facts(
    ctx: &mut Context<'_>,
    state: &CopyOnWrite<ClusterState>,
    decisions: &DecisionQueue,
    disruption: &Disruption,
) -> DisruptionFacts {
    let of_pool = |pool: &NodePool| PlannedPool {
        catalogue: ctx.offerings.mask_catalogue(state.launch_catalogue(pool), Probing::Excluded, ctx.now),
        closed: ctx.launch_block(&pool.name),
        keeps_nodes: disruption.backoff.until(&pool.name, ctx.now).is_some()
            || ctx.guardrails.pool_removal_block(&ctx.cluster, &pool.name, RemovalReason::Underutilized).is_some(),
    };
    let pools = state.pools().map(|record| (record.pool.name.clone(), of_pool(&record.pool))).collect();
    // Other clusters need not wait while the input is built.
    ctx.release_guardrails();
    DisruptionFacts {
        state: state.snapshot(),
        now: ctx.now,
        policy: ctx.settings.policy.clone(),
        move_interval: ctx.settings.consolidation.move_interval,
        leaving: decisions.claims_being_removed(),
        pools,
        max_unavailable_nodes: ctx.settings.disruption.max_unavailable_nodes,
    }
}

/// When the cluster is looked at again without a change.
fn next_look(ctx: &Context<'_>, disruption: &Disruption, state: &ClusterState) -> Timestamp {
    let backoffs = state.pools().filter_map(|pool| disruption.backoff.until(&pool.pool.name, ctx.now));
    let next = nodes_to_consolidate(ctx, state).next;
    backoffs.chain(next).chain([ctx.now + RECHECK]).min().unwrap_or(ctx.now + RECHECK)
}

/// Restores what consolidation moved before the takeover. A controller that has machines knows it.
pub(crate) fn restore_moves(moves: Vec<DecidedMoves>, state: &mut CopyOnWrite<ClusterState>, claims: &NodeClaims) {
    if claims.is_empty() {
        state.restore_moves(moves);
    }
}

/// The machines that the plan removes because their pods fit elsewhere at a lower price.
fn consolidated(planned: &DisruptionPlan, state: &ClusterState) -> Vec<Removal> {
    let removal = |command: &Command, node: u32| {
        let node = state.node(&planned.input.nodes.get(node as usize)?.name)?;
        let claim = state.claim_of_node(node)?;
        let into = match command.replacements.len() {
            0 => "fit on other nodes".to_owned(),
            machines => format!("fit on other nodes and {machines} cheaper machines"),
        };
        let saved = command.savings;
        let reason = format!("the pods of node {} {into}: its command saves ${saved} an hour", node.name);
        Some(Removal { claim: claim.name.clone(), node: node.name.clone(), reason: Text::from(reason) })
    };
    let of = |command: &Command| -> Vec<Removal> {
        command.nodes.iter().filter_map(|node| removal(command, *node)).collect()
    };
    underutilized(planned).flat_map(of).collect()
}

/// The nodes that a plan requested now would look at.
fn nodes_to_consolidate(ctx: &Context<'_>, state: &ClusterState) -> ConsolidatableNodes {
    let move_interval = ctx.settings.consolidation.move_interval;
    consolidatable(&DisruptionView { move_interval, ..DisruptionView::of(state, ctx.now) })
}

/// Whether a machine is not initialized and no pod is assigned to it, such as that of a replacement that ended. A
/// plan of disruption moves no pod to it and would launch another one (Karpenter's simulation refuses a command
/// whose pods go to a node that is not initialized). Machines of static NodePools are launched for no pod.
fn has_unused_machine_under_way(state: &ClusterState) -> bool {
    let is_dynamic = |pool| state.pool(pool).is_some_and(|record| record.pool.replicas.is_none());
    state.claims().filter(|claim| claim.ours && is_dynamic(&claim.pool)).any(|claim| {
        let node = state.node_of_claim(&claim.name);
        let of_node = node.map(|node| Target::Node(node.name.clone()));
        let mut targets = of_node.into_iter().chain([Target::Claim(claim.name.clone())]);
        node.is_none_or(|node| !node.is_initialized())
            && !claim.deleting
            && !state.is_marked_for_deletion(&claim.name)
            && !targets.any(|target| state.assignments().has_pods(&target))
    })
}

/// What a plan may begin within `room`.
fn allowance(room: RateLimitRoom) -> MachineAllowance {
    MachineAllowance {
        machines: u32::try_from(room.machines).unwrap_or(u32::MAX),
        usd_per_hour: room.usd_per_hour.unwrap_or(MicroUsd(i64::MAX)),
    }
}

fn underutilized(planned: &DisruptionPlan) -> impl Iterator<Item = &Command> {
    planned.commands.iter().filter(|command| command.reason == RemovalReason::Underutilized)
}

/// What the decision was made from, to be recorded with it.
fn basis(request: PlanRequest, planned: DisruptionPlan) -> Option<DecisionInput> {
    let PlanRequest { input, disruption, .. } = request;
    let answer = DecisionAnswer::Disruption { request: disruption?, plan: Box::new(planned) };
    Some(DecisionInput { opened: None, input, answer })
}

/// What the commands do and save, for the decision.
fn notes(planned: &DisruptionPlan) -> Vec<String> {
    let commands = underutilized(planned).count();
    let saved: i64 = underutilized(planned).map(|command| command.savings.0).sum();
    let of_command = |command: &Command| {
        let names: Vec<&str> =
            command.nodes.iter().map(|node| planned.input.nodes[*node as usize].name.as_ref()).collect();
        let machines = command.replacements.len();
        format!(
            "consolidates {} into other nodes and {machines} new: saves ${} an hour",
            names.join(", "),
            command.savings
        )
    };
    let mut notes = vec![format!("consolidation saves ${} an hour by {commands} commands", MicroUsd(saved))];
    notes.extend(underutilized(planned).take(COMMANDS_NAMED).map(of_command));
    notes
}
