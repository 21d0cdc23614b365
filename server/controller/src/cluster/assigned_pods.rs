//! Assignments of pods in the cluster state: changes by the controller, and their extension while
//! pods are drained. A drain may take as long as a PodDisruptionBudget blocks it; until it ends,
//! the assignments of its pods are extended while they are still feasible.

use super::assignments::{NOMINATION_WINDOW, Target};
use super::record::NodeRecord;
use super::state::ClusterState;
use model::taints::first_untolerated;
use model::{ClaimName, NodeName, PodKey, Resources, Timestamp};

impl ClusterState {
    /// Assigns `pod`, replacing an earlier assignment.
    pub fn assign_pod(&mut self, pod: PodKey, target: Target, until: Option<Timestamp>) {
        self.assignments_mut().assign(pod, target, until);
    }

    /// Sets the expiry of the assignments to `claim`, whose machine is initialized.
    pub fn expire_assignments_to(&mut self, claim: &ClaimName, until: Timestamp) {
        self.assignments_mut().expire_claim_at(claim, until);
    }

    /// Removes the assignments that have expired by `now`; returns whether there was any.
    pub fn expire_assignments(&mut self, now: Timestamp) -> bool {
        self.assignments_mut().expire(now)
    }

    /// Removes all reservations for successors of evicted pods.
    pub fn clear_successors(&mut self) {
        self.assignments_mut().clear_successors();
    }

    /// Extends the assignments of pods that wait for their eviction and still fit their target.
    /// Other assignments expire, and their pods are planned again: pods bound meanwhile may use the
    /// capacity.
    pub fn extend_assignments(&mut self, now: Timestamp) {
        let kept: Vec<PodKey> =
            self.assignments().expiring_by(now).filter(|pod| self.may_keep_assignment(pod)).cloned().collect();
        let until = now + NOMINATION_WINDOW;
        for pod in kept {
            self.assignments_mut().extend_until(&pod, until);
        }
    }

    /// Removes the assignment of `pod`. When it was evicted from a terminating node, its successor
    /// needs the capacity.
    pub(super) fn release_assignment(&mut self, pod: &PodKey, former_node: Option<&NodeName>, now: Timestamp) {
        if former_node.is_some_and(|node| self.is_node_leaving(node)) {
            self.assignments_mut().hand_to_successor(pod, now + NOMINATION_WINDOW);
        } else {
            self.assignments_mut().remove(pod);
        }
    }

    /// Whether the Node is terminating, or was deleted before its pods.
    fn is_node_leaving(&self, node: &NodeName) -> bool {
        self.node(node).is_none() || self.is_node_terminating(node)
    }

    /// Whether `pod` is on a terminating machine and still fits its target, as far as taints and
    /// resources show.
    fn may_keep_assignment(&self, pod: &PodKey) -> bool {
        let Some((pod, assignment)) = self.pod(pod).zip(self.assignments().get(pod)) else { return false };
        let Some(node) = self.node_of_target(&assignment.target) else { return false };
        let waits = pod.is_reschedulable() && pod.node.as_ref().is_some_and(|node| self.is_node_leaving(node));
        let open = node.ready && !node.unschedulable && !self.is_node_terminating(&node.name);
        waits
            && open
            && first_untolerated(&node.taints, &pod.shape.tolerations).is_none()
            && self.requests_on(node).fits(&node.allocatable)
    }

    fn node_of_target(&self, target: &Target) -> Option<&NodeRecord> {
        match target {
            Target::Claim(claim) => self.node_of_claim(claim),
            Target::Node(node) => self.node(node),
        }
    }

    /// Sum of the requests of pods on `node` and pods assigned to it.
    fn requests_on(&self, node: &NodeRecord) -> Resources {
        let by_claim = self.claim_of_node(node).map(|claim| Target::Claim(claim.name.clone()));
        let targets = [Some(Target::Node(node.name.clone())), by_claim];
        let assigned = targets.iter().flatten().flat_map(|target| self.assignments().pods_on(target));
        let assigned = assigned.filter_map(|pod| self.pod(pod)).filter(|pod| pod.node.as_ref() != Some(&node.name));
        self.pods_on(&node.name).chain(assigned).fold(Resources::new(), |mut requests, pod| {
            requests.add(&pod.shape.requests);
            requests
        })
    }
}
