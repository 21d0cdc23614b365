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
//! ([`adopt_orphan`](ClusterController::adopt_orphan)) rather than terminated. An instance with the
//! UID of another cluster is reported and never changed.

use std::collections::{BTreeMap, BTreeSet};

use super::instance_inspection::ListingSuspicion;
use super::recovery::{Finding, LaunchState};
use super::{ManagedClaim, StageKind};
use crate::Effect;
use crate::cluster_controller::{ClusterController, Context};
use crate::guardrails::removal::{HoldCause, ListingLoss};
use model::{ClaimName, Millis, ProviderId, Text, Timestamp};

/// Instances of one cluster, as listed by the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// When the listing was requested.
    pub requested_at: Timestamp,
    /// Whether all pages were read.
    pub complete: bool,
    /// Instances tagged with the cluster's name that have not ended.
    pub instances: Vec<ListedInstance>,
}

/// An instance of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedInstance {
    /// Provider id, as in `spec.providerID` of its Node.
    pub provider_id: ProviderId,
    /// Tag: UID of the cluster that it was launched for; empty without the tag.
    pub cluster_uid: Text,
    /// Tag: NodeClaim that it was launched for.
    pub claim: ClaimName,
    /// It is shutting down.
    pub terminating: bool,
}

/// Anomalies found in earlier listings.
#[derive(Debug, Default)]
pub(crate) struct GarbageCollector {
    /// Listings requested before this time predate the recovery and are ignored.
    since: Timestamp,
    /// Orphaned instances and since when, by provider id.
    orphans: BTreeMap<ProviderId, Timestamp>,
    /// Orphaned instances whose termination was requested.
    terminating: BTreeSet<ProviderId>,
    /// Machines whose NodeClaim the snapshot lacks, and since when, by NodeClaim.
    unclaimed: BTreeMap<ClaimName, Timestamp>,
    /// Machines that the listing lacks, and since when, by NodeClaim.
    missing: BTreeMap<ClaimName, Timestamp>,
    /// Foreign instances already reported.
    reported: BTreeSet<ProviderId>,
    /// Why listings are not trusted.
    suspicion: Option<ListingSuspicion>,
    /// An operator confirmed that the missing instances are gone.
    confirmed: bool,
    /// When each instance was last inspected, by provider id.
    inspected_at: BTreeMap<ProviderId, Timestamp>,
    /// Instances that have ended as the cloud stated, by provider id: a listing may lack them.
    ended: BTreeSet<ProviderId>,
    /// Instances whose tags name another cluster, by provider id, as far as inspected.
    foreign: BTreeSet<ProviderId>,
    /// The last inspection did not find an ended instance.
    last_answer_inconclusive: bool,
}

impl GarbageCollector {
    /// Discards all anomalies, after a recovery.
    pub fn reset(&mut self, now: Timestamp) {
        *self = Self { since: now, ..Self::default() };
    }

    /// Why listings are not trusted; `None` when they are, or an operator confirmed them.
    pub fn suspicion(&self) -> Option<&ListingSuspicion> {
        self.suspicion.as_ref().filter(|_| !self.confirmed)
    }

    /// Distrusts listings; returns whether the loss is new.
    pub fn mark_suspicious(&mut self, loss: ListingLoss, now: Timestamp) -> bool {
        let since = self.suspicion.as_ref().map_or(now, |doubt| doubt.since);
        let doubt = ListingSuspicion { since, loss };
        self.suspicion.replace(doubt.clone()) != Some(doubt)
    }

    /// Trusts listings again.
    pub fn clear_suspicion(&mut self) {
        (self.suspicion, self.confirmed) = (None, false);
    }

    /// Records that an operator confirmed the missing instances; valid while listings lack them.
    pub fn confirm_missing(&mut self) {
        self.confirmed = self.suspicion.is_some();
    }

    /// Whether an operator confirmed the missing instances.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// When the instance was last inspected.
    pub fn last_inspected(&self, provider_id: &ProviderId) -> Option<Timestamp> {
        self.inspected_at.get(provider_id).copied()
    }

