//! Room for the pods of machines that go. A drain may take as long as a PodDisruptionBudget likes; until it has ended, what its
//! pods were promised is theirs, as long as they could still go there.

use super::assignments::{NOMINATION_MS, Target};
use super::record::{NodeRecord, PodKey};
use super::state::ClusterState;
use crate::model::taints::first_barring;
use crate::model::{Resources, Text, Timestamp};

impl ClusterState {
    /// Extends the promises to pods that still wait for their eviction and could go where they were promised room. Others
    /// lapse and are planned anew: pods that came meanwhile may have taken the room.
    pub fn extend_promises(&mut self, now: Timestamp) {
        let kept: Vec<PodKey> = self.promises.due(now).filter(|pod| self.keeps_room(pod)).cloned().collect();
        let until = Timestamp(now.0.saturating_add(NOMINATION_MS));
        for pod in kept {
            self.promises.extend(&pod, until);
        }
    }

    /// `pod` needs its promise no more. Where it leaves a machine that goes, its successor needs the room.
    pub(super) fn settle_promise(&mut self, pod: &PodKey, stood_on: Option<&Text>, now: Timestamp) {
        if stood_on.is_some_and(|node| self.is_lost(node)) {
            self.promises.pass_on(pod, Timestamp(now.0.saturating_add(NOMINATION_MS)));
        } else {
            self.promises.settle(pod);
        }
    }

    /// Whether the Node goes, or has gone before its pods.
    fn is_lost(&self, node: &Text) -> bool {
        self.node(node).is_none() || self.is_going_node(node)
    }

    /// Whether `pod` stands on a machine that goes and could go where it was promised room, as far as taints and resources tell.
    fn keeps_room(&self, pod: &PodKey) -> bool {
        let Some((pod, promise)) = self.pod(pod).zip(self.promises.to(pod)) else { return false };
        let Some(node) = self.node_of_target(&promise.target) else { return false };
        let waits = pod.is_reschedulable() && pod.node.as_ref().is_some_and(|node| self.is_lost(node));
        let open = node.ready && !node.unschedulable && !self.is_going_node(&node.name);
        waits
            && open
            && first_barring(&node.taints, &pod.shape.tolerations).is_none()
            && self.wanted_on(node).fits(&node.allocatable)
    }

    fn node_of_target(&self, target: &Target) -> Option<&NodeRecord> {
        match target {
            Target::Claim(claim) => self.node_of_claim(claim),
            Target::Node(node) => self.node(node),
        }
    }

    /// What the pods on `node` and those with a promise there ask for together.
    fn wanted_on(&self, node: &NodeRecord) -> Resources {
        let by_claim = self.claim_of_node(node).map(|claim| Target::Claim(claim.name.clone()));
        let targets = [Some(Target::Node(node.name.clone())), by_claim];
        let promised = targets.iter().flatten().flat_map(|target| self.promises.on(target));
        let promised = promised.filter_map(|pod| self.pod(pod)).filter(|pod| pod.node.as_ref() != Some(&node.name));
        self.pods_on(&node.name).chain(promised).fold(Resources::new(), |mut wanted, pod| {
            wanted.add(&pod.shape.requests);
            wanted
        })
    }
}
