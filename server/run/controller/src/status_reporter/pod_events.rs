//! When the last pod event of a node is written to its NodeClaim (`status.lastPodEventTime`), so
//! that it survives this process.
//!
//! The first event is written at the next pass, later ones after an interval (Karpenter: pod
//! events, once every ten seconds). Where consolidation waits longer, or is off, less precision
//! suffices and the interval is longer: otherwise a cluster with constant pod churn would cost its
//! API server one write a minute and node.

use std::collections::BTreeSet;

use super::StatusReporter;
use crate::nodeclaim::StageKind;
use crate::status::ObjectRef;
use crate::step_view::StepView;
use cluster::{ClaimRecord, ClusterState, NodeRecord};
use model::{ClaimName, Millis, NodeName, Timestamp};

/// Minimum interval between two writes for one NodeClaim (Karpenter: the same).
const MIN_INTERVAL: Millis = Millis::from_secs(10);
const MAX_INTERVAL: Millis = Millis::from_mins(1);

impl StatusReporter {
    /// Collects the Nodes with pod events since the last pass. Machines that are not initialized, or
    /// terminating, are skipped.
    pub(super) fn collect_pod_events(&mut self, nodes: &BTreeSet<NodeName>, view: &StepView<'_>) {
        let serves =
            |claim: &ClaimName| view.claims.get(claim).is_some_and(|machine| machine.stage() == StageKind::Initialized);
        self.pod_events.retain(serves);
        for node in nodes.iter().filter_map(|node| view.state.node(node)) {
            let Some(claim) = view.state.claim_of_node(node) else { continue };
            if !serves(&claim.name) || self.pod_events.contains(&claim.name) {
                continue;
            }
            let last = self.written_pod_event(claim).or(claim.initialized_at);
            let from = last.map_or(view.now, |last| (last + spacing(claim, view.state)).max(view.now));
            self.pod_events.record(claim.name.clone(), from);
        }
        self.check_due_pod_events(view.now);
    }

    fn written_pod_event(&self, claim: &ClaimRecord) -> Option<Timestamp> {
        let last = self.last_written(&ObjectRef::Claim(claim.name.clone())).and_then(|last| last.last_pod_event);
        last.or(claim.last_pod_event)
    }

    /// The pod event time that `claim` should have: the last event rounded up to whole seconds if
    /// it may be written, otherwise the written one.
    pub(super) fn desired_pod_event(
        &self,
        claim: &ClaimRecord,
        node: &NodeRecord,
        view: &StepView<'_>,
    ) -> Option<Timestamp> {
        let written = self.written_pod_event(claim);
        if !self.pod_events.is_due(&claim.name, view.now) {
            return written;
        }
        let whole = |at: Timestamp| {
            let millis = at.as_millis();
            Timestamp::from_millis(millis.div_euclid(1_000).saturating_add(i64::from(millis % 1_000 != 0)) * 1_000)
        };
        view.state.last_pod_event(&node.name).map(whole).or(written)
    }
}

/// Interval between two writes for `claim`: a tenth of `consolidateAfter`.
fn spacing(claim: &ClaimRecord, state: &ClusterState) -> Millis {
    let after = state.pool(&claim.pool).and_then(|pool| pool.disruption.consolidate_after);
    after
        .filter(|after| *after > Millis::ZERO)
        .map_or(MAX_INTERVAL, |after| (after / 10).clamp(MIN_INTERVAL, MAX_INTERVAL))
}
