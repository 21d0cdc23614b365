//! Records of replacements under way, and their recovery by the next owner of a cluster.
//!
//! A replacement is recorded in the transaction of the decision that launches for it or finds places for its pods,
//! and again when its pods have other places. Its record is deleted when it has ended: at once when the machine stays,
//! and with the NodeClaim when the machine is removed, because the drain may not have begun when this process ends. The
//! waits of NodePools after failures are recorded beside them.
//!
//! After a takeover the replacement goes on as it was: since the same time, with the same places, and what has failed
//! meanwhile fails. A replacement without a record (one that has found no place yet) is begun again by its method.

use std::collections::BTreeSet;

use super::replacement_records::EndedRecords;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::disruption::{DecisionQueue, Disruption, ReplacementRecords};
use crate::guardrails::enforcement::reserve_removal;
use crate::nodeclaim::NodeClaims;
use crate::{ClusterCall, Decision};
use cluster::replacement::{RecordedReplacement, ReplacementsRead};
use cluster::{ClusterState, NOMINATION_WINDOW, Target};
use model::{ClaimName, PodKey};

/// Has the records of ended replacements deleted, and changed waits written.
pub(crate) fn end_recorded_replacements(
    ctx: &mut Context<'_>,
    disruption: &mut Disruption,
    decisions: &DecisionQueue,
    state: &ClusterState,
) {
    let in_writing: BTreeSet<ClaimName> = decisions.replacements_in_writing();
    let has_ended = |claim: &ClaimName| {
        let is_removed = state.is_marked_for_deletion(claim) && state.claim(claim).is_some();
        state.replacement_of(claim).is_none() && !is_removed && !in_writing.contains(claim)
    };
    let EndedRecords { claims, waits } = disruption.replacement_records.end(has_ended, disruption.backoff.waits());
    if !claims.is_empty() || !waits.is_empty() {
        ctx.call(ClusterCall::EndReplacements { claims, waits, at: ctx.now });
    }
}

/// Resumes the replacements whose machines are there still, and reserves their removals. Returns the places of their
/// pods.
pub(crate) fn resume_replacements(
    ctx: &mut Context<'_>,
    disruption: &mut Disruption,
    state: &mut CopyOnWrite<ClusterState>,
    claims: &NodeClaims,
) -> Vec<(PodKey, Target)> {
    // The records of the others are deleted at the end of this step.
    let mut loaded = disruption.replacement_records.take_loaded();
    loaded.retain(|one| state.is_claim_observed(&one.claim));
    for one in &loaded {
        state.resume_replacement(&one.claim, one.begun);
        reserve_removal(&one.claim, ctx, claims);
    }
    loaded.into_iter().flat_map(|one| one.places).collect()
}

/// Keeps what the previous owner recorded until the first snapshot is accepted.
pub(crate) fn load_replacements(read: ReplacementsRead, disruption: &mut Disruption) {
    for (pool, wait) in disruption.replacement_records.load(read) {
        disruption.backoff.restore(pool, wait);
    }
}

/// Assigns pods of replaced machines to the places that the previous owner found, as far as these are there still.
pub(crate) fn restore_places(places: Vec<(PodKey, Target)>, ctx: &Context<'_>, state: &mut CopyOnWrite<ClusterState>) {
    for (pod, target) in places {
        let is_left = state.pod(&pod).is_some_and(|pod| state.is_demand(pod, ctx.now));
        let (claim, node) = match &target {
            Target::Claim(claim) => (state.claim(claim), state.node_of_claim(claim)),
            Target::Node(node) => {
                let node = state.node(node);
                (node.and_then(|node| state.claim_of_node(node)), node)
            }
        };
        let is_there = claim.is_some() || node.is_some();
        let leaves = claim.is_some_and(|claim| claim.deleting || state.is_marked_for_deletion(&claim.name))
            || node.is_some_and(|node| state.is_node_outgoing(&node.name));
        if is_left && is_there && !leaves {
            let is_initialized = node.is_some_and(|node| node.is_initialized());
            let until = is_initialized.then(|| ctx.now + NOMINATION_WINDOW);
            state.assign_pod(pod, target, until);
        }
    }
}

/// The replacements under way that `decision` records: those that are new, or whose pods have other places.
pub(crate) fn replacements_to_record(
    decision: &Decision,
    replacement_records: &mut ReplacementRecords,
    state: &ClusterState,
) -> Vec<RecordedReplacement> {
    let finds_places = !decision.launches.is_empty() || !decision.assignments.is_empty();
    if decision.shadow || !finds_places || state.replacements().is_empty() {
        return Vec::new();
    }
    let present = state.replacements().iter().filter_map(|(claim, begun)| {
        let pool = state.claim(claim)?.pool.clone();
        let node = state.node_of_claim(claim)?;
        let place = |key: &PodKey| Some((key.clone(), state.assignments().get(key)?.target.clone()));
        let places = state.pods_on(&node.name).filter_map(|pod| place(&pod.key)).collect();
        Some(RecordedReplacement { claim: claim.clone(), pool, begun: *begun, places })
    });
    let present = present.collect();
    replacement_records.record(present)
}
