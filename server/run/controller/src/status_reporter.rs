//! Status reporter: writes conditions and Events of NodePools, EC2NodeClasses and NodeClaims, each
//! change once.
//!
//! Statuses are computed at most once a second per cluster, and written where they differ from the
//! last written status of this process or, as far as the cluster shows it, of a previous process
//! ([`ConditionDigest`](cluster::ConditionDigest)). Initialized machines whose NodeClaims
//! are up to date are checked less often: there are many of them, and only their consolidation
//! condition can change. An object has at most one write in flight. A failed write is retried after
//! a delay, because the cluster may have changed since.

mod condition_events;
mod consistency;
mod consolidation_events;
mod decision_events;
mod event_recorder;
mod event_text;
mod events;
mod health;
mod machine_events;
mod node_events;
mod pending_events;
mod pending_pod_events;
mod periodic_block_events;
mod pod_events;
mod pool_events;
mod reconcile;
mod statuses;

use std::collections::{BTreeMap, BTreeSet};

use super::status::{EventOrder, ObjectRef, StatusPatch};
use super::{DecisionId, EventReason, InstructionId};
use crate::disruption::BlockedRepair;
use crate::nodeclaim::{ManagedClaim, StageKind};
use crate::origin::Origin;
use crate::step_view::StepView;
use cluster::PoolRecord;
use cluster::planning::UNREGISTERED;
use model::interruption::InterruptionKind;
use model::{ClaimName, Millis, PoolName, Timestamp};

use consistency::Consistency;
pub(super) use consolidation_events::Rejection;
use event_recorder::EventRecorder;
use health::RegistrationHealth;
pub(super) use machine_events::drain_blocked_message;
use pending_events::PendingEvents;
use pending_pod_events::PendingPodEvents;
use periodic_block_events::PeriodicBlockEvents;

const PASS_INTERVAL: Millis = Millis::from_secs(1);
/// Minimum time between two passes over NodeClaims that are up to date.
const FULL_PASS_INTERVAL: Millis = Millis::from_secs(10);

/// The last status written to one object.
#[derive(Debug)]
struct LastWritten {
    patch: StatusPatch,
    /// The write that is not answered yet.
    pending: Option<InstructionId>,
    /// Earliest retry, if the write failed.
    failed: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(super) struct StatusReporter {
    written: BTreeMap<ObjectRef, LastWritten>,
    pending_writes: BTreeMap<InstructionId, ObjectRef>,
    /// NodeClaims of initialized machines that were up to date at the last full pass.
    up_to_date: BTreeSet<ClaimName>,
    /// Earliest retry of all failed writes; derived from `written`.
    next_retry: Option<Timestamp>,
    /// Whether anything has changed since the last pass.
    dirty: bool,
    last_pass: Option<Timestamp>,
    /// Whether anything has changed since the last full pass.
    full_pass_dirty: bool,
    last_full_pass: Option<Timestamp>,
    /// Stages of machines for which Events were recorded.
    reported_stages: BTreeMap<ClaimName, StageKind>,
    /// The last decision for which Events were recorded.
    last_reported_decision: Option<DecisionId>,
    /// Disruption reasons of machines with a voluntary removal.
    disruption_reasons: BTreeMap<ClaimName, &'static str>,
    /// Nodes that would be removed and that the disruption budgets of a NodePool keep, as of the last
    /// pass.
    budget_blocked: BTreeMap<PoolName, usize>,
    blocked_repairs: BTreeMap<PoolName, BlockedRepair>,
    health: RegistrationHealth,
    consistency: Consistency,
    pod_events: PendingPodEvents,
    pending_events: PendingEvents,
    periodic_block_events: PeriodicBlockEvents,
    event_recorder: EventRecorder,
}

impl StatusReporter {
    /// Records a change that may affect statuses.
    pub(super) fn mark_dirty(&mut self) {
        (self.dirty, self.full_pass_dirty) = (true, true);
    }

    /// Records why the machine of `claim` is removed.
    pub(super) fn record_disruption(&mut self, claim: ClaimName, reason: &'static str) {
        self.disruption_reasons.insert(claim, reason);
    }

    /// Forgets why the machine of `claim` was to be removed: it stays.
    pub(super) fn clear_disruption(&mut self, claim: &ClaimName) {
        self.disruption_reasons.remove(claim);
    }

    /// Notes that the Node of `claim` joined without the taint that keeps pods away until it is registered.
    pub(super) fn note_missing_taint(&mut self, machine: &ManagedClaim) {
        let (subject, reason) = (ObjectRef::Claim(machine.name().clone()), EventReason::UnregisteredTaintMissing);
        let message =
            format!("its Node joined without the taint {UNREGISTERED}: pods may run on it before it is registered");
        self.pending_events.add(vec![EventOrder::new(subject, reason, message, machine.launch_origin())]);
    }

    /// Notes what the cloud says about a machine, on its NodeClaim and Node.
    pub(super) fn note_notice(&mut self, claim: &ClaimName, kind: InterruptionKind, view: &StepView<'_>) {
        let reason = EventReason::of_interruption(kind);
        let event = EventOrder::new(ObjectRef::Claim(claim.clone()), reason, kind.to_string(), Origin::default());
        self.pending_events.add(event.on_each(ObjectRef::of_machine(view.state, claim)));
    }

    /// Notes that a machine is removed for what the cloud says, if it is.
    pub(super) fn note_interrupted_removal(&mut self, claim: &ClaimName, kind: InterruptionKind, view: &StepView<'_>) {
        if view.claims.get(claim).is_some_and(|machine| machine.termination_reason().is_some()) {
            let (message, origin) = (format!("the machine is being removed: {kind}"), view.removal_origin_of(claim));
            let reason = EventReason::TerminatingOnInterruption;
            self.pending_events.add(vec![EventOrder::new(ObjectRef::Claim(claim.clone()), reason, message, origin)]);
        }
    }

