//! What decides whether a planned machine may still be launched.

use crate::guardrails::Guardrails;
use crate::unavailable_offerings::{ProbeHolder, UnavailableOfferings};
use cluster::{ClusterState, PoolRecord};
use model::LaunchOption;
use model::{CapacityType, ClusterName, PoolName, Text, Timestamp};

/// Read access to the state, and to the guardrails and offerings that restrict launches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchView<'v> {
    pub cluster: &'v ClusterName,
    pub state: &'v ClusterState,
    /// Whether the cluster is in quarantine.
    pub quarantined: bool,
    pub guardrails: &'v Guardrails,
    pub offerings: &'v UnavailableOfferings,
    pub now: Timestamp,
}

impl<'v> LaunchView<'v> {
    /// The NodePool, if it is managed and ready, has this revision still, and may launch machines.
    pub fn launchable_pool(&self, pool: &PoolName, revision: &Text) -> Option<&'v PoolRecord> {
        let record = self.state.pool(pool)?;
        let unchanged = record.revision == *revision
            && record.pool.not_ready.is_none()
            && self.state.unmanaged_reason(record).is_none();
        let allowed = !self.quarantined && self.guardrails.launch_block(self.cluster, Some(pool)).is_none();
        (unchanged && allowed).then_some(record)
    }

    /// Whether one of these launch options is available to `holder`, or to a launch to come.
    pub fn has_available(
        &self,
        options: &[LaunchOption],
        capacity_type: CapacityType,
        holder: Option<&ProbeHolder>,
    ) -> bool {
        options.iter().any(|option| self.offerings.is_available(option, capacity_type, holder, self.now))
    }
}
