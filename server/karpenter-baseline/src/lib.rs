//! What Karpenter would launch: a rendering of the published behaviour of its provisioning, for
//! comparison with plans. It decides nothing.
//!
//! [`provision`] is one round of Karpenter 1.14's greedy. Pods are tried by CPU and memory, largest
//! first; each goes to the first existing node, then to the NodeClaim of the round with the fewest
//! pods, then to a new NodeClaim of the heaviest NodePool that takes it. A NodeClaim keeps every
//! instance type that holds its pods, and the cheapest of them is launched.
//!
//! Behaviour that looks accidental is kept, with its number in comments (`L15`). What Karpenter leaves
//! to the order of a map is decided by name here. One round is not all: pods that wait for limits, for
//! reservations or for a zone would be tried again once the first machines exist.
//!
//! Reading order: `round`, `claim`, `pods`, `topology`, `launch`.

mod amounts;
mod claim;
mod existing;
mod launch;
mod pods;
mod queue;
mod reservations;
mod round;
mod supply;
#[cfg(test)]
mod tests;
mod topology;

use model::input::PlanningInput;
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
    /// Price of all machines per hour.
    #[must_use]
    pub fn cost(&self) -> MicroUsd {
        MicroUsd(self.nodes.iter().map(|node| node.price.0).sum())
    }
}

/// A machine that is launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedNode {
    /// Index of the NodePool.
    pub pool: u32,
    /// Index into the catalogue of the pool.
    pub instance_type: u32,
    /// Zone of the launch.
    pub zone: Zone,
    /// Capacity type of the launch.
    pub capacity_type: CapacityType,
    /// Price per hour.
    pub price: MicroUsd,
    /// Pods by index, in the order in which they were placed.
    pub pods: Vec<u32>,
}

/// One round of provisioning for the pods of `input`. Opt-in rules, priorities and the search have no
/// counterpart in Karpenter and are ignored.
pub fn provision(input: &PlanningInput) -> Launches {
    round::Round::new(input).run()
}
