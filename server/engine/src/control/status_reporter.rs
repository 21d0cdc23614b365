//! What has been said about objects, so that nothing is said twice.
//!
//! Statuses are computed at most once a second for each cluster, whatever happens in between, and written where they differ
//! from what was written before, by this process or, as far as the cluster shows it, by another ([`standing`](super::standing)).
//! Machines in service whose NodeClaims say all there is to say are looked at more rarely: there
//! are many of them, and all that can change is whether their pool would let them go. An object has one write under way at a time. A write that failed is tried again after a
//! while; the world may have moved on.

mod events;
mod health;
mod pod_events;
mod statuses;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use super::cluster_controller::{ClusterController, Context};
use super::machine::Stage;
use super::status::{ObjectRef, StatusOrder, StatusPatch};
use super::{DecisionId, Effect, Instruction, InstructionId};
use crate::model::{Text, Timestamp};

pub(super) use events::{EventRecorder, barred};
pub(super) use health::Health;
use pod_events::PodEvents;
use zones::Zones;

/// Between two looks at what is to be said, in milliseconds.
const PASS_MS: i64 = 1_000;
/// Between two looks at NodeClaims that have said all there is to say, in milliseconds.
const WHOLE_PASS_MS: i64 = 10_000;
/// After a write that failed, in milliseconds.
const AGAIN_MS: i64 = 60_000;

/// What was said of one object.
#[derive(Debug)]
struct Said {
    content: StatusPatch,
    /// The write that is not answered yet.
    waits_for: Option<InstructionId>,
    /// The write failed; it is not tried again before this.
    failed: Option<Timestamp>,
}

/// Everything that was said in one cluster.
#[derive(Debug, Default)]
pub(super) struct StatusReporter {
    said: BTreeMap<ObjectRef, Said>,
    asked: BTreeMap<InstructionId, ObjectRef>,
    /// NodeClaims of machines in service that have said all there is to say, as of the last look at all.
    described: BTreeSet<Text>,
    /// When the first of the writes that failed is tried again; follows `said`.
    again: Option<Timestamp>,
    /// Something has happened since the last look.
    stale: bool,
    last: Option<Timestamp>,
    /// Something has happened since the last look at all.
    all_stale: bool,
    last_of_all: Option<Timestamp>,
    /// Stages of machines as events have told them.
    stages: BTreeMap<Text, Stage>,
    /// The last decision that events have told of.
    told: Option<DecisionId>,
    /// Why machines go that go on our own initiative.
    pub(super) reasons: BTreeMap<Text, &'static str>,
    /// NodePools whose budgets keep empty nodes, and how many, since the last look for them.
    pub(super) held: BTreeMap<Text, usize>,
    pub(super) health: Health,
    pod_events: PodEvents,
    zones: Zones,
    crier: EventRecorder,
}

impl StatusReporter {
    /// Something happened that may change what is to be said.
    pub(super) fn rouse(&mut self) {
        (self.stale, self.all_stale) = (true, true);
    }

