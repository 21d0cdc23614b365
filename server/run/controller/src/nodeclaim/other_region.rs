//! Machines in another region than the one that the cluster's instances are launched in: the operator has moved the
//! cluster to another account and region, or has set a wrong one.
//!
//! Neither the listings nor the other calls of this region know such a machine, so what they lack says nothing about it. It
//! is not inspected, and never counts as gone; a termination that finds no instance is held, and repeated, until an
//! operator confirms it.

use crate::context::Context;
use crate::guardrails::removal::RemovalRefusal;
use crate::nodeclaim::{GarbageCollector, NodeClaims};
use crate::region_state::RegionState;
use crate::{Finding, Inspection};
use model::{ClaimName, ProviderId, Text};

/// The NodeClaim of an instance that this region's API cannot know, if the answer claims that the instance is gone and no
/// operator has confirmed that.
pub(crate) fn claim_of_instance_elsewhere(
    provider_id: &ProviderId,
    found: Inspection,
    claims: &NodeClaims,
    region: &RegionState,
) -> Option<ClaimName> {
    let is_gone = matches!(found, Inspection::Unknown | Inspection::Ended);
    let claim = claims.name_of_instance(provider_id).filter(|_| is_gone && region.is_elsewhere(provider_id))?;
    claims.get(&claim).is_some_and(|machine| !machine.is_removal_confirmed()).then_some(claim)
}

/// Why a machine is kept whose instance is in another region than `region`.
pub(crate) fn refusal_elsewhere(provider_id: &ProviderId, region: &RegionState) -> RemovalRefusal {
    let region = region.region().cloned().unwrap_or_default();
    RemovalRefusal::OtherRegion { provider_id: provider_id.clone(), region }
}

/// Reports how many machines are in another region, when their number has changed.
pub(crate) fn report_elsewhere(
    ctx: &mut Context<'_>,
    gc: &mut GarbageCollector,
    claims: &NodeClaims,
    region: &RegionState,
) {
    let ids = || claims.iter().map(|machine| machine.provider_id()).filter(|id| region.is_elsewhere(id));
    let (elsewhere, of, first) = (ids().count(), claims.iter().count(), ids().next().cloned());
    if gc.replace_elsewhere(elsewhere)
        && let Some(provider_id) = first
    {
        let region: Text = region.region().cloned().unwrap_or_default();
        ctx.report_finding(Finding::OtherRegion { elsewhere, of, provider_id, region });
    }
}

#[cfg(test)]
mod tests;
