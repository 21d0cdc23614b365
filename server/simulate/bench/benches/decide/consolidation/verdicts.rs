//! Verdicts of a plan of disruption, confirmed by brute force: each node that stays because nothing would be
//! saved is planned without it, by the planner and its search.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use binding::{bound_pod, launched_node};
use disruption::{BlockCode, DisruptionPlan};
use model::input::PlanningInput;
use model::resources::NODES;
use model::{Node, NodeStage, Pod, PodKey, Text};
use planner::CompileCache;
use planning_input::Captured;

/// Steps of the search for each node.
const SEARCH_STEPS: u64 = 200_000;
/// A plan of disruption replaces one node by no more machines than these: more nodes of the same capacity are no
/// consolidation, even where they cost less.
pub(super) const MAX_MACHINES: i64 = 2;
/// More machines than the pods of a node need.
pub(super) const ANY_NUMBER: i64 = 1_000;

/// How many of up to `most` nodes, evenly taken from those that stay for want of savings, cannot be removed or
/// replaced by `machines` for less; and a sentence about each other.
pub(super) fn confirm(
    captured: &Captured,
    planned: &DisruptionPlan,
    (most, machines): (usize, i64),
) -> Result<(usize, Vec<String>)> {
    let (after, movable) = carried_out(captured, planned)?;
    let held = planned.held.iter().filter(|held| held.by.iter().any(|block| block.code == BlockCode::NoSavings));
    let held: Vec<u32> = held.map(|held| held.node).collect();
    let step = held.len().div_ceil(most.max(1)).max(1);
    let prices: BTreeMap<u32, i64> = captured.running.nodes.iter().map(|node| (node.node, node.price.0)).collect();
    let (mut confirmed, mut others, mut cache) = (0, Vec::new(), CompileCache::default());
    for node in held.into_iter().step_by(step) {
        let cost = cost_without(&after, &movable, (node, machines), &mut cache)?;
        let price = prices.get(&node).copied().unwrap_or(0);
        match cost {
            Some(cost) if cost < price => {
                others.push(format!(
                    "node {} costs {price}, and its pods could run for {cost}",
                    after.nodes[node as usize].name
                ));
            }
            _ => confirmed += 1,
        }
    }
    Ok((confirmed, others))
}

/// The cluster after all commands, and its pods that may move.
fn carried_out(captured: &Captured, planned: &DisruptionPlan) -> Result<(PlanningInput, BTreeMap<PodKey, Pod>)> {
    let mut after = planned.input.clone();
    for node in after.nodes.iter_mut().filter(|node| node.stage == NodeStage::Deleting) {
        node.pods.clear();
    }
    for (pod, node) in &planned.plan.placements {
        let bound = bound_pod(&planned.input.pods[*pod as usize]);
        after.nodes[*node as usize].pods.push(bound);
    }
    for machine in &planned.plan.nodes {
        let mut node =
            launched_node(&planned.input, machine, machine.name.clone()).context("a machine without options")?;
        node.stage = NodeStage::Initialized;
        node.pods = machine.pods.iter().map(|pod| bound_pod(&planned.input.pods[*pod as usize])).collect();
        after.nodes.push(node);
    }
    after.pods.clear();
    let pods = captured.running.nodes.iter().flat_map(|node| &node.pods).filter_map(|pod| pod.pod.clone());
    Ok((after, pods.map(|pod| (pod.key(), pod)).collect()))
}

/// Cost of at most `machines` machines for the pods of `node` without it, surplus credits included: by list price, many small
/// burstable machines would look cheaper than they are. `None` if the pods fit nowhere.
fn cost_without(
    after: &PlanningInput,
    movable: &BTreeMap<PodKey, Pod>,
    (node, machines): (u32, i64),
    cache: &mut CompileCache,
) -> Result<Option<i64>> {
    let mut input = after.clone();
    input.policy.search_steps = SEARCH_STEPS;
    let removed = &mut input.nodes[node as usize];
    removed.stage = NodeStage::Deleting;
    removed.pods.iter_mut().for_each(|pod| pod.leaving = true);
    let keys = removed.pods.iter().map(|pod| PodKey { namespace: pod.namespace.clone(), name: pod.name.clone() });
    input.pods = keys.filter_map(|key| movable.get(&key).cloned()).collect();
    input.pods.sort_by_key(Pod::key);
    for pool in &mut input.pools {
        let stays = |node: &&Node| node.pool.as_ref() == Some(&pool.name) && node.stage != NodeStage::Deleting;
        let most = i64::try_from(input.nodes.iter().filter(stays).count()).unwrap_or(0) + machines;
        pool.limits.set(Text::from(NODES), most);
    }
    let plan = planner::plan_with(&input, cache).map_err(|violations| anyhow!("{violations:?}"))?.plan;
    let cost = plan.nodes.iter().map(|node| node.cost().0).sum();
    Ok(plan.unschedulable.is_empty().then_some(cost))
}
