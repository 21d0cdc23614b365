//! A scheduler that imitates kube-scheduler's defaults: a pod is bound to its nominated node if
//! that is suitable, otherwise to the suitable node with the most free CPU. Pods that are nominated
//! to a node count there when others of the same or a lower priority are tried. A failed attempt
//! clears the nomination.

use std::cmp::Reverse;

use cluster::{NodeRecord, Object, PodRecord, Scheduling};
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
            let Some(pod) = self.pods.get(&key).filter(|pod| pod.scheduling != Scheduling::Gated) else { continue };
            match self.select_node(pod) {
                Some(node) => self.bind(&key, &node, now),
                None => self.mark_unschedulable(&key),
            }
        }
    }

    /// From now on kube-scheduler knows no nominations by others, as before Kubernetes 1.35.
    pub(crate) fn ignore_nominations(&mut self) {
        self.settings.heeds_nominations = false;
    }

    fn select_node(&self, pod: &PodRecord) -> Option<NodeName> {
        let nominated = pod.own_nomination.as_ref().and_then(|node| self.nodes.get(node));
        if let Some(node) = nominated.filter(|node| self.suits(pod, node)) {
            return Some(node.name.clone());
        }
        let suitable = self.nodes.values().filter(|node| self.suits(pod, node));
        let free = |node: &NodeRecord| self.free.get(&node.name).map_or(0, |free| free.get(resources::CPU));
        suitable.min_by_key(|node| (Reverse(free(node)), &node.name)).map(|node| node.name.clone())
    }

    fn suits(&self, pod: &PodRecord, node: &NodeRecord) -> bool {
        let shape = &pod.shape;
        node.ready
            && !node.unschedulable
            && first_untolerated(&node.taints, &shape.tolerations).is_none()
            && selects(shape, node)
            && self.has_room(pod, &node.name)
            && self.ports_are_free(shape, &node.name)
            && self.keeps_spread(pod, node)
    }

    /// Whether `pod` fits beside the pods that are bound to `node` and those that are nominated to it.
    fn has_room(&self, pod: &PodRecord, node: &NodeName) -> bool {
        let Some(free) = self.free.get(node).filter(|free| pod.shape.requests.fits(free)) else { return false };
        let nominated = self.nominated.get(node).into_iter().flatten().filter(|key| **key != pod.key);
        let nominated = nominated.filter_map(|key| self.pods.get(key));
        let mut others = nominated.filter(|other| other.shape.priority >= pod.shape.priority).peekable();
        if others.peek().is_none() {
            return true;
        }
        let mut free = free.clone();
        others.for_each(|other| free.subtract(&other.shape.requests));
        pod.shape.requests.fits(&free)
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
        self.clear_nomination(key);
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
        let cleared = self.clear_nomination(key);
        let Some(pod) = self.pods.get_mut(key) else { return };
        let is_new = pod.scheduling == Scheduling::Unseen;
        if is_new {
            pod.scheduling = Scheduling::Unschedulable;
        }
        if is_new || cleared {
            let pod = pod.clone();
            self.emit(Object::Pod(pod));
        }
    }

    /// Clears the nomination of `pod`; returns whether it had one.
    pub(super) fn clear_nomination(&mut self, pod: &PodKey) -> bool {
        let nomination = self.pods.get_mut(pod).and_then(|pod| pod.own_nomination.take());
        let pods = nomination.as_ref().and_then(|node| self.nominated.get_mut(node));
        pods.is_some_and(|pods| pods.remove(pod))
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
