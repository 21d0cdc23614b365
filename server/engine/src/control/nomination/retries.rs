//! Hints that are given apart from letting a Node in: to pods that lost theirs, and to pods that were promised room on a Node that
//! is open already.
//!
//! Every attempt of kube-scheduler that fails clears the hint, and leaves the pod's room to others until it has one again. A pod
//! that still waits, whose promised Node is open and has room for it, and that nobody nominated is hinted once more, a few times
//! with growing pauses. A pod whose room is taken is left alone: when its promise lapses, it is planned anew.

use std::collections::BTreeMap;

use super::super::Instruction;
use super::super::cluster_controller::{ClusterController, Context};
use super::{hint, is_refused_by_hints, waits};
use crate::cluster::planning::UNREGISTERED;
use crate::cluster::{NodeRecord, Object, PodKey, PodRecord, Target};
use crate::model::taints::first_barring;
use crate::model::{Resources, Taint, Text, Timestamp};

/// Hints that are lost at about the same time are given again together, this long after the first, in milliseconds: well
/// within the second that kube-scheduler waits at least before it tries a pod again.
const GATHER_MS: i64 = 200;
/// The pause after the first hint, in milliseconds; each is twice as long as the one before it.
const PAUSE_MS: i64 = 500;
/// Hints to one pod on the strength of one promise.
const MOST: u32 = 6;

/// What has been hinted apart from letting Nodes in.
#[derive(Debug, Default)]
pub(in super::super) struct NominationRetries {
    /// When promises are looked through next.
    pub next: Option<Timestamp>,
    /// When a waiting pod last got or lost a hint of ours.
    pub moved: Timestamp,
    /// When a pod was last bound that had been promised room.
    pub bound: Timestamp,
    given: BTreeMap<PodKey, Nudge>,
}

/// Hints to one pod.
#[derive(Debug)]
struct Nudge {
    target: Target,
    count: u32,
    not_before: Timestamp,
}

impl NominationRetries {
    /// Something may be hinted.
    pub fn rouse(&mut self, now: Timestamp) {
        self.wake_at(Timestamp(now.0.saturating_add(GATHER_MS)));
    }

    /// Something is to be hinted.
    pub fn at_once(&mut self, now: Timestamp) {
        self.wake_at(now);
    }

    fn wake_at(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// Whether `pod` may be hinted now; when it may later, it is looked at again then.
    fn allows(&mut self, pod: &PodKey, now: Timestamp) -> bool {
        let Some(nudge) = self.given.get(pod) else { return true };
        if nudge.count >= MOST {
            return false;
        }
        let at = nudge.not_before;
        if at > now {
            self.wake_at(at);
        }
        at <= now
    }

    fn note(&mut self, pod: PodKey, target: Target, now: Timestamp) {
        let count = self.given.get(&pod).map_or(0, |nudge| nudge.count);
        let not_before = Timestamp(now.0.saturating_add(PAUSE_MS << count));
        self.wake_at(not_before);
        self.given.insert(pod, Nudge { target, count: count + 1, not_before });
    }
}

impl ClusterController {
    /// What is shown of a pod with a promise is about to be believed: it may be bound, or have got or lost a hint.
    pub fn note_moves(&mut self, pod: &PodRecord, now: Timestamp) {
        if self.state.promises.to(&pod.key).is_none() {
            return;
        }
        if pod.node.is_some() {
            self.nudges.bound = now;
        } else if self.state.pod(&pod.key).is_some_and(|known| known.hinted != pod.hinted) {
            self.nudges.moved = now;
        }
    }

    /// A pod changed: it may have lost its hint.
    pub fn note_hint(&mut self, key: &PodKey, now: Timestamp) {
        let bare = |pod: &PodRecord| waits(pod) && pod.hinted.is_none();
        if self.state.promises.to(key).is_some() && self.state.pod(key).is_some_and(bare) {
            self.nudges.rouse(now);
        }
    }

