//! Drift of NodeClaims from the observed NodePools.

use super::drift_evidence::{ComparisonRules, DriftEvidence};
use super::record::{ClaimRecord, PoolRecord};
use super::state::ClusterState;
use drift::{Drift, DriftClaim, DriftPool, DriftReason, Selected};
use model::node_class::ResolvedNodeClass;
use model::{InstanceDetails, Millis, ProviderId, Text, Timestamp};
use std::sync::Arc;

/// An instance is launched within this time of its NodeClaim's creation: the timeout of launches, five minutes, with room
/// for clocks that differ.
const LATEST_LAUNCH: Millis = Millis::from_mins(15);

impl ClusterState {
    /// Why `claim` does not match its NodePool or NodeClass any more as of `now`; `None` while it
    /// matches, or while it is not launched, not of this server, or without a managed NodePool.
    #[must_use]
    pub fn drift_of(&self, claim: &ClaimRecord, now: Timestamp) -> Option<Drift> {
        let pool = self.compared_pool(claim)?;
        let facts = self.drift_pool(claim, pool);
        drift::detect(&self.drift_claim(claim), &facts, now).or_else(|| self.standing_drift(claim, &facts.selected))
    }

    /// When `claim`, which has not drifted as of `now`, drifts without any change.
    #[must_use]
    pub fn next_drift_of(&self, claim: &ClaimRecord, now: Timestamp) -> Option<Timestamp> {
        let pool = self.compared_pool(claim)?;
        drift::next_drift(&self.drift_claim(claim), &self.drift_pool(claim, pool), now)
    }

    pub fn set_comparison_rules(&mut self, rules: ComparisonRules) {
        self.evidence_mut().rules = rules;
    }

    pub fn comparison_rules(&self) -> ComparisonRules {
        self.evidence().rules
    }

    /// Records what an EC2NodeClass was resolved to at `now`; returns whether drift may have changed.
    pub fn record_lookup(&mut self, class: &Text, resolved: &ResolvedNodeClass, now: Timestamp) -> bool {
        let allows_failed = self.evidence().rules.allows_failed;
        self.evidence_mut().lookups.record(class, resolved, allows_failed, now)
    }

    /// Records the instances of a complete listing, which was requested at `requested_at` and answered at `now`.
    pub fn record_listed<'i>(
        &mut self,
        requested_at: Timestamp,
        listed: impl Iterator<Item = (&'i ProviderId, &'i Arc<InstanceDetails>)>,
        now: Timestamp,
    ) -> bool {
        self.evidence_mut().instances.record(requested_at, listed, now)
    }

    fn compared_pool(&self, claim: &ClaimRecord) -> Option<&PoolRecord> {
        let is_launched = claim.ours && claim.is_launched();
        self.pool(&claim.pool).filter(|pool| is_launched && self.unmanaged_reason(pool).is_none())
    }

    /// A drift that the NodeClaim shows stays while what it was found by is unknown: the next owner of a cluster has
    /// neither a listing nor a lookup yet, and the replacements of the previous one are under way.
    fn standing_drift(&self, claim: &ClaimRecord, selected: &Selected<'_>) -> Option<Drift> {
        let (reason, message) = claim.drift.shown.as_ref().filter(|_| self.compares_lookups())?;
        let is_unknown = match &**reason {
            "AMIDrift" => selected.images.is_none(),
            "SecurityGroupDrift" => selected.security_groups.is_none(),
            "SubnetDrift" => selected.subnets.is_none(),
            "CapacityReservationDrift" => selected.reservations.is_none(),
            _ => false,
        };
        is_unknown.then(|| Drift { reason: DriftReason::Given(reason.clone()), message: message.clone() })
    }

    /// Whether this process looks up what EC2NodeClasses select. An active Karpenter does it instead.
    fn compares_lookups(&self) -> bool {
        self.evidence().rules.is_resolver && !self.is_karpenter_active()
    }

    fn drift_claim<'s>(&'s self, claim: &'s ClaimRecord) -> DriftClaim<'s> {
        let listed = self.evidence().instances.get(&claim.provider_id).filter(|_| self.compares_lookups());
        DriftClaim {
            labels: &claim.labels,
            created: claim.created,
            karpenter_hash: claim.drift.karpenter_hash.as_ref(),
            own_hash: claim.drift.own_hash.as_ref(),
            class_hash: claim.drift.class_hash.as_ref(),
            own_class_hash: claim.drift.own_class_hash.as_ref(),
            image: Some(&claim.drift.image),
            instance: listed.map(|listed| &*listed.details),
            // A condition of this server would never end.
            condition: None,
        }
    }

    fn drift_pool<'s>(&'s self, claim: &ClaimRecord, record: &'s PoolRecord) -> DriftPool<'s> {
        DriftPool {
            karpenter_hash: record.drift.karpenter_hash.as_ref(),
            own_hash: record.drift.own_hash.as_ref(),
            requirements: &record.pool.requirements,
            labels: &record.pool.labels,
            catalogue: &record.pool.catalogue,
            class_hash: record.drift.class_hash.as_ref(),
            own_class_hash: record.drift.own_class_hash.as_ref(),
            selected: self.selected(claim, record),
        }
    }

    fn selected(&self, claim: &ClaimRecord, pool: &PoolRecord) -> Selected<'_> {
        let class = &pool.pool.node_class;
        let DriftEvidence { rules, lookups, instances } = self.evidence();
        // The status has no times: groups, subnets and reservations are not compared with it.
        let images = || self.class(class).and_then(|class| class.status.images.as_deref());
        let of_status = || Selected { images: images(), ..Selected::default() };
        if !self.compares_lookups() {
            return of_status();
        }
        if rules.allows_outdated {
            return lookups.outdated(class).unwrap_or_else(of_status);
        }
        let listed = instances.get(&claim.provider_id);
        // By the clock of the API server for machines that this process learned of later, such as after a takeover.
        let launched_by = |since: Timestamp| since.min(claim.created.map_or(since, |created| created + LATEST_LAUNCH));
        listed.map(|listed| lookups.selected(class, launched_by(listed.known_since), instances)).unwrap_or_default()
    }
}
