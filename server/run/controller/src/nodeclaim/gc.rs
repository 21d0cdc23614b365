//! Garbage collection in both directions: orphaned instances (without NodeClaim), and NodeClaims
//! whose instance is gone.
//!
//! Only a complete listing counts, and only the second time: listings lag behind launches and
//! terminations, so an anomaly is recorded and acted on when a later listing, at least the
//! collection period after the first, shows it again (Karpenter collects after 30 seconds, with one
//! listing). A listing that lacks most instances is not trusted, and a listing that lacks one
//! instance only triggers an inspection of that instance
//! ([`instance_inspection`](super::instance_inspection)). While the snapshot shows no object at
//! all, no instance counts as orphaned. A Node that its kubelet reports ready is not gone, whatever
//! the listing lacks. An orphaned instance may be in use: one that has a Node is drained
//! ([`adopt_orphan`](adopt_orphan)) rather than terminated. An instance with the
//! UID of another cluster is reported and never changed.

use std::collections::{BTreeMap, BTreeSet};

use super::{LaunchState, ListedInstance, Listing, ManagedClaim, StageKind};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::guardrails::removal::BlockCause;
use crate::guardrails::removal_gate::{admit_orphan_removal, may_have_hidden_node, most_nodes_vanished};
use crate::nodeclaim::instance_inspection::inspect_instances;
use crate::nodeclaim::missing_claims::snapshot_suspicious;
use crate::nodeclaim::orphans::adopt_orphan;
use crate::nodeclaim::{GarbageCollector, NodeClaims};
use crate::{Effect, Finding};
use cluster::ClusterState;
use model::{ClaimName, Millis, ProviderId, Timestamp};

impl ClusterController {
    /// Evaluates a listing of the cluster's instances.
    pub(crate) fn collect_garbage(&mut self, listing: &Listing, ctx: &mut Context<'_>) {
        let Some(after) = ctx.settings.gc_after else { return };
        self.report_elsewhere(ctx);
        let held = self.guardrails.is_quarantined() || ctx.settings.is_shadow(&self.cluster);
        if held || !listing.complete || !self.is_ready() || self.gc.predates_recovery(listing.requested_at) {
            return;
        }
        let trusted = self.check_listing(listing, after, ctx);
        if self.recovery.is_pending() {
            return self.exclude_ended_launches(listing, after, trusted, ctx);
        }
        self.inspect_missing(listing, after, trusted, ctx);
        if !trusted {
            return;
        }
        self.collect_orphans(listing, after, ctx);
        self.terminate_unclaimed(listing, after, ctx);
    }

    /// Excludes launches whose instance has ended from the check for missing NodeClaims, which
    /// waits for an operator otherwise. Such a launch is no evidence against the snapshot: its
    /// NodeClaim may have been deleted regularly without its record being closed. It is recovered
    /// like the others, because the NodeClaim may also exist unobserved.
    ///
    /// A suspicious listing proves nothing: each instance is inspected, and the cloud must state
    /// that it has ended.
    fn exclude_ended_launches(&mut self, listing: &Listing, after: Millis, trusted: bool, ctx: &mut Context<'_>) {
        if !listing.complete || self.state.synced_since().is_none_or(|since| listing.requested_at < since) {
            return;
        }
        let listed: BTreeSet<&ProviderId> = listing.instances.iter().map(|instance| &instance.provider_id).collect();
        let ended = self.recovery.launches().iter().filter(|launch| {
            let LaunchState::Launched { provider_id } = &launch.state else { return false };
            let is_elsewhere = self.region.is_elsewhere(provider_id);
            let gone =
                !is_elsewhere && !listed.contains(provider_id) && self.state.node_of_machine(provider_id).is_none();
            gone && !self.state.is_claim_observed(&launch.claim) && !self.claims.contains(&launch.claim)
        });
        let ended: Vec<(ClaimName, ProviderId)> = ended
            .filter_map(|launch| match &launch.state {
                LaunchState::Launched { provider_id } => Some((launch.claim.clone(), provider_id.clone())),
                _ => None,
            })
            .collect();
        // Before the second listing nothing is excluded, and never because of a suspicious listing.
        if !trusted {
            inspect_instances(ended.clone(), ctx, &mut self.gc, &self.uid);
        }
        let ended = ended.iter().filter(|(_, id)| trusted || self.gc.has_ended(id));
        let since = |claim: &ClaimName| self.gc.missing_since(claim).unwrap_or(listing.requested_at);
        let missing: BTreeMap<ClaimName, Timestamp> = ended.map(|(claim, _)| (claim.clone(), since(claim))).collect();
        let due = missing.iter().filter(|(_, since)| listing.requested_at.duration_since(**since) >= after);
        let due: BTreeSet<ClaimName> = due.map(|(claim, _)| claim.clone()).collect();
        self.gc.replace_missing(missing);
        if !due.is_empty() {
            self.recovery.exclude_ended(due);
            self.resume_unfinished(ctx);
        }
    }

    /// Terminates orphaned instances; those that have a Node are adopted first, so that they are
    /// drained.
    fn collect_orphans(&mut self, listing: &Listing, after: Millis, ctx: &mut Context<'_>) {
        let mut orphans = BTreeMap::new();
        for instance in listing.instances.iter().filter(|instance| !instance.terminating) {
            if instance.cluster_uid != self.uid {
                report_foreign(instance, ctx, &mut self.gc);
            } else if !is_owned(instance, &self.claims, &self.state) {
                let since = self.gc.orphaned_since(&instance.provider_id).unwrap_or(listing.requested_at);
                orphans.insert(instance.provider_id.clone(), since);
                let due = listing.requested_at.duration_since(since) >= after;
                if due
                    && !snapshot_suspicious(1, 1, &self.step_view(ctx.now))
                    && !most_nodes_vanished(&self.step_view(ctx.now))
                {
                    self.collect_orphan(instance, since, ctx);
                }
            }
        }
        self.gc.replace_orphans(orphans);
    }

