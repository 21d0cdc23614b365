//! Which pods kube-scheduler should bind to a Node that is being let in.
//!
//! kube-scheduler spreads pods over the nodes that are up and knows nothing of the plan. A hint (`status.nominatedNodeName`)
//! makes it try the planned node first, and keeps that room from others. Hints travel with the order that takes the Node in,
//! because they last only if they are there before the Node accepts pods.

use super::PodHint;
use super::ward::Ward;
use crate::cluster::{NodeRecord, PodRecord, Target};
use crate::model::{Text, Timestamp};

/// How long a Node that is not ready is kept closed for the sake of its hints, in milliseconds from its creation. A kubelet is
/// usually ready sooner; a cluster whose network comes up only on Nodes that were let in loses no more than this.
pub const PATIENCE_MS: i64 = 30_000;

impl Ward {
    /// Until when the Node of `claim` is not let in yet: a hint that kube-scheduler tries while the Node is not ready is lost.
    pub fn closed_until(&self, claim: &Text, node: &NodeRecord, now: Timestamp) -> Option<Timestamp> {
        let until = Timestamp(node.created?.0.saturating_add(PATIENCE_MS));
        (!node.ready && until > now && !self.hints(claim).is_empty()).then_some(until)
    }

    /// Pods that were promised the machine of `claim` and still wait for a node, by namespace and name.
    pub fn hints(&self, claim: &Text) -> Vec<PodHint> {
        let target = Target::Claim(claim.clone());
        let promised = self.state.promises.iter().filter(|(_, promise)| promise.target == target);
        let pods = promised.filter_map(|(key, _)| self.state.pod(key)).filter(|pod| waits(pod));
        pods.map(|pod| PodHint { pod: pod.key.clone(), uid: pod.uid.clone() }).collect()
    }
}

/// A pod that is bound, ends, or is promised a node by kube-scheduler itself takes no hint.
fn waits(pod: &PodRecord) -> bool {
    pod.node.is_none() && pod.nominated.is_none() && !pod.terminating && !pod.is_terminal()
}
