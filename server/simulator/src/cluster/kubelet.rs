//! Nodes that join and become ready, pods that start.

use std::sync::Arc;

use engine::cluster::planning::UNREGISTERED;
use engine::cluster::{ClaimRecord, NodeRecord, Object, PodKey, PodPhase, PodRecord, Scheduling};
use engine::model::labels::HOSTNAME;
use engine::model::taints::first_barring;
use engine::model::{Effect, Taint, Text, Timestamp};

use super::scheduler::selects;
use super::{SimulatedCluster, Turn};

/// Taint of a node whose kubelet has not reported in yet.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

fn taint(key: &str, effect: Effect) -> Taint {
    Taint { key: Text::from(key), value: Text::default(), effect }
}

impl SimulatedCluster {
    /// The machine of `claim` joins, unless the NodeClaim is gone or its Node is there.
    pub(super) fn join(&mut self, claim: &Text, now: Timestamp) {
        let runs = |claim: &&ClaimRecord| {
            self.joins && !claim.provider_id.is_empty() && !self.dead.contains(&claim.provider_id)
        };
        let Some(record) = self.claims.get(claim).filter(runs) else { return };
        let name = Text::from(format!("ip-{claim}"));
        if self.nodes.contains_key(&name) {
            return;
        }
        let mut labels = record.labels.clone();
        labels.insert(Text::from(HOSTNAME), name.clone());
        let mut taints = record.taints.clone();
        taints.extend(record.startup_taints.iter().cloned());
        taints.push(taint(UNREGISTERED, Effect::NoExecute));
        taints.push(taint(NOT_READY, Effect::NoSchedule));
        let node = NodeRecord {
            name: name.clone(),
            provider_id: record.provider_id.clone(),
            labels,
            taints,
            allocatable: record.allocatable.clone(),
            capacity: record.capacity.clone(),
            created: Some(now),
            ..NodeRecord::default()
        };
        self.room.insert(name.clone(), node.allocatable.clone());
        self.book.joined(&name);
        self.nodes.insert(name.clone(), node);
        self.tell_node(&name);
        let wait = self.dice.child("ready").child(&name).between(self.settings.ready_ms);
        self.plan_turn(now, wait, Turn::Ready(name));
    }

    /// Whether kubelets of machines that boot from here on reach the cluster; one that has failed once never does.
    pub fn let_join(&mut self, joins: bool) {
        self.joins = joins;
    }

    /// The machine is gone, whoever ended it: its kubelet is silent, and a cloud controller removes its Node a little later.
    pub fn machine_gone(&mut self, provider_id: &Text, now: Timestamp) {
        self.dead.insert(provider_id.clone());
        let Some(node) = self.nodes.values_mut().find(|node| node.provider_id == *provider_id) else { return };
        node.ready = false;
        let name = node.name.clone();
        self.tell_node(&name);
        let wait = self.dice.child("node gone").child(&name).between(self.settings.node_gone_ms);
        self.plan_turn(now, wait, Turn::Remove(name));
    }

    pub(super) fn become_ready(&mut self, name: &Text, now: Timestamp) {
        let alive = |node: &&mut NodeRecord| !self.dead.contains(&node.provider_id);
        let Some(node) = self.nodes.get_mut(name).filter(alive) else { return };
        node.ready = true;
        node.taints.retain(|taint| taint.key.as_ref() != NOT_READY);
        self.dirty = true;
        self.tell_node(name);
        self.start_daemons(name, now);
    }

    pub(super) fn lift_startup_taints(&mut self, name: &Text, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Some(claim) = self.claims.values().find(|claim| claim.provider_id == node.provider_id) else { return };
        let before = node.taints.len();
        node.taints.retain(|taint| !claim.startup_taints.contains(taint));
        if node.taints.len() < before {
            self.dirty = true;
            self.tell_node(name);
            self.start_daemons(name, now);
        }
    }

    /// Puts the pod of every DaemonSet that suits the node on it, unless it is there.
    pub(super) fn start_daemons(&mut self, name: &Text, now: Timestamp) {
        let Some(node) = self.nodes.get(name).filter(|node| node.ready) else { return };
        let mut pods = Vec::new();
        for daemon in &self.daemons {
            let room = self.room.get(name).is_some_and(|room| daemon.shape.requests.fits(room));
            let open = first_barring(&node.taints, &daemon.shape.tolerations).is_none();
            let pod_name = format!("{}-{name}", daemon.name);
            let mut pod = PodRecord::pending(
                daemon.namespace.clone(),
                pod_name,
                Arc::clone(&daemon.shape),
                Arc::clone(&daemon.labels),
            );
            if !open || !room || !selects(&daemon.shape, node) || self.pods.contains_key(&pod.key) {
                continue;
            }
            pod.daemon = Some(Text::from(format!("{}/{}", daemon.namespace, daemon.name)));
            pod.workload = Text::from(format!("DaemonSet/{}", daemon.name));
            pod.scheduling = Scheduling::Unseen;
            pod.created = Some(now);
            pods.push(pod);
        }
        for pod in pods {
            let key = pod.key.clone();
            self.pods.insert(key.clone(), pod);
            self.bind(&key, name, now);
        }
    }

    pub(super) fn run(&mut self, key: &PodKey, uid: &Text, now: Timestamp) {
        let Some(pod) = self.pods.get_mut(key).filter(|pod| pod.uid == *uid && !pod.terminating) else { return };
        pod.phase = PodPhase::Running;
        pod.started = Some(now);
        let pod = pod.clone();
        if pod.daemon.is_none() {
            self.book.ran(key, now);
        }
        self.tell(Object::Pod(pod));
    }
}
