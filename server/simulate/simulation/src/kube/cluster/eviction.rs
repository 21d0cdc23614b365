//! PodDisruptionBudgets, as enforced by the eviction API.

use cluster::{Object, PodBudgetRecord, PodPhase, PodRecord};
use model::{LabelSelector, Labels, PodKey, SelectorOperator, SelectorTerm, Text};

use super::SimulatedCluster;

impl SimulatedCluster {
    /// Sets the budget of `workload`: evictions leave at least `running` pods running.
    pub(crate) fn set_min_running(&mut self, workload: &Text, running: usize) {
        self.min_running.insert(workload.clone(), running);
    }

    /// Whether a budget rejects the eviction of the pod. A pod that is not running may always be
    /// evicted.
    pub(super) fn budget_refuses(&self, pod: &PodRecord) -> bool {
        let Some((_, workload)) = pod.workload.split_once('/') else { return false };
        let least = self.min_running.get(workload).filter(|_| pod.phase == PodPhase::Running);
        least.is_some_and(|least| self.running_of(workload) <= *least)
    }

    /// The budgets of workloads that exist, with the evictions that they allow now.
    pub(super) fn pod_budgets(&self) -> Vec<PodBudgetRecord> {
        let budget = |(name, least): (&Text, &usize)| {
            let workload = &self.workloads.get(name)?.workload;
            let term = |(key, value): (&Text, &Text)| SelectorTerm {
                key: key.clone(),
                operator: SelectorOperator::In,
                values: vec![value.clone()],
            };
            let allowed = self.running_of(name).saturating_sub(*least);
            Some(PodBudgetRecord {
                namespace: workload.namespace.clone(),
                name: name.clone(),
                selector: Some(LabelSelector::new(workload.labels.iter().map(term).collect())),
                allowed: i32::try_from(allowed).unwrap_or(i32::MAX),
                evicts_unhealthy_always: true,
                never_allows: false,
            })
        };
        self.min_running.iter().filter_map(budget).collect()
    }

    /// Emits the budgets that allow more or fewer evictions than before.
    pub(super) fn emit_pod_budgets(&mut self) {
        for budget in self.pod_budgets() {
            if self.allowed_evictions.insert(budget.name.clone(), budget.allowed) != Some(budget.allowed) {
                self.emit(Object::PodBudget(budget));
            }
        }
    }

    /// Labels of the pods that the budget `name` selects.
    pub(crate) fn labels_of_budget(&self, name: &Text) -> Labels {
        self.workloads.get(name).map(|state| Labels::clone(&state.workload.labels)).unwrap_or_default()
    }

    fn running_of(&self, workload: &str) -> usize {
        let runs =
            |key: &&PodKey| self.pods.get(*key).is_some_and(|pod| pod.phase == PodPhase::Running && !pod.terminating);
        self.workloads.get(workload).map_or(0, |state| state.pods().filter(runs).count())
    }
}
