//! Room that other pods take from a replacement counts against what a consolidation saves.
//!
//! kube-scheduler may bind pods of a burst to a replacement. The displaced pods get the places that the others had, which may
//! be machines that were launched for the burst. Such a machine is paid for by the consolidation from then on.

use std::collections::BTreeSet;

use crate::disruption::DecisionQueue;
use crate::nodeclaim::NodeClaims;
use crate::{DecisionId, DecisionReason};
use cluster::{ClusterState, PodRecord, Target};
use model::removal::RemovalReason;
use model::{ClaimName, NodeName, Timestamp};

/// Whether the machine of `claim` has pods that run on `node` and no others.
fn is_for_pods_of(claim: &ClaimName, node: &NodeName, state: &ClusterState) -> bool {
    let target = Target::Claim(claim.clone());
    let mut assigned = state.assignments().pods_on(&target);
    let joined = state.node_of_claim(claim);
    assigned.all(|pod| state.pod(pod).is_some_and(|pod| pod.node.as_ref() == Some(node)))
        && !joined.is_some_and(|joined| state.pods_on(&joined.name).any(PodRecord::is_reschedulable))
}

/// Whether the machine of `claim` costs more than the machines that its pods alone have and that none of
/// `consolidations` launched.
pub(crate) fn still_saves(
    claim: &ClaimName,
    consolidations: &BTreeSet<DecisionId>,
    now: Timestamp,
    claims: &NodeClaims,
    state: &ClusterState,
) -> bool {
    let Some(node) = state.node_of_claim(claim).map(|node| &node.name) else { return true };
    let assignments = state.assignments();
    let of_pods = state.pods_to_move_from(node, now).filter_map(|pod| assignments.get(&pod.key));
    let taken: BTreeSet<&ClaimName> = of_pods
        .filter_map(|assignment| assignment.target.claim())
        .filter(|other| {
            let decision = claims.get(other).and_then(|machine| machine.decision());
            decision.is_some_and(|decision| !consolidations.contains(&decision))
        })
        .filter(|other| is_for_pods_of(other, node, state))
        .collect();
    let cost: i64 = taken.iter().map(|other| claims.price_of(other).0).sum();
    taken.is_empty() || cost < claims.price_of(claim).0
}

/// The decisions of consolidation: what they launched is counted in what they save.
pub(crate) fn consolidations(decisions: &DecisionQueue) -> BTreeSet<DecisionId> {
    let reason = DecisionReason::Disruption(RemovalReason::Underutilized);
    decisions.recent().filter(|decision| decision.reason == reason).map(|decision| decision.id).collect()
}
