//! What a part of a controller reads in a step of its cluster.

use super::disruption::{DecisionQueue, Disruption};
use super::guardrails::{Block, ClusterGuardrails, Guardrails, GuardrailsView};
use super::history::History;
use super::holds::Holds;
use super::node_class::NodeClassResolver;
use super::nodeclaim::{GarbageCollector, ManagedClaim, NodeClaims, PendingRecovery};
use super::origin::Origin;
use super::provisioning::Provisioner;
use super::region_state::RegionState;
use crate::Settings;
use crate::copy_on_write::CopyOnWrite;
use cluster::ClusterState;
use model::removal::RemovalReason;
use model::{ClaimName, ClusterName, Text, Timestamp};

/// The observed state of the cluster, and the parts that others read, at one time. A part that reads it changes only
/// itself.
#[derive(Clone, Copy)]
pub struct StepView<'v> {
    pub(crate) cluster: &'v ClusterName,
    pub(crate) uid: &'v Text,
    pub(crate) connected: bool,
    pub(crate) unsynced_since: Option<Timestamp>,
    pub(crate) state: &'v CopyOnWrite<ClusterState>,
    pub(crate) claims: &'v NodeClaims,
    pub(crate) gc: &'v GarbageCollector,
    pub(crate) recovery: &'v PendingRecovery,
    pub(crate) guardrails: &'v ClusterGuardrails,
    pub(crate) decisions: &'v DecisionQueue,
    pub(crate) disruption: &'v Disruption,
    pub(crate) holds: &'v Holds,
    pub(crate) history: &'v History,
    pub(crate) provisioner: &'v Provisioner,
    pub(crate) node_classes: &'v NodeClassResolver,
    pub(crate) region: &'v RegionState,
    pub(crate) now: Timestamp,
}

impl<'v> StepView<'v> {
    pub(crate) fn settings(&self) -> &'v Settings {
        self.region.settings()
    }

    /// Whether decisions are allowed: the agent is connected and the state synced.
    pub(crate) fn is_ready(&self) -> bool {
        self.connected && self.state.is_synced()
    }

    /// Whether statuses may be written: not in quarantine, and not in shadow mode.
    pub(crate) fn may_report_status(&self) -> bool {
        !self.guardrails.is_quarantined() && !self.settings().is_shadow(self.cluster)
    }

    /// What holds a removal of `claim` for `reason`; the first in order of precedence.
    pub(crate) fn removal_block(
        &self,
        claim: &ClaimName,
        reason: RemovalReason,
        guardrails: &Guardrails,
    ) -> Option<Block> {
        let of_pool = || self.pool_removal_block(claim, reason, guardrails);
        guardrails.removal_block(&self.settings().guardrails, self.cluster).or_else(of_pool)
    }

    /// What holds a removal of `claim` for `reason` as one from its NodePool.
    pub(crate) fn pool_removal_block(
        &self,
        claim: &ClaimName,
        reason: RemovalReason,
        guardrails: &Guardrails,
    ) -> Option<Block> {
        let pool = self.claims.pool_of(claim, self.state)?;
        guardrails.pool_removal_block(self.cluster, pool, reason)
    }

    /// What the guardrails hold back, and why.
    pub(crate) fn guardrails_view(&self, guardrails: &Guardrails) -> GuardrailsView {
        let (settings, suspicion) = (self.settings(), self.gc.suspicion());
        let suspicion = suspicion.map(|suspicion| (Text::from(suspicion.loss.to_string()), suspicion.since));
        GuardrailsView {
            untrusted_listing: suspicion,
            disruption_mode: settings.disruption.mode_of(self.cluster),
            ..GuardrailsView::of(guardrails, self.guardrails, &settings.guardrails, self.cluster)
        }
    }

    /// The decision that removes the machine, as far as this process knows.
    pub(crate) fn removal_origin_of(&self, claim: &ClaimName) -> Origin {
        self.claims.get(claim).map(ManagedClaim::removal_origin).unwrap_or_default()
    }
}
