//! Dispatch of one event within its cluster, and the steps that follow.

use super::cluster_controller::{ClusterController, Context};
use super::guardrails::quarantine::CONFIRMATION_TTL;
use super::{Event, machine::Stage};
use crate::cluster::{Object, Observation};
use model::{PodKey, Timestamp};

impl ClusterController {
    /// Updates the state of the cluster; decisions follow in [`ClusterController::advance`].
    pub fn handle_event(&mut self, event: Event, ctx: &mut Context<'_>) {
        // No arm decides: every decision follows in `advance`, from the complete state.
        match event {
            Event::Observed { observation, .. } => {
                // An operator confirms one snapshot, not later ones.
                self.operator_confirmed_until =
                    self.operator_confirmed_until.filter(|_| !matches!(observation, Observation::Snapshot(_)));
                if let Some(observation) = self.accept_observation(observation, ctx) {
                    self.apply_accepted(observation, ctx);
                }
            }
            Event::QuarantineReleased { .. } => {
                self.operator_confirmed_until = Some(ctx.now + CONFIRMATION_TTL);
                if let Some(observation) = self.release_quarantine() {
                    self.apply_accepted(observation, ctx);
                } else if self.state.is_synced() {
                    self.resume_unfinished(ctx);
                }
            }
            Event::AgentConnected { .. } => self.connected = true,
            Event::AgentDisconnected { .. } => {
                self.connected = false;
                self.state.mark_unsynced();
                self.restore_deleted_objects(ctx.now);
            }
            Event::Planned(answer) => self.handle_plan(*answer, ctx),
            Event::Recorded { decision } => self.execute_decision(decision, ctx),
            Event::Launched(launched) => self.handle_launched(*launched, ctx),
            Event::LaunchFailed { claim, attempt, failure, .. } => {
                self.handle_launch_failure(&claim, attempt, failure, ctx)
            }
            Event::InstanceGone { provider_id, .. } => self.handle_instance_gone(&provider_id, ctx),
            Event::Inspected { provider_id, found, .. } => self.handle_inspection(&provider_id, found, ctx),
            Event::TerminateRefused { claim, provider_id, .. } => {
                self.handle_terminate_refused(&claim, &provider_id, ctx)
            }
            Event::RemovalsConfirmed { .. } => self.confirm_removals(ctx.now),
            Event::InstructionAcked { instruction, .. } => self.handle_ack(instruction, ctx),
            Event::InstructionFailed { instruction, reason, unmet, .. } => {
                self.handle_instruction_failure(instruction, &reason, unmet, ctx);
            }
            Event::Interrupted { provider_id, reason, .. } => self.handle_interruption(&provider_id, &reason, ctx),
            Event::LaunchHistoryLoaded { past, .. } => self.restore_guardrails(past, ctx),
            Event::CountsLoaded { counts, .. } => self.guardrails.persisted_counts.restore(counts, ctx.now),
            Event::LeaseAcquired { uid, launches, .. } => self.begin_recovery(uid, launches),
            Event::Listed { listing, .. } => {
                self.record_cloud_listing(&listing);
                self.collect_garbage(&listing, ctx);
            }
            Event::Tick
            | Event::LeaseReleased { .. }
            | Event::FreezesChanged { .. }
            | Event::OfferingsUnavailable { .. }
            | Event::RemoteCounters { .. } => {
                return;
            }
        }
        self.status_reporter.mark_dirty();
        self.changed_since_pass = true;
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
        let opened = matches!(&observation, Observation::Upsert(object) if self.becomes_schedulable(object));
        let structural = !is_pod
            && matches!(&observation, Observation::Upsert(object)
            if matches!(object.as_ref(), Object::Pool(_) | Object::Daemon(_) | Object::Autoscaler(_)));
        let whole = matches!(observation, Observation::Snapshot(_));
        if let Observation::Upsert(object) = &observation
            && let Object::Pod(pod) = object.as_ref()
        {
            self.observe_nomination(pod, now);
        }
        // The state is updated first: adoption, recovery and the batch window read it.
        self.apply_observation(observation, now);
        if opened {
            self.nomination_retries.schedule(now);
        }
        if !is_pod {
            self.adopt_claims(now);
        }
        if whole || self.last_absence_finding.is_some() {
            self.resume_unfinished(ctx);
        }
        match pod {
            Some(key) => {
                self.add_pending_pod(&key, now);
                self.schedule_lost_nomination(&key, now);
            }
            None if whole => self.add_all_pending_pods(now),
            None if structural => self.window.extend(now),
            None => {}
        }
        if whole {
            self.restore_launch_backoff(ctx);
            self.count_discovered_launches(ctx);
        }
    }

