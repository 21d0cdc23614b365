//! Dispatch of one event within its cluster, and the steps that follow.

use std::cell::Cell;
use std::sync::Arc;

use super::cluster_controller::ClusterController;
use super::context::Context;
use super::guardrails::quarantine::CONFIRMATION_TTL;
use super::guardrails::{Guard, is_allowed_by_mode};
use super::provisioning::{PlanAnswer, Planned};
use super::{ClusterCall, Effect, Event, Finding};
use crate::cluster_controller::Published;
use crate::copy_on_write::CopyOnWrite;
use crate::cost_observer::next_cost_wakeup;
use crate::disruption::Disruption;
use crate::disruption::consolidation::restore_moves;
use crate::disruption::replacement_recovery::{end_recorded_replacements, load_replacements};
use crate::guardrails::enforcement::{count_discovered_launches, remaining};
use crate::guardrails::removal::BlockCause;
use crate::guardrails::removal_gate::confirm_removals;
use crate::guardrails::replacement::{expire_assignments, replaced_drains};
use crate::guardrails::restore::restore_guardrails;
use crate::guardrails::restore::restore_launch_backoff;
use crate::guardrails::snapshot_acceptance::{KnownMachines, request_resync, restore_deleted_objects};
use crate::node_class::NodeClassResolver;
use crate::nodeclaim::NodeClaims;
use crate::nodeclaim::disrupted_taint::{next_taint_removal, taint_removals};
use crate::nodeclaim::lifecycle::adopt_claims;
use crate::nodeclaim::lifecycle::handle_launched;
use crate::nodeclaim::orphans::apply_observation;
use crate::nodeclaim::termination::keep_claimed_machines;
use crate::nomination::NominationView;
use crate::provisioning::probing::{handle_probe_answers, probes_to_claim};
use crate::provisioning::search::request_search_if_due;
use crate::provisioning::search::settle_search;
use crate::region_state::RegionState;
use crate::settings::ClassFacts;
use crate::step_view::StepView;
use cluster::ClusterState;
use cluster::{ComparisonRules, Object, Observation};
use model::{ClusterName, Timestamp};

impl ClusterController {
    /// Handles one event of this cluster, and returns its effects in the order of
    /// execution. [`ClusterController::next_wakeup`] says when [`Event::Tick`] is due.
    pub fn handle(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        let (region, locked, mut effects) = (Arc::clone(&self.region), Cell::new(false), Vec::new());
        let mut ctx = Context::new((self.cluster.clone(), self.uid.clone()), &region, &locked, &mut effects, now);
        configure_state(&ctx, &mut self.state);
        let before = self.view_fingerprint();
        region.offerings().expire(now);
        let limits_version = region.limits_version();
        let limits_changed = std::mem::replace(&mut self.published.limits_version, limits_version) != limits_version;
        if limits_changed {
            self.disruption.schedule_now();
            self.provisioner.replan_for_changed_limits(now);
        }
        self.handle_event(event, &mut ctx);
        let is_synced = self.connected && self.state.is_synced();
        self.unsynced_since = (!is_synced).then(|| self.unsynced_since.unwrap_or(now));
        // What the event decided is checked and counted; planning reads the whole cluster.
        ctx.release_guardrails();
        self.advance(&mut ctx);
        let remaining = remaining(&self.claims, &self.decisions);
        if self.published.machines != Some(remaining) {
            self.published.machines = Some(remaining);
            ctx.guardrails.record_machines(&self.cluster, remaining);
        }
        publish_instances(&self.cluster, &mut self.published, &mut self.claims, &self.region);
        drop(ctx);
        if locked.get() {
            region.advance(now);
        }
        if limits_changed || self.view_fingerprint() != before {
            effects.push(Effect::PublishView);
        }
        let mode = region.settings().guardrails.mode_of(&self.cluster);
        effects.retain(|effect| is_allowed_by_mode(mode, effect));
        effects
    }

