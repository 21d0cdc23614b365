//! A scheduler in the manner of kube-scheduler's default: the node that a pod was hinted to if it will do, else of all that
//! will do the one with the most room. Every attempt uses a hint up.

use std::cmp::Reverse;

use engine::cluster::{NodeRecord, Object, PodKey, PodRecord, Scheduling};
use engine::model::labels::HOSTNAME;
use engine::model::requirements::label_satisfies;
use engine::model::taints::first_barring;
use engine::model::{PodShape, Text, Timestamp, resources};

use super::{SimulatedCluster, Turn};

impl SimulatedCluster {
    /// Binds what can be bound, and says of the rest that it cannot.
    pub(super) fn schedule(&mut self, now: Timestamp) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        for key in self.unbound.clone() {
            let hint = self.hinted.remove(&key);
            let Some(pod) = self.pods.get(&key).filter(|pod| pod.scheduling != Scheduling::Gated) else { continue };
            match self.choose(pod, hint.as_ref()) {
                Some(node) => self.bind(&key, &node, now),
                None => self.refuse(&key),
            }
        }
    }

    fn choose(&self, pod: &PodRecord, hint: Option<&Text>) -> Option<Text> {
        let hinted = hint.and_then(|node| self.nodes.get(node)).filter(|node| self.suits(&pod.shape, node));
        if let Some(node) = hinted {
            return Some(node.name.clone());
        }
        let suitable = self.nodes.values().filter(|node| self.suits(&pod.shape, node));
        let free = |node: &NodeRecord| self.room.get(&node.name).map_or(0, |room| room.get(resources::CPU));
        suitable.min_by_key(|node| (Reverse(free(node)), &node.name)).map(|node| node.name.clone())
    }

    fn suits(&self, shape: &PodShape, node: &NodeRecord) -> bool {
        node.ready
            && !node.unschedulable
            && first_barring(&node.taints, &shape.tolerations).is_none()
            && selects(shape, node)
            && self.room.get(&node.name).is_some_and(|room| shape.requests.fits(room))
            && self.ports_are_free(shape, &node.name)
    }

    pub(super) fn ports_are_free(&self, shape: &PodShape, node: &Text) -> bool {
        let others = self.on_node.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key));
        shape.host_ports.is_empty()
            || !others
                .flat_map(|pod| &pod.shape.host_ports)
                .any(|taken| shape.host_ports.iter().any(|wanted| wanted.conflicts_with(taken)))
    }

    pub(super) fn bind(&mut self, key: &PodKey, node: &Text, now: Timestamp) {
        let wait = self.dice.child("start").child(&key.name).between(self.settings.start_ms);
        let Some(pod) = self.pods.get_mut(key) else { return };
        pod.node = Some(node.clone());
        pod.scheduling = Scheduling::Unseen;
        let pod = pod.clone();
        if let Some(room) = self.room.get_mut(node) {
            room.subtract(&pod.shape.requests);
        }
        self.unbound.remove(key);
        self.on_node.entry(node.clone()).or_default().insert(key.clone());
        self.plan_turn(now, wait, Turn::Run(key.clone(), pod.uid.clone()));
        self.tell(Object::Pod(pod));
    }

    fn refuse(&mut self, key: &PodKey) {
        let Some(pod) = self.pods.get_mut(key).filter(|pod| pod.scheduling == Scheduling::Unseen) else { return };
        pod.scheduling = Scheduling::Unschedulable;
        let pod = pod.clone();
        self.tell(Object::Pod(pod));
    }
}

/// Whether the node has the labels that a pod asks for.
pub(super) fn selects(shape: &PodShape, node: &NodeRecord) -> bool {
    let mut labels = node.labels.clone();
    labels.entry(Text::from(HOSTNAME)).or_insert_with(|| node.name.clone());
    let selected = shape.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
    let terms = &shape.node_affinity;
    let affine = terms.iter().any(|term| {
        let some = !term.expressions.is_empty() || !term.names.is_empty();
        some && term.expressions.iter().all(|wanted| label_satisfies(&labels, wanted))
            && term.names.iter().all(|wanted| wanted.has(&node.name))
    });
    selected && (terms.is_empty() || affine)
}
