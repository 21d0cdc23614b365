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

use super::{LaunchState, ListedInstance, Listing, ManagedClaim, StageKind, TerminationReason};
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::copy_on_write::CopyOnWrite;
use crate::disruption::DecisionQueue;
use crate::guardrails::ClusterGuardrails;
use crate::guardrails::removal::BlockCause;
use crate::guardrails::removal_gate::{admit_orphan_removal, may_have_hidden_node, most_nodes_vanished};
use crate::guardrails::snapshot_acceptance::record_cloud_listing;
use crate::nodeclaim::instance_inspection::inspect_instances;
use crate::nodeclaim::missing_claims::snapshot_suspicious;
use crate::nodeclaim::orphans::adopt_orphan;
use crate::nodeclaim::other_region::report_elsewhere;
use crate::nodeclaim::{GarbageCollector, NodeClaims};
use crate::region_state::RegionState;
use crate::step_view::StepView;
use crate::{ClusterCall, Finding};
use cluster::ClusterState;
use model::{ClaimName, Millis, ProviderId, Timestamp};

/// What a listing shows that other parts act on.
#[derive(Debug, Default)]
pub(crate) struct ListingFindings {
    /// Launches to recover whose instance has ended.
    ended_launches: BTreeSet<ClaimName>,
    /// Orphaned instances that are due, since when they are orphaned, and whether they may be in use.
    orphans: Vec<(ListedInstance, Timestamp, bool)>,
}

impl ClusterController {
    /// Evaluates a listing of the cluster's instances, which is a second source for a quarantine and for drift too.
    pub(crate) fn collect_garbage(&mut self, listing: &Listing, ctx: &mut Context<'_>) {
        record_cloud_listing(listing, &mut self.guardrails, &ctx.uid);
        record_listed_instances(listing, ctx.now, &mut self.state);
        let Some(after) = ctx.settings.gc_after else { return };
        report_elsewhere(ctx, &mut self.gc, &self.claims, &self.region);
        let held = self.guardrails.is_quarantined() || ctx.settings.is_shadow(&self.cluster);
        if held || !listing.complete || !self.is_ready() || self.gc.predates_recovery(listing.requested_at) {
            return;
        }
        let (trusted, found) = self.with_part(
            |parts| &mut parts.gc,
            ctx.now,
            |gc, view| {
                let trusted = gc.check_listing(listing, after, view, ctx);
                (trusted, gc.evaluate(listing, after, trusted, view, ctx))
            },
        );
        if self.recovery.is_pending() {
            if !found.ended_launches.is_empty() {
                self.recovery.exclude_ended(found.ended_launches);
                self.resume_unfinished(ctx);
            }
            return;
        }
        release_blocks(&mut self.guardrails, &self.claims, &self.gc, &self.region);
        for (orphan, since, in_use) in found.orphans {
            if in_use {
                adopt_orphan(&orphan, since, ctx, &mut self.claims, &mut self.gc, &mut self.state);
            } else {
                terminate_orphan(&orphan, ctx, &mut self.gc, &self.claims, &self.decisions);
            }
        }
        if trusted {
            let due =
                self.with_part(|parts| &mut parts.gc, ctx.now, |gc, view| gc.due_unclaimed(listing, after, view, ctx));
            let deleted: BTreeSet<ClaimName> = due.iter().cloned().collect();
            self.terminate_deleted_by_hand(due, &deleted, &TerminationReason::ClaimRemoved, ctx);
        }
    }
}

/// Terminates an orphaned instance that is not in use, unless its limit holds it.
fn terminate_orphan(
    orphan: &ListedInstance,
    ctx: &mut Context<'_>,
    gc: &mut GarbageCollector,
    claims: &NodeClaims,
    decisions: &DecisionQueue,
) {
    if admit_orphan_removal(&orphan.claim, ctx, claims, decisions) {
        let (claim, provider_id) = (orphan.claim.clone(), orphan.provider_id.clone());
        gc.record_termination(provider_id.clone());
        ctx.call(ClusterCall::Terminate { cluster_uid: ctx.uid.clone(), claim, provider_id });
    }
}

impl GarbageCollector {
    /// Compares a complete listing with what is known. While launches are recovered, only those that have ended are looked
    /// for.
    fn evaluate(
        &mut self,
        listing: &Listing,
        after: Millis,
        trusted: bool,
        view: &StepView<'_>,
        ctx: &mut Context<'_>,
    ) -> ListingFindings {
        if view.recovery.is_pending() {
            let ended_launches = self.ended_launches(listing, after, trusted, view, ctx);
            return ListingFindings { ended_launches, ..ListingFindings::default() };
        }
        self.inspect_missing(listing, after, trusted, view, ctx);
        let orphans = if trusted { self.due_orphans(listing, after, view, ctx) } else { Vec::new() };
        ListingFindings { orphans, ..ListingFindings::default() }
    }

