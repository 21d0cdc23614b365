//! The result of a repacking.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::MicroUsd;
use model::disruption_plan::{Block, BlockCode};
use model::input::PlanningInput;
use model::removal::RemovalReason;
use model::running::{RunningCluster, RunningNode};
use planner::PlannedDecision;

use crate::blocks::{Blocks, is_liftable};
use crate::packing::{Choice, Packing};

/// What a running cluster costs per hour, over its nodes with a known price. Nodes that are
/// launched for pods that are pending already are in `needed` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepackCost {
    /// Price of the nodes that run now.
    pub now: MicroUsd,
    /// Cost after a repacking if every block were lifted that can be; at most the cost after the
    /// repacking as it is planned.
    pub needed: MicroUsd,
    /// What the blocks cost: the cost after the repacking as it is planned, less `needed`.
    pub held: MicroUsd,
}

impl RepackCost {
    /// Cost after the repacking as it is planned.
    #[must_use]
    pub fn after(&self) -> MicroUsd {
        MicroUsd(self.needed.0.saturating_add(self.held.0))
    }
}

/// A node that stays, and everything that blocks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldNode {
    /// Index into [`PlanningInput::nodes`].
    pub node: u32,
    /// Price per hour.
    pub price: MicroUsd,
    pub reason: RemovalReason,
    /// What blocks it, by code and object; not empty.
    pub by: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockerTotal<'r> {
    /// The object, with the message for its first node.
    pub blocker: &'r Block,
    /// Number of nodes that it blocks, alone or with others.
    pub nodes: usize,
    /// Price of these nodes per hour.
    pub price: MicroUsd,
}

/// A running cluster, repacked.
#[derive(Debug, Clone)]
#[must_use = "an unread repacking advises nobody"]
pub struct Repacking {
    /// What was planned: nodes that are removed are being deleted in it, and pods that move are
    /// pending.
    pub input: PlanningInput,
    /// The plan for `input`.
    pub decision: PlannedDecision,
    /// What it costs, and what stays.
    pub summary: RepackSummary,
}

/// What a repacking costs, and what stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepackSummary {
    /// What the cluster costs, needs and holds.
    pub cost: RepackCost,
    /// The nodes that stay, in the order of the input.
    pub held: Vec<HeldNode>,
    /// Number of nodes that are removed.
    pub removed: usize,
    /// Why the cluster is left as it is; `None` if it is repacked.
    pub left_as_it_is: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl RepackSummary {
    /// What each object blocks, by the price of its nodes, highest first: objects that can be changed
    /// (`is_liftable`), or the others.
    #[must_use]
    pub fn blockers(&self, liftable: bool) -> Vec<BlockerTotal<'_>> {
        let mut totals: BTreeMap<(BlockCode, &str), BlockerTotal<'_>> = BTreeMap::new();
        for node in &self.held {
            let mut counted = Vec::new();
            for blocker in &node.by {
                let key = (blocker.code, blocker.object.as_str());
                let is_listed = is_liftable(blocker.code) == liftable && blocker.code != BlockCode::NoSavings;
                if !is_listed || counted.contains(&key) {
                    continue;
                }
                counted.push(key);
                let total = totals.entry(key).or_insert(BlockerTotal { blocker, nodes: 0, price: MicroUsd(0) });
                total.nodes += 1;
                total.price.0 = total.price.0.saturating_add(node.price.0);
            }
        }
        let mut totals: Vec<BlockerTotal<'_>> = totals.into_values().collect();
        totals.sort_by_key(|total| Reverse(total.price));
        totals
    }
}

pub(crate) fn report(running: &RunningCluster, blocks: &Blocks, choice: Choice, needed: MicroUsd) -> Repacking {
    let Choice { packing, rejected } = choice;
    let now = MicroUsd(running.nodes.iter().map(|node| node.price.0).fold(0, i64::saturating_add));
    let after = packing.cost();
    let cost = RepackCost { now, needed, held: MicroUsd(after.0.saturating_sub(needed.0)) };
    let left_as_it_is = (!packing.is_repacked).then(|| no_savings(&packing, rejected.as_ref()));
    let unpaid = left_as_it_is.as_deref().unwrap_or_default();
    let staying = running.nodes.iter().enumerate().zip(&packing.stays).filter(|(_, stays)| **stays);
    let names = &packing.input.nodes;
    let held = staying
        .map(|((at, node), _)| held_node(node, names[node.node as usize].name.as_ref(), blocks.of_node(at), unpaid))
        .collect();
    let removed = packing.stays.iter().filter(|stays| !**stays).count();
    let mut notes = pending_note(&packing);
    notes.extend(left_as_it_is.as_ref().map(|reason| format!("the cluster is left as it is: {reason}")));
    let summary = RepackSummary { cost, held, removed, left_as_it_is, notes };
    Repacking { input: packing.input, decision: packing.decision, summary }
}

fn held_node(node: &RunningNode, name: &str, blocks: &[(Option<usize>, Block)], unpaid: &str) -> HeldNode {
    let is_empty = node.pods.iter().all(|pod| pod.pod.is_none());
    let mut by: Vec<Block> = blocks.iter().map(|(_, block)| block.clone()).collect();
    if by.is_empty() {
        let object = format!("Node/{name}");
        by.push(Block::new(BlockCode::NoSavings, object, unpaid));
    }
    by.sort();
    HeldNode {
        node: node.node,
        price: node.price,
        reason: if is_empty { RemovalReason::Empty } else { RemovalReason::Underutilized },
        by,
    }
}

/// Why a repacking is not planned.
fn no_savings(packing: &Packing, rejected: Option<&Packing>) -> String {
    match rejected {
        None => "no plan was found that places every pod that runs".to_owned(),
        Some(rejected) if rejected.left_out() > packing.left_out() => {
            let (repacked, now) = (rejected.left_out(), packing.left_out());
            format!("repacked it would have no place for {repacked} pods that are pending, and as it is for {now}")
        }
        Some(rejected) => {
            format!("repacked it would cost ${} an hour, and as it is it costs ${}", rejected.cost(), packing.cost())
        }
    }
}

fn pending_note(packing: &Packing) -> Vec<String> {
    let pending = packing.input.pods.iter().filter(|pod| pod.moved_from.is_none()).count();
    let note = |count: usize| {
        let pods = if count == 1 { "1 pod is".to_owned() } else { format!("{count} pods are") };
        format!("{pods} pending already: the nodes launched for them are in what is needed and not in what is paid now")
    };
    (pending > 0).then(|| note(pending)).into_iter().collect()
}
