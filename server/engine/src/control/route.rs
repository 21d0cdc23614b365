//! From one event to everything that follows from it in its cluster.

use super::cluster_controller::{ClusterController, Context};
use super::guardrails::quarantine::VOUCHED_MS;
use super::{Event, machine::Stage};
use crate::cluster::{Object, Observation};
use crate::model::Timestamp;

impl ClusterController {
    /// Changes what is believed and known; nothing is decided here.
    pub fn take_in(&mut self, event: Event, desk: &mut Context<'_>) {
        match event {
            Event::Observed { observation, .. } => {
                self.vouched_until = self.vouched_until.filter(|_| !matches!(observation, Observation::Snapshot(_)));
                if let Some(observation) = self.believe(observation, desk) {
                    self.observe(observation, desk);
                }
            }
            Event::QuarantineReleased { .. } => {
                self.vouched_until = Some(desk.after(VOUCHED_MS));
                if let Some(observation) = self.release_quarantine() {
                    self.observe(observation, desk);
                } else if self.state.is_synced() {
                    self.take_up(desk);
                }
            }
            Event::AgentConnected { .. } => self.connected = true,
            Event::AgentDisconnected { .. } => {
                self.connected = false;
                self.state.lose_sync();
                self.put_back_losses(desk.now);
            }
            Event::Planned(answer) => self.planned(*answer, desk),
            Event::Recorded { decision } => self.carry_out(decision, desk),
            Event::Launched(launched) => self.launched(*launched, desk),
            Event::LaunchFailed { claim, attempt, failure, .. } => self.launch_failed(&claim, attempt, failure, desk),
            Event::InstanceGone { provider_id, .. } => self.instance_gone(&provider_id, desk),
            Event::Inspected { provider_id, found, .. } => self.inspected(&provider_id, found, desk),
            Event::TerminateRefused { claim, provider_id, .. } => self.terminate_refused(&claim, &provider_id, desk),
            Event::RemovalsConfirmed { .. } => self.confirm_removals(desk.now),
            Event::InstructionAcked { instruction, .. } => self.acked(instruction, desk),
            Event::InstructionFailed { instruction, reason, unmet, .. } => {
                self.failed(instruction, &reason, unmet, desk);
            }
            Event::Interrupted { provider_id, reason, .. } => self.interrupt(&provider_id, &reason, desk),
            Event::Recalled { past, .. } => self.recall(past, desk),
            Event::Remembered { extent, .. } => self.rails.extents.recall(extent, desk.now),
            Event::Adopted { uid, launches, .. } => self.take_over(uid, launches),
            Event::Listed { listing, .. } => {
                self.witness(&listing);
                self.collect(&listing, desk);
            }
            Event::Tick
            | Event::Released { .. }
            | Event::FreezesChanged { .. }
            | Event::OfferingsRefused { .. }
            | Event::RemoteCounters { .. } => {
                return;
            }
        }
        self.clerk.rouse();
        self.changed = true;
    }

    fn observe(&mut self, observation: Observation, desk: &mut Context<'_>) {
        let now = desk.now;
        let pod = match &observation {
            Observation::Upsert(object) => match object.as_ref() {
                Object::Pod(pod) => Some(pod.key.clone()),
                _ => None,
            },
            _ => None,
        };
        let lone_pod = pod.is_some();
        let opened = matches!(&observation, Observation::Upsert(object) if self.opens(object));
        let structural = !lone_pod
            && matches!(&observation, Observation::Upsert(object)
            if matches!(object.as_ref(), Object::Pool(_) | Object::Daemon(_) | Object::Autoscaler(_)));
        let whole = matches!(observation, Observation::Snapshot(_));
        if let Observation::Upsert(object) = &observation
            && let Object::Pod(pod) = object.as_ref()
        {
            self.note_moves(pod, now);
        }
        self.apply(observation, now);
        if opened {
            self.nudges.rouse(now);
        }
        if !lone_pod {
            self.adopt_claims(now);
        }
        if whole || self.doubt.is_some() {
            self.take_up(desk);
        }
        match pod {
            Some(key) => {
                self.note_pod(&key, now);
                self.note_hint(&key, now);
            }
            None if whole => self.note_all_pods(now),
            None if structural => self.window.rouse(now),
            None => {}
        }
        if whole {
            self.recall_attempts(desk);
            self.recount_launches(desk);
        }
    }

    fn note_pod(&mut self, key: &crate::cluster::PodKey, now: Timestamp) {
        if let Some(pod) = self.state.pod(key).filter(|pod| self.state.is_demand(pod, now)) {
            self.window.note(&pod.uid, now);
        }
    }

    fn note_all_pods(&mut self, now: Timestamp) {
        for pod in self.state.demand(now) {
            self.window.note(&pod.uid, now);
        }
        self.window.rouse(now);
    }

    /// Everything that time and belief allow.
    pub fn advance(&mut self, desk: &mut Context<'_>) {
        self.lapse_promises(desk);
        self.release_held(desk);
        self.ask_for_snapshot(desk);
        if self.rails.quarantine.is_none() && !self.is_shadow(desk) {
            self.step_machines(desk);
            self.hint_again(desk);
        }
        self.plan_if_due(desk);
        if self.changed {
            let earliest = self.last_pass.map_or(desk.now, |last| {
                Timestamp(last.0.saturating_add(desk.settings.disruption_pass_ms)).max(desk.now)
            });
            self.next_pass = Some(self.next_pass.map_or(earliest, |pass| pass.min(earliest)));
        }
        self.look_for_empty_nodes(desk);
        self.keep_extent(desk);
        self.speak(desk);
        self.wake = self.next_moment(desk);
    }

    fn next_moment(&self, desk: &Context<'_>) -> Option<Timestamp> {
        let settings = desk.settings;
        let plan = self.next_plan(desk);
        let report = self.clerk.due(desk.now).filter(|_| self.may_speak(desk));
        let decisions = [plan, self.next_pass, report].into_iter().flatten().filter(|_| self.is_ready());
        let machines = self.machines.values().filter_map(|machine| {
            let after = |millis: i64| Timestamp(machine.since.0.saturating_add(millis));
            let again = (machine.waits_for.is_none() && machine.not_before > desk.now).then_some(machine.not_before);
            let limit = match machine.stage {
                Stage::Launching if machine.leaves.is_none() => Some(after(settings.launch_timeout_ms)),
                Stage::Launched => Some(after(settings.registration_timeout_ms)).filter(|limit| *limit > desk.now),
                _ => None,
            };
            let opens = self.doors.get(&machine.claim).copied();
            let asks = machine.ask_again;
            let again = again.filter(|_| machine.stage != Stage::Initialized);
            [again, limit, opens, asks].into_iter().flatten().min()
        });
        // Nothing is done about machines while what is seen of them is not believed, or while nothing is done at all.
        let held = self.rails.quarantine.is_some() || self.is_shadow(desk);
        let hints = self.nudges.next.filter(|_| self.is_ready());
        let machines = machines.chain(hints).chain(self.rails.waiting.again).filter(|_| !held);
        let lapses = [self.next_snapshot(), self.next_extent(desk), self.state.promises.next_lapse(), self.held_until]
            .into_iter()
            .flatten();
        machines.chain(decisions).chain(lapses).min()
    }
}
