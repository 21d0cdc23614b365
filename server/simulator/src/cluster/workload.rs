//! Workloads that keep a number of pods: what goes is made anew, under a new name.

use std::sync::Arc;

use engine::cluster::{DoNotDisrupt, Key, Object, PodKey, PodRecord, Scheduling};
use engine::model::{Labels, PodShape, Text, Timestamp};

use super::{SimulatedCluster, Turn};

/// Pods of one kind, as a Deployment would keep them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Namespace.
    pub namespace: Text,
    /// Name, unique in the cluster.
    pub name: Text,
    /// What scheduling looks at.
    pub shape: Arc<PodShape>,
    /// Labels of the pods.
    pub labels: Arc<Labels>,
    /// Pods must not be moved.
    pub do_not_disrupt: Option<DoNotDisrupt>,
}

/// A workload and its pods.
#[derive(Debug, Clone)]
pub(super) struct Owned {
    workload: Workload,
    replicas: usize,
    made: u64,
    /// Pods that are not terminating, oldest first.
    pods: Vec<PodKey>,
}

impl Owned {
    /// Its pods that are not terminating.
    pub(super) fn pods(&self) -> impl Iterator<Item = &PodKey> {
        self.pods.iter()
    }
}

impl SimulatedCluster {
    /// Sets the number of replicas of `workload`, which comes into being with the first call. Fewer replicas take pods
    /// without a node first, then the youngest.
    pub fn scale(&mut self, workload: &Workload, replicas: usize, now: Timestamp) {
        self.add_namespace(&workload.namespace);
        let owned = self.workloads.entry(workload.name.clone()).or_insert_with(|| Owned {
            workload: workload.clone(),
            replicas,
            made: 0,
            pods: Vec::new(),
        });
        owned.replicas = replicas;
        self.reconcile(&workload.name, now);
    }

    fn reconcile(&mut self, name: &Text, now: Timestamp) {
        while let Some(key) = self.surplus(name) {
            self.terminate_pod(&key, now);
        }
        while let Some(pod) = self.missing(name, now) {
            self.book.made(&pod.key, now);
            self.unbound.insert(pod.key.clone());
            self.tell(Object::Pod(pod.clone()));
            self.pods.insert(pod.key.clone(), pod);
            self.dirty = true;
        }
    }

    fn surplus(&self, name: &Text) -> Option<PodKey> {
        let owned = self.workloads.get(name).filter(|owned| owned.pods.len() > owned.replicas)?;
        owned.pods.iter().rev().find(|key| self.unbound.contains(key)).or_else(|| owned.pods.last()).cloned()
    }

    fn missing(&mut self, name: &Text, now: Timestamp) -> Option<PodRecord> {
        let owned = self.workloads.get_mut(name).filter(|owned| owned.pods.len() < owned.replicas)?;
        let pod_name = format!("{}-{}", owned.workload.name, owned.made);
        owned.made += 1;
        let Workload { namespace, shape, labels, do_not_disrupt, .. } = &owned.workload;
        let mut pod = PodRecord::pending(namespace.clone(), pod_name, Arc::clone(shape), Arc::clone(labels));
        pod.workload = Text::from(format!("ReplicaSet/{name}"));
        pod.created = Some(now);
        pod.scheduling = Scheduling::Unseen;
        pod.do_not_disrupt = *do_not_disrupt;
        owned.pods.push(pod.key.clone());
        Some(pod)
    }

    /// Begins the end of a pod. One without a node is gone at once.
    pub(super) fn terminate_pod(&mut self, key: &PodKey, now: Timestamp) {
        let grace = self.dice.child("grace").child(&key.name).between(self.settings.grace_ms);
        let Some(pod) = self.pods.get_mut(key).filter(|pod| !pod.terminating) else { return };
        pod.terminating = true;
        let (pod, uid, bound) = (pod.clone(), pod.uid.clone(), pod.node.is_some());
        self.disown(key);
        if bound {
            self.tell(Object::Pod(pod));
            self.plan_turn(now, grace, Turn::Vanish(key.clone(), uid));
        } else {
            self.vanish(key, &uid, now);
        }
    }

    fn disown(&mut self, key: &PodKey) {
        for owned in self.workloads.values_mut() {
            owned.pods.retain(|pod| pod != key);
        }
    }

    /// A pod is gone; its workload makes another if it wants one.
    pub(super) fn vanish(&mut self, key: &PodKey, uid: &Text, now: Timestamp) {
        if self.pods.get(key).is_none_or(|pod| pod.uid != *uid) {
            return;
        }
        self.disown(key);
        let Some(pod) = self.pods.remove(key) else { return };
        self.book.gone(key);
        self.unbound.remove(key);
        if let Some(node) = &pod.node {
            if let Some(pods) = self.on_node.get_mut(node) {
                pods.remove(key);
            }
            if let Some(room) = self.room.get_mut(node) {
                room.add(&pod.shape.requests);
            }
        }
        self.dirty = true;
        self.tell_gone(Key::Pod(key.clone()));
        let names: Vec<Text> = self.workloads.keys().cloned().collect();
        for name in names {
            self.reconcile(&name, now);
        }
    }
}
