//! Pods that consolidation has moved lately.
//!
//! The successor of an evicted pod has a new name. It has the same owner, which creates it while the machine is
//! drained: a pod counts as moved if its owner created it while consolidation drained a machine with pods of that owner.
//! Its age is the time since the move.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::record::PodRecord;
use model::{ClaimName, Millis, Text, Timestamp};

/// The clocks of API server and servers differ by less, and creation times are whole seconds.
const CLOCK_TOLERANCE: Millis = Millis::from_secs(10);

/// Namespace and `Kind/name` of the owner of pods.
pub type PodOwner = (Text, Text);

/// The drains of consolidation by which successors of evicted pods are known.
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

/// What the drain of a machine by consolidation moves, as the next owner of the cluster reads it from the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedMoves {
    /// The machine.
    pub claim: ClaimName,
    /// The owners of its pods.
    pub owners: BTreeSet<PodOwner>,
    /// When it was decided.
    pub since: Timestamp,
}

/// A drain of consolidation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drain {
    /// The owners of the pods that it evicts.
    pub(super) owners: BTreeSet<PodOwner>,
    pub(super) since: Timestamp,
    /// When the machine was gone; `None` while it exists.
    pub(super) until: Option<Timestamp>,
}

impl Drain {
    fn covers(&self, created: Timestamp) -> bool {
        created + CLOCK_TOLERANCE >= self.since && self.until.is_none_or(|until| created <= until + CLOCK_TOLERANCE)
    }
}

impl RecentMoves {
    pub(super) fn insert(&mut self, claim: &ClaimName, drain: Drain) {
        self.remove(claim);
        for owner in &drain.owners {
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
        for owner in drain.owners {
            if let Some(claims) = self.by_owner.get_mut(&owner) {
                claims.remove(claim);
                if claims.is_empty() {
                    self.by_owner.remove(&owner);
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

    /// Whether `pod` succeeds one that a drain evicted.
    pub(super) fn is_moved(&self, pod: &PodRecord, created: Timestamp) -> bool {
        let claims = self.by_owner.get(&(pod.key.namespace.clone(), pod.workload.clone()));
        let mut drains = claims.into_iter().flatten().filter_map(|claim| self.drains.get(claim));
        drains.any(|drain| drain.covers(created))
    }
}
