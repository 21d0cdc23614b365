//! Which changes of pods may make a removal possible that was not before. A plan of disruption that found nothing is
//! repeated after such a change only, or after some minutes.
//!
//! A pod that kube-scheduler binds to free capacity only fills a node. With rules between pods, such as
//! affinity to it, even that may let another pod move: this is found late.

use super::record::PodRecord;
use super::state::ClusterState;

impl ClusterState {
    /// Whether `pod`, which is about to replace the pod with its key, may make a removal possible.
    pub(super) fn may_enable_removal(&self, pod: &PodRecord) -> bool {
        let known = self.pod(&pod.key);
        let is_filling = match (known.and_then(|known| known.node.as_ref()), &pod.node) {
            (None, None) => known.is_none_or(|known| is_waiting_as_before(known, pod)),
            (None, Some(_)) => self.is_filling(known, pod),
            (Some(before), Some(after)) => before == after && known.is_some_and(|known| self.is_as_before(known, pod)),
            (Some(_), None) => false,
        };
        pod.terminating || pod.is_terminal() || !is_filling
    }

    /// Whether `pod` is bound to a node with other pods that move with it, so that it only takes capacity. A pod with
    /// an assignment or a nomination has held a node until now.
    fn is_filling(&self, known: Option<&PodRecord>, pod: &PodRecord) -> bool {
        let has_held = self.assignments().get(&pod.key).is_some()
            || known.is_some_and(|known| known.nominated.is_some() || known.own_nomination.is_some());
        let is_used = pod.node.as_ref().is_some_and(|node| self.pods_on(node).any(PodRecord::is_reschedulable));
        !has_held && (is_used || !pod.is_reschedulable())
    }

    /// Whether a bound pod is as it was in everything that a removal is judged by, or less free to go.
    fn is_as_before(&self, known: &PodRecord, pod: &PodRecord) -> bool {
        let PodRecord { uid, shape, labels, volumes, do_not_disrupt, stated_cost, workload, .. } = known;
        let is_same = *uid == pod.uid
            && *shape == pod.shape
            && *labels == pod.labels
            && *volumes == pod.volumes
            && *do_not_disrupt == pod.do_not_disrupt
            && *stated_cost == pod.stated_cost
            && *workload == pod.workload
            && !known.terminating;
        // The only ready pod of a workload is not evicted; with a second one it may be.
        is_same && (known.ready || !pod.ready || self.ready_pods_with(pod) != 1)
    }
}

/// Whether a pod that is not bound reserves the same node as before, if any, and needs the same.
fn is_waiting_as_before(known: &PodRecord, pod: &PodRecord) -> bool {
    let keeps = |before: &Option<model::NodeName>, after: &Option<model::NodeName>| before.is_none() || before == after;
    known.uid == pod.uid
        && known.shape == pod.shape
        && known.labels == pod.labels
        && known.volumes == pod.volumes
        && !known.terminating
        && keeps(&known.nominated, &pod.nominated)
        && keeps(&known.own_nomination, &pod.own_nomination)
}

#[cfg(test)]
mod tests;
