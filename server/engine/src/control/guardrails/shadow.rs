//! Shadow mode: what would have been done, written down once.
//!
//! Such a decision carries no machines and no removals, only sentences, so that nobody who reads it later can carry it
//! out. It is written again only when it says something else: pods that wait are planned over and over.

use std::sync::Arc;

use super::Mode;
use crate::control::cluster_controller::{ClusterController, Context};
use crate::control::{Decision, DecisionId, DecisionInput, DecisionKind, Removal, UnplacedPod};
use crate::input::PlanningInput;
use crate::model::{MicroUsd, Text};
use crate::plan::{Plan, PlanReport, PlannedNode};

/// Pods that a sentence names.
const PODS_NAMED: usize = 5;

impl ClusterController {
    /// Whether decisions are only written down here.
    pub fn is_shadow(&self, desk: &Context<'_>) -> bool {
        desk.settings.rails.mode_of(&self.cluster) == Mode::Shadow
    }

    /// Nothing waits any more; whatever comes is said again.
    pub fn forget_said(&mut self) {
        self.rails.shadow_said[0].clear();
    }

    /// Writes down what the plan would have launched.
    pub fn say_plan(
        &mut self,
        basis: DecisionInput,
        plan: &Plan,
        report: PlanReport,
        unplaced: Vec<UnplacedPod>,
        desk: &mut Context<'_>,
    ) {
        let input = &basis.input;
        let nodes = plan.nodes.iter().chain(&plan.static_nodes);
        let mut notes: Vec<String> = nodes.map(|node| would_launch(input, node)).collect();
        notes.extend(report.notes);
        let placed: Vec<(Text, Text)> = (plan.placements.iter())
            .map(|(pod, node)| (Text::from(pod_name(input, *pod)), input.nodes[*node as usize].name.clone()))
            .collect();
        let cost = MicroUsd(plan.nodes.iter().map(|node| node.price.0).sum());
        let decision =
            Decision { placed, unplaced, new_cost: cost, notes, ..self.shadow_decision(DecisionKind::Provision, desk) };
        let basis = Some(Arc::new(basis));
        self.say(0, Decision { lower_bound: report.lower_bound, basis, ..decision }, desk);
    }

    /// Writes down what would have been removed.
    pub fn say_removals(&mut self, kind: DecisionKind, removals: &[Removal], desk: &mut Context<'_>) {
        let would =
            |removal: &Removal| format!("would remove {} ({}): {}", removal.node, removal.claim, removal.reason);
        let notes = removals.iter().map(would).collect();
        let decision = Decision { notes, ..self.shadow_decision(kind, desk) };
        self.say(1, decision, desk);
    }

    fn say(&mut self, about: usize, decision: Decision, desk: &mut Context<'_>) {
        let said = format!("{:?}{:?}{:?}", decision.notes, decision.placed, decision.unplaced);
        let silent = decision.notes.is_empty() && decision.placed.is_empty() && decision.unplaced.is_empty();
        if silent || self.rails.shadow_said[about] == said {
            return;
        }
        self.rails.shadow_said[about] = said;
        self.record(decision, desk);
    }

    fn shadow_decision(&self, kind: DecisionKind, desk: &mut Context<'_>) -> Decision {
        Decision {
            id: DecisionId(desk.number()),
            cluster: self.cluster.clone(),
            at: desk.now,
            due: desk.now,
            kind,
            shadow: true,
            state_version: self.state.version(),
            machines: Vec::new(),
            removals: Vec::new(),
            placed: Vec::new(),
            unplaced: Vec::new(),
            new_cost: MicroUsd(0),
            lower_bound: MicroUsd(0),
            notes: Vec::new(),
            basis: None,
        }
    }
}

fn would_launch(input: &PlanningInput, node: &PlannedNode) -> String {
    let pool = &input.pools[node.pool as usize];
    let kind = node.types.first().and_then(|kind| pool.catalogue.types.get(*kind as usize));
    let (kind, zone) = (kind.map_or("?", |kind| &kind.name), node.zones.first().map_or("?", |zone| zone));
    let mut pods: Vec<String> = node.pods.iter().take(PODS_NAMED).map(|pod| pod_name(input, *pod)).collect();
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

fn pod_name(input: &PlanningInput, pod: u32) -> String {
    let pod = &input.pods[pod as usize];
    format!("{}/{}", pod.namespace, pod.name)
}