    /// Launches whose instance has ended, which are excluded from the check for missing NodeClaims; that check
    /// waits for an operator otherwise. Such a launch is no evidence against the snapshot: its
    /// NodeClaim may have been deleted regularly without its record being closed. It is recovered
    /// like the others, because the NodeClaim may also exist unobserved.
    ///
    /// A suspicious listing proves nothing: each instance is inspected, and the cloud must state
    /// that it has ended.
    fn ended_launches(
        &mut self,
        listing: &Listing,
        after: Millis,
        trusted: bool,
        view: &StepView<'_>,
        ctx: &mut Context<'_>,
    ) -> BTreeSet<ClaimName> {
        if view.state.synced_since().is_none_or(|since| listing.requested_at < since) {
            return BTreeSet::new();
        }
        let listed = listing.provider_ids();
        let ended = view.recovery.launches().iter().filter_map(|launch| {
            let LaunchState::Launched { provider_id } = &launch.state else { return None };
            let gone = !view.region.is_elsewhere(provider_id)
                && !listed.contains(provider_id)
                && view.state.node_of_machine(provider_id).is_none()
                && !view.state.is_claim_observed(&launch.claim)
                && !view.claims.contains(&launch.claim);
            gone.then(|| (launch.claim.clone(), provider_id.clone()))
        });
        let ended: Vec<(ClaimName, ProviderId)> = ended.collect();
        // Before the second listing nothing is excluded, and never because of a suspicious listing.
        if !trusted {
            inspect_instances(ended.clone(), ctx, self);
        }
        let ended = ended.iter().filter(|(_, id)| trusted || self.has_ended(id));
        let since = |claim: &ClaimName| self.missing_since(claim).unwrap_or(listing.requested_at);
        let missing: BTreeMap<ClaimName, Timestamp> = ended.map(|(claim, _)| (claim.clone(), since(claim))).collect();
        let due = missing.iter().filter(|(_, since)| listing.requested_at.duration_since(**since) >= after);
        let due = due.map(|(claim, _)| claim.clone()).collect();
        self.replace_missing(missing);
        due
    }

    /// Orphaned instances that have been so for the collection period, with whether they may be in use: those that have a
    /// Node and, while every Node is missing, all. Reports instances of other clusters.
    fn due_orphans(
        &mut self,
        listing: &Listing,
        after: Millis,
        view: &StepView<'_>,
        ctx: &mut Context<'_>,
    ) -> Vec<(ListedInstance, Timestamp, bool)> {
        let is_plausible = !snapshot_suspicious(1, 1, view) && !most_nodes_vanished(view);
        let (mut orphans, mut due) = (BTreeMap::new(), Vec::new());
        for instance in listing.instances.iter().filter(|instance| !instance.terminating) {
            if instance.cluster_uid != *view.uid {
                report_foreign(instance, ctx, self);
            } else if !is_owned(instance, view.claims, view.state) {
                let since = self.orphaned_since(&instance.provider_id).unwrap_or(listing.requested_at);
                orphans.insert(instance.provider_id.clone(), since);
                let is_due = listing.requested_at.duration_since(since) >= after;
                if is_due && is_plausible && !self.is_terminating(&instance.provider_id) {
                    let has_node = view.state.node_of_machine(&instance.provider_id).is_some();
                    due.push((instance.clone(), since, has_node || may_have_hidden_node(view)));
                }
            }
        }
        self.replace_orphans(orphans);
        due
    }

    /// Inspects instances that the listing lacks: immediately while listings are suspicious,
    /// otherwise after the collection period. The answers are handled by
    /// [`ClusterController::handle_inspection`].
    fn inspect_missing(
        &mut self,
        listing: &Listing,
        after: Millis,
        trusted: bool,
        view: &StepView<'_>,
        ctx: &mut Context<'_>,
    ) {
        let listed = listing.provider_ids();
        let lacks = |machine: &&ManagedClaim| {
            should_be_listed(machine, listing.requested_at, after)
                && !view.region.is_elsewhere(machine.provider_id())
                && !listed.contains(machine.provider_id())
        };
        let since = |claim: &ClaimName| self.missing_since(claim).unwrap_or(listing.requested_at);
        let missing = view.claims.iter().filter(lacks).map(|machine| (machine.name().clone(), since(machine.name())));
        let missing: BTreeMap<ClaimName, Timestamp> = missing.collect();
        let due = missing.iter().filter(|(_, since)| !trusted || listing.requested_at.duration_since(**since) >= after);
        let due: Vec<(ClaimName, ProviderId)> =
            due.filter_map(|(claim, _)| Some((claim.clone(), view.claims.get(claim)?.provider_id().clone()))).collect();
        self.remove_listed_foreign(listing);
        self.replace_missing(missing);
        inspect_instances(due, ctx, self);
    }
}

/// Releases removals that were held because an instance was missing, or of another cluster, and is so no more.
fn release_blocks(
    guardrails: &mut ClusterGuardrails,
    claims: &NodeClaims,
    gc: &GarbageCollector,
    region: &RegionState,
) {
    guardrails.retain_waiting_removals(BlockCause::Missing, |claim| gc.missing_since(claim).is_some());
    let is_kept = |m: &ManagedClaim| {
        m.is_termination_refused() || gc.is_foreign(m.provider_id()) || region.is_elsewhere(m.provider_id())
    };
    guardrails.retain_waiting_removals(BlockCause::Foreign, |claim| claims.get(claim).is_some_and(is_kept));
}

/// Whether a listing requested at `asked` must contain the machine's instance, if it is in this region.
fn should_be_listed(machine: &ManagedClaim, asked: Timestamp, after: Millis) -> bool {
    let old = asked.duration_since(machine.since()) >= after;
    match machine.stage() {
        StageKind::Planned | StageKind::Creating | StageKind::Launching | StageKind::Deleting => false,
        StageKind::Terminating => !machine.provider_id().is_empty(),
        StageKind::Launched | StageKind::Registered | StageKind::Initialized | StageKind::Draining => {
            old && !machine.provider_id().is_empty()
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
fn record_listed_instances(listing: &Listing, now: Timestamp, state: &mut CopyOnWrite<ClusterState>) {
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
