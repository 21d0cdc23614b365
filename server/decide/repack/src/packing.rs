//! One plan of a running cluster under given blocks.

use std::collections::BTreeMap;

use model::input::PlanningInput;
use model::plan::{Reason, Unschedulable};
use model::running::{RunningCluster, RunningNode, RunningPod};
use model::{MicroUsd, NodeStage, Pod, PodKey};
use planner::{CompileCache, PlannedDecision, plan_with};
use verifier::Violation;

use crate::blocks::Blocks;
use crate::moves::keep_in_place;

/// Maximum number of plans until every pod that moves has a place. Each further plan holds more
/// pods than the one before.
const MAX_PLANS: usize = 6;

/// The nodes that stay, and the plan for the pods that move.
pub(crate) struct Packing {
    pub(crate) input: PlanningInput,
    pub(crate) decision: PlannedDecision,
    /// Whether each node of the running cluster stays.
    pub(crate) stays: Vec<bool>,
    /// Price of the nodes that stay.
    pub(crate) price_of_staying: MicroUsd,
    /// Whether pods that run are planned.
    pub(crate) is_repacked: bool,
}

impl Packing {
    /// Plans only what is pending in `input`.
    fn of_cluster_as_it_is(
        input: &PlanningInput,
        running: &RunningCluster,
        blocks: &Blocks,
        cache: &mut CompileCache,
    ) -> Result<Self, Vec<Violation>> {
        let stays = stay_as_it_is(input, running, blocks);
        let decision = plan_with(input, cache)?;
        Ok(Self::new(input.clone(), decision, (stays, running), false))
    }

    fn new(
        input: PlanningInput,
        decision: PlannedDecision,
        (stays, running): (Vec<bool>, &RunningCluster),
        is_repacked: bool,
    ) -> Self {
        let price_of_staying = price_of(&stays, running);
        Self { input, decision, stays, price_of_staying, is_repacked }
    }

    /// Cost per hour of the nodes that stay and of those that are launched.
    pub(crate) fn cost(&self) -> MicroUsd {
        MicroUsd(self.price_of_staying.0.saturating_add(self.decision.report.new_cost.0))
    }

    /// Number of pods without a place.
    pub(crate) fn left_out(&self) -> usize {
        self.decision.plan.unschedulable.len()
    }
}

/// Without a repacking, a node stays unless it is being deleted and no pod stays on it. Pods that leave
/// it are pending in `input`, and are not among those of `running`.
fn stay_as_it_is(input: &PlanningInput, running: &RunningCluster, blocks: &Blocks) -> Vec<bool> {
    let stays = |(at, node): (usize, &RunningNode)| {
        let keeps_pods = !blocks.of_node(at).is_empty() || node.pods.iter().any(|pod| pod.pod.is_some());
        input.nodes[node.node as usize].stage != NodeStage::Deleting || keeps_pods
    };
    running.nodes.iter().enumerate().map(stays).collect()
}

fn price_of(stays: &[bool], running: &RunningCluster) -> MicroUsd {
    let staying = running.nodes.iter().zip(stays).filter(|(_, stays)| **stays);
    MicroUsd(staying.map(|(node, _)| node.price.0).fold(0, i64::saturating_add))
}

pub(crate) struct Choice {
    pub(crate) packing: Packing,
    /// A repacking that is not better than the cluster as it is, which is chosen.
    pub(crate) rejected: Option<Packing>,
}

/// Plans all pods that `blocks` lets move. Pods that find no place are added to `blocks`, and the rest
/// is planned again; `None` if some have none after [`MAX_PLANS`] plans.
pub(crate) fn pack_until_placed(
    input: &PlanningInput,
    running: &RunningCluster,
    blocks: &mut Blocks,
    cache: &mut CompileCache,
) -> Result<Option<Packing>, Vec<Violation>> {
    let position = positions(running);
    // The first packing has the same pods without a place as the search, which costs more.
    let mut search_steps = 0;
    for _ in 0..MAX_PLANS {
        let (mut repacked, stays) = repacked_input(input, running, blocks);
        repacked.policy.search_steps = search_steps;
        let decision = plan_with(&repacked, cache)?;
        let unplaced: Vec<(&Unschedulable, (usize, usize))> = decision
            .report
            .unschedulable
            .iter()
            .filter_map(|entry| Some((entry, *position.get(&repacked.pods[entry.pod as usize].key())?)))
            .collect();
        if unplaced.is_empty() && search_steps == input.policy.search_steps {
            let decision = with_fewer_moves(&repacked, decision);
            return Ok(Some(Packing::new(repacked, decision, (stays, running), true)));
        }
        if unplaced.is_empty() {
            search_steps = input.policy.search_steps;
        }
        for (entry, at) in unplaced {
            let reason = entry.reasons.first().map_or_else(|| "no reason is known".to_owned(), reason);
            blocks.add_unplaced(at, &repacked.pods[entry.pod as usize].key(), &reason);
        }
    }
    Ok(None)
}

