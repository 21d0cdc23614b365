//! When the last pod event of a node is written into its NodeClaim (`status.lastPodEventTime`), where it outlives this process.
//!
//! An event is written at the next look, and those that follow it when a while is over (Karpenter: pod events, once every ten
//! seconds). Where consolidation waits longer, or not at all, the moment need not be as exact, and is written more rarely: a cluster
//! whose pods come and go all the time costs its API server a write a minute and node.

use std::collections::BTreeMap;

use crate::cluster::{ClaimRecord, NodeRecord};
use crate::control::cluster_controller::ClusterController;
use crate::control::machine::Stage;
use crate::control::status::ObjectRef;
use crate::model::{Text, Timestamp};

/// Least time between two writes for one NodeClaim, in milliseconds (Karpenter: the same).
const LEAST_MS: i64 = 10_000;
/// Longest, in milliseconds.
const MOST_MS: i64 = 60_000;

/// Pod events that are not written yet.
#[derive(Debug, Default)]
pub(super) struct PodEvents {
    /// From when on they may be written, by NodeClaim.
    waiting: BTreeMap<Text, Timestamp>,
}

impl PodEvents {
    /// When the first of them may be written.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.waiting.values().min().copied()
    }

    /// Whether there is one for `claim` that may be written.
    pub(super) fn is_due(&self, claim: &Text, now: Timestamp) -> bool {
        self.waiting.get(claim).is_some_and(|from| *from <= now)
    }

    /// The status of `claim` was written, and what was due is part of it.
    pub(super) fn written(&mut self, claim: &Text, now: Timestamp) {
        if self.is_due(claim, now) {
            self.waiting.remove(claim);
        }
    }

    /// What was due at `now` and not written, because another write is under way or was refused, is looked at again `then`.
    pub(super) fn put_off(&mut self, now: Timestamp, then: Timestamp) {
        self.waiting.values_mut().filter(|from| **from <= now).for_each(|from| *from = then);
    }
}

impl ClusterController {
    /// Takes the pod events since the last look in. Machines that are not in service yet, or go, are nobody's concern.
    pub(super) fn note_pod_events(&mut self, now: Timestamp) {
        let nodes = self.state.take_pod_events();
        let serves = |claim: &Text| self.machines.get(claim).is_some_and(|machine| machine.stage == Stage::Initialized);
        self.clerk.pod_events.waiting.retain(|claim, _| serves(claim));
        for node in nodes.iter().filter_map(|node| self.state.node(node)) {
            let Some(claim) = self.state.claim_of_node(node) else { continue };
            if !serves(&claim.name) || self.clerk.pod_events.waiting.contains_key(&claim.name) {
                continue;
            }
            let last = self.pod_event_that_stands(claim).or(claim.in_service_since);
            let from = last.map_or(now, |last| Timestamp(last.0.saturating_add(self.spacing(claim))).max(now));
            self.clerk.pod_events.waiting.insert(claim.name.clone(), from);
        }
        let due = self.clerk.pod_events.waiting.iter().filter(|(_, from)| **from <= now).map(|(claim, _)| claim);
        due.for_each(|claim| {
            self.clerk.described.remove(claim);
        });
    }

    /// Between two writes for `claim`, in milliseconds: a tenth of what consolidation waits for.
    fn spacing(&self, claim: &ClaimRecord) -> i64 {
        let after = self.state.pool(&claim.pool).and_then(|pool| pool.life.consolidate_after_ms);
        after.filter(|after| *after > 0).map_or(MOST_MS, |after| (after / 10).clamp(LEAST_MS, MOST_MS))
    }

    fn pod_event_that_stands(&self, claim: &ClaimRecord) -> Option<Timestamp> {
        let said = self.clerk.last_said(&ObjectRef::Claim(claim.name.clone())).and_then(|said| said.last_pod_event);
        said.or(claim.last_pod_event)
    }

    /// What is to stand in `claim`: the last pod event, in whole seconds and rounded up, when it may be written; what stands there,
    /// otherwise.
    pub(super) fn pod_event_to_stand(
        &self,
        claim: &ClaimRecord,
        node: &NodeRecord,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let stands = self.pod_event_that_stands(claim);
        if !self.clerk.pod_events.is_due(&claim.name, now) {
            return stands;
        }
        let whole =
            |at: Timestamp| Timestamp(at.0.div_euclid(1_000).saturating_add(i64::from(at.0 % 1_000 != 0)) * 1_000);
        self.state.quiet_since(&node.name).map(whole).or(stands)
    }
}