    /// Updates the state of the cluster; decisions follow in [`ClusterController::advance`].
    pub(crate) fn handle_event(&mut self, event: Event, ctx: &mut Context<'_>) {
        // No arm decides: every decision follows in `advance`, from the complete state.
        match event {
            Event::Observed(observation) => self.handle_observation(observation, ctx),
            Event::QuarantineReleased => self.release_quarantine(ctx),
            Event::AgentConnected => self.connected = true,
            Event::ClusterFactsReported { facts, refused } => {
                self.state.set_facts(facts);
                refused.into_iter().for_each(|why| ctx.report_finding(Finding::UnusableFact { why }));
            }
            Event::AgentDisconnected => {
                self.connected = false;
                self.state.mark_unsynced();
                restore_deleted_objects(ctx.now, &mut self.guardrails, &mut self.state);
            }
            Event::Planned(answer) => self.handle_plan(*answer, ctx),
            Event::Recorded(decision) => self.execute_decision(decision, ctx),
            Event::Launched(launched) => {
                handle_launched(*launched, ctx, &mut self.claims, &mut self.guardrails, &mut self.state)
            }
            Event::LaunchFailed { claim, attempt, failure } => {
                self.handle_launch_failure(&claim, attempt, failure, ctx)
            }
            Event::InstanceGone(provider_id) => self.handle_instance_gone(&provider_id, ctx),
            Event::Inspected { provider_id, found } => self.handle_inspection(&provider_id, found, ctx),
            Event::TerminateRefused { claim, provider_id } => self.handle_terminate_refused(&claim, &provider_id, ctx),
            Event::NodeClassResolved { query, resolved } => return self.handle_node_class(&query, *resolved, ctx),
            Event::RemovalsConfirmed => {
                confirm_removals(ctx.now, &mut self.claims, &mut self.disruption, &mut self.gc, &self.guardrails)
            }
            Event::InstructionAcked(instruction) => self.handle_ack(instruction, ctx),
            Event::InstructionFailed { instruction, reason, unmet } => {
                self.handle_instruction_failure(instruction, &reason, unmet, ctx);
            }
            Event::Interrupted { provider_id, kind, ends } => {
                self.handle_interruption(&provider_id, kind, ends, ctx);
            }
            Event::NoticesAnswered { asked, answer } => {
                let outcomes = self.disruption.notices.handle_answer(&asked, &answer, &self.claims, ctx);
                self.apply_notice_outcomes(outcomes, ctx);
            }
            Event::ProbesAnswered { answers, until } => {
                return handle_probe_answers(answers, until, ctx, &mut self.provisioner);
            }
            Event::LaunchHistoryLoaded(past) => restore_guardrails(past, ctx, &mut self.guardrails, &self.claims),
            Event::MovesLoaded(moves) => restore_moves(moves, &mut self.state, &self.claims),
            Event::CountsLoaded(counts) => self.guardrails.restore_counts(counts, ctx.now),
            Event::ReplacementsLoaded(read) => load_replacements(*read, &mut self.disruption),
            Event::CostsLoaded(last) => return self.history.costs.restore(last),
            Event::CostsRecorded => return self.history.costs.confirm(),
            Event::HoldsChanged { read, holds } => self.load_holds(read, holds, ctx.now),
            Event::LeaseAcquired { uid, launches } => self.begin_recovery(uid, launches, ctx),
            Event::Listed(listing) => self.collect_garbage(&listing, ctx),
            Event::Tick => return,
        }
        self.status_reporter.mark_dirty();
        self.disruption.mark_changed();
    }

    fn handle_observation(&mut self, observation: Observation, ctx: &mut Context<'_>) {
        let machines = KnownMachines { claims: &self.claims, recovery: &self.recovery };
        if let Some(observation) = self.guardrails.accept_observation(observation, machines, &mut self.state, ctx) {
            self.apply_accepted(observation, ctx);
        }
    }

    /// Accepts the snapshot in quarantine, and what follows from an operator's word that snapshots are right.
    fn release_quarantine(&mut self, ctx: &mut Context<'_>) {
        self.guardrails.confirm_snapshot(ctx.now + CONFIRMATION_TTL);
        if let Some(observation) = self.guardrails.release_quarantine() {
            self.apply_accepted(observation, ctx);
        } else if self.state.is_synced() {
            self.resume_unfinished(ctx);
        }
    }