    /// Records an inspection, and removes those older than `kept_for`.
    pub fn record_inspection(&mut self, provider_id: ProviderId, kept_for: Millis, now: Timestamp) {
        self.inspected_at.retain(|_, at| now.duration_since(*at) < kept_for);
        self.inspected_at.insert(provider_id, now);
    }

    /// Records whether an inspection found an ended instance.
    pub fn record_answer(&mut self, ended: bool) {
        self.last_answer_inconclusive = !ended;
    }

    /// Whether the last inspection found an ended instance; `true` before the first.
    pub fn inspections_find_ended(&self) -> bool {
        !self.last_answer_inconclusive
    }

    /// Records an instance that has ended as the cloud stated.
    pub fn record_ended(&mut self, provider_id: ProviderId) {
        self.ended.insert(provider_id);
    }

    /// Whether the cloud stated that the instance has ended.
    pub fn has_ended(&self, provider_id: &ProviderId) -> bool {
        self.ended.contains(provider_id)
    }

    /// Records an instance whose tags name another cluster.
    pub fn record_foreign(&mut self, provider_id: ProviderId) {
        self.foreign.insert(provider_id);
    }

    /// Removes an instance whose tags name this cluster.
    pub fn remove_foreign(&mut self, provider_id: &ProviderId) {
        self.foreign.remove(provider_id);
    }

    /// Records that the instance of `claim` exists although a listing lacks it.
    pub fn clear_missing(&mut self, claim: &ClaimName) {
        self.missing.remove(claim);
    }

    /// Since when the snapshot lacks this NodeClaim of a machine; `None` while it does not.
    pub fn unclaimed_since(&self, claim: &ClaimName) -> Option<Timestamp> {
        self.unclaimed.get(claim).copied()
    }

    /// Records a machine whose NodeClaim the snapshot lacks.
    pub fn record_unclaimed(&mut self, claim: ClaimName, since: Timestamp) {
        self.unclaimed.insert(claim, since);
    }

    /// Replaces the machines whose NodeClaim the snapshot lacks by those of a later listing.
    pub fn replace_unclaimed(&mut self, claims: BTreeMap<ClaimName, Timestamp>) {
        self.unclaimed = claims;
    }

    /// Fingerprint of the anomalies in the view.
    pub fn view_version(&self) -> (Option<ListingLoss>, (usize, usize)) {
        (self.suspicion().map(|doubt| doubt.loss.clone()), self.counts())
    }

    /// Number of orphaned instances, and of foreign instances.
    pub fn counts(&self) -> (usize, usize) {
        (self.orphans.len(), self.foreign.len())
    }
}

