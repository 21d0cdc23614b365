//! Drains of Nodes that the Nodes record, and taints of removals that are not ours.

use super::record::{ClaimRecord, NodeRecord};
use super::state::ClusterState;
use model::ClaimName;
use model::drain::RecordedDrain;

impl ClusterState {
    /// The drain of a NodeClaim that its Node records. A record that names another NodeClaim is none.
    #[must_use]
    pub fn drain_of_claim(&self, claim: &ClaimName) -> Option<&RecordedDrain> {
        self.node_of_claim(claim)?.drain.as_ref().filter(|drain| drain.claim == *claim)
    }

    /// Whether the Node records a drain of its NodeClaim.
    #[must_use]
    pub fn is_drain_begun(&self, node: &NodeRecord) -> bool {
        self.claim_of_node(node).is_some_and(|claim| self.drain_of_claim(&claim.name).is_some())
    }

    /// Marks the NodeClaims whose Nodes record their drain for deletion: what a controller does that knows nothing else
    /// of them.
    pub fn mark_drained_claims(&mut self) {
        let drained = self.nodes().filter(|node| self.is_drain_begun(node)).filter_map(|node| self.claim_of_node(node));
        let drained: Vec<ClaimName> = drained.map(|claim| claim.name.clone()).collect();
        drained.iter().for_each(|claim| self.mark_for_deletion(claim));
    }

    /// NodeClaims whose Node has the taint of a removal and records no drain of them, with the Node, by Node. Nothing
    /// removes them, and no pod is placed on their Nodes.
    pub fn claims_disrupted_by_others(&self) -> impl Iterator<Item = (&ClaimRecord, &NodeRecord)> {
        let nodes = self.disrupted_nodes().iter().filter_map(|name| self.node(name));
        let stays = |node: &&NodeRecord| !self.is_drain_begun(node) && !self.is_node_terminating(&node.name);
        nodes.filter(stays).filter_map(|node| Some((self.claim_of_node(node)?, node)))
    }
}
