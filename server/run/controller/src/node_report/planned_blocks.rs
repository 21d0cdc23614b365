//! What the last plan of disruption found of the nodes that stay, for reports.

use std::collections::BTreeMap;

use model::disruption_plan::{Block, BlockCode, DisruptionPlan};
use model::removal::RemovalReason;
use model::{NodeName, Timestamp};

/// Maximum number of nodes whose blocks are kept: a few megabytes for a cluster.
const MAX_NODES: usize = 10_000;

/// Maximum number of blocks that are kept of one node.
const MAX_BLOCKS: usize = 8;

/// The blocks of the last plan of disruption.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlannedBlocks {
    at: Option<Timestamp>,
    by_node: BTreeMap<NodeName, Vec<Block>>,
    /// Number of nodes that the plan could consolidate but for prices, capacity and budgets, those that it removes included.
    eligible: usize,
}

/// What is found of a node that may be consolidated.
const OF_ELIGIBLE: [BlockCode; 5] =
    [BlockCode::Budget, BlockCode::NoCapacity, BlockCode::NoSavings, BlockCode::MinValues, BlockCode::SpotFlexibility];

impl PlannedBlocks {
    /// What `planned`, which was made from the state of `at`, says.
    pub fn of(planned: &DisruptionPlan, at: Timestamp) -> Self {
        let held = planned.held.iter().filter_map(|held| {
            let node = planned.input.nodes.get(held.node as usize)?;
            Some((node.name.clone(), held.by.iter().take(MAX_BLOCKS).cloned().collect()))
        });
        Self { at: Some(at), by_node: held.take(MAX_NODES).collect(), eligible: eligible(planned) }
    }

    /// Number of nodes that the plan could consolidate but for prices, capacity and budgets.
    pub fn eligible(&self) -> usize {
        self.eligible
    }

    /// Time of the state that the plan was made from.
    pub fn at(&self) -> Option<Timestamp> {
        self.at
    }

    /// What held the node; `None` if the plan did not judge it, or removes it.
    pub fn of_node(&self, node: &NodeName) -> Option<&[Block]> {
        self.by_node.get(node).map(Vec::as_slice)
    }
}

fn eligible(planned: &DisruptionPlan) -> usize {
    let removed = planned.commands.iter().filter(|command| command.reason == RemovalReason::Underutilized);
    let stays = planned.held.iter().filter(|held| {
        held.reason == RemovalReason::Underutilized && held.by.iter().all(|block| OF_ELIGIBLE.contains(&block.code))
    });
    removed.map(|command| command.nodes.len()).sum::<usize>() + stays.count()
}

#[cfg(test)]
mod tests {
    use model::disruption_plan::{Command, HeldNode};

    use super::*;

    #[test]
    fn nodes_are_eligible_that_only_prices_capacity_and_budgets_hold() {
        let held = |node: u32, reason: RemovalReason, codes: &[BlockCode]| HeldNode {
            node,
            reason,
            by: codes.iter().map(|code| Block::new(*code, "Node/n", "is held")).collect(),
        };
        let command = Command {
            reason: RemovalReason::Underutilized,
            nodes: vec![0, 1],
            replacements: Vec::new(),
            placements: Vec::new(),
            savings: Default::default(),
        };
        let planned = DisruptionPlan {
            commands: vec![command],
            held: vec![
                held(2, RemovalReason::Underutilized, &[BlockCode::NoSavings, BlockCode::Budget]),
                held(3, RemovalReason::Underutilized, &[BlockCode::NoSavings, BlockCode::DoNotDisrupt]),
                held(4, RemovalReason::Underutilized, &[BlockCode::Policy]),
                held(5, RemovalReason::Empty, &[BlockCode::Budget]),
            ],
            ..DisruptionPlan::default()
        };
        assert_eq!(PlannedBlocks::of(&planned, Timestamp::default()).eligible(), 3, "0, 1 and 2");
    }
}
