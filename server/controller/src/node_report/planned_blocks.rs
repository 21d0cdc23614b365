//! What the last plan of disruption found of the nodes that stay, for reports.

use std::collections::BTreeMap;

use model::disruption_plan::{Block, DisruptionPlan};
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
}

impl PlannedBlocks {
    /// What `planned`, which was made from the state of `at`, says.
    pub fn of(planned: &DisruptionPlan, at: Timestamp) -> Self {
        let held = planned.held.iter().filter_map(|held| {
            let node = planned.input.nodes.get(held.node as usize)?;
            Some((node.name.clone(), held.by.iter().take(MAX_BLOCKS).cloned().collect()))
        });
        Self { at: Some(at), by_node: held.take(MAX_NODES).collect() }
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
