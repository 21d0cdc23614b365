//! How long pods wait until they are bound, and until they are ready, for metrics.
//!
//! A pod counts if it was pending when it was observed first, and by the time of the observation: one that was bound while the
//! agent was not connected is not counted.

use std::sync::Arc;

use model::{PodKey, Text, Timestamp};
use rustc_hash::FxHashMap;

use crate::durations::{DurationHistogram, DurationSummary};
use cluster::{ClusterState, Key, Object, Observation, PodPhase, PodRecord};

/// Durations since this controller began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDurations {
    /// From the creation of a pod until it is bound.
    pub bound: DurationHistogram,
    /// From the creation of a pod until it is ready.
    pub startup: DurationSummary,
}

/// The durations, and the pods that have been pending and are not ready yet.
#[derive(Debug, Default)]
pub(crate) struct PodDurationObserver {
    durations: Arc<PodDurations>,
    /// Their UIDs. Never iterated in an order that matters.
    starting: FxHashMap<PodKey, Text>,
}

impl PodDurationObserver {
    pub(crate) fn durations(&self) -> Arc<PodDurations> {
        Arc::clone(&self.durations)
    }

    /// Counts what an observation shows that `state` does not show yet.
    pub(crate) fn observe(&mut self, observation: &Observation, state: &ClusterState, now: Timestamp) {
        match observation {
            Observation::Upsert(object) => {
                if let Object::Pod(pod) = &**object {
                    self.observe_pod(pod, state.pod(&pod.key), now);
                }
            }
            Observation::Delete(Key::Pod(key)) => drop(self.starting.remove(key)),
            Observation::Delete(_) => {}
            Observation::Snapshot(snapshot) => {
                let before = std::mem::take(&mut self.starting);
                let is_starting = |pod: &&PodRecord| {
                    let was = before.get(&pod.key) == Some(&pod.uid);
                    !pod.ready && !pod.is_terminal() && (pod.phase == PodPhase::Pending || was)
                };
                let starting = snapshot.pods.iter().filter(is_starting);
                self.starting = starting.map(|pod| (pod.key.clone(), pod.uid.clone())).collect();
            }
        }
    }

    fn observe_pod(&mut self, pod: &PodRecord, before: Option<&PodRecord>, now: Timestamp) {
        let before = before.filter(|before| before.uid == pod.uid);
        // A pod that is bound when it is observed first was bound just now if it does not run yet.
        let was_unbound = before.map_or(pod.phase == PodPhase::Pending, |before| before.node.is_none());
        let took = pod.created.map(|created| now.duration_since(created));
        if let Some(took) = took.filter(|_| was_unbound && pod.node.is_some()) {
            Arc::make_mut(&mut self.durations).bound.observe(took);
        }
        if pod.ready || pod.is_terminal() {
            let has_started = self.starting.remove(&pod.key).is_some_and(|uid| uid == pod.uid);
            if let Some(took) = took.filter(|_| has_started && pod.ready) {
                Arc::make_mut(&mut self.durations).startup.observe(took, now);
            }
        } else if pod.phase == PodPhase::Pending {
            self.starting.insert(pod.key.clone(), pod.uid.clone());
        }
    }
}

#[cfg(test)]
mod tests;
