//! Other autoscalers in the same cluster: what is left to them, and for how long.
//!
//! Machines without our annotation are counted and never touched ([`ClaimRecord::ours`](crate::cluster::ClaimRecord)). While a
//! Karpenter lives no pool takes part in planning, and nodes go by nobody's decision here: it would buy a second machine for each
//! NodeClaim of ours. In shadow mode all pools take part, since nothing is made. A pod that Cluster Autoscaler buys a node for is
//! not planned until that node has had its time.

use super::cluster_controller::{ClusterController, Context};
use crate::model::Text;

impl ClusterController {
    /// Pods whose foreign node has not come in time are planned.
    pub fn release_held(&mut self, desk: &Context<'_>) {
        if self.held_until.is_some_and(|until| until <= desk.now) {
            self.window.rouse(desk.now);
        }
        self.held_until = self.state.next_release(desk.now);
    }

    /// NodePools that are left to others, and why.
    pub fn left_pools(&self) -> Vec<(Text, Text)> {
        let pools = self.state.pools();
        let left = pools.filter_map(|pool| Some((pool.pool.name.clone(), self.state.left_to_others(pool)?)));
        left.collect()
    }
}

#[cfg(test)]
mod tests;
