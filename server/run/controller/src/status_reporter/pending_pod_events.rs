//! Pod events whose time is not written to their NodeClaim yet.

use std::collections::BTreeMap;

use model::{ClaimName, Timestamp};

/// Pod events that are not written yet.
#[derive(Debug, Default)]
pub(super) struct PendingPodEvents {
    /// Earliest write, by NodeClaim.
    waiting: BTreeMap<ClaimName, Timestamp>,
}

impl PendingPodEvents {
    /// When the first of them may be written.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.waiting.values().min().copied()
    }

    /// Whether `claim` has a pod event that may be written.
    pub(super) fn is_due(&self, claim: &ClaimName, now: Timestamp) -> bool {
        self.waiting.get(claim).is_some_and(|from| *from <= now)
    }

    /// Removes the pod event of `claim` if it was due: it is part of the written status.
    pub(super) fn mark_written(&mut self, claim: &ClaimName, now: Timestamp) {
        if self.is_due(claim, now) {
            self.waiting.remove(claim);
        }
    }

    /// Postpones the events due at `now` to `then`: another write was in flight or has failed.
    pub(super) fn postpone(&mut self, now: Timestamp, then: Timestamp) {
        self.waiting.values_mut().filter(|from| **from <= now).for_each(|from| *from = then);
    }

    /// Whether `claim` has a pod event that is not written.
    pub(super) fn contains(&self, claim: &ClaimName) -> bool {
        self.waiting.contains_key(claim)
    }

    /// Records a pod event of `claim` that may be written from `from` on.
    pub(super) fn record(&mut self, claim: ClaimName, from: Timestamp) {
        self.waiting.insert(claim, from);
    }

    /// Drops the pod events of the NodeClaims for which `keep` is false.
    pub(super) fn retain(&mut self, keep: impl Fn(&ClaimName) -> bool) {
        self.waiting.retain(|claim, _| keep(claim));
    }

    /// NodeClaims with a pod event that may be written.
    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = &ClaimName> {
        self.waiting.iter().filter(move |(_, from)| **from <= now).map(|(claim, _)| claim)
    }
}
