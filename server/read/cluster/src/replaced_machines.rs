//! Machines that are removed once other capacity has taken over their pods: their capacity is not
//! planned with any more, and their pods are planned elsewhere while they still run.

use super::record::{NodeRecord, PodRecord};
use super::replacement::Replacement;
use super::state::ClusterState;
use super::target::Target;
use model::disruption_policy::DisruptionReason;
use model::{ClaimName, NodeName, PodKey, Text, Timestamp};

impl ClusterState {
    /// Begins the replacement of the machine of `claim`, whose pods are assigned to other nodes already.
    pub fn begin_consolidation(&mut self, claim: &ClaimName, now: Timestamp) {
        let begun = Replacement { reason: DisruptionReason::Underutilized, since: now, moves_pods: true };
        self.mark_changed();
        self.replacements_mut().entry(claim.clone()).or_insert(begun);
    }

    /// Begins the replacement of the machine of `claim`, which is removed for `reason`, or has the pods of one
    /// under way planned.
    pub fn begin_replacement(&mut self, claim: &ClaimName, reason: DisruptionReason, moves_pods: bool, now: Timestamp) {
        let begun = Replacement { reason, since: now, moves_pods };
        self.mark_changed();
        self.replacements_mut().entry(claim.clone()).or_insert(begun).moves_pods |= moves_pods;
    }

    /// Resumes the replacement of the machine of `claim` that the previous owner of the cluster began.
    pub fn resume_replacement(&mut self, claim: &ClaimName, begun: Replacement) {
        self.mark_changed();
        self.replacements_mut().entry(claim.clone()).or_insert(begun);
    }

    /// Ends a replacement: the machine stays, and the assignments of its pods end.
    pub fn end_replacement(&mut self, claim: &ClaimName) {
        self.mark_changed();
        self.replacements_mut().remove(claim);
        let Some(node) = self.node_of_claim(claim).map(|node| node.name.clone()) else { return };
        let pods: Vec<PodKey> = self.pods_on(&node).map(|pod| pod.key.clone()).collect();
        pods.iter().for_each(|pod| self.assignments_mut().remove(pod));
    }

    /// The replacement of the machine of `claim` that is under way.
    #[must_use]
    pub fn replacement_of(&self, claim: &ClaimName) -> Option<Replacement> {
        self.replacements().get(claim).copied()
    }

    /// Whether the Node is terminating, or is replaced: no pod is planned onto it.
    #[must_use]
    pub fn is_node_outgoing(&self, node: &NodeName) -> bool {
        self.is_node_terminating(node) || self.replacement_on(node).is_some()
    }

    /// Whether the pods of the Node are planned elsewhere: it is terminating, or is replaced and its
    /// pods may move.
    #[must_use]
    pub fn are_pods_moved_from(&self, node: &NodeName) -> bool {
        self.is_node_terminating(node) || self.replacement_on(node).is_some_and(|replacement| replacement.moves_pods)
    }

    /// The Node that `pod` is assigned to, if it accepts the pod now: it is initialized, ready and stays, and has
    /// room for all pods that are assigned to it. kube-scheduler may have bound others meanwhile.
    #[must_use]
    pub fn initialized_node_for(&self, pod: &PodKey) -> Option<&NodeRecord> {
        self.assigned_node(pod).filter(|node| {
            node.is_initialized()
                && node.ready
                && !node.unschedulable
                && !self.is_node_outgoing(&node.name)
                && self.requests_on(node).fits(&node.allocatable)
        })
    }

    /// The Node that `pod` is assigned to, initialized or not.
    #[must_use]
    pub fn assigned_node(&self, pod: &PodKey) -> Option<&NodeRecord> {
        self.node_of_target(&self.assignments().get(pod)?.target)
    }

    /// The Node of `target`, once there is one.
    pub(super) fn node_of_target(&self, target: &Target) -> Option<&NodeRecord> {
        match target {
            Target::Claim(claim) => self.node_of_claim(claim),
            Target::Node(node) => self.node(node),
        }
    }

    /// Pods on `node` that need another place before it is drained.
    pub fn pods_to_move_from(&self, node: &NodeName, now: Timestamp) -> impl Iterator<Item = &PodRecord> {
        self.pods_on(node).filter(move |pod| self.needs_another_place(pod, now))
    }

    /// Pods on `node` of schedulers that are not planned for, which would have to run elsewhere.
    pub fn pods_of_other_schedulers_on(&self, node: &NodeName) -> impl Iterator<Item = (&PodRecord, &Text)> {
        let pods = self.pods_on(node).filter(|pod| pod.is_workload() && !pod.terminating);
        pods.filter_map(|pod| Some((pod, self.other_scheduler_of(pod)?)))
    }

    /// Whether a bound pod is planned elsewhere when its Node leaves: it runs elsewhere again, may be evicted now or later,
    /// and is of a scheduler that is planned for.
    #[must_use]
    pub fn needs_another_place(&self, pod: &PodRecord, now: Timestamp) -> bool {
        pod.is_reschedulable()
            && !pod.blocks_disruption(now)
            && self.other_scheduler_of(pod).is_none()
            && !self.is_never_evicted(pod)
    }

    fn replacement_on(&self, node: &NodeName) -> Option<Replacement> {
        // Mostly nothing is replaced, and this is asked for every pod.
        if self.replacements().is_empty() {
            return None;
        }
        self.replacement_of(&self.claim_of_node(self.node(node)?)?.name)
    }
}

#[cfg(test)]
mod tests;
