//! Objects whose end nothing has announced: what is gone although it was going nowhere.

use std::collections::BTreeSet;

use super::{ClusterSnapshot, ClusterState, Key, NodeRecord, Object, PodRecord};
use crate::model::Text;

/// Taint of a Node that is being drained.
const DISRUPTED: &str = "karpenter.sh/disrupted";

impl ClusterState {
    /// The object of this name, if it is one that does not vanish in good order: a pod on a Node that stays, ready or not, a Node
    /// that is ready and stays, a NodeClaim or a NodePool that nobody is deleting.
    #[must_use]
    pub fn unannounced(&self, key: &Key) -> Option<Object> {
        match key {
            Key::Pod(key) => self.pod(key).filter(|pod| self.is_settled(pod)).cloned().map(Object::Pod),
            Key::Node(name) => {
                let drained = |node: &NodeRecord| node.taints.iter().any(|taint| taint.key.as_ref() == DISRUPTED);
                let stays = |node: &&NodeRecord| node.ready && !drained(node) && !self.is_going_node(name);
                let node = self.node(name).filter(stays);
                node.cloned().map(Object::Node)
            }
            Key::Claim(name) => {
                let stays = !self.is_going(name) && self.has_seen_claim(name);
                self.claim(name).filter(|claim| stays && !claim.deleting).cloned().map(Object::Claim)
            }
            Key::Pool(name) => self.pool(name).filter(|pool| !pool.meta.deleting).cloned().map(Object::Pool),
            _ => None,
        }
    }

    /// Whether the object is there, by its name.
    #[must_use]
    pub fn has(&self, object: &Object) -> bool {
        match object {
            Object::Pod(pod) => self.pod(&pod.key).is_some(),
            Object::Node(node) => self.node(&node.name).is_some(),
            Object::Claim(claim) => self.has_seen_claim(&claim.name),
            Object::Pool(pool) => self.pool(&pool.pool.name).is_some(),
            _ => false,
        }
    }

    fn is_settled(&self, pod: &PodRecord) -> bool {
        // Pods on a Node that is not ready are terminating before they go, as any others.
        let stays = |node| self.node(node).is_some() && !self.is_going_node(node);
        !pod.terminating && !pod.is_terminal() && pod.node.as_ref().is_some_and(stays)
    }

    /// Whether `snapshot` has a namespace, and none of the pods that ran there, pods of DaemonSets apart.
    #[must_use]
    pub fn loses_namespace(&self, snapshot: &ClusterSnapshot) -> bool {
        let own = |pod: &&PodRecord| pod.daemon.is_none() && pod.node.is_some() && !pod.is_terminal();
        let ran = self.pods().filter(own).filter(|pod| !pod.terminating);
        let mut ran: BTreeSet<&Text> = ran.map(|pod| &pod.key.namespace).collect();
        for pod in snapshot.pods.iter().filter(own) {
            ran.remove(&pod.key.namespace);
        }
        snapshot.namespaces.iter().any(|namespace| ran.contains(&namespace.name))
    }

    /// Whether ready Nodes carry pods of DaemonSets, `percent` of them at least; not when there are no such Nodes or DaemonSets.
    #[must_use]
    pub fn shows_daemon_pods(&self, percent: usize) -> bool {
        let ready = || self.nodes().filter(|node| node.ready);
        let carrying = ready().filter(|node| self.pods_on(&node.name).any(|pod| pod.daemon.is_some())).count();
        carrying > 0 && carrying * 100 >= percent * ready().count() && self.daemons().next().is_some()
    }
}
