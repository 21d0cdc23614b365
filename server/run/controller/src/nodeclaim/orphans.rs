//! Machines whose NodeClaim disappeared although this server did not delete it: an operator removed
//! its finalizers by force, or the snapshot is wrong.
//!
//! The last known NodeClaim is kept as assumed, so that the machine still counts as capacity. The
//! instance is terminated (drained first, while it has a Node) when three conditions hold: the
//! snapshot has lacked the NodeClaim for the collection period, the cloud lists the instance, and
//! the snapshot is plausible. A snapshot without any Node, pod and NodeClaim is implausible,
//! because the agent itself runs on a Node. So is the loss of most NodeClaims at once. Either is
//! reported, and waits for an operator ([`Event::QuarantineReleased`](crate::Event)).
//!
//! A NodeClaim removed by force means that its instance is unwanted, and that its pods have to move
//! first: the machine is terminated as if its NodeClaim were being deleted, its pods are planned
//! again immediately, and PodDisruptionBudgets are respected. The NodeClaim is not recreated, and
//! its grace period applies while it is known.

use std::collections::{BTreeMap, BTreeSet};

use super::{ListedInstance, Listing, ManagedClaim, StageKind};
use crate::Finding;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::guardrails::ClusterGuardrails;
use crate::guardrails::removal_gate::{keep_disruption_policies, nodes_lost_by};
use crate::history::History;
use crate::nodeclaim::lifecycle::machine_of_claim;
use crate::nodeclaim::missing_claims::{report_missing_claims, snapshot_suspicious};
use crate::nodeclaim::{GarbageCollector, NodeClaims};
use crate::step_view::StepView;
use cluster::{ClaimRecord, ClusterState, Key, Observation};
use model::labels::NODEPOOL;
use model::{ClaimName, Millis, PoolName, ProviderId, Timestamp};

impl GarbageCollector {
    /// Machines whose instance runs and whose NodeClaim the snapshot has lacked for the collection period. If a snapshot
    /// that lacks so many is more likely wrong, that is reported instead.
    pub(crate) fn due_unclaimed(
        &mut self,
        listing: &Listing,
        after: Millis,
        view: &StepView<'_>,
        ctx: &mut Context<'_>,
    ) -> Vec<ClaimName> {
        let up = listing.instances.iter().filter(|instance| !instance.terminating);
        let up: BTreeSet<&ProviderId> = up.map(|instance| &instance.provider_id).collect();
        let stays =
            |machine: &&ManagedClaim| machine.termination_reason().is_none() && up.contains(machine.provider_id());
        let staying: Vec<&ClaimName> = view.claims.iter().filter(stays).map(ManagedClaim::name).collect();
        let claimless: BTreeMap<ClaimName, Timestamp> = (staying.iter())
            .filter(|claim| !view.state.is_claim_observed(claim))
            .map(|claim| (ClaimName::clone(claim), self.unclaimed_since(claim).unwrap_or(listing.requested_at)))
            .collect();
        let (missing, of) = (claimless.len(), staying.len());
        let due = claimless.iter().filter(|(_, since)| listing.requested_at.duration_since(**since) >= after);
        let due: Vec<ClaimName> = due.map(|(claim, _)| claim.clone()).collect();
        self.replace_unclaimed(claimless);
        if !due.is_empty() && snapshot_suspicious(missing, of, view) {
            report_missing_claims(Finding::ClaimsMissing { missing, of }, ctx, self);
            return Vec::new();
        }
        due
    }
}

/// Applies an accepted observation. NodeClaims of machines that it removes are assumed from now
/// on.
pub(crate) fn apply_observation(
    observation: Observation,
    now: Timestamp,
    claims: &mut NodeClaims,
    guardrails: &mut ClusterGuardrails,
    history: &mut History,
    state: &mut CopyOnWrite<ClusterState>,
) {
    let lost = claims_removed_by(&observation, claims, state);
    let nodes = nodes_lost_by(&observation, state);
    keep_disruption_policies(&observation, guardrails, state);
    state.apply(observation, now);
    for (claim, node) in nodes {
        if let Some(machine) = claims.get_mut(&claim) {
            history.removed_nodes.record(node.name.clone(), machine, now);
            machine.record_lost_node(node);
        }
    }
    for claim in lost {
        let name = claim.name.clone();
        state.assume_claim(claim);
        if claims.get(&name).is_some_and(|machine| machine.termination_reason().is_some()) {
            state.mark_for_deletion(&name);
        }
    }
}

/// Adopts an orphaned instance that has a Node, or may have one, under a synthetic NodeClaim,
/// so that it is drained rather than terminated. A second instance of the same NodeClaim is
/// adopted under its own instance id.
pub(crate) fn adopt_orphan(
    instance: &ListedInstance,
    since: Timestamp,
    ctx: &Context<'_>,
    claims: &mut NodeClaims,
    gc: &mut GarbageCollector,
    state: &mut CopyOnWrite<ClusterState>,
) {
    let ListedInstance { claim, provider_id, .. } = instance;
    let free = !claim.is_empty() && !claims.contains(claim) && state.claim(claim).is_none();
    let own = provider_id.rsplit('/').next().unwrap_or_default();
    let name = if free { claim.clone() } else { ClaimName::from(own) };
    let record = synthesize_claim(&name, provider_id, state);
    claims.insert(machine_of_claim(&record, ctx.now, state));
    state.assume_claim(record);
    gc.record_unclaimed(name, since);
}

/// A NodeClaim in place of one that is not observed, from the Node of its instance if there is
/// one.
pub(crate) fn synthesize_claim(claim: &ClaimName, provider_id: &ProviderId, state: &ClusterState) -> ClaimRecord {
    let imagined =
        ClaimRecord { name: claim.clone(), provider_id: provider_id.clone(), ours: true, ..ClaimRecord::default() };
    let Some(node) = state.node_of_machine(provider_id) else { return imagined };
    ClaimRecord {
        pool: node.labels.get(NODEPOOL).map(PoolName::from).unwrap_or_default(),
        labels: node.labels.clone(),
        capacity: node.capacity.clone(),
        allocatable: node.allocatable.clone(),
        created: node.created,
        ..imagined
    }
}

fn claims_removed_by(observation: &Observation, claims: &NodeClaims, state: &ClusterState) -> Vec<ClaimRecord> {
    let kept = |claim: &ClaimName| {
        let machine = claims.get(claim).filter(|machine| machine.stage() != StageKind::Deleting)?;
        state.claim(machine.name()).filter(|_| state.is_claim_observed(claim)).cloned()
    };
    match observation {
        Observation::Delete(Key::Claim(claim)) => kept(claim).into_iter().collect(),
        Observation::Snapshot(snapshot) => {
            let shown: BTreeSet<&ClaimName> = snapshot.claims.iter().map(|claim| &claim.name).collect();
            claims.iter().map(ManagedClaim::name).filter(|claim| !shown.contains(claim)).filter_map(kept).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
