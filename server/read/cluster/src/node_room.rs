//! What a Node has, and what is on it or planned onto it.

use crate::record::{NodeRecord, PodRecord};
use crate::state::ClusterState;
use crate::target::Target;
use model::Resources;

impl ClusterState {
    /// Sum of the requests of pods on `node` and pods assigned to it.
    pub(super) fn requests_on(&self, node: &NodeRecord) -> Resources {
        let targets = self.targets_of(node);
        let assigned = targets.iter().flat_map(|target| self.assignments().pods_on(target));
        let assigned = assigned.filter_map(|pod| self.pod(pod)).filter(|pod| pod.node.as_ref() != Some(&node.name));
        self.pods_on(&node.name).chain(assigned).fold(Resources::new(), sum)
    }

    /// Targets of assignments whose capacity is that of `node`.
    pub(super) fn targets_of(&self, node: &NodeRecord) -> Vec<Target> {
        let by_claim = self.claim_of_node(node).map(|claim| Target::Claim(claim.name.clone()));
        by_claim.into_iter().chain([Target::Node(node.name.clone())]).collect()
    }

    /// Allocatable resources of a Node; those that it does not report while it initializes are
    /// taken from its NodeClaim.
    pub(super) fn allocatable_of(&self, node: &NodeRecord) -> Resources {
        let claim = self.claim_of_node(node).filter(|_| !node.is_initialized());
        fill_missing(&node.allocatable, claim.map(|claim| &claim.allocatable))
    }
}

pub(super) fn sum(mut requests: Resources, pod: &PodRecord) -> Resources {
    requests.add(&pod.shape.requests);
    requests
}

/// A node that initializes reports some resources late (devices above all): missing ones are taken
/// from the NodeClaim.
pub(super) fn fill_missing(reported: &Resources, assigned: Option<&Resources>) -> Resources {
    let mut whole = reported.clone();
    for (name, amount) in assigned.into_iter().flat_map(Resources::iter) {
        if whole.get(name) == 0 {
            whole.set(name.clone(), amount);
        }
    }
    whole
}
