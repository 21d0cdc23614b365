//! What has been said about objects, so that nothing is said twice.
//!
//! Statuses are computed at most once a second for each cluster, whatever happens in between, and written where they differ
//! from what was written before. An object has one write under way at a time. A write that failed is tried again after a
//! while; the world may have moved on.

mod events;
mod health;
mod statuses;
mod zones;

use std::collections::BTreeMap;

use super::machine::Stage;
use super::status::{Content, StatusOrder, Subject};
use super::ward::{Desk, Ward};
use super::{DecisionId, Effect, Instruction, InstructionId};
use crate::model::{Text, Timestamp};

pub(super) use events::{Crier, barred};
pub(super) use health::Health;
use zones::Zones;

/// Between two looks at what is to be said, in milliseconds.
const PASS_MS: i64 = 1_000;
/// After a write that failed, in milliseconds.
const AGAIN_MS: i64 = 60_000;

/// What was said of one object.
#[derive(Debug)]
struct Said {
    content: Content,
    /// The write that is not answered yet.
    waits_for: Option<InstructionId>,
    /// The write failed; it is not tried again before this.
    failed: Option<Timestamp>,
}

/// Everything that was said in one cluster.
#[derive(Debug, Default)]
pub(super) struct Clerk {
    said: BTreeMap<Subject, Said>,
    asked: BTreeMap<InstructionId, Subject>,
    /// Something has happened since the last look.
    stale: bool,
    last: Option<Timestamp>,
    /// Stages of machines as events have told them.
    stages: BTreeMap<Text, Stage>,
    /// The last decision that events have told of.
    told: Option<DecisionId>,
    /// Why machines go that go on our own initiative.
    pub(super) reasons: BTreeMap<Text, &'static str>,
    /// NodePools whose budgets keep empty nodes, and how many, since the last look for them.
    pub(super) held: BTreeMap<Text, usize>,
    pub(super) health: Health,
    zones: Zones,
    crier: Crier,
}

impl Clerk {
    /// Something happened that may change what is to be said.
    pub(super) fn rouse(&mut self) {
        self.stale = true;
    }

    /// When there is something to look at, or to try again.
    pub(super) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let pass = self.stale.then(|| self.last.map_or(now, |last| Timestamp(last.0.saturating_add(PASS_MS)).max(now)));
        let again = self.said.values().filter_map(|said| said.failed).min();
        [pass, again].into_iter().flatten().min()
    }

    /// A write was answered; says whether it was one of statuses.
    pub(super) fn answered(&mut self, id: InstructionId, failed_until: Option<Timestamp>) -> bool {
        let Some(subject) = self.asked.remove(&id) else { return false };
        if let Some(said) = self.said.get_mut(&subject).filter(|said| said.waits_for == Some(id)) {
            said.waits_for = None;
            said.failed = failed_until;
            self.stale = true;
        }
        true
    }

    /// What was last said of `subject`.
    fn last_said(&self, subject: &Subject) -> Option<&Content> {
        self.said.get(subject).map(|said| &said.content)
    }

    /// What was last said of `subject`, when that is not to be said again for failing.
    fn settled(&self, subject: &Subject) -> Option<&Content> {
        self.said.get(subject).filter(|said| said.failed.is_none()).map(|said| &said.content)
    }

    /// Whether `content` is to be written for `subject` at `now`.
    fn is_news(&self, subject: &Subject, content: &Content, now: Timestamp) -> bool {
        self.said.get(subject).is_none_or(|said| {
            let differs = said.content != *content;
            said.waits_for.is_none() && said.failed.map_or(differs, |until| until <= now)
        })
    }
}

impl Ward {
    /// Says what is to be said, when a look is due.
    pub fn speak(&mut self, desk: &mut Desk<'_>) {
        if !self.is_ready() || !self.may_speak(desk) || self.clerk.due(desk.now).is_none_or(|due| due > desk.now) {
            return;
        }
        self.clerk.stale = false;
        self.clerk.last = Some(desk.now);
        let contents = self.contents(desk);
        self.clerk.said.retain(|subject, said| said.waits_for.is_some() || contents.contains_key(subject));
        for (subject, content) in contents {
            if let Some(content) = content.filter(|content| self.clerk.is_news(&subject, content, desk.now)) {
                self.write(subject, content, desk);
            }
        }
        self.cry(desk);
    }

    /// Nothing is said of what is not believed, or while nothing is done at all.
    pub fn may_speak(&self, desk: &Desk<'_>) -> bool {
        self.rails.quarantine.is_none() && !self.is_shadow(desk)
    }

    fn write(&mut self, subject: Subject, content: Content, desk: &mut Desk<'_>) {
        let id = InstructionId(desk.number());
        let order = StatusOrder { subject: subject.clone(), content: content.clone(), at: desk.now };
        self.clerk.asked.insert(id, subject.clone());
        self.clerk.said.insert(subject, Said { content, waits_for: Some(id), failed: None });
        let (cluster, instruction) = (self.cluster.clone(), Box::new(Instruction::WriteStatus(order)));
        desk.effects.push(Effect::Instruct { cluster, id, instruction });
    }

    /// A write was answered; says whether `id` is one.
    pub fn written(&mut self, id: InstructionId, failed: bool, desk: &Desk<'_>) -> bool {
        self.clerk.answered(id, failed.then(|| desk.after(AGAIN_MS)))
    }
}

#[cfg(test)]
mod tests;
