//! A scheduler that imitates kube-scheduler's defaults: a pod is bound to its nominated node if
//! that is suitable, otherwise to the suitable node with the most free CPU. Every attempt clears
//! the nomination.

use std::cmp::Reverse;

use controller::cluster::{NodeRecord, Object, PodRecord, Scheduling};
use model::labels::HOSTNAME;
use model::requirements::label_satisfies;
use model::taints::first_untolerated;
use model::{NodeName, PodKey, PodShape, Text, Timestamp, resources};

use super::{ClusterEvent, SimulatedCluster};

impl SimulatedCluster {
    /// Binds the pods that fit, and marks the others unschedulable.
    pub(super) fn schedule(&mut self, now: Timestamp) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        for key in self.unbound.clone() {
            let nomination = self.nominated.remove(&key);
            let Some(pod) = self.pods.get(&key).filter(|pod| pod.scheduling != Scheduling::Gated) else { continue };
            match self.select_node(pod, nomination.as_ref()) {
                Some(node) => self.bind(&key, &node, now),
                None => self.mark_unschedulable(&key),
            }
        }
    }

    fn select_node(&self, pod: &PodRecord, nomination: Option<&NodeName>) -> Option<NodeName> {
        let nominated = nomination.and_then(|node| self.nodes.get(node)).filter(|node| self.suits(&pod.shape, node));
        if let Some(node) = nominated {
            return Some(node.name.clone());
        }
        let suitable = self.nodes.values().filter(|node| self.suits(&pod.shape, node));
        let free = |node: &NodeRecord| self.free.get(&node.name).map_or(0, |free| free.get(resources::CPU));
        suitable.min_by_key(|node| (Reverse(free(node)), &node.name)).map(|node| node.name.clone())
    }

    fn suits(&self, shape: &PodShape, node: &NodeRecord) -> bool {
        node.ready
            && !node.unschedulable
            && first_untolerated(&node.taints, &shape.tolerations).is_none()
            && selects(shape, node)
            && self.free.get(&node.name).is_some_and(|free| shape.requests.fits(free))
            && self.ports_are_free(shape, &node.name)
    }

    pub(super) fn ports_are_free(&self, shape: &PodShape, node: &NodeName) -> bool {
        let others = self.on_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key));
        shape.host_ports.is_empty()
            || !others
                .flat_map(|pod| &pod.shape.host_ports)
                .any(|taken| shape.host_ports.iter().any(|wanted| wanted.conflicts_with(taken)))
    }

    pub(super) fn bind(&mut self, key: &PodKey, node: &NodeName, now: Timestamp) {
        let wait = self.rng.child("start").child(&key.name).between(self.settings.start_ms);
        let Some(pod) = self.pods.get_mut(key) else { return };
        pod.node = Some(node.clone());
        pod.scheduling = Scheduling::Unseen;
        let pod = pod.clone();
        if let Some(free) = self.free.get_mut(node) {
            free.subtract(&pod.shape.requests);
        }
        if pod.daemon.is_none() {
            self.used_nodes.insert(node.clone());
        }
        self.unbound.remove(key);
        self.on_node.entry(node.clone()).or_default().insert(key.clone());
        self.schedule_event(now, wait, ClusterEvent::StartPod(key.clone(), pod.uid.clone()));
        self.emit(Object::Pod(pod));
    }

    fn mark_unschedulable(&mut self, key: &PodKey) {
        let Some(pod) = self.pods.get_mut(key).filter(|pod| pod.scheduling == Scheduling::Unseen) else { return };
        pod.scheduling = Scheduling::Unschedulable;
        let pod = pod.clone();
        self.emit(Object::Pod(pod));
    }
}

/// Whether the node has the labels that a pod requires.
pub(super) fn selects(shape: &PodShape, node: &NodeRecord) -> bool {
    let mut labels = node.labels.clone();
    labels.entry(Text::from(HOSTNAME)).or_insert_with(|| node.name.as_text().clone());
    let selected = shape.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
    let terms = &shape.node_affinity;
    let affine = terms.iter().any(|term| {
        let some = !term.expressions.is_empty() || !term.names.is_empty();
        some && term.expressions.iter().all(|wanted| label_satisfies(&labels, wanted))
            && term.names.iter().all(|wanted| wanted.has(&node.name))
    });
    selected && (terms.is_empty() || affine)
}
