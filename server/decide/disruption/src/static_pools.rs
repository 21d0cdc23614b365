//! Drifted nodes of static NodePools: each is replaced by one machine of its NodePool (Karpenter: static drift).
//!
//! The machine is launched for the NodePool and not for pods, so that it is there whatever the pods of the node need; they
//! may move to it as to any other node. Old and new are there at one time, so that `limits.nodes` needs room for both.

use model::NodePool;
use model::plan::PlannedNode;
use model::removal::RemovalReason;
use model::resources::NODES;
use model::{NodeStage, PoolName};
use planner::{CompileCache, plan_with};
use verifier::Violation;

use crate::evacuation::{Evacuation, evacuate};
use crate::working::{Destination, Step, Terms, WorkingCluster};
use crate::{Block, BlockCode};

/// What blocks a further replacement in `pool`, if it is static: `limits.nodes` has no room for one more, or it has more
/// nodes than replicas, of which one leaves first.
pub(crate) fn room_block(working: &WorkingCluster<'_>, pool: &NodePool) -> Option<Block> {
    let replicas = pool.replicas?;
    let block = |why: &str| {
        let message = format!("has a fixed number of nodes (replicas: {replicas}), {why}");
        Some(Block::new(BlockCode::Static, format!("NodePool/{}", pool.name), message))
    };
    let of_pool = || working.input.nodes.iter().filter(|node| node.pool.as_ref() == Some(&pool.name));
    let staying = i64::try_from(of_pool().filter(|node| node.stage != NodeStage::Deleting).count()).unwrap_or(i64::MAX);
    if staying > replicas {
        return block("and more are there: one of them leaves first");
    }
    let outgoing = i64::try_from(of_pool().count()).unwrap_or(i64::MAX) - staying;
    let is_full = pool.limits.contains(NODES) && pool.limits.get(NODES) <= replicas.saturating_add(outgoing);
    if is_full {
        block("and limits.nodes has no room for one more: drifted ones are replaced one for one")
    } else {
        None
    }
}

/// The step that replaces `node` of the static NodePool `pool` by a machine of it, or what blocks that.
///
/// # Errors
/// As [`plan_with`].
pub(crate) fn replace(
    working: &WorkingCluster<'_>,
    (node, reason): (u32, RemovalReason),
    pool: &PoolName,
    cache: &mut CompileCache,
) -> Result<Result<Step, Block>, Vec<Violation>> {
    let Some(machine) = machine(working, node, pool, cache)? else {
        let message = "launches no machine that would replace the node";
        return Ok(Err(Block::new(BlockCode::NoCapacity, format!("NodePool/{pool}"), message)));
    };
    let number = u32::try_from(working.input.nodes.len()).unwrap_or(u32::MAX);
    let mut launched = working.clone();
    launched.apply(Step { replacements: vec![machine.clone()], ..Step::default() });
    let Evacuation { mut step, unplaced, blocks } = evacuate(&launched, &[(node, reason)], cache)?;
    if let Some(block) = blocks.into_iter().next() {
        return Ok(Err(block));
    }
    if let Some((pod, why)) = unplaced.into_iter().next() {
        let object = format!("Pod/{}", working.pods[pod as usize].running.facts.key);
        return Ok(Err(Block::new(BlockCode::NoCapacity, object, format!("has no other place: {why}"))));
    }
    for (_, to) in &mut step.moves {
        *to = match *to {
            Destination::Node(node) if node == number => Destination::Replacement(0),
            Destination::Replacement(at) => Destination::Replacement(at + 1),
            to @ Destination::Node(_) => to,
        };
    }
    step.replacements.insert(0, machine);
    Ok(Ok(step))
}

/// The machine that the NodePool lacks once `node` leaves.
fn machine(
    working: &WorkingCluster<'_>,
    node: u32,
    pool: &PoolName,
    cache: &mut CompileCache,
) -> Result<Option<PlannedNode>, Vec<Violation>> {
    let (mut input, _) = working.input_for(&[node], Terms::BoundLater, |_| true);
    input.pods.clear();
    input.policy.search_steps = 0;
    let missing = plan_with(&input, cache)?.plan.static_nodes;
    // What it lacks already is launched first, and is no part of this plan.
    Ok(missing.into_iter().rfind(|machine| input.pools[machine.pool as usize].name == *pool))
}