    fn collect_orphan(&mut self, instance: &ListedInstance, since: Timestamp, ctx: &mut Context<'_>) {
        let terminating = self.gc.is_terminating(&instance.provider_id);
        let has_node = self.state.node_of_machine(&instance.provider_id).is_some();
        // While every Node is missing, an instance without a Node counts as in use.
        let in_use = has_node || may_have_hidden_node(&self.step_view(ctx.now));
        if in_use && !terminating {
            adopt_orphan(instance, since, ctx, &mut self.claims, &mut self.gc, &mut self.state);
        } else {
            self.terminate_orphan(instance, ctx);
        }
    }

    fn terminate_orphan(&mut self, instance: &ListedInstance, ctx: &mut Context<'_>) {
        let provider_id = instance.provider_id.clone();
        if !self.gc.is_terminating(&provider_id)
            && admit_orphan_removal(&instance.claim, ctx, &self.claims, &self.decisions)
        {
            self.gc.record_termination(provider_id.clone());
            let (cluster, cluster_uid, claim) = (self.cluster.clone(), self.uid.clone(), instance.claim.clone());
            ctx.effects.push(Effect::Terminate { cluster, cluster_uid, claim, provider_id });
        }
    }

    /// Inspects instances that the listing lacks: immediately while listings are suspicious,
    /// otherwise after the collection period. The answers are handled by
    /// [`ClusterController::handle_inspection`].
    fn inspect_missing(&mut self, listing: &Listing, after: Millis, trusted: bool, ctx: &mut Context<'_>) {
        let listed: BTreeSet<&ProviderId> = listing.instances.iter().map(|instance| &instance.provider_id).collect();
        let lacks = |machine: &&ManagedClaim| {
            self.should_be_listed(machine, listing.requested_at, after) && !listed.contains(machine.provider_id())
        };
        let missing: BTreeMap<ClaimName, Timestamp> = (self.claims.iter().filter(lacks))
            .map(|machine| {
                let since = self.gc.missing_since(machine.name()).unwrap_or(listing.requested_at);
                (machine.name().clone(), since)
            })
            .collect();
        let due = missing.iter().filter(|(_, since)| !trusted || listing.requested_at.duration_since(**since) >= after);
        let due: Vec<(ClaimName, ProviderId)> =
            due.filter_map(|(claim, _)| Some((claim.clone(), self.claims.get(claim)?.provider_id().clone()))).collect();
        self.guardrails.retain_waiting_removals(BlockCause::Missing, |claim| missing.contains_key(claim));
        let claims = &self.claims;
        self.gc.remove_listed_foreign(listing);
        let (gc, region) = (&self.gc, &self.region);
        let is_foreign = |claim: &ClaimName| {
            let is_kept = |m: &ManagedClaim| {
                m.is_termination_refused() || gc.is_foreign(m.provider_id()) || region.is_elsewhere(m.provider_id())
            };
            claims.get(claim).is_some_and(is_kept)
        };
        self.guardrails.retain_waiting_removals(BlockCause::Foreign, is_foreign);
        self.gc.replace_missing(missing);
        inspect_instances(due, ctx, &mut self.gc, &self.uid);
    }

    /// Whether a listing requested at `requested_at` must contain the machine's instance.
    fn should_be_listed(&self, machine: &ManagedClaim, asked: Timestamp, after: Millis) -> bool {
        let old = asked.duration_since(machine.since()) >= after;
        if self.region.is_elsewhere(machine.provider_id()) {
            return false;
        }
        match machine.stage() {
            StageKind::Planned | StageKind::Creating | StageKind::Launching | StageKind::Deleting => false,
            StageKind::Terminating => !machine.provider_id().is_empty(),
            StageKind::Launched | StageKind::Registered | StageKind::Initialized | StageKind::Draining => {
                old && !machine.provider_id().is_empty()
            }
        }
    }
}

fn report_foreign(instance: &ListedInstance, ctx: &mut Context<'_>, gc: &mut GarbageCollector) {
    let ListedInstance { provider_id, cluster_uid, .. } = instance.clone();
    if gc.record_report(provider_id.clone()) {
        ctx.report_finding(Finding::ForeignInstance { provider_id, cluster_uid });
    }
}

/// Keeps what a complete listing says about the instances, for their drift.
pub(crate) fn record_listed_instances(listing: &Listing, now: Timestamp, state: &mut CopyOnWrite<ClusterState>) {
    if listing.complete {
        let listed = listing.instances.iter().map(|instance| (&instance.provider_id, &instance.details));
        state.record_listed(listing.requested_at, listed, now);
    }
}

/// Whether a NodeClaim or machine owns this instance, or may turn out to: the outcome of its
/// launch is still unknown.
fn is_owned(instance: &ListedInstance, claims: &NodeClaims, state: &ClusterState) -> bool {
    let known =
        |machine: &ManagedClaim| *machine.provider_id() == instance.provider_id || machine.provider_id().is_empty();
    claims.get(&instance.claim).is_some_and(known)
        || claims.name_of_instance(&instance.provider_id).is_some()
        || state.claims().any(|claim| claim.provider_id == instance.provider_id)
}

#[cfg(test)]
mod tests;
