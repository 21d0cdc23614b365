//! Drift of NodeClaims from the observed NodePools.

use super::record::{ClaimRecord, PoolRecord};
use super::state::ClusterState;
use drift::{Drift, DriftClaim, DriftPool};
use model::{Text, Timestamp};

impl ClusterState {
    /// Why `claim` does not match its NodePool or NodeClass any more as of `now`; `None` while it
    /// matches, or while it is not launched, not of this server, or without a managed NodePool.
    #[must_use]
    pub fn drift_of(&self, claim: &ClaimRecord, now: Timestamp) -> Option<Drift> {
        let pool = self.compared_pool(claim)?;
        drift::detect(&claim_facts(claim), &pool_facts(pool), now)
    }

    /// When `claim`, which has not drifted as of `now`, drifts without any change.
    #[must_use]
    pub fn next_drift_of(&self, claim: &ClaimRecord, now: Timestamp) -> Option<Timestamp> {
        let pool = self.compared_pool(claim)?;
        drift::next_drift(&claim_facts(claim), &pool_facts(pool), now)
    }

    fn compared_pool(&self, claim: &ClaimRecord) -> Option<&PoolRecord> {
        let is_launched = claim.ours && !claim.provider_id.is_empty();
        self.pool(&claim.pool).filter(|pool| is_launched && self.unmanaged_reason(pool).is_none())
    }
}

fn claim_facts(claim: &ClaimRecord) -> DriftClaim<'_> {
    let image: &Text = &claim.drift.image;
    DriftClaim {
        labels: &claim.labels,
        created: claim.created,
        karpenter_hash: claim.drift.karpenter_hash.as_ref(),
        own_hash: claim.drift.own_hash.as_ref(),
        class_hash: claim.drift.class_hash.as_ref(),
        image: Some(image),
        // A condition of this server would never end.
        condition: None,
    }
}

fn pool_facts(record: &PoolRecord) -> DriftPool<'_> {
    DriftPool {
        karpenter_hash: record.drift.karpenter_hash.as_ref(),
        own_hash: record.drift.own_hash.as_ref(),
        requirements: &record.pool.requirements,
        labels: &record.pool.labels,
        catalogue: &record.pool.catalogue,
        class_hash: record.drift.class_hash.as_ref(),
        images: &record.drift.images,
    }
}
