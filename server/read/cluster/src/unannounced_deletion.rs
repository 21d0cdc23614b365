//! Detection of unannounced deletions: objects that disappear without a deletion timestamp or
//! drain.

use std::collections::BTreeSet;

use super::{ClusterSnapshot, ClusterState, Key, NodeRecord, Object, PodRecord};
use model::Text;

impl ClusterState {
    /// The object, if its deletion would be unannounced: a pod on a Node that is not terminating,
    /// ready or not; a Node that is ready and not terminating; a launched NodeClaim or a NodePool without
    /// deletion timestamp. A NodeClaim whose launch has failed may be observed only after its deletion was carried out.
    #[must_use]
    pub fn unannounced_deletion(&self, key: &Key) -> Option<Object> {
        match key {
            Key::Pod(key) => self.pod(key).filter(|pod| self.is_on_staying_node(pod)).cloned().map(Object::Pod),
            Key::Node(name) => {
                // The NodeClaim of a drain may be deleted before the Node.
                let stays = |node: &&NodeRecord| node.ready && node.drain.is_none() && !self.is_node_terminating(name);
                self.node(name).filter(stays).cloned().map(Object::Node)
            }
            Key::Claim(name) => {
                let stays = !self.is_marked_for_deletion(name) && self.is_claim_observed(name);
                self.claim(name)
                    .filter(|claim| stays && !claim.deleting && claim.is_launched())
                    .cloned()
                    .map(Object::Claim)
            }
            Key::Pool(name) => self.pool(name).filter(|pool| !pool.meta.deleting).cloned().map(Object::Pool),
            _ => None,
        }
    }

    /// Whether an object of this name exists.
    #[must_use]
    pub fn contains(&self, object: &Object) -> bool {
        match object {
            Object::Pod(pod) => self.pod(&pod.key).is_some(),
            Object::Node(node) => self.node(&node.name).is_some(),
            Object::Claim(claim) => self.is_claim_observed(&claim.name),
            Object::Pool(pool) => self.pool(&pool.pool.name).is_some(),
            _ => false,
        }
    }

    fn is_on_staying_node(&self, pod: &PodRecord) -> bool {
        // Pods on a Node that is not ready terminate before they are deleted, like any others.
        let stays = |node| self.node(node).is_some() && !self.is_node_terminating(node);
        !pod.terminating && !pod.is_terminal() && pod.node.as_ref().is_some_and(stays)
    }

    /// Whether `snapshot` contains a namespace and none of the pods that ran there, without
    /// DaemonSet pods.
    #[must_use]
    pub fn lost_all_pods_of_namespace(&self, snapshot: &ClusterSnapshot) -> bool {
        let own = |pod: &&PodRecord| pod.daemon.is_none() && pod.node.is_some() && !pod.is_terminal();
        let ran = self.pods().filter(own).filter(|pod| !pod.terminating);
        let mut ran: BTreeSet<&Text> = ran.map(|pod| &pod.key.namespace).collect();
        for pod in snapshot.pods.iter().filter(own) {
            ran.remove(&pod.key.namespace);
        }
        snapshot.namespaces.iter().any(|namespace| ran.contains(&namespace.name))
    }

    /// Whether at least `percent` of the ready Nodes have DaemonSet pods; `false` without such
    /// Nodes or DaemonSets.
    #[must_use]
    pub fn shows_daemon_pods(&self, percent: usize) -> bool {
        let ready = || self.nodes().filter(|node| node.ready);
        let carrying = ready().filter(|node| self.pods_on(&node.name).any(|pod| pod.daemon.is_some())).count();
        carrying > 0 && carrying * 100 >= percent * ready().count() && self.daemons().next().is_some()
    }
}
