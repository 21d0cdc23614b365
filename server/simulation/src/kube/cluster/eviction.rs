//! PodDisruptionBudgets, as enforced by the eviction API.

use controller::cluster::{PodPhase, PodRecord};
use model::{PodKey, Text};

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

    fn running_of(&self, workload: &str) -> usize {
        let runs =
            |key: &&PodKey| self.pods.get(*key).is_some_and(|pod| pod.phase == PodPhase::Running && !pod.terminating);
        self.workloads.get(workload).map_or(0, |state| state.pods().filter(runs).count())
    }
}
