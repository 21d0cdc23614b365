//! Passes of the status reporter: writes the statuses and Events that have changed.

use super::condition_events::transitions;
use crate::cluster_controller::{ClusterController, Context};
use crate::nodeclaim::StageKind;
use crate::status::{ObjectRef, StatusOrder, StatusPatch};
use crate::{Effect, Instruction, InstructionId};
use model::{Millis, Timestamp};

/// Delay before a failed write is retried.
const WRITE_RETRY_DELAY: Millis = Millis::from_mins(1);

impl ClusterController {
    /// Writes the statuses and Events that have changed, when a pass is due.
    pub(crate) fn reconcile_status(&mut self, ctx: &mut Context<'_>) {
        if !self.is_ready()
            || !self.may_report_status(ctx)
            || self.status_reporter.next_pass(ctx.now).is_none_or(|due| due > ctx.now)
        {
            return;
        }
        let is_full = self.status_reporter.begin_pass(ctx.now);
        self.check_consistency(is_full, ctx.now);
        self.collect_pod_events(ctx.now);
        let contents = self.desired_statuses(ctx);
        self.status_reporter.retain_objects(&contents);
        for (subject, patch) in contents {
            let Some(patch) = patch else { continue };
            if self.is_already_written(&subject, &patch) {
                self.status_reporter.record_written(subject, patch);
            } else if self.status_reporter.needs_write(&subject, &patch, ctx.now) {
                self.write(subject, patch, ctx);
            }
        }
        self.status_reporter.postpone_pod_events(ctx.now);
        self.record_events(is_full, ctx);
    }

    /// Checks the initialized machines: in a full pass all whose check is due, and else those that were never
    /// checked.
    fn check_consistency(&mut self, is_full: bool, now: Timestamp) {
        let (claims, checks) = (&self.claims, &mut self.status_reporter.consistency);
        if is_full {
            checks.begin();
            checks.retain(|claim| claims.contains(claim));
        }
        for machine in claims.iter().filter(|machine| machine.stage() == StageKind::Initialized) {
            if !is_full && checks.contains(machine.name()) {
                continue;
            }
            let found = self.state.claim(machine.name()).zip(self.state.node_of_claim(machine.name()));
            if let Some((claim, node)) = found {
                checks.check(claim, node, now);
            }
        }
    }

    fn write(&mut self, subject: ObjectRef, patch: StatusPatch, ctx: &mut Context<'_>) {
        if let Some(before) = self.status_reporter.last_written(&subject) {
            let events = transitions(&subject, before, &patch);
            self.status_reporter.pending_events.add(events);
        }
        let id = InstructionId(ctx.next_id());
        let order = StatusOrder { subject: subject.clone(), patch: patch.clone(), at: ctx.now };
        self.status_reporter.begin_write(id, subject, patch, ctx.now);
        let (cluster, instruction) = (self.cluster.clone(), Box::new(Instruction::WriteStatus(order)));
        ctx.effects.push(Effect::Instruct { cluster, id, instruction });
    }

    /// Records the answer to a write; returns whether `id` was a status write.
    pub(crate) fn complete_status_write(&mut self, id: InstructionId, failed: bool, ctx: &Context<'_>) -> bool {
        self.status_reporter.complete_write(id, failed.then(|| ctx.now + WRITE_RETRY_DELAY))
    }
}