    /// Whether `object` is a Node that lets in pods that it kept away, as far as taints and readiness tell.
    pub fn opens(&self, object: &Object) -> bool {
        let Object::Node(node) = object else { return false };
        let known = self.state.node(&node.name);
        known.is_some_and(|known| known.taints.len() > node.taints.len() || known.ready != node.ready)
    }

    /// Hints to every pod that should have one and has none, node by node.
    pub fn hint_again(&mut self, desk: &mut Context<'_>) {
        if self.nudges.next.is_none_or(|next| next > desk.now) || !self.is_ready() {
            return;
        }
        let mut nudges = std::mem::take(&mut self.nudges);
        nudges.next = None;
        nudges.given.retain(|pod, nudge| self.state.promises.to(pod).is_some_and(|to| to.target == nudge.target));
        let mut orders = Vec::new();
        for (node, pods) in self.open_promises() {
            let mut hints = Vec::new();
            for pod in self.bare_pods(&node, &pods) {
                if let Some(promise) = self.state.promises.to(&pod.key).filter(|_| nudges.allows(&pod.key, desk.now)) {
                    nudges.note(pod.key.clone(), promise.target.clone(), desk.now);
                    hints.push(hint(pod));
                }
            }
            if !hints.is_empty() {
                orders.push(Instruction::HintPods { node, hints });
            }
        }
        self.nudges = nudges;
        for order in orders {
            self.instruct(order, desk);
        }
    }

    /// Pods that wait for room that was promised them on Nodes that are open to them, by Node.
    fn open_promises(&self) -> BTreeMap<Text, Vec<&PodRecord>> {
        let mut by_node: BTreeMap<Text, Vec<&PodRecord>> = BTreeMap::new();
        for (key, promise) in self.state.promises.iter() {
            let node = match &promise.target {
                Target::Claim(claim) => self.state.node_of_claim(claim),
                Target::Node(node) => self.state.node(node),
            };
            let pod = self.state.pod(key).filter(|pod| waits(pod));
            if let Some((node, pod)) = node.zip(pod).filter(|(node, pod)| self.is_open(node, pod)) {
                by_node.entry(node.name.clone()).or_default().push(pod);
            }
        }
        by_node
    }

    /// Whether `pod` could be bound to `node`, or can as soon as that is let in, which is next.
    fn is_open(&self, node: &NodeRecord, pod: &PodRecord) -> bool {
        let machine = self.state.claim_of_node(node).and_then(|claim| self.machines.get(&claim.name));
        let next = machine.is_some_and(|machine| machine.hinting.is_some() && machine.let_in.is_none());
        let bars = |taint: &&Taint| !(next && taint.key.as_ref() == UNREGISTERED);
        let taints: Vec<Taint> = node.taints.iter().filter(bars).cloned().collect();
        node.ready
            && !node.unschedulable
            && !self.state.is_going_node(&node.name)
            && first_barring(&taints, &pod.shape.tolerations).is_none()
    }

    /// Of `pods`, which wait for room on `node`, those that are hinted nowhere and still have room there.
    fn bare_pods<'p>(&self, node: &Text, pods: &[&'p PodRecord]) -> Vec<&'p PodRecord> {
        let Some(record) = self.state.node(node) else { return Vec::new() };
        let mut room: Resources = record.allocatable.clone();
        for bound in self.state.pods_on(node) {
            room.subtract(&bound.shape.requests);
        }
        let (hinted, bare): (Vec<&PodRecord>, Vec<&PodRecord>) = pods.iter().partition(|pod| pod.hinted.is_some());
        for pod in hinted.iter().filter(|pod| pod.hinted.as_ref() == Some(node)) {
            room.subtract(&pod.shape.requests);
        }
        let mut fitting = Vec::new();
        for pod in bare.into_iter().filter(|pod| !is_refused_by_hints(pod, pods)) {
            if pod.shape.requests.fits(&room) {
                room.subtract(&pod.shape.requests);
                fitting.push(pod);
            }
        }
        fitting
    }
}