    /// When there is something to look at, or to try again.
    pub(super) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let after = |last: Option<Timestamp>, wait: i64| {
            last.map_or(now, |last| Timestamp(last.0.saturating_add(wait)).max(now))
        };
        let pass = self.stale.then(|| after(self.last, PASS_MS));
        let whole = self.all_stale.then(|| after(self.last_of_all, WHOLE_PASS_MS));
        let pod_event = self.pod_events.next().map(|at| at.max(after(self.last, PASS_MS)));
        [pass, whole, self.again, pod_event].into_iter().flatten().min()
    }

    /// A look begins; at everything, if that is due.
    fn begin(&mut self, now: Timestamp) {
        (self.stale, self.last) = (false, Some(now));
        if self.last_of_all.is_none_or(|last| now.millis_since(last) >= WHOLE_PASS_MS) {
            (self.all_stale, self.last_of_all) = (false, Some(now));
            self.described.clear();
        }
    }

    /// Forgets what was said of objects that are there no more.
    fn forget_all_but(&mut self, contents: &BTreeMap<ObjectRef, Option<StatusPatch>>) {
        let described = &self.described;
        let is_described =
            |subject: &ObjectRef| matches!(subject, ObjectRef::Claim(claim) if described.contains(claim));
        let stays = |subject: &ObjectRef| is_described(subject) || contents.contains_key(subject);
        self.said.retain(|subject, said| said.waits_for.is_some() || stays(subject));
        self.count_failed();
    }

    fn count_failed(&mut self) {
        self.again = self.said.values().filter_map(|said| said.failed).min();
    }

    /// A write was answered; says whether it was one of statuses.
    pub(super) fn answered(&mut self, id: InstructionId, failed_until: Option<Timestamp>) -> bool {
        let Some(subject) = self.asked.remove(&id) else { return false };
        if let Some(said) = self.said.get_mut(&subject).filter(|said| said.waits_for == Some(id)) {
            said.waits_for = None;
            said.failed = failed_until;
            self.stale = true;
            if failed_until.is_some() {
                if let ObjectRef::Claim(claim) = &subject {
                    self.described.remove(claim);
                }
                self.count_failed();
            }
        }
        true
    }

    /// What was last said of `subject`.
    fn last_said(&self, subject: &ObjectRef) -> Option<&StatusPatch> {
        self.said.get(subject).map(|said| &said.content)
    }

    /// What was last said of `subject`, when that is not to be said again for failing.
    fn settled(&self, subject: &ObjectRef) -> Option<&StatusPatch> {
        self.said.get(subject).filter(|said| said.failed.is_none()).map(|said| &said.content)
    }

    /// Whether `content` is to be written for `subject` at `now`.
    fn is_news(&self, subject: &ObjectRef, content: &StatusPatch, now: Timestamp) -> bool {
        self.said.get(subject).is_none_or(|said| {
            let differs = said.content != *content;
            said.waits_for.is_none() && said.failed.map_or(differs, |until| until <= now)
        })
    }
}

impl ClusterController {
    /// Says what is to be said, when a look is due.
    pub fn speak(&mut self, desk: &mut Context<'_>) {
        if !self.is_ready() || !self.may_speak(desk) || self.clerk.due(desk.now).is_none_or(|due| due > desk.now) {
            return;
        }
        self.clerk.begin(desk.now);
        self.note_pod_events(desk.now);
        let contents = self.contents(desk);
        self.clerk.forget_all_but(&contents);
        for (subject, content) in contents {
            let Some(content) = content else { continue };
            if self.stands(&subject, &content) {
                self.clerk.said.insert(subject, Said { content, waits_for: None, failed: None });
            } else if self.clerk.is_news(&subject, &content, desk.now) {
                self.write(subject, content, desk);
            }
        }
        self.clerk.pod_events.put_off(desk.now, desk.after(WHOLE_PASS_MS));
        self.cry(desk);
    }

    /// Nothing is said of what is not believed, or while nothing is done at all.
    pub fn may_speak(&self, desk: &Context<'_>) -> bool {
        self.rails.quarantine.is_none() && !self.is_shadow(desk)
    }

    fn write(&mut self, subject: ObjectRef, content: StatusPatch, desk: &mut Context<'_>) {
        if let ObjectRef::Claim(claim) = &subject {
            self.clerk.pod_events.written(claim, desk.now);
        }
        let id = InstructionId(desk.number());
        let order = StatusOrder { subject: subject.clone(), content: content.clone(), at: desk.now };
        self.clerk.asked.insert(id, subject.clone());
        self.clerk.said.insert(subject, Said { content, waits_for: Some(id), failed: None });
        let (cluster, instruction) = (self.cluster.clone(), Box::new(Instruction::WriteStatus(order)));
        desk.effects.push(Effect::Instruct { cluster, id, instruction });
    }

    /// A write was answered; says whether `id` is one.
    pub fn written(&mut self, id: InstructionId, failed: bool, desk: &Context<'_>) -> bool {
        self.clerk.answered(id, failed.then(|| desk.after(AGAIN_MS)))
    }
}

#[cfg(test)]
mod tests;
