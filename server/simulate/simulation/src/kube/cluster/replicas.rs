//! Replicas of workloads: a removed pod is replaced under a new name.

use std::collections::VecDeque;
use std::sync::Arc;

use cluster::{Key, Object, PodRecord, Scheduling};
use model::{PodKey, Text, Timestamp};

use super::workload::{Workload, WorkloadState};
use super::{ClusterEvent, SimulatedCluster};

impl SimulatedCluster {
    /// Sets the number of replicas of `workload`, creating it with the first call. A scale-down
    /// removes pods without a node first, then the newest.
    pub fn scale(&mut self, workload: &Workload, replicas: usize, now: Timestamp) {
        self.add_namespace(&workload.namespace);
        self.manifests.entry(format!("ReplicaSet/{}", workload.name).into()).or_insert(workload.manifest.clone());
        let state = self.workloads.entry(workload.name.clone()).or_insert_with(|| WorkloadState {
            workload: workload.clone(),
            replicas,
            made: 0,
            pods: Vec::new(),
            evicted: VecDeque::new(),
        });
        state.replicas = replicas;
        self.reconcile(&workload.name, now);
    }

    fn reconcile(&mut self, name: &Text, now: Timestamp) {
        while let Some(key) = self.surplus(name) {
            self.terminate_pod(&key, now);
        }
        while let Some(pod) = self.missing(name, now) {
            self.ledger.record_created(&pod.key, now);
            self.unbound.insert(pod.key.clone());
            self.emit(Object::Pod(pod.clone()));
            self.pods.insert(pod.key.clone(), pod);
            self.dirty = true;
        }
        // After a scale-down there are fewer successors than evicted pods.
        if let Some(state) = self.workloads.get_mut(name) {
            state.evicted.clear();
        }
    }

    fn surplus(&self, name: &Text) -> Option<PodKey> {
        let state = self.workloads.get(name).filter(|state| state.pods.len() > state.replicas)?;
        state.pods.iter().rev().find(|key| self.unbound.contains(key)).or_else(|| state.pods.last()).cloned()
    }

    fn missing(&mut self, name: &Text, now: Timestamp) -> Option<PodRecord> {
        let state = self.workloads.get_mut(name).filter(|state| state.pods.len() < state.replicas)?;
        let pod_name = format!("{}-{}", state.workload.name, state.made);
        state.made += 1;
        let Workload { namespace, shape, labels, do_not_disrupt, .. } = &state.workload;
        let mut pod = PodRecord::pending(namespace.clone(), pod_name, Arc::clone(shape), Arc::clone(labels));
        pod.workload = Text::from(format!("ReplicaSet/{name}"));
        pod.created = Some(now);
        pod.scheduling = Scheduling::Unseen;
        pod.do_not_disrupt = *do_not_disrupt;
        state.pods.push(pod.key.clone());
        if let Some(moves) = state.evicted.pop_front() {
            self.moves.insert(pod.key.clone(), moves);
        }
        Some(pod)
    }

    /// Terminates a pod. A pod without a node is removed at once.
    pub(super) fn terminate_pod(&mut self, key: &PodKey, now: Timestamp) {
        let grace = self.rng.child("grace").child(&key.name).between(self.settings.grace_ms);
        let Some(pod) = self.pods.get_mut(key).filter(|pod| !pod.terminating) else { return };
        pod.terminating = true;
        let (pod, uid, bound) = (pod.clone(), pod.uid.clone(), pod.node.is_some());
        self.detach_from_workload(key);
        if bound {
            self.emit(Object::Pod(pod));
            self.schedule_event(now, grace, ClusterEvent::RemovePod(key.clone(), uid));
        } else {
            self.remove_pod(key, &uid, now);
        }
    }

    fn detach_from_workload(&mut self, key: &PodKey) {
        for state in self.workloads.values_mut() {
            state.pods.retain(|pod| pod != key);
        }
    }

    /// Removes a pod; its workload creates a replacement if one is needed.
    pub(super) fn remove_pod(&mut self, key: &PodKey, uid: &Text, now: Timestamp) {
        if self.pods.get(key).is_none_or(|pod| pod.uid != *uid) {
            return;
        }
        self.detach_from_workload(key);
        self.clear_nomination(key);
        let Some(pod) = self.pods.remove(key) else { return };
        self.moves.remove(key);
        self.ledger.record_removed(key);
        self.unbound.remove(key);
        if let Some(node) = &pod.node {
            if let Some(pods) = self.on_node.get_mut(node) {
                pods.remove(key);
            }
            if let Some(free) = self.free.get_mut(node) {
                free.add(&pod.shape.requests);
            }
        }
        self.dirty = true;
        self.emit_deletion(Key::Pod(key.clone()));
        let names: Vec<Text> = self.workloads.keys().cloned().collect();
        for name in names {
            self.reconcile(&name, now);
        }
    }
}
