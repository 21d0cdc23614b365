//! Passes of the status reporter: writes the statuses and Events that have changed.

use std::collections::BTreeSet;

use super::StatusReporter;
use super::condition_events::transitions;
use crate::context::Context;
use crate::nodeclaim::StageKind;
use crate::status::{ObjectRef, StatusOrder, StatusPatch};
use crate::step_view::StepView;
use crate::{Instruction, InstructionId};
use model::{Millis, NodeName, Timestamp};

/// Delay before a failed write is retried.
const WRITE_RETRY_DELAY: Millis = Millis::from_mins(1);

impl StatusReporter {
    /// Whether a pass is due.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.next_pass(now).is_some_and(|due| due <= now)
    }

    /// The writes of statuses and Events that have changed; `pod_events` are the Nodes with pod events since the last pass.
    pub(crate) fn reconcile(
        &mut self,
        pod_events: &BTreeSet<NodeName>,
        view: &StepView<'_>,
        ctx: &Context<'_>,
    ) -> Vec<(InstructionId, Instruction)> {
        let is_full = self.begin_pass(ctx.now);
        self.check_consistency(is_full, view);
        self.collect_pod_events(pod_events, view);
        let contents = self.desired_statuses(view);
        self.retain_objects(&contents);
        let mut writes = Vec::new();
        for (subject, patch) in contents {
            let Some(patch) = patch else { continue };
            if self.is_already_written(&subject, &patch, view) {
                self.record_written(subject, patch);
            } else if self.needs_write(&subject, &patch, ctx.now) {
                let id = InstructionId(ctx.next_id());
                writes.push((id, self.write(id, subject, patch, view.now)));
            }
        }
        self.postpone_pod_events(ctx.now);
        let events = self.due_events(is_full, view, ctx).into_iter().map(Instruction::RecordEvent);
        writes.extend(events.map(|event| (InstructionId(ctx.next_id()), event)));
        writes
    }

    /// Checks the initialized machines: in a full pass all whose check is due, and else those that were never
    /// checked.
    fn check_consistency(&mut self, is_full: bool, view: &StepView<'_>) {
        let (claims, checks) = (view.claims, &mut self.consistency);
        if is_full {
            checks.begin();
            checks.retain(|claim| claims.contains(claim));
        }
        for machine in claims.iter().filter(|machine| machine.stage() == StageKind::Initialized) {
            if !is_full && checks.contains(machine.name()) {
                continue;
            }
            let found = view.state.claim(machine.name()).zip(view.state.node_of_claim(machine.name()));
            if let Some((claim, node)) = found {
                checks.check(claim, node, view.now);
            }
        }
    }

    fn write(&mut self, id: InstructionId, subject: ObjectRef, patch: StatusPatch, now: Timestamp) -> Instruction {
        if let Some(before) = self.last_written(&subject) {
            let events = transitions(&subject, before, &patch);
            self.pending_events.add(events);
        }
        let order = StatusOrder { subject: subject.clone(), patch: patch.clone(), at: now };
        self.begin_write(id, subject, patch, now);
        Instruction::WriteStatus(order)
    }

    /// Records the answer to a write; returns whether `id` was a status write.
    pub(crate) fn complete_status_write(&mut self, id: InstructionId, failed: bool, now: Timestamp) -> bool {
        self.complete_write(id, failed.then(|| now + WRITE_RETRY_DELAY))
    }
}