    fn apply_accepted(&mut self, observation: Observation, ctx: &mut Context<'_>) {
        let now = ctx.now;
        let pod = match &observation {
            Observation::Upsert(object) => match object.as_ref() {
                Object::Pod(pod) => Some(pod.key.clone()),
                _ => None,
            },
            _ => None,
        };
        let is_pod = pod.is_some();
        let structural = self.state.may_change_evictions(&observation)
            || matches!(&observation, Observation::Upsert(object)
                if matches!(object.as_ref(), Object::Pool(_) | Object::Daemon(_) | Object::Autoscaler(_)));
        let whole = matches!(observation, Observation::Snapshot(_));
        if let Observation::Upsert(object) = &observation {
            self.nominator.observe_change(object, &self.state, now);
        }
        self.history.observe(&observation, &self.state, now);
        // The state is updated first: adoption, recovery and the batch window read it.
        apply_observation(observation, now, &mut self.claims, &mut self.guardrails, &mut self.history, &mut self.state);
        if !is_pod {
            adopt_claims(now, &mut self.claims, &self.state);
            keep_claimed_machines(
                ctx,
                &mut self.claims,
                &mut self.provisioner,
                &mut self.state,
                &mut self.status_reporter,
            );
        }
        if whole || self.gc.last_absence_finding.is_some() {
            self.resume_unfinished(ctx);
        }
        match pod {
            Some(key) => {
                self.provisioner.add_pending_pod(&key, &self.state, now);
                self.nominator.schedule_lost_nomination(&key, &self.state, now);
            }
            None if whole => self.provisioner.add_all_pending_pods(&self.state, now),
            None if structural => self.provisioner.replan_for_changed_objects(now),
            None => {}
        }
        if whole {
            restore_launch_backoff(ctx, &mut self.guardrails, &self.state);
            count_discovered_launches(ctx, &self.claims, &self.state);
        }
    }

    /// Takes every step that the time and the state permit.
    pub(crate) fn advance(&mut self, ctx: &mut Context<'_>) {
        let now = ctx.now;
        self.guardrails.retain_waiting_removals(BlockCause::Unconfirmed, |claim| self.claims.contains(claim));
        let outcomes = self.disruption.notices.ask(&self.claims, ctx);
        self.apply_notice_outcomes(outcomes, ctx);
        expire_assignments(ctx, &mut self.disruption, &mut self.provisioner, &mut self.state);
        self.provisioner.plan_released_pods(&self.state, ctx.now);
        self.nominator.forget_removed(&self.claims);
        request_resync(ctx, &mut self.guardrails, self.connected);
        if !self.guardrails.is_quarantined() && !ctx.settings.is_shadow(&self.cluster) {
            for claim in replaced_drains(ctx.now, &mut self.guardrails, &self.claims, &self.state) {
                self.drain_node(&claim, ctx);
            }
            self.advance_machines(ctx);
            for removal in taint_removals(&self.step_view(ctx.now)) {
                self.claims.instruct(removal, ctx);
            }
            if self.is_ready() {
                let view = NominationView { state: &self.state, claims: &self.claims, now: ctx.now };
                for nominations in self.nominator.retry_nominations(&view) {
                    self.claims.instruct(nominations, ctx);
                }
            }
        }
        self.end_invalid_consolidations(ctx);
        // What was decided so far is counted. An input of a plan takes milliseconds to build.
        ctx.release_guardrails();
        let keys = probes_to_claim(&self.step_view(ctx.now), ctx);
        if !keys.is_empty() {
            ctx.effects.push(Effect::ClaimProbes(keys));
        }
        self.reconcile_holds(ctx);
        self.request_plan_if_due(ctx);
        request_search_if_due(ctx, &mut self.provisioner, &mut self.guardrails, &self.state, self.connected);
        self.reconcile_disruption(ctx);
        ctx.release_guardrails();
        let request = |part: &mut Disruption, view: &StepView<'_>| part.request_consolidation_if_due(view, ctx);
        self.with_part(|parts| &mut parts.disruption, now, request);
        end_recorded_replacements(ctx, &mut self.disruption, &self.decisions, &self.state);
        if self.is_ready() {
            self.guardrails.persist_counts(&self.state, ctx);
        }
        self.record_costs(ctx);
        self.history.lifecycle.count_decisions(self.decisions.recent().map(AsRef::as_ref));
        self.history.lifecycle.count(&mut self.claims, ctx.now);
        let queries = self.with_part(|parts| &mut parts.node_classes, ctx.now, NodeClassResolver::request_due);
        queries.into_iter().for_each(|query| ctx.call(ClusterCall::ResolveNodeClass(Box::new(query))));
        self.reconcile_status(ctx);
        self.next_wakeup = self.next_wakeup_at(ctx);
    }

    fn reconcile_status(&mut self, ctx: &mut Context<'_>) {
        if !self.is_ready() || !self.step_view(ctx.now).may_report_status() || !self.status_reporter.is_due(ctx.now) {
            return;
        }
        let pod_events = self.state.take_pod_events();
        let writes = self.with_part(
            |parts| &mut parts.status_reporter,
            ctx.now,
            |reporter, view| reporter.reconcile(&pod_events, view, ctx),
        );
        for (id, instruction) in writes {
            ctx.effects.push(Effect::Instruct { id, instruction: Box::new(instruction) });
        }
    }

