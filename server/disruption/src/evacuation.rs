//! Places for the pods of nodes that go whatever that costs: unhealthy, expired and drifted ones.

use model::plan::{Plan, PlannedNode};
use model::removal::RemovalReason;
use planner::{CompileCache, plan_with};
use verifier::Violation;

use crate::working::{Destination, Step, WorkingCluster};

/// A plan for the pods of nodes that go.
#[derive(Debug)]
pub(crate) struct Evacuation {
    pub(crate) step: Step,
    /// Movable pods without a place, and why.
    pub(crate) unplaced: Vec<(u32, String)>,
}

/// Plans the pods of `leaving` on the other nodes and on new machines.
///
/// # Errors
/// As [`plan_with`].
pub(crate) fn evacuate(
    working: &WorkingCluster<'_>,
    leaving: &[(u32, RemovalReason)],
    cache: &mut CompileCache,
) -> Result<Evacuation, Vec<Violation>> {
    let nodes: Vec<u32> = leaving.iter().map(|(node, _)| *node).collect();
    let (input, pods) = working.input_for(&nodes, |_| true);
    let decision = plan_with(&input, cache)?;
    let reason = |entry: &model::plan::Unschedulable| {
        let first = entry.reasons.first().map_or("no reason is known", |reason| reason.message.as_str());
        (pods[entry.pod as usize], first.to_owned())
    };
    let unplaced = decision.report.unschedulable.iter().map(reason).collect();
    let mut step = step_of(&decision.plan, &pods);
    step.removed = leaving.to_vec();
    Ok(Evacuation { step, unplaced })
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
    Step { removed: Vec::new(), replacements: plan.nodes.iter().map(machine).collect(), moves }
}
