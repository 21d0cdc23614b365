//! What the nominator reads, and which pods can be nominated.

use crate::PodNomination;
use crate::nodeclaim::NodeClaims;
use cluster::{ClusterState, PodRecord, Target};
use model::labels::HOSTNAME;
use model::pod::SpreadConstraint;
use model::taints::first_untolerated;
use model::{ClaimName, Taint, Timestamp};

#[derive(Debug, Clone, Copy)]
pub(crate) struct NominationView<'v> {
    pub state: &'v ClusterState,
    pub claims: &'v NodeClaims,
    pub now: Timestamp,
}

impl<'v> NominationView<'v> {
    /// Pods assigned to the machine of `claim` that still need a node and can be nominated. Pods
    /// that do not tolerate its startup taints are nominated once those are removed.
    pub(super) fn nominations(&self, claim: &ClaimName) -> Vec<PodNomination> {
        let pods = self.assigned_pods(claim);
        self.nominable(claim, &pods).map(nomination).collect()
    }

    /// Pods assigned to the machine of `claim` that still need a node.
    pub(super) fn assigned_pods(&self, claim: &ClaimName) -> Vec<&'v PodRecord> {
        let target = Target::Claim(claim.clone());
        let pods = self.state.assignments().pods_on(&target).filter_map(|key| self.state.pod(key));
        pods.filter(|pod| needs_node(pod)).collect()
    }

    /// Those of `pods`, which are all pods assigned to `claim`, that can be nominated.
    pub(super) fn nominable<'p>(
        &self,
        claim: &ClaimName,
        pods: &[&'p PodRecord],
    ) -> impl Iterator<Item = &'p PodRecord> {
        let startup: &[Taint] = self.state.claim(claim).map_or(&[], |record| &record.startup_taints);
        let free = pods.iter().filter(|pod| first_untolerated(startup, &pod.shape.tolerations).is_none());
        let free = free.filter(|pod| heeds_nominations(pod));
        free.copied().filter(|pod| !spread_refuses_nomination(pod, pods))
    }
}

pub(super) fn nomination(pod: &PodRecord) -> PodNomination {
    PodNomination { pod: pod.key.clone(), uid: pod.uid.clone() }
}

/// A pod that is bound, ends, or is already nominated by kube-scheduler needs no node.
pub(super) fn needs_node(pod: &PodRecord) -> bool {
    pod.node.is_none() && pod.nominated.is_none() && !pod.terminating && !pod.is_terminal()
}

/// Only kube-scheduler is known to heed `status.nominatedNodeName`; another scheduler may use the field itself.
pub(super) fn heeds_nominations(pod: &PodRecord) -> bool {
    pod.other_scheduler.is_none()
}

/// Whether a hard spread constraint would reject for `pod` the node that `all` are nominated to.
/// kube-scheduler adds nominated pods to the count of their node's domain only (its filters run
/// with nominated pods first). With domains of several nodes, the result for a pod depends on the
/// order of attempts, so such a pod is never nominated; with single-node domains it is nominated if
/// it is the only matching pod there.
pub(super) fn spread_refuses_nomination(pod: &PodRecord, all: &[&PodRecord]) -> bool {
    let counts = |constraint: &SpreadConstraint, other: &PodRecord| {
        let selected = constraint.selector.as_ref().is_some_and(|selector| selector.matches(&other.labels));
        selected && other.key.namespace == pod.key.namespace
    };
    pod.shape.spread.iter().filter(|constraint| constraint.hard).any(|constraint| {
        let wide = constraint.topology_key.as_ref() != HOSTNAME && counts(constraint, pod);
        wide || all.iter().any(|other| other.key != pod.key && counts(constraint, other))
    })
}
