//! Pods that wait for a node, and when the server first had them.

use cluster::PodRecord;
use model::{PodKey, Text, Timestamp};
use rustc_hash::FxHashMap;

use crate::span::{Attribute, attribute};

/// Pods that are remembered for each cluster, about 150 bytes each. Those beyond have no `observe` span.
const MAX_PODS: usize = 20_000;

/// A pod that waits for a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingPod {
    pub(super) key: PodKey,
    pub(super) uid: Text,
    /// When it was created, by the API server's clock.
    pub(super) created: Timestamp,
    /// When the server had it first.
    pub(super) arrived: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct PendingPods {
    /// Never iterated.
    pods: FxHashMap<PodKey, PendingPod>,
}

impl PendingPods {
    pub(super) fn insert(&mut self, pod: &PodRecord, now: Timestamp) {
        let known = self.pods.get(&pod.key).is_some_and(|known| known.uid == pod.uid);
        if known || self.pods.len() >= MAX_PODS {
            return;
        }
        let created = pod.created.unwrap_or(now).min(now);
        let pending = PendingPod { key: pod.key.clone(), uid: pod.uid.clone(), created, arrived: now };
        self.pods.insert(pod.key.clone(), pending);
    }

    pub(super) fn remove(&mut self, pod: &PodKey) {
        self.pods.remove(pod);
    }

    pub(super) fn clear(&mut self) {
        self.pods.clear();
    }

    /// The pod that arrived first; of several the one that was created first.
    pub(super) fn first_of<'p>(&self, pods: impl Iterator<Item = &'p PodKey>) -> Option<PendingPod> {
        pods.filter_map(|pod| self.pods.get(pod)).min_by_key(|pod| (pod.arrived, pod.created, &pod.key)).cloned()
    }
}

/// The attributes that name a pod.
pub(super) fn pod_attributes(key: &PodKey, uid: &str) -> [Attribute; 3] {
    [
        attribute("k8s.namespace.name", &key.namespace),
        attribute("k8s.pod.name", &key.name),
        attribute("k8s.pod.uid", uid),
    ]
}
