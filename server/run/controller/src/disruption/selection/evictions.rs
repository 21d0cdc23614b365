//! Evictions of machines that are drained together: PodDisruptionBudgets, and the last ready pod of a workload.

use std::collections::BTreeMap;

use model::Text;
use model::removal::ReplicaCount;

/// The evictions that the drain of one machine takes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineEvictions {
    /// Number of evicted pods by `namespace/name` of the PodDisruptionBudget that selects them.
    pub by_budget: BTreeMap<Text, usize>,
    /// Whether several PodDisruptionBudgets select one pod, which is never evicted then.
    pub has_several_budgets: bool,
    /// Its ready pods that are some of several, by namespace and workload.
    pub ready: BTreeMap<(Text, Text), ReadyPods>,
}

/// The ready pods of a workload on one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadyPods {
    pub pods: usize,
    /// Whether no PodDisruptionBudget selects one of them.
    pub is_unprotected: bool,
}

/// What the evictions of several machines are limited by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EvictionLimits {
    /// `status.disruptionsAllowed` of PodDisruptionBudgets, by `namespace/name`.
    pub pod_budgets: BTreeMap<Text, usize>,
    /// The pods of workloads, by namespace and workload, with the ready ones on nodes that stay.
    pub workloads: BTreeMap<(Text, Text), ReplicaCount>,
}

/// The evictions of machines that are removed together.
#[derive(Debug)]
pub(super) struct Evictions<'l> {
    limits: &'l EvictionLimits,
    /// Evictions of the admitted machines, by PodDisruptionBudget.
    by_budget: BTreeMap<&'l Text, usize>,
    /// Ready pods on the admitted machines, by workload.
    evicted: BTreeMap<&'l (Text, Text), usize>,
}

impl<'l> Evictions<'l> {
    pub fn none(limits: &'l EvictionLimits) -> Self {
        Self { limits, by_budget: BTreeMap::new(), evicted: BTreeMap::new() }
    }

    /// Counts the pods of the machine, if it may be drained together with those admitted before. With `ends_drains`,
    /// the `terminationGracePeriod` of its NodeClaim ends its drain whatever PodDisruptionBudgets allow.
    pub fn admit(&mut self, machine: &'l MachineEvictions, ends_drains: bool) -> bool {
        if !(ends_drains || self.fits(machine)) || self.takes_last_ready_pod(machine) {
            return false;
        }
        for (budget, pods) in &machine.by_budget {
            *self.by_budget.entry(budget).or_default() += pods;
        }
        for (workload, ready) in &machine.ready {
            *self.evicted.entry(workload).or_default() += ready.pods;
        }
        true
    }

    /// Whether PodDisruptionBudgets allow the evictions. The pods of one node are evicted one after another, so one
    /// allowed eviction is enough for the first node.
    fn fits(&self, machine: &MachineEvictions) -> bool {
        let fits = |(budget, pods): (&Text, &usize)| {
            let earlier = self.by_budget.get(budget).copied().unwrap_or(0);
            let allowed = self.limits.pod_budgets.get(budget).copied().unwrap_or(0);
            if earlier == 0 { allowed > 0 } else { earlier + pods <= allowed }
        };
        !machine.has_several_budgets && machine.by_budget.iter().all(fits)
    }

    /// Whether a workload of several pods would have no ready one left. A single machine may have all of
    /// several ready pods.
    fn takes_last_ready_pod(&self, machine: &MachineEvictions) -> bool {
        machine.ready.iter().filter(|(_, ready)| ready.is_unprotected).any(|(key, ReadyPods { pods, .. })| {
            let all = self.limits.workloads.get(key).copied().unwrap_or_default();
            let evicted = self.evicted.get(key).copied().unwrap_or(0);
            let ready = all.ready.saturating_sub(evicted);
            all.pods > 1 && ready <= *pods && (*pods == 1 || evicted > 0)
        })
    }
}
