//! Coexistence with other autoscalers in the same cluster.
//!
//! Machines without the managed annotation are counted and never changed
//! ([`ClaimRecord::ours`](crate::cluster::ClaimRecord)). While a Karpenter is active, no NodePool
//! takes part in planning and no node is removed: Karpenter would launch a second instance for each
//! NodeClaim of this server. In shadow mode all NodePools take part, because no effect is executed.
//! A pod for which Cluster Autoscaler triggered a scale-up is planned only after a hold time.

use super::cluster_controller::{ClusterController, Context};
use model::{PoolName, Text};

impl ClusterController {
    /// Schedules planning when the hold of a pod after an external scale-up has ended.
    pub fn plan_released_pods(&mut self, ctx: &Context<'_>) {
        if self.next_hold_expiry.is_some_and(|until| until <= ctx.now) {
            self.window.extend(ctx.now);
        }
        self.next_hold_expiry = self.state.next_hold_expiry(ctx.now);
    }

    /// NodePools that are not managed, and why.
    pub fn unmanaged_pools(&self) -> Vec<(PoolName, Text)> {
        let pools = self.state.pools();
        let left = pools.filter_map(|pool| Some((pool.pool.name.clone(), self.state.unmanaged_reason(pool)?)));
        left.collect()
    }
}

#[cfg(test)]
mod tests;
