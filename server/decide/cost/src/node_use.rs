//! Splits the price of a node by what it is used for.

use model::MicroUsd;

use crate::{CostCause, CostParts};

/// What of one resource of a node is requested, in the unit of the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceUse {
    /// By pods that run, those of DaemonSets apart.
    pub workload: i64,
    /// By capacity holds whose pods have not come.
    pub held: i64,
    /// By pods of DaemonSets.
    pub daemons: i64,
    pub allocatable: i64,
}

/// Where a node is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodePhase {
    /// Launched, and not initialized.
    Booting,
    /// Initialized. Its free room has this cause: one of [`CostCause::Fragmentation`] to [`CostCause::Unexplained`].
    Running(CostCause),
    /// Drained, or decided to go.
    Leaving,
}

/// What a node is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeUse<'r> {
    /// Price per hour.
    pub price: MicroUsd,
    /// Where it is in its life.
    pub phase: NodePhase,
    /// CPU, memory, and the devices that the node has.
    pub resources: &'r [ResourceUse],
}

/// Splits the price of a node. What is used of the price is the greatest share that is requested of a resource: a node whose CPU
/// is full is full. Useful is what pods request; then the first cause that applies takes all else, but that a hold and
/// DaemonSets take what they request.
#[must_use]
pub fn split(node: &NodeUse<'_>) -> CostParts {
    let price = node.price.0.max(0);
    let mut parts = CostParts::default();
    // Each boundary is a share of the whole price, so that the parts add up to it.
    // An amount below zero, which only a request that cannot be read has, takes nothing.
    let sum = |amounts: &[i64]| amounts.iter().fold(0_i64, |sum, amount| sum.saturating_add((*amount).max(0)));
    let workload = boundary(price, node.resources, |of| of.workload);
    parts.add(CostCause::Useful, workload);
    let cause = match node.phase {
        NodePhase::Booting => CostCause::Booting,
        NodePhase::Leaving => CostCause::Draining,
        NodePhase::Running(cause) => {
            let held = boundary(price, node.resources, |of| sum(&[of.workload, of.held]));
            parts.add(CostCause::Hold, held - workload);
            let daemons = |of: &ResourceUse| sum(&[of.workload, of.held, of.daemons]);
            parts.add(CostCause::DaemonSets, boundary(price, node.resources, daemons) - held);
            cause
        }
    };
    parts.add(cause, price - parts.total());
    parts
}

/// The greatest share of `price` that `requested` is of what a resource has.
fn boundary(price: i64, resources: &[ResourceUse], requested: impl Fn(&ResourceUse) -> i64) -> i64 {
    let share = |of: &ResourceUse| {
        let amount = i128::from(requested(of).clamp(0, of.allocatable.max(0)));
        let share = i128::from(price) * amount / i128::from(of.allocatable.max(1));
        i64::try_from(share).unwrap_or(price)
    };
    resources.iter().map(share).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn parts(node: &NodeUse<'_>) -> Vec<(CostCause, i64)> {
        split(node).iter().filter(|(_, amount)| *amount != 0).collect()
    }

    /// An m6i.xlarge of 0.192 dollars: half of its CPU requested by pods, a twentieth by DaemonSets.
    const CPU: ResourceUse = ResourceUse { workload: 2_000, held: 0, daemons: 200, allocatable: 4_000 };
    const MEMORY: ResourceUse = ResourceUse { workload: 4_000, held: 0, daemons: 100, allocatable: 16_000 };

    #[test]
    fn the_rest_of_a_price_goes_to_the_first_cause_that_applies() {
        let of = |phase| {
            let resources = [CPU, MEMORY];
            parts(&NodeUse { price: MicroUsd(192_000), phase, resources: &resources })
        };
        let useful = (CostCause::Useful, 96_000);
        assert_eq!(of(NodePhase::Booting), [useful, (CostCause::Booting, 96_000)]);
        assert_eq!(of(NodePhase::Leaving), [useful, (CostCause::Draining, 96_000)]);
        let daemons = (CostCause::DaemonSets, 9_600);
        assert_eq!(of(NodePhase::Running(CostCause::Blocked)), [useful, daemons, (CostCause::Blocked, 86_400)]);
    }

    #[test]
    fn the_resource_counts_of_which_most_is_requested() {
        // 12,000 of 16,000 bytes; with the hold 14,000, more than 3,000 of 4,000 millicores.
        let memory = ResourceUse { workload: 12_000, held: 2_000, daemons: 400, allocatable: 16_000 };
        let cpu = ResourceUse { held: 1_000, ..CPU };
        let phase = NodePhase::Running(CostCause::NoSavings);
        let node = NodeUse { price: MicroUsd(160_000), phase, resources: &[cpu, memory] };
        let expected = [
            (CostCause::Useful, 120_000),
            (CostCause::Hold, 20_000),
            (CostCause::DaemonSets, 4_000),
            (CostCause::NoSavings, 16_000),
        ];
        assert_eq!(parts(&node), expected);
        // A node whose accelerators are all in use is full, however much of its CPU is free.
        let devices = ResourceUse { workload: 8, held: 0, daemons: 0, allocatable: 8 };
        let node = NodeUse { resources: &[cpu, memory, devices], ..node };
        assert_eq!(parts(&node), [(CostCause::Useful, 160_000)]);
    }

    #[test]
    fn amounts_below_zero_take_nothing() {
        let use_of = |held, daemons| ResourceUse { workload: 2_000, held, daemons, allocatable: 4_000 };
        for (held, daemons) in [(-1, 0), (0, -7), (-1, -7)] {
            let phase = NodePhase::Running(CostCause::NoSavings);
            let resources = [use_of(held, daemons)];
            let node = NodeUse { price: MicroUsd(192_000), phase, resources: &resources };
            assert_eq!(parts(&node), [(CostCause::Useful, 96_000), (CostCause::NoSavings, 96_000)]);
        }
    }

    #[test]
    fn a_node_that_is_not_known_yet_is_all_waste() {
        let node = NodeUse { price: MicroUsd(5), phase: NodePhase::Booting, resources: &[ResourceUse::default()] };
        assert_eq!(parts(&node), [(CostCause::Booting, 5)]);
        assert_eq!(parts(&NodeUse { resources: &[], ..node }), [(CostCause::Booting, 5)]);
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_price_and_none_is_negative(
            price in 0..100_000_000_i64,
            amounts in vec((-5..20_000_i64, -5..20_000_i64, -5..20_000_i64, -1..10_000_i64), 0..4),
            phase in 0..6_usize,
        ) {
            let use_of = |(workload, held, daemons, allocatable)| ResourceUse { workload, held, daemons, allocatable };
            let resources: Vec<ResourceUse> = amounts.into_iter().map(use_of).collect();
            let phases = [NodePhase::Booting, NodePhase::Leaving];
            let phase = phases.get(phase).copied().unwrap_or_else(|| NodePhase::Running(CostCause::ALL[phase + 3]));
            let parts = split(&NodeUse { price: MicroUsd(price), phase, resources: &resources });
            prop_assert_eq!(parts.total(), price);
            prop_assert!(parts.iter().all(|(_, amount)| amount >= 0), "{:?}", parts);
        }
    }
}
