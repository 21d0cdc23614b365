//! Notes on Nodes, and on NodeClaims that have no Node yet.

use cluster::ClusterState;
use manifests::notes::Notes;
use model::drain::is_disrupted;

/// Notes what is not as it looks about the Nodes and NodeClaims of `state`.
pub fn note(state: &ClusterState, notes: &mut Notes) {
    for node in state.nodes() {
        if is_disrupted(&node.taints) && !state.is_node_terminating(&node.name) {
            let what = "nodes have the taint karpenter.sh/disrupted and record no drain of their NodeClaim: they stay, and no \
                        pod is placed on them (a server has the taint taken off)";
            notes.add(what, &node.name);
        }
        if node.allocatable.is_empty() {
            notes.add("nodes have no status.allocatable, so nothing fits on them", &node.name);
        }
    }
    for claim in state.claims().filter(|claim| state.node_of_claim(&claim.name).is_none()) {
        if claim.deleting {
            notes.add("NodeClaims without a Node are being deleted and provide no capacity", &claim.name);
        } else if claim.allocatable.is_empty() {
            notes.add(
                "NodeClaims have neither status.allocatable nor one known instance type, and provide no capacity",
                &claim.name,
            );
        }
    }
}
