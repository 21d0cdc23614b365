//! Machines in another region than the one that the cluster's instances are launched in: the operator has moved the
//! cluster to another account and region, or has set a wrong one.
//!
//! Neither the listings nor the other calls of this region know such a machine, so what they lack says nothing about it. It
//! is not inspected, and never counts as gone; a termination that finds no instance is held, and repeated, until an
//! operator confirms it.

use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::guardrails::removal::{BlockCause, RemovalRefusal};
use crate::{Finding, Inspection};
use model::{ClaimName, ProviderId, Text};

impl ClusterController {
    /// The NodeClaim of an instance that this region's API cannot know, if the answer claims that the instance is gone and no
    /// operator has confirmed that.
    pub(crate) fn claim_of_instance_elsewhere(&self, provider_id: &ProviderId, found: Inspection) -> Option<ClaimName> {
        let is_gone = matches!(found, Inspection::Unknown | Inspection::Ended);
        let claim =
            self.claims.name_of_instance(provider_id).filter(|_| is_gone && self.region.is_elsewhere(provider_id))?;
        self.claims.get(&claim).is_some_and(|machine| !machine.is_removal_confirmed()).then_some(claim)
    }

    /// Holds the removal of `claim`, whose instance is in another region.
    pub(crate) fn hold_elsewhere(&mut self, claim: &ClaimName, provider_id: &ProviderId, ctx: &Context<'_>) {
        let region = self.region.region().cloned().unwrap_or_default();
        let refusal = RemovalRefusal::OtherRegion { provider_id: provider_id.clone(), region };
        self.guardrails.block_removal(BlockCause::Foreign, claim, refusal, ctx.now);
    }

    /// Reports how many machines are in another region, when their number has changed.
    pub(crate) fn report_elsewhere(&mut self, ctx: &mut Context<'_>) {
        let ids = || self.claims.iter().map(|machine| machine.provider_id()).filter(|id| self.region.is_elsewhere(id));
        let (elsewhere, of, first) = (ids().count(), self.claims.iter().count(), ids().next().cloned());
        if self.gc.replace_elsewhere(elsewhere)
            && let Some(provider_id) = first
        {
            let region: Text = self.region.region().cloned().unwrap_or_default();
            ctx.report_finding(Finding::OtherRegion { elsewhere, of, provider_id, region });
        }
    }
}

#[cfg(test)]
mod tests;
