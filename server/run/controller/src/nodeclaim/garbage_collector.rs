//! The garbage collector's record of one cluster: what earlier listings and inspections showed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Listing, NodeClaims};
use crate::Finding;
use crate::guardrails::removal::ListingLoss;
use model::{ClaimName, Millis, ProviderId, Timestamp};

/// Why listings of the cloud are not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListingSuspicion {
    /// When they became suspicious.
    pub since: Timestamp,
    pub loss: ListingLoss,
}

/// Numbers of instances with anomalies, as far as listings and inspections show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InstanceAnomalies {
    /// Instances with this cluster's tags and without NodeClaim, not terminated yet.
    pub orphaned: usize,
    /// Instances of the cluster whose tags name another cluster, or are missing.
    pub foreign: usize,
    /// Instances whose termination the cloud refused.
    pub termination_refused: usize,
}

#[derive(Debug, Default)]
pub(crate) struct GarbageCollector {
    /// Last reported finding about missing NodeClaims.
    pub(crate) last_absence_finding: Option<Finding>,
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
    reported: BTreeSet<ProviderId>,
    /// Number of machines in another region, as last reported.
    elsewhere: usize,
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

    /// Whether a listing requested then predates the recovery.
    pub fn predates_recovery(&self, requested_at: Timestamp) -> bool {
        requested_at < self.since
    }

    /// Since when the instance is orphaned; `None` while it was not.
    pub fn orphaned_since(&self, provider_id: &ProviderId) -> Option<Timestamp> {
        self.orphans.get(provider_id).copied()
    }

    /// Replaces the orphaned instances by those of a later listing.
    pub fn replace_orphans(&mut self, orphans: BTreeMap<ProviderId, Timestamp>) {
        self.terminating.retain(|id| orphans.contains_key(id));
        self.orphans = orphans;
    }

    /// Whether the termination of the orphaned instance was requested.
    pub fn is_terminating(&self, provider_id: &ProviderId) -> bool {
        self.terminating.contains(provider_id)
    }

    /// Records that the termination of an orphaned instance is requested.
    pub fn record_termination(&mut self, provider_id: ProviderId) {
        self.terminating.insert(provider_id);
    }

    /// Records that a foreign instance is reported; returns whether it was not before.
    pub fn record_report(&mut self, provider_id: ProviderId) -> bool {
        self.reported.insert(provider_id)
    }

    /// Notes how many machines are in another region; returns whether that has changed.
    pub fn replace_elsewhere(&mut self, count: usize) -> bool {
        std::mem::replace(&mut self.elsewhere, count) != count
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

    /// Whether the tags of the instance name another cluster.
    pub fn is_foreign(&self, provider_id: &ProviderId) -> bool {
        self.foreign.contains(provider_id)
    }

    /// Removes instances that a listing of this cluster contains: their tags name it.
    pub fn remove_listed_foreign(&mut self, listing: &Listing) {
        self.foreign.retain(|id| !listing.instances.iter().any(|instance| instance.provider_id == *id));
    }

    /// Since when listings lack the instance of `claim`; `None` while they do not.
    pub fn missing_since(&self, claim: &ClaimName) -> Option<Timestamp> {
        self.missing.get(claim).copied()
    }

    /// Replaces the machines that the listing lacks by those of a later one.
    pub fn replace_missing(&mut self, claims: BTreeMap<ClaimName, Timestamp>) {
        self.missing = claims;
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
        (self.suspicion().map(|doubt| doubt.loss.clone()), (self.orphans.len(), self.foreign.len()))
    }

    /// The anomalies now, with `claims` whose termination was refused.
    pub fn anomalies(&self, claims: &NodeClaims) -> InstanceAnomalies {
        InstanceAnomalies {
            orphaned: self.orphans.len(),
            foreign: self.foreign.len(),
            termination_refused: claims.iter().filter(|machine| machine.is_termination_refused()).count(),
        }
    }
}