impl ClusterController {
    /// Evaluates a listing of the cluster's instances.
    pub fn collect_garbage(&mut self, listing: &Listing, ctx: &mut Context<'_>) {
        let Some(after) = ctx.settings.gc_after else { return };
        let held = self.guardrails.quarantine.is_some() || self.is_shadow(ctx);
        if held || !listing.complete || !self.is_ready() || listing.requested_at < self.gc.since {
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
            let gone = !listed.contains(provider_id) && self.state.node_of_machine(provider_id).is_none();
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
            self.inspect_instances(ended.clone(), ctx);
        }
        let ended = ended.iter().filter(|(_, id)| trusted || self.gc.has_ended(id));
        let known = &self.gc.missing;
        let since = |claim: &ClaimName| known.get(claim).copied().unwrap_or(listing.requested_at);
        let missing: BTreeMap<ClaimName, Timestamp> = ended.map(|(claim, _)| (claim.clone(), since(claim))).collect();
        let due = missing.iter().filter(|(_, since)| listing.requested_at.duration_since(**since) >= after);
        let due: BTreeSet<ClaimName> = due.map(|(claim, _)| claim.clone()).collect();
        self.gc.missing = missing;
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
                self.report_foreign(instance, ctx);
            } else if !self.is_owned(instance) {
                let since = self.gc.orphans.get(&instance.provider_id).copied().unwrap_or(listing.requested_at);
                orphans.insert(instance.provider_id.clone(), since);
                let due = listing.requested_at.duration_since(since) >= after;
                if due && !self.snapshot_suspicious(1, 1, ctx) && !self.most_nodes_vanished(ctx) {
                    self.collect_orphan(instance, since, ctx);
                }
            }
        }
        self.gc.terminating.retain(|id| orphans.contains_key(id));
        self.gc.orphans = orphans;
    }

    fn collect_orphan(&mut self, instance: &ListedInstance, since: Timestamp, ctx: &mut Context<'_>) {
        let terminating = self.gc.terminating.contains(&instance.provider_id);
        let has_node = self.state.node_of_machine(&instance.provider_id).is_some();
        // While every Node is missing, an instance without a Node counts as in use.
        let in_use = has_node || self.may_have_hidden_node(ctx);
        if in_use && !terminating {
            self.adopt_orphan(instance, since, ctx);
        } else {
            self.terminate_orphan(instance, ctx);
        }
    }

    /// Whether a NodeClaim or machine owns this instance, or may turn out to: the outcome of its
    /// launch is still unknown.
    fn is_owned(&self, instance: &ListedInstance) -> bool {
        let known =
            |machine: &ManagedClaim| *machine.provider_id() == instance.provider_id || machine.provider_id().is_empty();
        self.claims.get(&instance.claim).is_some_and(known)
            || self.claim_of_instance(&instance.provider_id).is_some()
            || self.state.claims().any(|claim| claim.provider_id == instance.provider_id)
    }

    fn terminate_orphan(&mut self, instance: &ListedInstance, ctx: &mut Context<'_>) {
        let provider_id = instance.provider_id.clone();
        if !self.gc.terminating.contains(&provider_id) && self.admit_orphan_removal(&instance.claim, ctx) {
            self.gc.terminating.insert(provider_id.clone());
            let (cluster, cluster_uid, claim) = (self.cluster.clone(), self.uid.clone(), instance.claim.clone());
            ctx.effects.push(Effect::Terminate { cluster, cluster_uid, claim, provider_id });
        }
    }

    fn report_foreign(&mut self, instance: &ListedInstance, ctx: &mut Context<'_>) {
        let ListedInstance { provider_id, cluster_uid, .. } = instance.clone();
        if self.gc.reported.insert(provider_id.clone()) {
            self.report_finding(Finding::ForeignInstance { provider_id, cluster_uid }, ctx);
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
                let since = self.gc.missing.get(machine.name()).copied().unwrap_or(listing.requested_at);
                (machine.name().clone(), since)
            })
            .collect();
        let due = missing.iter().filter(|(_, since)| !trusted || listing.requested_at.duration_since(**since) >= after);
        let due: Vec<(ClaimName, ProviderId)> =
            due.filter_map(|(claim, _)| Some((claim.clone(), self.claims.get(claim)?.provider_id().clone()))).collect();
        self.guardrails.waiting_removals.retain(HoldCause::Missing, |claim| missing.contains_key(claim));
        let claims = &self.claims;
        self.gc.foreign.retain(|id| !listing.instances.iter().any(|instance| instance.provider_id == *id));
        let foreign = &self.gc.foreign;
        let is_foreign = |claim: &ClaimName| {
            claims.get(claim).is_some_and(|m| m.is_termination_refused() || foreign.contains(m.provider_id()))
        };
        self.guardrails.waiting_removals.retain(HoldCause::Foreign, is_foreign);
        self.gc.missing = missing;
        self.inspect_instances(due, ctx);
    }

    /// Whether a listing requested at `requested_at` must contain the machine's instance.
    fn should_be_listed(&self, machine: &ManagedClaim, asked: Timestamp, after: Millis) -> bool {
        let old = asked.duration_since(machine.since()) >= after;
        match machine.stage() {
            StageKind::Planned | StageKind::Creating | StageKind::Launching | StageKind::Deleting => false,
            StageKind::Terminating => !machine.provider_id().is_empty(),
            StageKind::Launched | StageKind::Registered | StageKind::Initialized | StageKind::Draining => {
                old && !machine.provider_id().is_empty()
            }
        }
    }
}

#[cfg(test)]
mod tests;
