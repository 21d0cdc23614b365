//! PodDisruptionBudgets, as the eviction API of an API server keeps them.

use engine::cluster::{PodKey, PodPhase, PodRecord};
use engine::model::Text;

use super::SimulatedCluster;

impl SimulatedCluster {
    /// Evictions leave at least `running` pods of `workload` running from here on.
    pub fn keep_running(&mut self, workload: &Text, running: usize) {
        self.least_running.insert(workload.clone(), running);
    }

    /// Whether a budget covers the pod and has nothing to spare. A pod that does not run may always be evicted.
    pub(super) fn budget_refuses(&self, pod: &PodRecord) -> bool {
        let Some((_, workload)) = pod.workload.split_once('/') else { return false };
        let least = self.least_running.get(workload).filter(|_| pod.phase == PodPhase::Running);
        least.is_some_and(|least| self.running_of(workload) <= *least)
    }

    fn running_of(&self, workload: &str) -> usize {
        let runs =
            |key: &&PodKey| self.pods.get(*key).is_some_and(|pod| pod.phase == PodPhase::Running && !pod.terminating);
        self.workloads.get(workload).map_or(0, |owned| owned.pods().filter(runs).count())
    }
}
