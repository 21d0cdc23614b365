//! What keeps pods on nodes that are to be drained together, as observed.

use std::collections::BTreeMap;

use super::candidates::Candidate;
use super::method::DisruptionView;
use super::selection::{EvictionLimits, MachineEvictions};
use cluster::{NodeRecord, PodRecord};
use model::Text;
use model::removal::ReplicaCount;

/// Namespace and `Kind/name` of the owner of pods.
type WorkloadKey = (Text, Text);

/// Whether a PodDisruptionBudget blocks the drain of the machine now, and no `terminationGracePeriod`
/// ends it.
pub(crate) fn is_drain_blocked(candidate: &Candidate<'_>, view: &DisruptionView<'_>) -> bool {
    let ends_drains = candidate.claim.termination_grace_period.is_some();
    !ends_drains && !view.state.drain_blockers(&candidate.node.name, view.now).is_empty()
}

/// Reads the evictions of machines, and then what limits them.
#[derive(Debug)]
pub(super) struct EvictionReader<'v> {
    view: &'v DisruptionView<'v>,
    limits: EvictionLimits,
}

impl<'v> EvictionReader<'v> {
    pub fn new(view: &'v DisruptionView<'v>) -> Self {
        Self { view, limits: EvictionLimits::default() }
    }

    /// The evictions that the drain of the machine takes.
    pub fn machine(&mut self, candidate: &Candidate<'_>) -> MachineEvictions {
        let (view, mut found) = (self.view, MachineEvictions::default());
        for pod in view.state.pods_on(&candidate.node.name).filter(|pod| !pod.terminating) {
            let mut budgets = view.state.pod_budgets_of(pod);
            let (first, is_only) = (budgets.next(), budgets.next().is_none());
            let is_evicted = pod.is_evicted_by_drains() && !pod.blocks_disruption(view.now);
            if let Some(one) = first.filter(|_| is_evicted) {
                found.has_several_budgets |= !is_only;
                if is_only && (pod.ready || !one.evicts_unhealthy_always) {
                    let key = Text::from(format!("{}/{}", one.namespace, one.name));
                    *found.by_budget.entry(key.clone()).or_default() += 1;
                    self.limits.pod_budgets.insert(key, usize::try_from(one.allowed).unwrap_or(0));
                }
            }
            if pod.ready && has_replicas(pod) {
                let ready = found.ready.entry(workload_of(pod)).or_default();
                ready.pods += 1;
                ready.is_unprotected |= first.is_none();
                self.limits.workloads.insert(workload_of(pod), ReplicaCount::default());
            }
        }
        found
    }

    /// What limits the evictions of the machines that were read. All pods are read if one has replicas.
    pub fn limits(self) -> EvictionLimits {
        let Self { view, mut limits } = self;
        if !limits.workloads.is_empty() {
            count_replicas(&mut limits.workloads, view);
        }
        limits
    }
}

/// Whether the pod is one of several that are meant to be ready at one time.
fn has_replicas(pod: &PodRecord) -> bool {
    let alone = ["Pod/", "Job/"].iter().any(|kind| pod.workload.starts_with(kind));
    pod.is_workload() && !pod.terminating && !alone
}

fn workload_of(pod: &PodRecord) -> WorkloadKey {
    (pod.key.namespace.clone(), pod.workload.clone())
}

fn count_replicas(workloads: &mut BTreeMap<WorkloadKey, ReplicaCount>, view: &DisruptionView<'_>) {
    let stays = |node: &NodeRecord| {
        let claim = view.state.claim_of_node(node);
        !view.state.is_node_terminating(&node.name) && claim.is_none_or(|claim| !view.is_leaving(claim))
    };
    for pod in view.state.pods().filter(|pod| has_replicas(pod)) {
        let Some(workload) = workloads.get_mut(&workload_of(pod)) else { continue };
        let node = pod.node.as_ref().and_then(|name| view.state.node(name));
        workload.pods += 1;
        workload.ready += usize::from(pod.ready && node.is_some_and(stays));
    }
}
