//! Shadow mode: records decisions without carrying them out, all of a cluster or its voluntary removals alone.
//!
//! A shadow decision carries no machines and no removals, only sentences, so that no reader of the
//! log can carry it out. It is recorded again only when its content changes, because pending pods
//! are planned repeatedly.

use std::sync::Arc;

use super::shadow_content::ShadowContent;
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::disruption::decision_recorder::new_decision;
use crate::disruption::selection::RemovalRecord;
use crate::nodeclaim::NodeClaims;
use crate::order::charged_cost;
use crate::{Decision, DecisionInput, DecisionReason, Removal, UnplacedPod};
use cluster::ClusterState;
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport, PlannedNode};
use model::removal::RemovalReason;
use model::{NodeName, PodKey};

/// Maximum number of pods named in one sentence.
const PODS_NAMED: usize = 5;

/// What removals that are only recorded were chosen from.
#[derive(Debug)]
pub(crate) enum ShadowInput {
    /// The input of the plan that chose them, if it is known.
    Plan(Option<Arc<DecisionInput>>),
    /// What their method selected from, if it selected any.
    Removal(Option<Arc<RemovalRecord>>),
}

/// What the plan would have launched.
pub(crate) fn shadow_plan(
    basis: DecisionInput,
    plan: &Plan,
    report: PlanReport,
    unplaced: Vec<UnplacedPod>,
    ctx: &mut Context<'_>,
    state: &ClusterState,
) -> Decision {
    let input = &basis.input;
    let nodes = plan.nodes.iter().chain(&plan.static_nodes);
    let would = nodes.map(|node| would_launch(input, node)).collect();
    let assignments: Vec<(PodKey, NodeName)> = (plan.placements.iter())
        .map(|(pod, node)| (input.pods[*pod as usize].key(), input.nodes[*node as usize].name.clone()))
        .collect();
    Decision {
        assignments,
        unplaced,
        new_cost: charged_cost(input, plan),
        would,
        notes: report.notes,
        lower_bound: report.lower_bound,
        basis: Some(Arc::new(basis)),
        ..shadow_decision(DecisionReason::Provision, ctx, state)
    }
}

/// What would have been removed, with what it was chosen from.
pub(crate) fn shadow_removals(
    reason: DecisionReason,
    removals: &[Removal],
    basis: ShadowInput,
    ctx: &mut Context<'_>,
    claims: &NodeClaims,
    state: &ClusterState,
) -> Decision {
    let sentence = |removal: &Removal| format!("would remove {} ({}): {}", removal.node, removal.claim, removal.reason);
    let (basis, removal_record) = match basis {
        ShadowInput::Plan(basis) => (basis, None),
        ShadowInput::Removal(basis) => (None, basis),
    };
    Decision {
        would: removals.iter().map(sentence).collect(),
        notes: price_note(reason, removals, claims).into_iter().collect(),
        basis,
        removal_record,
        ..shadow_decision(reason, ctx, state)
    }
}

impl ClusterController {
    /// Records a shadow decision if it says something else than the last one of its reason.
    pub(crate) fn record_shadow(&mut self, decision: Decision, ctx: &mut Context<'_>) {
        if self.guardrails.record_shadow_content(decision.reason.as_str(), ShadowContent::of(&decision)) {
            self.record_decision(decision, ctx);
        }
    }
}

fn shadow_decision(reason: DecisionReason, ctx: &mut Context<'_>, state: &ClusterState) -> Decision {
    Decision { shadow: true, ..new_decision(reason, ctx, state) }
}

/// What the machines of voluntary `removals` cost; empty ones need no other machine, so that it
/// is saved.
fn price_note(reason: DecisionReason, removals: &[Removal], claims: &NodeClaims) -> Option<String> {
    let DecisionReason::Disruption(reason) = reason else { return None };
    let cost = claims.price_of_removals(removals);
    match reason {
        _ if removals.is_empty() => None,
        RemovalReason::Empty => Some(format!("would save ${cost} an hour")),
        _ if !reason.is_forceful() => Some(format!("the machines that it would remove cost ${cost} an hour")),
        _ => None,
    }
}

fn would_launch(input: &PlanningInput, node: &PlannedNode) -> String {
    let pool = &input.pools[node.pool as usize];
    let kind = node.types.first().and_then(|kind| pool.catalogue.types.get(*kind as usize));
    let (kind, zone) =
        (kind.map_or("?", |kind| kind.name.as_ref()), node.zones.first().map_or("?", |zone| zone.as_ref()));
    let mut pods: Vec<String> =
        node.pods.iter().take(PODS_NAMED).map(|pod| input.pods[*pod as usize].key().to_string()).collect();
    if node.pods.len() > PODS_NAMED {
        pods.push(format!("{} more", node.pods.len() - PODS_NAMED));
    }
    let (paid, price) = (node.capacity_type.as_str(), node.charged_price(pool));
    format!(
        "would launch {kind} in {zone} ({paid}, ${price} an hour) from NodePool {} for {}",
        pool.name,
        pods.join(", ")
    )
}
