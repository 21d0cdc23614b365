//! How urgent a launch is, for the rate limits of the cloud's API.

use std::collections::BTreeMap;

use crate::nodeclaim::NodeClaims;
use cluster::{ClusterState, PodOwner, PodRecord};
use model::input::PlanningInput;
use model::plan::PlannedNode;
use model::{ClaimName, Millis, PodKey, PriorityLane, Timestamp};

/// How long after an interruption a new pod of an owner that had pods on the machine counts as a successor of one of
/// them. The cloud ends most instances within two minutes, and a launch that fails is planned again.
const SUCCESSORS_WITHIN: Millis = Millis::from_mins(5);

/// The clocks of API server and servers differ by less, and creation times are whole seconds.
const CLOCK_TOLERANCE: Millis = Millis::from_secs(10);

/// Owners of pods on machines that the cloud interrupted lately, with the time of the last interruption. A pod that the
/// drain evicts is recreated by its owner under another name.
#[derive(Debug, Default)]
pub(crate) struct InterruptedOwners(BTreeMap<PodOwner, Timestamp>);

impl InterruptedOwners {
    /// Records the owners of the pods on a machine that is interrupted at `now`.
    pub(crate) fn record(&mut self, owners: impl IntoIterator<Item = PodOwner>, now: Timestamp) {
        self.0.retain(|_, since| now.duration_since(*since) <= SUCCESSORS_WITHIN);
        // Pods without an owner are not recreated.
        let owners = owners.into_iter().filter(|(_, workload)| !workload.is_empty());
        self.0.extend(owners.map(|owner| (owner, now)));
    }

    fn has_successor(&self, pod: &PodRecord) -> bool {
        let Some(created) = pod.created.filter(|_| !self.0.is_empty()) else { return false };
        let since = self.0.get(&(pod.key.namespace.clone(), pod.workload.clone()));
        since.is_some_and(|since| created + CLOCK_TOLERANCE >= *since && created <= *since + SUCCESSORS_WITHIN)
    }
}

/// What the lane of a launch depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaneFacts<'a> {
    pub(crate) state: &'a ClusterState,
    pub(crate) claims: &'a NodeClaims,
    pub(crate) interrupted: &'a InterruptedOwners,
}

impl LaneFacts<'_> {
    /// The lane of the most urgent pod on the planned machine. Without a pod nothing waits for it.
    pub(crate) fn lane_of(&self, node: &PlannedNode, input: &PlanningInput) -> PriorityLane {
        let lanes = node.pods.iter().map(|pod| {
            let pod = &input.pods[*pod as usize];
            self.lane_of_pod(&pod.key(), input.shapes[pod.shape as usize].priority)
        });
        lanes.min().unwrap_or(PriorityLane::Voluntary)
    }

    /// A pod that runs where nothing interrupts it is moved voluntarily. A positive priority is high: pods without a
    /// PriorityClass have 0.
    fn lane_of_pod(&self, key: &PodKey, priority: i32) -> PriorityLane {
        let pod = self.state.pod(key);
        if pod.is_some_and(|pod| self.is_interrupted(pod)) {
            return PriorityLane::Interruption;
        }
        if pod.and_then(|pod| self.claim_of(pod)).is_some_and(|claim| self.state.replacement_of(&claim).is_some()) {
            return PriorityLane::Voluntary;
        }
        if priority > 0 { PriorityLane::HighPriorityPending } else { PriorityLane::Pending }
    }

    fn is_interrupted(&self, pod: &PodRecord) -> bool {
        let machine = self.claim_of(pod).and_then(|claim| self.claims.get(&claim));
        machine.and_then(|machine| machine.drain_terms()).is_some_and(|terms| terms.interrupted)
            || self.interrupted.has_successor(pod)
    }

    fn claim_of(&self, pod: &PodRecord) -> Option<ClaimName> {
        let node = self.state.node(pod.node.as_ref()?)?;
        Some(self.state.claim_of_node(node)?.name.clone())
    }
}

#[cfg(test)]
mod tests;
