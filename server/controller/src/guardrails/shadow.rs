//! Shadow mode: records decisions without carrying them out.
//!
//! A shadow decision carries no machines and no removals, only sentences, so that no reader of the
//! log can carry it out. It is recorded again only when its content changes, because pending pods
//! are planned repeatedly.

use std::sync::Arc;

use super::Mode;
use super::shadow_content::{ShadowContent, ShadowKind};
use crate::cluster_controller::{ClusterController, Context};
use crate::disruption::CONSOLIDATION;
use crate::{Decision, DecisionInput, DecisionReason, Removal, UnplacedPod};
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport, PlannedNode};
use model::{MicroUsd, NodeName, PodKey};

/// Maximum number of pods named in one sentence.
const PODS_NAMED: usize = 5;

impl ClusterController {
    /// Whether decisions for this cluster are only recorded.
    pub(crate) fn is_shadow(&self, ctx: &Context<'_>) -> bool {
        ctx.settings.guardrails.mode_of(&self.cluster) == Mode::Shadow
    }

    /// Forgets the last shadow plan, so that the next one is recorded whatever it contains.
    pub(crate) fn clear_shadow_plan(&mut self) {
        self.guardrails.forget_shadow_plan();
    }

    /// Records what the plan would have launched.
    pub(crate) fn record_shadow_plan(
        &mut self,
        basis: DecisionInput,
        plan: &Plan,
        report: PlanReport,
        unplaced: Vec<UnplacedPod>,
        ctx: &mut Context<'_>,
    ) {
        let input = &basis.input;
        let nodes = plan.nodes.iter().chain(&plan.static_nodes);
        let would = nodes.map(|node| would_launch(input, node)).collect();
        let notes = report.notes;
        let assignments: Vec<(PodKey, NodeName)> = (plan.placements.iter())
            .map(|(pod, node)| (input.pods[*pod as usize].key(), input.nodes[*node as usize].name.clone()))
            .collect();
        let cost = MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum());
        let decision = self.shadow_decision(DecisionReason::Provision, ctx);
        let decision = Decision { assignments, unplaced, new_cost: cost, would, notes, ..decision };
        let basis = Some(Arc::new(basis));
        self.record_if_changed(ShadowKind::Plan, Decision { lower_bound: report.lower_bound, basis, ..decision }, ctx);
    }

    /// Records what would have been removed.
    pub(crate) fn record_shadow_removals(
        &mut self,
        reason: DecisionReason,
        removals: &[Removal],
        ctx: &mut Context<'_>,
    ) {
        let sentence =
            |removal: &Removal| format!("would remove {} ({}): {}", removal.node, removal.claim, removal.reason);
        let would = removals.iter().map(sentence).collect();
        let decision = Decision { would, ..self.shadow_decision(reason, ctx) };
        let is_consolidation = reason == DecisionReason::Disruption(CONSOLIDATION);
        let kind = if is_consolidation { ShadowKind::Consolidation } else { ShadowKind::Removals };
        self.record_if_changed(kind, decision, ctx);
    }

    fn record_if_changed(&mut self, kind: ShadowKind, decision: Decision, ctx: &mut Context<'_>) {
        if self.guardrails.record_shadow_content(kind, ShadowContent::of(&decision)) {
            self.record_decision(decision, ctx);
        }
    }

    fn shadow_decision(&self, reason: DecisionReason, ctx: &mut Context<'_>) -> Decision {
        Decision { shadow: true, ..self.new_decision(reason, ctx) }
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
    let (paid, price) = (node.capacity_type.as_str(), node.price);
    format!(
        "would launch {kind} in {zone} ({paid}, ${price} an hour) from NodePool {} for {}",
        pool.name,
        pods.join(", ")
    )
}
