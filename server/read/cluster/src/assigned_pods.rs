//! Assignments of pods in the cluster state: changes by the controller, changes when kube-scheduler
//! binds other pods to the reserved capacity, and extensions while pods are drained. A drain may take
//! as long as a PodDisruptionBudget blocks it; until it ends, the assignments of its pods are
//! extended while they are still feasible.

use super::assignments::{Assignment, NOMINATION_WINDOW};
use super::node_room::sum;
use super::record::{NodeRecord, PodRecord};
use super::state::ClusterState;
use super::successors::PodDemand;
use super::target::Target;
use model::taints::first_untolerated;
use model::{ClaimName, NodeName, PodKey, Resources, Timestamp};

impl ClusterState {
    /// Assigns `pod`, replacing an earlier assignment.
    pub fn assign_pod(&mut self, pod: PodKey, target: Target, until: Option<Timestamp>) {
        self.assignments_mut().assign(pod, target, until);
    }

    /// Assigns `pod` to the machine of `claim`, for which it was planned. The assignment expires when kube-scheduler has
    /// had time to bind the pod to the initialized Node; a Node that was initialized while the plan was made is not
    /// initialized again.
    pub fn assign_pod_to_claim(&mut self, pod: PodKey, claim: ClaimName, now: Timestamp) {
        let is_initialized = self.node_of_claim(&claim).is_some_and(NodeRecord::is_initialized);
        let until = is_initialized.then_some(now + NOMINATION_WINDOW);
        self.assign_pod(pod, Target::Claim(claim), until);
    }

    /// Sets the expiry of the assignments to `claim`, whose machine is initialized.
    pub fn expire_assignments_to(&mut self, claim: &ClaimName, until: Timestamp) {
        self.assignments_mut().expire_claim_at(claim, until);
    }

    /// Removes the assignments that have expired by `now`; returns whether there was any.
    pub fn expire_assignments(&mut self, now: Timestamp) -> bool {
        let expired = self.assignments_mut().expire(now);
        if expired {
            // Its node may be consolidated from now on.
            self.mark_changed();
        }
        expired
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

    /// Removes the assignment of `pod`, which was `former`. When it was evicted from a terminating node, its
    /// successor needs the capacity.
    pub(super) fn release_assignment(&mut self, pod: &PodKey, former: Option<(NodeName, PodDemand)>, now: Timestamp) {
        match former.filter(|(node, _)| self.is_node_leaving(node)) {
            Some((_, demand)) => self.assignments_mut().hand_to_successor(pod, demand, now + NOMINATION_WINDOW),
            None => self.assignments_mut().remove(pod),
        }
    }

    /// Ends assignments that are not feasible any more, because kube-scheduler bound the pod `key` to
    /// their node, although it was assigned elsewhere (`former`), is the successor of an evicted pod, or neither.
    /// An assigned pod that differs from it in its name only takes its place over; it is pending, or runs on a
    /// machine that it leaves. Without one, or if no place was kept for the bound pod, no capacity is reserved for the
    /// displaced pods any more: their assignments expire, so that they are planned again.
    pub(super) fn reassign_displaced_pods(&mut self, key: &PodKey, former: Option<Assignment>, now: Timestamp) {
        let Some(bound) = self.pod(key) else { return };
        let Some(record) = bound.node.as_ref().and_then(|node| self.node(node)) else { return };
        let targets = self.targets_of(record);
        let assigned = || targets.iter().flat_map(|target| self.assignments().pods_on(target));
        let planned = former.as_ref().is_some_and(|former| targets.contains(&former.target));
        if planned || assigned().next().is_none() || self.requests_on(record).fits(&self.allocatable_of(record)) {
            return;
        }
        let demand = PodDemand::of(bound);
        // kube-scheduler does not move a pod that runs on a machine that is replaced either.
        let waits = |pod: &PodRecord| pod.node.as_ref().is_none_or(|node| self.is_node_leaving(node));
        let equal = |pod: &&PodKey| self.pod(pod).is_some_and(|pod| waits(pod) && demand.is_of(pod));
        let displaced = assigned().find(equal).cloned();
        let successor = former.is_none().then(|| self.place_of_successor(bound)).flatten();
        match (displaced, former, successor) {
            (Some(pod), Some(Assignment { target, until }), _) => self.assignments_mut().assign(pod, target, until),
            (Some(pod), None, Some(target)) => {
                let until = now + NOMINATION_WINDOW;
                self.assignments_mut().take_over_reservation(pod, target, &demand, until);
            }
            // A place that the bound pod had elsewhere is free; it may be too small for them.
            _ => {
                let displaced = self.displaced_pods(record, assigned());
                displaced.iter().for_each(|pod| self.assignments_mut().extend_until(pod, now));
            }
        }
    }

    /// Where capacity is kept for the successor of an evicted pod like `bound` that still has room for such a pod.
    fn place_of_successor(&self, bound: &PodRecord) -> Option<Target> {
        let has_room = |target: &&Target| {
            self.node_of_target(target).is_some_and(|node| {
                bound.node.as_ref() != Some(&node.name)
                    && sum(self.requests_on(node), bound).fits(&self.allocatable_of(node))
            })
        };
        self.assignments().reserved_for_successor(bound).find(has_room).cloned()
    }

    /// Which of `assigned`, in this order, do not fit `node` beside its bound pods.
    fn displaced_pods<'a>(&self, node: &NodeRecord, assigned: impl Iterator<Item = &'a PodKey>) -> Vec<PodKey> {
        let allocatable = self.allocatable_of(node);
        let mut requests = self.pods_on(&node.name).fold(Resources::new(), sum);
        let mut displaced = Vec::new();
        for pod in assigned.filter_map(|pod| self.pod(pod)).filter(|pod| pod.node.as_ref() != Some(&node.name)) {
            let with_pod = sum(requests.clone(), pod);
            if with_pod.fits(&allocatable) {
                requests = with_pod;
            } else {
                displaced.push(pod.key.clone());
            }
        }
        displaced
    }

    /// Whether the pods of the Node are planned elsewhere, or it was deleted before its pods.
    fn is_node_leaving(&self, node: &NodeName) -> bool {
        self.node(node).is_none() || self.are_pods_moved_from(node)
    }

    /// Whether `pod` is on a machine that it leaves and still fits its target, as far as taints and
    /// resources show.
    fn may_keep_assignment(&self, pod: &PodKey) -> bool {
        let Some(pod) = self.pod(pod) else { return false };
        let Some(node) = self.assigned_node(&pod.key) else { return false };
        let waits = pod.is_reschedulable() && pod.node.as_ref().is_some_and(|node| self.is_node_leaving(node));
        let open = node.ready && !node.unschedulable && !self.is_node_outgoing(&node.name);
        waits
            && open
            && first_untolerated(&node.taints, &pod.shape.tolerations).is_none()
            && self.requests_on(node).fits(&node.allocatable)
    }
}
