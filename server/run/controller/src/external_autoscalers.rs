//! Coexistence with other autoscalers in the same cluster.
//!
//! Machines without the managed annotation are counted and never changed
//! ([`ClaimRecord::ours`](cluster::ClaimRecord)). While a Karpenter is active, no NodePool
//! takes part in planning and no node is removed: Karpenter would launch a second instance for each
//! NodeClaim of this server. In shadow mode all NodePools take part, because no effect is executed.
//! A pod for which Cluster Autoscaler triggered a scale-up is planned only after a hold time
//! ([`Provisioner::plan_released_pods`](crate::provisioning::Provisioner::plan_released_pods)).

use cluster::ClusterState;
use model::{PoolName, Text};

/// NodePools that are not managed, and why.
pub(crate) fn unmanaged_pools(state: &ClusterState) -> Vec<(PoolName, Text)> {
    let pools = state.pools();
    let left = pools.filter_map(|pool| Some((pool.pool.name.clone(), state.unmanaged_reason(pool)?)));
    left.collect()
}

#[cfg(test)]
mod tests;