    fn next_wakeup_at(&mut self, ctx: &Context<'_>) -> Option<Timestamp> {
        let (settings, costs) = (ctx.settings, next_cost_wakeup(&mut self.claims, &self.history, &self.state));
        let machines = self.claims.next_wakeup(settings.launch_timeout, settings.registration_timeout, ctx.now);
        let report = self.status_reporter.next_pass(ctx.now).filter(|_| self.step_view(ctx.now).may_report_status());
        let decisions = [self.disruption.next_wakeup(), report].into_iter().flatten().filter(|_| self.is_ready());
        // Machines are not advanced in quarantine or shadow mode, so their times cause no wake-up.
        let held = self.guardrails.is_quarantined() || ctx.settings.is_shadow(&self.cluster);
        let nominations = self.nominator.next_wakeup(self.is_ready());
        let taints = next_taint_removal(ctx.now, &self.step_view(ctx.now)).filter(|_| self.is_ready());
        let machines = machines.into_iter().chain(nominations).chain(taints);
        let machines = machines.chain(self.guardrails.next_removal_recheck()).filter(|_| !held);
        let resolutions = self.node_classes.next_wakeup().filter(|_| self.step_view(ctx.now).resolves_node_classes());
        let lapses = [
            resolutions,
            self.guardrails.next_resync().filter(|_| self.connected),
            self.guardrails.next_counts_write(&self.state, ctx).filter(|_| self.is_ready()),
            costs,
            self.holds.next_wakeup(self.is_ready(), self.state.version(), ctx.now),
            self.state.assignments().next_expiry(),
            self.provisioner.next_wakeup(self.is_ready() && !self.holds.is_planning(), settings, ctx.now),
            ctx.offerings.next_renewal(&self.cluster),
            self.disruption.notices.next_wakeup(),
        ]
        .into_iter()
        .flatten();
        machines.chain(decisions).chain(lapses).min()
    }

    /// Handles the answer to a plan request.
    pub(crate) fn handle_plan(&mut self, answer: PlanAnswer, ctx: &mut Context<'_>) {
        if answer.request.is_search() {
            settle_search(&answer, ctx);
        }
        if answer.request.disruption.is_some() {
            ctx.disruption_plans().end(answer.request.number, answer.used, ctx.now);
        }
        let answer = match answer {
            PlanAnswer { request, outcome: Ok(Planned::Disruption(planned)), .. } => {
                return self.handle_disruption_plan(request, Ok(*planned), ctx);
            }
            PlanAnswer { request, outcome: Err(error), .. } if request.disruption.is_some() => {
                return self.handle_disruption_plan(request, Err(error), ctx);
            }
            answer => answer,
        };
        let Some(answer) = self.handle_hold_plan(answer, ctx) else { return };
        if let Some(answer) = self.provisioner.keep_search(answer) {
            self.apply_answer(answer, ctx);
        }
    }
}

/// Publishes the instances of this cluster when they have changed, for notices that name an instance alone.
pub(crate) fn publish_instances(
    cluster: &ClusterName,
    published: &mut Published,
    claims: &mut NodeClaims,
    region: &RegionState,
) {
    let fingerprint = claims.instances_fingerprint();
    if published.instances.replace(fingerprint) != Some(fingerprint) {
        region.replace_instances(cluster, claims.provider_ids().cloned().collect());
    }
}

/// Tells the state what settings say. It is not changed while it is as they say, because a change copies it if a plan
/// of disruption reads it.
pub(crate) fn configure_state(ctx: &Context<'_>, state: &mut CopyOnWrite<ClusterState>) {
    let (hold, shadow) = (ctx.settings.hold_after_external_scale_up, ctx.settings.is_shadow(&ctx.cluster));
    if !state.is_configured(hold, shadow, &ctx.settings.schedulers) {
        state.hold_after_external_scale_up(hold);
        state.set_shadow(shadow);
        state.set_schedulers(ctx.settings.schedulers.clone());
    }
    let rules = ComparisonRules {
        is_resolver: ctx.settings.class_facts == ClassFacts::Resolved,
        allows_outdated: !ctx.disabled_guards.is_enabled(Guard::CurrentLookup),
        allows_failed: !ctx.disabled_guards.is_enabled(Guard::FailedLookup),
    };
    if state.comparison_rules() != rules {
        state.set_comparison_rules(rules);
    }
}
