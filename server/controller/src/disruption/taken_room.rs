//! Room that other pods take from a replacement counts against what a consolidation saves.
//!
//! kube-scheduler may bind pods of a burst to a replacement. The displaced pods get the places that the others had, which may
//! be machines that were launched for the burst. Such a machine is paid for by the consolidation from then on.

use std::collections::BTreeSet;

use super::CONSOLIDATION;
use crate::cluster_controller::ClusterController;
use crate::{DecisionId, DecisionReason};
use cluster::{PodRecord, Target};
use model::{ClaimName, NodeName, Timestamp};

impl ClusterController {
    /// The decisions of consolidation: what they launched is counted in what they save.
    pub(super) fn consolidations(&self) -> BTreeSet<DecisionId> {
        let reason = DecisionReason::Disruption(CONSOLIDATION);
        self.decisions.recent().filter(|decision| decision.reason == reason).map(|decision| decision.id).collect()
    }

    /// Whether the machine of `claim` costs more than the machines that its pods alone have and that none of
    /// `consolidations` launched.
    pub(super) fn still_saves(&self, claim: &ClaimName, consolidations: &BTreeSet<DecisionId>, now: Timestamp) -> bool {
        let Some(node) = self.state.node_of_claim(claim).map(|node| &node.name) else { return true };
        let assignments = self.state.assignments();
        let of_pods = self.state.pods_to_move_from(node, now).filter_map(|pod| assignments.get(&pod.key));
        let taken: BTreeSet<&ClaimName> = of_pods
            .filter_map(|assignment| assignment.target.claim())
            .filter(|other| {
                let decision = self.claims.get(other).and_then(|machine| machine.decision());
                decision.is_some_and(|decision| !consolidations.contains(&decision))
            })
            .filter(|other| self.is_for_pods_of(other, node))
            .collect();
        let cost: i64 = taken.iter().map(|other| self.claims.price_of(other).0).sum();
        taken.is_empty() || cost < self.claims.price_of(claim).0
    }

    /// Whether the machine of `claim` has pods that run on `node` and no others.
    fn is_for_pods_of(&self, claim: &ClaimName, node: &NodeName) -> bool {
        let target = Target::Claim(claim.clone());
        let mut assigned = self.state.assignments().pods_on(&target);
        let joined = self.state.node_of_claim(claim);
        assigned.all(|pod| self.state.pod(pod).is_some_and(|pod| pod.node.as_ref() == Some(node)))
            && !joined.is_some_and(|joined| self.state.pods_on(&joined.name).any(PodRecord::is_reschedulable))
    }
}