    /// Replaces the NodePools whose repairs are blocked.
    pub(super) fn replace_blocked_repairs(&mut self, blocked: BTreeMap<PoolName, BlockedRepair>) {
        if self.blocked_repairs != blocked {
            self.blocked_repairs = blocked;
            self.mark_dirty();
        }
    }

    /// Replaces the numbers of nodes that disruption budgets keep, by NodePool.
    pub(super) fn replace_budget_blocked(&mut self, held: BTreeMap<PoolName, usize>) {
        self.budget_blocked = held;
    }

    /// Records whether a machine of `pool` registered in time.
    pub(super) fn record_registration(&mut self, pool: &PoolRecord, joined: bool) {
        self.health.record_outcome(pool, joined);
    }

    /// When the next pass or retry is due.
    pub(super) fn next_pass(&self, now: Timestamp) -> Option<Timestamp> {
        let after = |last: Option<Timestamp>, wait: Millis| last.map_or(now, |last| (last + wait).max(now));
        let pass = self.dirty.then(|| after(self.last_pass, PASS_INTERVAL));
        let whole = self.full_pass_dirty.then(|| after(self.last_full_pass, FULL_PASS_INTERVAL));
        let pod_event = self.pod_events.next_due().map(|at| at.max(after(self.last_pass, PASS_INTERVAL)));
        let consistency = self.consistency.next_due().map(|at| at.max(after(self.last_full_pass, FULL_PASS_INTERVAL)));
        [pass, whole, self.next_retry, pod_event, consistency].into_iter().flatten().min()
    }

    /// Begins a pass; returns whether it is a full one, because that is due.
    fn begin_pass(&mut self, now: Timestamp) -> bool {
        (self.dirty, self.last_pass) = (false, Some(now));
        let is_full = self.last_full_pass.is_none_or(|last| now.duration_since(last) >= FULL_PASS_INTERVAL);
        if is_full {
            (self.full_pass_dirty, self.last_full_pass) = (false, Some(now));
            self.up_to_date.clear();
        }
        is_full
    }

    /// Drops the last written status of objects that no longer exist.
    fn retain_objects(&mut self, contents: &BTreeMap<ObjectRef, Option<StatusPatch>>) {
        let up_to_date = &self.up_to_date;
        let is_up_to_date =
            |subject: &ObjectRef| matches!(subject, ObjectRef::Claim(claim) if up_to_date.contains(claim));
        let stays = |subject: &ObjectRef| is_up_to_date(subject) || contents.contains_key(subject);
        self.written.retain(|subject, last| last.pending.is_some() || stays(subject));
        self.update_next_retry();
    }

    fn update_next_retry(&mut self) {
        self.next_retry = self.written.values().filter_map(|last| last.failed).min();
    }

    /// Records the answer to a write; returns whether `id` was a status write.
    pub(super) fn complete_write(&mut self, id: InstructionId, failed_until: Option<Timestamp>) -> bool {
        let Some(subject) = self.pending_writes.remove(&id) else { return false };
        if let Some(last) = self.written.get_mut(&subject).filter(|last| last.pending == Some(id)) {
            last.pending = None;
            last.failed = failed_until;
            self.dirty = true;
            if failed_until.is_some() {
                if let ObjectRef::Claim(claim) = &subject {
                    self.up_to_date.remove(claim);
                }
                self.update_next_retry();
            }
        }
        true
    }

    /// Records that `subject` has the status `patch` already.
    fn record_written(&mut self, subject: ObjectRef, patch: StatusPatch) {
        self.written.insert(subject, LastWritten { patch, pending: None, failed: None });
    }

    /// Records that the write `id` of `patch` to `subject` begins.
    fn begin_write(&mut self, id: InstructionId, subject: ObjectRef, patch: StatusPatch, now: Timestamp) {
        if let ObjectRef::Claim(claim) = &subject {
            self.pod_events.mark_written(claim, now);
        }
        self.pending_writes.insert(id, subject.clone());
        self.written.insert(subject, LastWritten { patch, pending: Some(id), failed: None });
    }

    /// Postpones the pod events that this pass did not write.
    fn postpone_pod_events(&mut self, now: Timestamp) {
        self.pod_events.postpone(now, now + FULL_PASS_INTERVAL);
    }

    /// Has the NodeClaims checked whose pod events may be written.
    fn check_due_pod_events(&mut self, now: Timestamp) {
        for claim in self.pod_events.due(now) {
            self.up_to_date.remove(claim);
        }
    }

    /// The last status written to `subject`.
    fn last_written(&self, subject: &ObjectRef) -> Option<&StatusPatch> {
        self.written.get(subject).map(|last| &last.patch)
    }

    /// The last status written to `subject`, unless the write failed.
    fn last_successful(&self, subject: &ObjectRef) -> Option<&StatusPatch> {
        self.written.get(subject).filter(|last| last.failed.is_none()).map(|last| &last.patch)
    }

    /// Whether `patch` is to be written to `subject` at `now`.
    fn needs_write(&self, subject: &ObjectRef, patch: &StatusPatch, now: Timestamp) -> bool {
        self.written.get(subject).is_none_or(|last| {
            let differs = last.patch != *patch;
            last.pending.is_none() && last.failed.map_or(differs, |until| until <= now)
        })
    }
}

#[cfg(test)]
mod tests;