    fn add_pending_pod(&mut self, key: &PodKey, now: Timestamp) {
        if let Some(pod) = self.state.pod(key).filter(|pod| self.state.is_demand(pod, now)) {
            self.window.add_pod(&pod.uid, now);
        }
    }

    fn add_all_pending_pods(&mut self, now: Timestamp) {
        for pod in self.state.demand(now) {
            self.window.add_pod(&pod.uid, now);
        }
        self.window.extend(now);
    }

    /// Takes every step that the time and the state permit.
    pub fn advance(&mut self, ctx: &mut Context<'_>) {
        self.expire_assignments(ctx);
        self.plan_released_pods(ctx);
        self.request_resync(ctx);
        if self.guardrails.quarantine.is_none() && !self.is_shadow(ctx) {
            self.advance_machines(ctx);
            self.retry_nominations(ctx);
        }
        self.request_plan_if_due(ctx);
        if self.changed_since_pass {
            let earliest =
                self.last_pass.map_or(ctx.now, |last| (last + ctx.settings.disruption_pass_interval).max(ctx.now));
            self.next_pass = Some(self.next_pass.map_or(earliest, |pass| pass.min(earliest)));
        }
        self.remove_empty_nodes(ctx);
        self.persist_counts(ctx);
        self.reconcile_status(ctx);
        self.next_wakeup = self.next_wakeup_at(ctx);
    }

    fn next_wakeup_at(&self, ctx: &Context<'_>) -> Option<Timestamp> {
        let settings = ctx.settings;
        let plan = self.next_plan_at(ctx);
        let report = self.status_reporter.next_pass(ctx.now).filter(|_| self.may_report_status(ctx));
        let decisions = [plan, self.next_pass, report].into_iter().flatten().filter(|_| self.is_ready());
        let machines = self.machines.values().filter_map(|machine| {
            let again =
                (machine.pending_instruction.is_none() && machine.not_before > ctx.now).then_some(machine.not_before);
            let limit = match machine.stage {
                Stage::Launching if machine.termination_reason.is_none() => {
                    Some(machine.since + settings.launch_timeout)
                }
                Stage::Launched => Some(machine.since + settings.registration_timeout).filter(|limit| *limit > ctx.now),
                _ => None,
            };
            let opens = self.registration_gate.get(&machine.claim).copied();
            let asks = machine.retry_cloud_at;
            let again = again.filter(|_| machine.stage != Stage::Initialized);
            [again, limit, opens, asks].into_iter().flatten().min()
        });
        // Machines are not advanced in quarantine or shadow mode, so their times cause no wake-up.
        let held = self.guardrails.quarantine.is_some() || self.is_shadow(ctx);
        let nominations = self.nomination_retries.next.filter(|_| self.is_ready());
        let machines = machines.chain(nominations).chain(self.guardrails.waiting_removals.recheck_at).filter(|_| !held);
        let lapses = [
            self.next_resync(),
            self.next_counts_write(ctx),
            self.state.assignments.next_expiry(),
            self.next_hold_expiry,
        ]
        .into_iter()
        .flatten();
        machines.chain(decisions).chain(lapses).min()
    }
}
