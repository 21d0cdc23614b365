//! Has decisions recorded, which are carried out once they are durable.

use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::disruption::Disruption;
use crate::disruption::replacement_recovery::replacements_to_record;
use crate::moved_shares::note_costs_of;
use crate::nodeclaim::NodeClaims;
use crate::{ClusterCall, Decision, DecisionId, DecisionReason, OutgoingNode};
use cluster::ClusterState;
use model::ClaimName;

impl ClusterController {
    /// Emits a decision to be made durable; it is executed afterwards. What it was made from is
    /// moved out and not kept: the input of a plan is as large as the cluster.
    pub(crate) fn record_decision(&mut self, mut decision: Decision, ctx: &mut Context<'_>) {
        decision.replacements =
            replacements_to_record(&decision, &mut self.disruption.replacement_records, &self.state);
        decision.removed = decision
            .removals
            .iter()
            .map(|removal| outgoing_node(&removal.claim, &self.claims, &self.disruption, &self.state))
            .collect();
        decision.replaced = newly_replaced(&decision, &mut self.disruption, &self.claims, &self.state);
        let kept = Decision { basis: None, removal_record: None, ..decision.clone() };
        note_costs_of(&kept, &mut self.history, &self.state);
        self.decisions.push(kept);
        self.status_reporter.mark_dirty();
        ctx.call(ClusterCall::RecordDecision(Box::new(decision)));
    }
}

/// A decision of now that changes nothing.
pub(crate) fn new_decision(reason: DecisionReason, ctx: &mut Context<'_>, state: &ClusterState) -> Decision {
    let id = DecisionId(ctx.next_id());
    Decision::new(id, ctx.cluster.clone(), reason, state.version(), ctx.now)
}

/// The nodes whose replacement the decision records first; from now on they are planned by it.
fn newly_replaced(
    decision: &Decision,
    disruption: &mut Disruption,
    claims: &NodeClaims,
    state: &ClusterState,
) -> Vec<OutgoingNode> {
    let planned = decision.replacements.iter().map(|replacement| &replacement.claim);
    let new: Vec<&ClaimName> = planned.filter(|claim| !disruption.planned_by.contains_key(*claim)).collect();
    let replaced = new.iter().map(|claim| outgoing_node(claim, claims, disruption, state)).collect();
    disruption.planned_by.extend(new.into_iter().map(|claim| (claim.clone(), decision.id)));
    replaced
}

/// What is known of a node that goes.
fn outgoing_node(
    claim: &ClaimName,
    claims: &NodeClaims,
    disruption: &Disruption,
    state: &ClusterState,
) -> OutgoingNode {
    let node = state.node_of_claim(claim);
    let instance = claims.get(claim).and_then(|machine| machine.instance());
    OutgoingNode {
        claim: claim.clone(),
        node: node.map(|node| node.name.clone()).unwrap_or_default(),
        pool: state.claim(claim).map(|claim| claim.pool.clone()).unwrap_or_default(),
        instance_type: instance.map(|instance| instance.instance_type.as_text().clone()).unwrap_or_default(),
        capacity_type: instance.map(|instance| instance.capacity_type.as_str().into()).unwrap_or_default(),
        price: claims.price_of(claim),
        planned_by: disruption.planned_by.get(claim).copied(),
    }
}
