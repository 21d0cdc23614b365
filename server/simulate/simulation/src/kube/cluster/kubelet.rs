//! Nodes that join and become ready, pods that start.

use std::sync::Arc;

use cluster::planning::UNREGISTERED;
use cluster::{ClaimRecord, NodeRecord, Object, PodPhase, PodRecord, Scheduling};
use model::labels::HOSTNAME;
use model::taints::first_untolerated;
use model::{ClaimName, Effect, NodeName, PodKey, ProviderId, Taint, Text, Timestamp};

use super::scheduler::selects;
use super::{ClusterEvent, SimulatedCluster};

/// Taint of a node whose kubelet has not reported `Ready` yet.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

fn taint(key: &str, effect: Effect) -> Taint {
    Taint { key: Text::from(key), value: Text::default(), effect }
}

impl SimulatedCluster {
    /// Joins the Node of `claim`, unless the NodeClaim is gone or the Node exists.
    pub(super) fn join_node(&mut self, claim: &ClaimName, now: Timestamp) {
        let runs = |claim: &&ClaimRecord| {
            self.kubelets_join
                && !claim.provider_id.is_empty()
                && !self.terminated_instances.contains(&claim.provider_id)
        };
        let Some(record) = self.claims.get(claim).filter(runs) else { return };
        let name = NodeName::from(format!("ip-{claim}"));
        if self.nodes.contains_key(&name) {
            return;
        }
        let mut labels = record.labels.clone();
        labels.insert(Text::from(HOSTNAME), name.as_text().clone());
        // The Node joins with every taint that later steps remove: startup taints, unregistered, not ready.
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
        self.free.insert(name.clone(), node.allocatable.clone());
        self.ledger.record_node_joined(&name);
        self.nodes.insert(name.clone(), node);
        self.emit_node(&name);
        let wait = self.rng.child("ready").child(&name).between(self.settings.ready_ms);
        self.schedule_event(now, wait, ClusterEvent::NodeReady(name));
    }

    /// Sets whether kubelets of machines that boot later join the cluster; a machine that has
    /// failed once never joins.
    pub(crate) fn set_kubelets_join(&mut self, kubelets_join: bool) {
        self.kubelets_join = kubelets_join;
    }

    /// Makes every machine boot, and every pod start, in the longest time, so that the waits of pods differ by what servers
    /// do alone.
    #[cfg(test)]
    pub(crate) fn set_equal_boot_times(&mut self) {
        let settings = &mut self.settings;
        let ranges = [&mut settings.join_ms, &mut settings.ready_ms, &mut settings.startup_ms, &mut settings.start_ms];
        ranges.into_iter().for_each(|range| range.0 = range.1);
    }

    /// Sets how long Nodes take from joining to `Ready`, least and most, in milliseconds.
    pub(crate) fn set_ready_ms(&mut self, ready_ms: (i64, i64)) {
        self.settings.ready_ms = ready_ms;
    }

    /// Records that an instance has ended: its kubelet stops reporting, and a cloud controller
    /// removes its Node a little later.
    pub(crate) fn mark_machine_gone(&mut self, provider_id: &ProviderId, now: Timestamp) {
        self.terminated_instances.insert(provider_id.clone());
        let Some(node) = self.nodes.values_mut().find(|node| node.provider_id == *provider_id) else { return };
        node.ready = false;
        let name = node.name.clone();
        self.emit_node(&name);
        let wait = self.rng.child("node gone").child(&name).between(self.settings.node_gone_ms);
        self.schedule_event(now, wait, ClusterEvent::RemoveNode(name));
    }

    pub(super) fn mark_node_ready(&mut self, name: &NodeName, now: Timestamp) {
        let alive = |node: &&mut NodeRecord| !self.terminated_instances.contains(&node.provider_id);
        let Some(node) = self.nodes.get_mut(name).filter(alive) else { return };
        node.ready = true;
        node.taints.retain(|taint| taint.key.as_ref() != NOT_READY);
        self.dirty = true;
        self.emit_node(name);
        self.start_daemons(name, now);
    }

    pub(super) fn remove_startup_taints(&mut self, name: &NodeName, now: Timestamp) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Some(claim) = self.claims.values().find(|claim| claim.provider_id == node.provider_id) else { return };
        let before = node.taints.len();
        node.taints.retain(|taint| !claim.startup_taints.contains(taint));
        if node.taints.len() < before {
            self.dirty = true;
            self.emit_node(name);
            self.start_daemons(name, now);
        }
    }

    /// Starts the missing pods of all DaemonSets that suit the node.
    pub(super) fn start_daemons(&mut self, name: &NodeName, now: Timestamp) {
        let Some(node) = self.nodes.get(name).filter(|node| node.ready) else { return };
        let mut pods = Vec::new();
        for daemon in &self.daemons {
            let free = self.free.get(name).is_some_and(|free| daemon.shape.requests.fits(free));
            let open = first_untolerated(&node.taints, &daemon.shape.tolerations).is_none();
            let pod_name = format!("{}-{name}", daemon.name);
            let mut pod = PodRecord::pending(
                daemon.namespace.clone(),
                pod_name,
                Arc::clone(&daemon.shape),
                Arc::clone(&daemon.labels),
            );
            if !open || !free || !selects(&daemon.shape, node) || self.pods.contains_key(&pod.key) {
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

    pub(super) fn start_pod(&mut self, key: &PodKey, uid: &Text, now: Timestamp) {
        let Some(pod) = self.pods.get_mut(key).filter(|pod| pod.uid == *uid && !pod.terminating) else { return };
        pod.phase = PodPhase::Running;
        pod.started = Some(now);
        let pod = pod.clone();
        if pod.daemon.is_none() {
            self.ledger.record_running(key, now);
        }
        self.emit(Object::Pod(pod));
    }
}
