//! The result of a round.

use model::{CapacityType, MicroUsd, Zone};

/// What one round launches, and where pods go. Pods, nodes, pools and types are indices as in
/// [`Plan`](model::plan::Plan).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "launches that are not read compare nothing"]
pub struct Launches {
    /// Machines that are launched, in the order in which their NodeClaims were opened.
    pub nodes: Vec<LaunchedNode>,
    /// Pods placed on nodes of the input: (pod, node), by pod.
    pub placements: Vec<(u32, u32)>,
    /// Pods without a place after this round, ascending.
    pub unschedulable: Vec<u32>,
}

impl Launches {
    /// Price and credits of all machines per hour.
    #[must_use]
    pub fn cost(&self) -> MicroUsd {
        MicroUsd(self.nodes.iter().map(|node| node.price.0 + node.credits.0).sum())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedNode {
    /// Index of the NodePool.
    pub pool: u32,
    /// Index into the catalogue of the pool.
    pub instance_type: u32,
    pub zone: Zone,
    pub capacity_type: CapacityType,
    /// Price per hour.
    pub price: MicroUsd,
    /// Surplus credits per hour of the CPU that is requested beyond the baseline, which Karpenter does not
    /// look at; 0 unless the type is burstable.
    pub credits: MicroUsd,
    /// Pods by index, in the order in which they were placed.
    pub pods: Vec<u32>,
}
