//! What time changes in a cluster, and what a first list returns.

use cluster::{ClusterSnapshot, DaemonRecord, Object};
use model::Timestamp;

use super::{Change, ClusterEvent, SimulatedCluster, Workload};

impl SimulatedCluster {
    /// Adds a DaemonSet; every suitable node gets its pod.
    pub(crate) fn add_daemon(&mut self, workload: Workload) {
        let Workload { namespace, name, manifest, shape, labels, .. } = workload;
        self.manifests.insert(format!("DaemonSet/{name}").into(), manifest);
        let daemon = DaemonRecord { namespace, name, shape, labels };
        self.add_namespace(&daemon.namespace);
        self.emit(Object::Daemon(daemon.clone()));
        self.daemons.push(daemon);
        for node in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.start_daemons(&node, Timestamp::default());
        }
    }

    /// All objects, as a first list would return them. The outbox is emptied except for ended
    /// drains: the snapshot covers it.
    pub fn snapshot(&mut self) -> ClusterSnapshot {
        self.outbox.retain(|change| matches!(change, Change::Drained { .. }));
        ClusterSnapshot {
            pods: self.pods.values().cloned().collect(),
            nodes: self.nodes.values().cloned().collect(),
            claims: self.claims.values().cloned().collect(),
            pools: Vec::new(),
            daemons: self.daemons.clone(),
            namespaces: self.namespaces.iter().map(|name| self.namespace(name)).collect(),
            budgets: self.pod_budgets(),
            ..ClusterSnapshot::default()
        }
    }

    /// Advances time to `now`; returns the changes since the last call.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Change> {
        while self.event_queue.first().is_some_and(|(at, _, _)| *at <= now) {
            if let Some((at, _, event)) = self.event_queue.pop_first() {
                self.apply_event(event, at);
                self.schedule(at);
            }
        }
        self.schedule(now);
        // What the budgets allow changes with an object.
        if !self.outbox.is_empty() {
            self.emit_pod_budgets();
        }
        std::mem::take(&mut self.outbox)
    }

    fn apply_event(&mut self, event: ClusterEvent, at: Timestamp) {
        match event {
            ClusterEvent::JoinNode(claim) => self.join_node(&claim, at),
            ClusterEvent::NodeReady(node) => self.mark_node_ready(&node, at),
            ClusterEvent::RemoveStartupTaints(node) => self.remove_startup_taints(&node, at),
            ClusterEvent::StartPod(pod, uid) => self.start_pod(&pod, &uid, at),
            ClusterEvent::RemovePod(pod, uid) => self.remove_pod(&pod, &uid, at),
            ClusterEvent::ContinueDrain(claim) => self.continue_drain(&claim, at),
            ClusterEvent::RemoveNode(node) => self.remove_node(&node, at),
        }
    }
}
