//! Which pods kube-scheduler should bind to a Node, when it is told, and when the Node opens.
//!
//! kube-scheduler spreads pods over the nodes that are up and knows nothing of the plan. A hint (`status.nominatedNodeName`)
//! makes it try the planned node first, and keeps that room from others. Three facts about it decide what happens here:
//!
//! - A hint outlives no failed attempt. So hints travel with the order that takes the Node in, and are there before the Node
//!   accepts pods. Machines of one decision wait for one another and are let in together ([`registration_gate`]): a pod that is tried while
//!   its own Node is still closed loses its hint, and its room to whoever has none.
//! - A hint that was lost is given again once the pod's Node is open ([`retries`]).
//! - Pods that are hinted to a node count there when others are tried on it. A spread constraint that must hold therefore refuses
//!   the node to every pod of a group of which several are hinted there: such pods take no hint. They need none either: whatever
//!   room the hints of others leave is theirs, and the constraint itself divides them over the domains as planned.

mod registration_gate;
mod retries;

pub(super) use registration_gate::RegistrationGate;
pub(super) use retries::NominationRetries;

use super::PodNomination;
use super::cluster_controller::ClusterController;
use crate::cluster::{PodRecord, Target};
use crate::model::labels::HOSTNAME;
use crate::model::pod::SpreadConstraint;
use crate::model::taints::first_barring;
use crate::model::{Taint, Text};

impl ClusterController {
    /// Pods that were promised the machine of `claim`, still wait for a node and take a hint, by namespace and name. Pods that
    /// its startup taints keep away are hinted when those are off.
    pub fn hints(&self, claim: &Text) -> Vec<PodNomination> {
        let pods = self.expected_on(claim);
        self.hintable(claim, &pods).map(hint).collect()
    }

    /// Pods that were promised the machine of `claim` and still wait for a node.
    fn expected_on(&self, claim: &Text) -> Vec<&PodRecord> {
        let target = Target::Claim(claim.clone());
        let pods = self.state.promises.on(&target).filter_map(|key| self.state.pod(key));
        pods.filter(|pod| waits(pod)).collect()
    }

    /// Those of `pods`, all that wait for `claim`, that take a hint.
    fn hintable<'p>(&self, claim: &Text, pods: &[&'p PodRecord]) -> impl Iterator<Item = &'p PodRecord> {
        let startup: &[Taint] = self.state.claim(claim).map_or(&[], |record| &record.startup_taints);
        let free = pods.iter().filter(|pod| first_barring(startup, &pod.shape.tolerations).is_none());
        free.copied().filter(|pod| !is_refused_by_hints(pod, pods))
    }
}

fn hint(pod: &PodRecord) -> PodNomination {
    PodNomination { pod: pod.key.clone(), uid: pod.uid.clone() }
}

/// A pod that is bound, ends, or is promised a node by kube-scheduler itself takes no hint.
fn waits(pod: &PodRecord) -> bool {
    pod.node.is_none() && pod.nominated.is_none() && !pod.terminating && !pod.is_terminal()
}

/// Whether a spread constraint that must hold would refuse `pod` the node that `all` are hinted to. kube-scheduler adds pods that
/// are hinted to a node to the count of the node's domain, and none elsewhere (its filters run with nominated pods first). Over
/// domains of several nodes that makes a pod depend on the order in which the others are tried, so such a pod is never hinted;
/// over single nodes it is as long as it is the only one of its kind there.
fn is_refused_by_hints(pod: &PodRecord, all: &[&PodRecord]) -> bool {
    let counts = |constraint: &SpreadConstraint, other: &PodRecord| {
        let selected = constraint.selector.as_ref().is_some_and(|selector| selector.matches(&other.labels));
        selected && other.key.namespace == pod.key.namespace
    };
    pod.shape.spread.iter().filter(|constraint| constraint.hard).any(|constraint| {
        let wide = constraint.topology_key.as_ref() != HOSTNAME && counts(constraint, pod);
        wide || all.iter().any(|other| other.key != pod.key && counts(constraint, other))
    })
}

#[cfg(test)]
mod tests;
