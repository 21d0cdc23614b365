//! Pods that consolidation has moved lately, and those whose move a decision has saved a price by.
//!
//! The successor of an evicted pod has a new name. It has the same owner, which creates it while the machine is
//! drained: a pod counts as moved if its owner created it while consolidation drained a machine with pods of that owner.
//! Its age is the time since the move.
//!
//! A moved pod that a later drain evicts for another reason is still one that the decision has moved: such a drain is
//! known too, with the owners of these pods alone.

use std::collections::{BTreeMap, BTreeSet};

use cost::SavingDecision;
use rustc_hash::FxHashMap;

use super::record::PodRecord;
use model::{ClaimName, Millis, Text, Timestamp};

/// The clocks of API server and servers differ by less, and creation times are whole seconds.
const CLOCK_TOLERANCE: Millis = Millis::from_secs(10);

/// Namespace and `Kind/name` of the owner of pods.
pub type PodOwner = (Text, Text);

/// The drains by which successors of evicted pods are known.
#[derive(Debug, Clone, Default)]
pub struct RecentMoves {
    /// By machine.
    pub(super) drains: BTreeMap<ClaimName, Drain>,
    /// The machines that ran pods of each owner; index of `drains`.
    pub(super) by_owner: FxHashMap<PodOwner, BTreeSet<ClaimName>>,
    /// The machines that exist; index of `drains`.
    pub(super) open: BTreeSet<ClaimName>,
    /// Decisions of earlier owners of the cluster, until a snapshot shows what became of them.
    pub(super) restored: Vec<DecidedMoves>,
}

/// The decision that has moved pods of an owner to save the price of their machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovedPart {
    pub saving: SavingDecision,
    /// The part of the pods that it has moved, in parts per million: which of them a new pod succeeds is not known.
    pub ppm: u32,
}

/// What the drain of a machine moves, as the next owner of the cluster reads it from the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedMoves {
    pub claim: ClaimName,
    /// The owners of its pods, if consolidation drains it.
    pub owners: BTreeSet<PodOwner>,
    /// The decision that has moved pods of these owners to save the price of their machines.
    pub moved_by: BTreeMap<PodOwner, MovedPart>,
    /// When it was decided.
    pub since: Timestamp,
}

impl DecidedMoves {
    /// Whether there is nothing to know of it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.moved_by.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drain {
    /// The owners of the pods that consolidation moves by it.
    pub(super) owners: BTreeSet<PodOwner>,
    /// The decision that has moved pods of these owners.
    pub(super) moved_by: BTreeMap<PodOwner, MovedPart>,
    pub(super) since: Timestamp,
    /// When the machine was gone; `None` while it exists.
    pub(super) until: Option<Timestamp>,
}

impl Drain {
    fn all_owners(&self) -> impl Iterator<Item = &PodOwner> {
        self.owners.iter().chain(self.moved_by.keys())
    }

    fn covers(&self, created: Timestamp) -> bool {
        created + CLOCK_TOLERANCE >= self.since && self.until.is_none_or(|until| created <= until + CLOCK_TOLERANCE)
    }
}

impl RecentMoves {
    pub(super) fn insert(&mut self, claim: &ClaimName, drain: Drain) {
        self.remove(claim);
        for owner in drain.all_owners() {
            self.by_owner.entry(owner.clone()).or_default().insert(claim.clone());
        }
        if drain.until.is_none() {
            self.open.insert(claim.clone());
        }
        self.drains.insert(claim.clone(), drain);
    }

    fn remove(&mut self, claim: &ClaimName) {
        let Some(drain) = self.drains.remove(claim) else { return };
        self.open.remove(claim);
        for owner in drain.all_owners() {
            if let Some(claims) = self.by_owner.get_mut(owner) {
                claims.remove(claim);
                if claims.is_empty() {
                    self.by_owner.remove(owner);
                }
            }
        }
    }

    /// Records that the machine is gone.
    pub(super) fn end(&mut self, claim: &ClaimName, now: Timestamp) {
        if let Some(drain) = self.drains.get_mut(claim).filter(|_| self.open.remove(claim)) {
            drain.until = Some(now);
        }
    }

    /// Removes the drains that ended before `before`: successors of their pods are older.
    pub(super) fn prune(&mut self, before: Timestamp) {
        let is_over = |drain: &Drain| drain.until.is_some_and(|until| until + CLOCK_TOLERANCE < before);
        let over: Vec<ClaimName> =
            self.drains.iter().filter(|(_, drain)| is_over(drain)).map(|(claim, _)| claim.clone()).collect();
        over.iter().for_each(|claim| self.remove(claim));
    }

    /// Whether `pod` succeeds one that consolidation evicted.
    pub(super) fn is_moved(&self, pod: &PodRecord, created: Timestamp) -> bool {
        let owner = owner_of(pod);
        self.drains_of(&owner).any(|drain| drain.covers(created) && drain.owners.contains(&owner))
    }

    /// By what `pod` was moved; of several decisions by the last one.
    pub(super) fn moved_by(&self, pod: &PodRecord, created: Timestamp) -> Option<MovedPart> {
        let owner = owner_of(pod);
        let covering = self.drains_of(&owner).filter(|drain| drain.covers(created));
        let parts = covering.filter_map(|drain| drain.moved_by.get(&owner).copied());
        parts.max_by_key(|part| (part.saving.at, part.saving.number))
    }

    fn drains_of(&self, owner: &PodOwner) -> impl Iterator<Item = &Drain> {
        let claims = self.by_owner.get(owner).into_iter().flatten();
        claims.filter_map(|claim| self.drains.get(claim))
    }
}

pub(super) fn owner_of(pod: &PodRecord) -> PodOwner {
    (pod.key.namespace.clone(), pod.workload.clone())
}
