//! Repacking of a running cluster: every pod that may move is planned again as if it were pending.
//! The result says what the cluster costs, what it would need, and which objects block the
//! difference. Nothing is changed in the cluster.
//!
//! A node without a block is removed and all its pods are planned. A node with a block stays with the
//! pods that are held; its other pods are planned, and may return to it. The eviction of a pod is judged as by
//! plans of disruption, so that a repacking moves no pod that a removal may not evict.
//!
//! Two plans are compared: one with all blocks, which is the result, and one without those that the
//! owners of the cluster may lift (`is_liftable`). Their difference is what the blocks
//! cost. A pod that finds no place leaves neither plan: it stays, and its node with it. If the
//! repacked cluster costs as much as the cluster does now, the result is the cluster as it is.
//!
//! Reading order: [`repack`], `blocks` (what blocks a node), `packing` (one plan), `moves` (fewer moves
//! for the same plan), `report` (the result).

mod blocks;
mod moves;
mod packing;
mod report;

pub use report::{BlockerTotal, HeldNode, RepackCost, RepackSummary, Repacking};

use model::input::PlanningInput;
use model::running::RunningCluster;
use planner::CompileCache;
use verifier::Violation;

use blocks::Blocks;

/// Repacks `running`, the nodes of `input` that have a known price; the other nodes stay as they
/// are.
///
/// # Errors
/// As [`planner::plan`].
pub fn repack(input: &PlanningInput, running: &RunningCluster) -> Result<Repacking, Vec<Violation>> {
    let mut cache = CompileCache::default();
    let mut blocks = Blocks::find(input, running);
    let repacked = packing::pack_until_placed(input, running, &mut blocks, &mut cache)?;
    let choice = packing::choose(repacked, input, running, &blocks, &mut cache)?;
    let packing = &choice.packing;
    let mut needed = packing.cost();
    if blocks.has_liftable() {
        let mut required = blocks.without_liftable();
        let unheld = packing::pack_until_placed(input, running, &mut required, &mut cache)?;
        let complete = unheld.filter(|unheld| unheld.left_out() <= packing.left_out());
        needed = needed.min(complete.map_or(needed, |unheld| unheld.cost()));
    }
    Ok(report::report(running, &blocks, choice, needed))
}
