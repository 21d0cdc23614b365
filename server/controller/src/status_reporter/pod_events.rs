//! When the last pod event of a node is written to its NodeClaim (`status.lastPodEventTime`), so
//! that it survives this process.
//!
//! The first event is written at the next pass, later ones after an interval (Karpenter: pod
//! events, once every ten seconds). Where consolidation waits longer, or is off, less precision
//! suffices and the interval is longer: otherwise a cluster with constant pod churn would cost its
//! API server one write a minute and node.

use std::collections::BTreeMap;

use crate::cluster::{ClaimRecord, NodeRecord};
use crate::cluster_controller::ClusterController;
use crate::nodeclaim::StageKind;
use crate::status::ObjectRef;
use model::{ClaimName, Millis, Timestamp};

/// Minimum interval between two writes for one NodeClaim (Karpenter: the same).
const MIN_INTERVAL: Millis = Millis::from_secs(10);
/// Maximum interval.
const MAX_INTERVAL: Millis = Millis::from_mins(1);

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
}

impl ClusterController {
    /// Collects the pod events since the last pass. Machines that are not initialized, or
    /// terminating, are skipped.
    pub(super) fn collect_pod_events(&mut self, now: Timestamp) {
        let nodes = self.state.take_pod_events();
        let serves =
            |claim: &ClaimName| self.claims.get(claim).is_some_and(|machine| machine.stage() == StageKind::Initialized);
        self.status_reporter.pod_events.waiting.retain(|claim, _| serves(claim));
        for node in nodes.iter().filter_map(|node| self.state.node(node)) {
            let Some(claim) = self.state.claim_of_node(node) else { continue };
            if !serves(&claim.name) || self.status_reporter.pod_events.waiting.contains_key(&claim.name) {
                continue;
            }
            let last = self.written_pod_event(claim).or(claim.initialized_at);
            let from = last.map_or(now, |last| (last + self.spacing(claim)).max(now));
            self.status_reporter.pod_events.waiting.insert(claim.name.clone(), from);
        }
        let due =
            self.status_reporter.pod_events.waiting.iter().filter(|(_, from)| **from <= now).map(|(claim, _)| claim);
        due.for_each(|claim| {
            self.status_reporter.up_to_date.remove(claim);
        });
    }

    /// Interval between two writes for `claim`: a tenth of `consolidateAfter`.
    fn spacing(&self, claim: &ClaimRecord) -> Millis {
        let after = self.state.pool(&claim.pool).and_then(|pool| pool.disruption.consolidate_after);
        after
            .filter(|after| *after > Millis::ZERO)
            .map_or(MAX_INTERVAL, |after| (after / 10).clamp(MIN_INTERVAL, MAX_INTERVAL))
    }

    fn written_pod_event(&self, claim: &ClaimRecord) -> Option<Timestamp> {
        let last = self
            .status_reporter
            .last_written(&ObjectRef::Claim(claim.name.clone()))
            .and_then(|last| last.last_pod_event);
        last.or(claim.last_pod_event)
    }

    /// The pod event time that `claim` should have: the last event rounded up to whole seconds if
    /// it may be written, otherwise the written one.
    pub(super) fn desired_pod_event(
        &self,
        claim: &ClaimRecord,
        node: &NodeRecord,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let written = self.written_pod_event(claim);
        if !self.status_reporter.pod_events.is_due(&claim.name, now) {
            return written;
        }
        let whole = |at: Timestamp| {
            let millis = at.as_millis();
            Timestamp::from_millis(millis.div_euclid(1_000).saturating_add(i64::from(millis % 1_000 != 0)) * 1_000)
        };
        self.state.last_pod_event(&node.name).map(whole).or(written)
    }
}
