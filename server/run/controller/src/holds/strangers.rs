//! Pods on the nodes of a dedicated hold that are not its own, and what pods that name a hold are told.

use super::{CapacityHold, HoldId, HoldKind, Holds};
use crate::UnplacedPod;
use cluster::{ClusterState, PodRecord, admits, hold_of};
use model::plan::{Reason, ReasonCode};
use model::{NodeName, PodKey, Text};

/// Most strangers that one sentence names.
const NAMED: usize = 3;

impl CapacityHold {
    /// Whether the pod may take a place of the hold.
    fn has_place_for(&self, pod: &PodRecord) -> bool {
        self.pod_sets().iter().any(|set| admits(&set.namespace, &set.shape, pod))
    }

    /// Who runs on the nodes of the hold without a right to them, as part of a sentence.
    pub(super) fn strangers(&self, state: &ClusterState) -> Option<String> {
        if self.kind != HoldKind::Dedicated {
            return None;
        }
        let running = state.pods_on_nodes_of(&self.id).filter(|(pod, _)| !self.has_place_for(pod));
        let mut strangers: Vec<(&PodKey, &NodeName)> = running.map(|(pod, node)| (&pod.key, node)).collect();
        strangers.sort();
        let named = strangers.iter().take(NAMED).map(|(pod, node)| format!("pod {pod} on node {node}"));
        let named = named.collect::<Vec<_>>().join(", ");
        match strangers.len() {
            0 => None,
            count if count <= NAMED => Some(format!("{named} has its room and is not of the hold")),
            count => Some(format!("{named} and {} more have its room and are not of the hold", count - NAMED)),
        }
    }
}

impl Holds {
    /// Why a pod that names a hold has no place there; `None` for other pods.
    pub(crate) fn why_not_in_hold(&self, pod: &PodRecord, state: &ClusterState) -> Option<Text> {
        let id = HoldId(hold_of(pod)?.clone());
        let Some(hold) = self.get(&id) else {
            return Some(Text::from(format!(
                "the pod names hold {id}, which this cluster does not have, or not any more"
            )));
        };
        if !hold.has_place_for(pod) {
            let of: Vec<String> = hold.pod_sets().iter().map(|set| format!("{}/{}", set.namespace, set.name)).collect();
            return Some(Text::from(format!(
                "the pod names hold {id} and takes none of its places, which are for pods of its pod sets ({}): of their \
                 namespace, with at most their requests",
                of.join(", ")
            )));
        }
        let taken = hold.strangers(state)?;
        Some(Text::from(format!("the place of the pod in hold {id} is taken: {taken}; the hold gets other room")))
    }
}

/// Tells pods that name a hold about the hold, in place of the NodePools, none of which has its nodes.
pub(crate) fn explain_pods_of_holds(unplaced: &mut [UnplacedPod], holds: &Holds, state: &ClusterState) {
    for one in unplaced {
        if let Some(message) = state.pod(&one.pod).and_then(|pod| holds.why_not_in_hold(pod, state)) {
            one.reasons = [Reason { pool: None, code: ReasonCode::HeldBack, message: message.to_string() }].into();
        }
    }
}
