//! Places for the pods of nodes that go whatever that costs: unhealthy, expired and drifted ones.

use model::plan::{Plan, PlannedNode};
use model::removal::RemovalReason;
use planner::{CompileCache, plan_with};
use verifier::Violation;

use crate::Block;
use crate::opt_in::{Change, OptInCounts};
use crate::working::{Destination, Step, Terms, WorkingCluster};

/// A plan for the pods of nodes that go.
#[derive(Debug, Default)]
pub(crate) struct Evacuation {
    pub(crate) step: Step,
    /// Movable pods without a place, and why.
    pub(crate) unplaced: Vec<(u32, String)>,
    /// What annotations of NodePools block a voluntary removal by. Nodes that go in any case go all the same.
    pub(crate) blocks: Vec<Block>,
}

/// Plans the pods of `leaving` on the other nodes and on new machines.
///
/// Pods keep what they prefer and have if all find a place that way and the annotations of NodePools hold; else they keep
/// what they require. Nodes that go whatever that costs do not wait for a place for every pod while they are drained: one
/// after that will do.
///
/// # Errors
/// As [`plan_with`].
pub(crate) fn evacuate(
    working: &WorkingCluster<'_>,
    leaving: &[(u32, RemovalReason)],
    cache: &mut CompileCache,
) -> Result<Evacuation, Vec<Violation>> {
    let nodes: Vec<u32> = leaving.iter().map(|(node, _)| *node).collect();
    let is_forced = leaving.iter().all(|(_, reason)| reason.is_forceful());
    let is_tried = |terms: &Terms| match terms {
        Terms::Kept => working.has_preferences(&nodes),
        Terms::Bound => true,
        Terms::BoundLater => is_forced,
    };
    let counts = OptInCounts::of(working);
    let annotation_blocks = |step: &Step| {
        let moves = step.moves_to_nodes();
        counts.blocks(working, Change { removed: &nodes, launches: &step.replacements, moves: &moves })
    };
    let mut best: Option<Evacuation> = None;
    for terms in [Terms::Kept, Terms::Bound, Terms::BoundLater].into_iter().filter(is_tried) {
        let mut evacuation = plan_elsewhere(working, &nodes, (terms, true), cache)?;
        if evacuation.unplaced.is_empty() {
            evacuation.blocks = annotation_blocks(&evacuation.step);
            if !is_forced && !evacuation.blocks.is_empty() {
                let launched = plan_elsewhere(working, &nodes, (terms, false), cache)?;
                if launched.unplaced.is_empty() && annotation_blocks(&launched.step).is_empty() {
                    evacuation = launched;
                }
            }
        }
        evacuation.step.removed = leaving.to_vec();
        evacuation.step.gives_up_preferences = terms != Terms::Kept;
        // Annotations go before what pods only prefer.
        let rank = |one: &Evacuation| (one.unplaced.len(), one.blocks.len());
        if best.as_ref().is_none_or(|best| rank(&evacuation) < rank(best)) {
            best = Some(evacuation);
        }
        if best.as_ref().is_some_and(|best| rank(best) == (0, 0)) {
            break;
        }
    }
    Ok(best.unwrap_or_default())
}

/// Plans the pods of `nodes` on `terms`, on new machines and if `is_shared` on the other nodes.
fn plan_elsewhere(
    working: &WorkingCluster<'_>,
    nodes: &[u32],
    (terms, is_shared): (Terms, bool),
    cache: &mut CompileCache,
) -> Result<Evacuation, Vec<Violation>> {
    let (input, pods) = working.input_for(nodes, terms, |_| is_shared);
    let decision = plan_with(&input, cache)?;
    let reason = |entry: &model::plan::Unschedulable| {
        let first = entry.reasons.first().map_or("no reason is known", |reason| reason.message.as_str());
        (pods[entry.pod as usize], first.to_owned())
    };
    let unplaced = decision.report.unschedulable.iter().map(reason).collect();
    Ok(Evacuation { step: step_of(&decision.plan, &pods), unplaced, blocks: Vec::new() })
}

/// `plan` as a step, without removals. `pods` are the movable pods of its input.
pub(crate) fn step_of(plan: &Plan, pods: &[u32]) -> Step {
    let mut destinations = vec![None; pods.len()];
    for (pod, node) in &plan.placements {
        destinations[*pod as usize] = Some(Destination::Node(*node));
    }
    for (at, node) in plan.nodes.iter().enumerate() {
        node.pods.iter().for_each(|pod| destinations[*pod as usize] = Some(Destination::Replacement(at)));
    }
    let moved = plan.order.iter().filter_map(|pod| Some((pods[*pod as usize], destinations[*pod as usize]?)));
    let machine = |node: &PlannedNode| {
        let mut launched: Vec<u32> = node.pods.iter().map(|pod| pods[*pod as usize]).collect();
        launched.sort_unstable();
        PlannedNode { pods: launched, ..node.clone() }
    };
    let moves = moved.collect();
    Step { replacements: plan.nodes.iter().map(machine).collect(), moves, ..Step::default() }
}