/// `decision` with pods exchanged so that fewer move, if the verifier accepts that plan as well.
fn with_fewer_moves(input: &PlanningInput, decision: PlannedDecision) -> PlannedDecision {
    let plan = keep_in_place(input, &decision.plan);
    if verifier::check(input, &plan).is_empty() { PlannedDecision { plan, ..decision } } else { decision }
}

fn reason(reason: &Reason) -> String {
    match &reason.pool {
        Some(pool) => format!("pool {pool}: {}: {}", reason.code.as_str(), reason.message),
        None => format!("{}: {}", reason.code.as_str(), reason.message),
    }
}

/// Node and index of every pod of `running` that can be planned.
fn positions(running: &RunningCluster) -> BTreeMap<PodKey, (usize, usize)> {
    let nodes = running.nodes.iter().enumerate();
    let pods = nodes.flat_map(|(at, node)| node.pods.iter().enumerate().map(move |(index, pod)| (at, index, pod)));
    pods.filter(|(_, _, pod)| pod.pod.is_some()).map(|(at, index, pod)| (pod.facts.key.clone(), (at, index))).collect()
}

/// `input` with the pods of `running` pending, except those that `blocks` has, and without the nodes
/// that have no block; and whether each node of `running` stays.
fn repacked_input(input: &PlanningInput, running: &RunningCluster, blocks: &Blocks) -> (PlanningInput, Vec<bool>) {
    let mut repacked = input.clone();
    let mut stays = Vec::with_capacity(running.nodes.len());
    for (at, node) in running.nodes.iter().enumerate() {
        let object = &mut repacked.nodes[node.node as usize];
        let is_held = !blocks.of_node(at).is_empty();
        if !is_held {
            object.stage = NodeStage::Deleting;
        }
        stays.push(is_held);
        let movable = node.pods.iter().enumerate().filter(|(index, _)| !blocks.blocks_pod(at, *index));
        for (facts, pod) in movable.filter_map(|(_, pod)| movable_pod(pod)) {
            let bound =
                object.pods.iter_mut().find(|bound| bound.namespace == facts.namespace && bound.name == facts.name);
            bound.into_iter().for_each(|bound| bound.leaving = true);
            repacked.pods.push(pod.clone());
        }
    }
    repacked.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    (repacked, stays)
}

fn movable_pod(pod: &RunningPod) -> Option<(&PodKey, &Pod)> {
    Some((&pod.facts.key, pod.pod.as_ref()?))
}

/// Whether the cluster as it is might be the better packing: it costs at least what stays in it.
fn may_be_undercut(packing: &Packing, input: &PlanningInput, running: &RunningCluster, blocks: &Blocks) -> bool {
    let least = price_of(&stay_as_it_is(input, running, blocks), running);
    least <= packing.cost() || packing.left_out() > 0
}

/// The repacked cluster, or the cluster as it is unless the former places more pods, or as many for
/// less money.
///
/// # Errors
/// As [`plan_with`].
pub(crate) fn choose(
    repacked: Option<Packing>,
    input: &PlanningInput,
    running: &RunningCluster,
    blocks: &Blocks,
    cache: &mut CompileCache,
) -> Result<Choice, Vec<Violation>> {
    let repacked = match repacked {
        Some(packing) if !may_be_undercut(&packing, input, running, blocks) => {
            return Ok(Choice { packing, rejected: None });
        }
        repacked => repacked,
    };
    let as_it_is = Packing::of_cluster_as_it_is(input, running, blocks, cache)?;
    let figures = |packing: &Packing| (packing.left_out(), packing.cost());
    Ok(match repacked {
        Some(packing) if figures(&packing) < figures(&as_it_is) => Choice { packing, rejected: None },
        rejected => Choice { packing: as_it_is, rejected },
    })
}
