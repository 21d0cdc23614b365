//! What keeps pods on nodes that are to be drained together: do-not-disrupt, PodDisruptionBudgets, and
//! the last ready pod of a workload.

use std::collections::BTreeMap;

use super::candidates::Candidate;
use super::method::DisruptionView;
use crate::cluster::{NodeRecord, PodRecord};
use model::Text;

/// The evictions of machines that are removed together.
#[derive(Debug)]
pub(crate) struct Evictions<'v> {
    view: &'v DisruptionView<'v>,
    /// Evictions of the admitted machines, by namespace and name of the PodDisruptionBudget.
    by_budget: BTreeMap<(Text, Text), usize>,
    /// The pods of each workload, by namespace and workload; collected when the first machine has any.
    workloads: Option<BTreeMap<(Text, Text), Workload>>,
}

/// Pods of a workload.
#[derive(Debug, Clone, Copy, Default)]
struct Workload {
    pods: usize,
    /// Ready pods on nodes that are not terminating and not admitted.
    ready: usize,
    /// Ready pods on admitted machines.
    evicted: usize,
}

/// Whether do-not-disrupt forbids to replace the machine: on its Node, or, without a
/// `terminationGracePeriod`, on one of its pods (Karpenter: eventual disruption).
pub(crate) fn is_replacement_forbidden(candidate: &Candidate<'_>, view: &DisruptionView<'_>) -> bool {
    let ends_drains = candidate.claim.termination_grace_period.is_some();
    candidate.node.do_not_disrupt || (!ends_drains && candidate.is_protected(view.state, view.now))
}

/// Whether a PodDisruptionBudget blocks the drain of the machine now, and no `terminationGracePeriod`
/// ends it.
pub(crate) fn is_drain_blocked(candidate: &Candidate<'_>, view: &DisruptionView<'_>) -> bool {
    let ends_drains = candidate.claim.termination_grace_period.is_some();
    !ends_drains && !view.state.drain_blockers(&candidate.node.name, view.now).is_empty()
}

impl<'v> Evictions<'v> {
    /// No evictions so far.
    pub fn none(view: &'v DisruptionView<'v>) -> Self {
        Self { view, by_budget: BTreeMap::new(), workloads: None }
    }

    /// Counts the pods of the machine, if it may be drained together with those admitted before.
    pub fn admit(&mut self, candidate: &Candidate<'_>) -> bool {
        let (needed, fits) = self.evictions_of(candidate);
        let ends_drains = candidate.claim.termination_grace_period.is_some();
        let ready = self.ready_pods_of(candidate);
        if !(fits || ends_drains) || self.takes_last_ready_pod(&ready) {
            return false;
        }
        needed.into_iter().for_each(|(budget, pods)| *self.by_budget.entry(budget).or_default() += pods);
        for (workload, (pods, _)) in ready {
            if let Some(workload) = self.workloads.as_mut().and_then(|workloads| workloads.get_mut(&workload)) {
                workload.ready = workload.ready.saturating_sub(pods);
                workload.evicted += pods;
            }
        }
        true
    }

    /// Evictions by PodDisruptionBudget, and whether the budgets allow them. The pods of one node are
    /// evicted one after another, so one allowed eviction is enough for the first node.
    fn evictions_of(&self, candidate: &Candidate<'_>) -> (BTreeMap<(Text, Text), usize>, bool) {
        let (mut needed, mut fits): (BTreeMap<(Text, Text), usize>, bool) = (BTreeMap::new(), true);
        let evicted = |pod: &&PodRecord| pod.is_workload() && !pod.terminating && !pod.blocks_disruption(self.view.now);
        for pod in self.view.state.pods_on(&candidate.node.name).filter(evicted) {
            let mut budgets = self.view.state.pod_budgets_of(pod);
            let Some(one) = budgets.next() else { continue };
            if budgets.next().is_some() {
                fits = false;
            } else if !one.evicts_unhealthy_always || pod.ready {
                let key = (one.namespace.clone(), one.name.clone());
                let earlier = self.by_budget.get(&key).copied().unwrap_or(0);
                let count = needed.entry(key).or_default();
                *count += 1;
                let allowed = usize::try_from(one.allowed).unwrap_or(0);
                fits &= if earlier == 0 { allowed > 0 } else { earlier + *count <= allowed };
            }
        }
        (needed, fits)
    }

    /// Number of ready pods of each workload on the machine, and whether one has no
    /// PodDisruptionBudget.
    fn ready_pods_of(&mut self, candidate: &Candidate<'_>) -> BTreeMap<(Text, Text), (usize, bool)> {
        let mut ready: BTreeMap<(Text, Text), (usize, bool)> = BTreeMap::new();
        for pod in self.view.state.pods_on(&candidate.node.name).filter(|pod| pod.ready && has_replicas(pod)) {
            let (count, unprotected) = ready.entry(workload_of(pod)).or_default();
            *count += 1;
            *unprotected |= self.view.state.pod_budgets_of(pod).next().is_none();
        }
        if !ready.is_empty() && self.workloads.is_none() {
            self.workloads = Some(collect_workloads(self.view));
        }
        ready
    }

    /// Whether a workload of several pods would have no ready one left. A single machine may have all of
    /// several ready pods.
    fn takes_last_ready_pod(&self, ready: &BTreeMap<(Text, Text), (usize, bool)>) -> bool {
        ready.iter().filter(|(_, (_, unprotected))| *unprotected).any(|(key, (pods, _))| {
            let all = self.workloads.as_ref().and_then(|workloads| workloads.get(key)).copied().unwrap_or_default();
            all.pods > 1 && all.ready <= *pods && (*pods == 1 || all.evicted > 0)
        })
    }
}

/// Whether the pod is one of several that are meant to be ready at one time.
fn has_replicas(pod: &PodRecord) -> bool {
    let alone = ["Pod/", "Job/"].iter().any(|kind| pod.workload.starts_with(kind));
    pod.is_workload() && !pod.terminating && !alone
}

fn workload_of(pod: &PodRecord) -> (Text, Text) {
    (pod.key.namespace.clone(), pod.workload.clone())
}

fn collect_workloads(view: &DisruptionView<'_>) -> BTreeMap<(Text, Text), Workload> {
    let mut workloads: BTreeMap<(Text, Text), Workload> = BTreeMap::new();
    let stays = |node: &NodeRecord| {
        let claim = view.state.claim_of_node(node);
        !view.state.is_node_terminating(&node.name) && claim.is_none_or(|claim| !view.is_leaving(claim))
    };
    for pod in view.state.pods().filter(|pod| has_replicas(pod)) {
        let workload = workloads.entry(workload_of(pod)).or_default();
        let node = pod.node.as_ref().and_then(|name| view.state.node(name));
        workload.pods += 1;
        workload.ready += usize::from(pod.ready && node.is_some_and(stays));
    }
    workloads
}
