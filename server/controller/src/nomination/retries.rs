//! Nominations apart from registration: for pods that lost theirs, and for pods assigned to a
//! registered Node.
//!
//! Every failed attempt of kube-scheduler clears the nomination and releases the pod's capacity to
//! others. A pending pod whose assigned Node is registered and has capacity for it, and that is not
//! nominated, is nominated again, a few times with growing delays. A pod whose capacity is taken is
//! left alone: it is planned again once its assignment expires.

use std::collections::BTreeMap;

use super::super::Instruction;
use super::super::cluster_controller::{ClusterController, Context};
use super::{needs_node, nomination, spread_refuses_nomination};
use crate::cluster::planning::UNREGISTERED;
use crate::cluster::{NodeRecord, Object, PodRecord, Target};
use model::taints::first_untolerated;
use model::{Millis, NodeName, PodKey, Resources, Taint, Timestamp};

/// Nominations lost at about the same time are repeated together, this long after the first: well
/// within the second that kube-scheduler waits at least before it tries a pod again.
const BATCH_DELAY: Millis = Millis::new(200);
/// Delay after the first nomination; each further one doubles it.
const FIRST_BACKOFF: Millis = Millis::new(500);
/// Maximum number of nominations per pod and assignment.
const MAX_ATTEMPTS: u32 = 6;

/// Nominations that were made apart from registration.
#[derive(Debug, Default)]
pub(in super::super) struct NominationRetries {
    /// When assignments are checked next.
    pub next: Option<Timestamp>,
    /// When a pending pod last got or lost one of our nominations.
    pub last_change: Timestamp,
    /// When an assigned pod was last bound.
    pub last_bound: Timestamp,
    retries: BTreeMap<PodKey, Retry>,
}

/// Nominations of one pod.
#[derive(Debug)]
struct Retry {
    target: Target,
    count: u32,
    not_before: Timestamp,
}

impl NominationRetries {
    /// Schedules a check after the batching delay.
    pub fn schedule(&mut self, now: Timestamp) {
        self.schedule_at(now + BATCH_DELAY);
    }

    /// Schedules a check at once.
    pub fn schedule_now(&mut self, now: Timestamp) {
        self.schedule_at(now);
    }

    fn schedule_at(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// Whether `pod` may be nominated now; otherwise schedules the check for when it may.
    fn allows(&mut self, pod: &PodKey, now: Timestamp) -> bool {
        let Some(retry) = self.retries.get(pod) else { return true };
        if retry.count >= MAX_ATTEMPTS {
            return false;
        }
        let at = retry.not_before;
        if at > now {
            self.schedule_at(at);
        }
        at <= now
    }

    fn record_attempt(&mut self, pod: PodKey, target: Target, now: Timestamp) {
        let count = self.retries.get(&pod).map_or(0, |retry| retry.count);
        let not_before = now + FIRST_BACKOFF * (1 << count);
        self.schedule_at(not_before);
        self.retries.insert(pod, Retry { target, count: count + 1, not_before });
    }
}

impl ClusterController {
    /// Called before an observation of an assigned pod is applied: it may be bound, or have got or
    /// lost a nomination.
    pub fn observe_nomination(&mut self, pod: &PodRecord, now: Timestamp) {
        if self.state.assignments.get(&pod.key).is_none() {
            return;
        }
        if pod.node.is_some() {
            self.nomination_retries.last_bound = now;
        } else if self.state.pod(&pod.key).is_some_and(|known| known.own_nomination != pod.own_nomination) {
            self.nomination_retries.last_change = now;
        }
    }

    /// Called after a pod has changed: schedules a retry if it has lost its nomination.
    pub fn schedule_lost_nomination(&mut self, key: &PodKey, now: Timestamp) {
        let unnominated = |pod: &PodRecord| needs_node(pod) && pod.own_nomination.is_none();
        if self.state.assignments.get(key).is_some() && self.state.pod(key).is_some_and(unnominated) {
            self.nomination_retries.schedule(now);
        }
    }

    /// Whether `object` is a Node that becomes schedulable for more pods, as far as taints and
    /// readiness show.
    pub fn becomes_schedulable(&self, object: &Object) -> bool {
        let Object::Node(node) = object else { return false };
        let known = self.state.node(&node.name);
        known.is_some_and(|known| known.taints.len() > node.taints.len() || known.ready != node.ready)
    }

    /// Nominates every assigned pod that should have a nomination and has none, node by node.
    pub fn retry_nominations(&mut self, ctx: &mut Context<'_>) {
        if self.nomination_retries.next.is_none_or(|next| next > ctx.now) || !self.is_ready() {
            return;
        }
        let mut nomination_retries = std::mem::take(&mut self.nomination_retries);
        nomination_retries.next = None;
        nomination_retries
            .retries
            .retain(|pod, retry| self.state.assignments.get(pod).is_some_and(|to| to.target == retry.target));
        let mut orders = Vec::new();
        for (node, pods) in self.pods_assigned_to_open_nodes() {
            let mut nominations = Vec::new();
            for pod in self.unnominated_pods(&node, &pods) {
                if let Some(assignment) =
                    self.state.assignments.get(&pod.key).filter(|_| nomination_retries.allows(&pod.key, ctx.now))
                {
                    nomination_retries.record_attempt(pod.key.clone(), assignment.target.clone(), ctx.now);
                    nominations.push(nomination(pod));
                }
            }
            if !nominations.is_empty() {
                orders.push(Instruction::NominatePods { node, nominations });
            }
        }
        self.nomination_retries = nomination_retries;
        for order in orders {
            self.instruct(order, ctx);
        }
    }

    /// Pending pods assigned to Nodes that accept them, by Node.
    fn pods_assigned_to_open_nodes(&self) -> BTreeMap<NodeName, Vec<&PodRecord>> {
        let mut by_node: BTreeMap<NodeName, Vec<&PodRecord>> = BTreeMap::new();
        for (key, assignment) in self.state.assignments.iter() {
            let node = match &assignment.target {
                Target::Claim(claim) => self.state.node_of_claim(claim),
                Target::Node(node) => self.state.node(node),
            };
            let pod = self.state.pod(key).filter(|pod| needs_node(pod));
            if let Some((node, pod)) = node.zip(pod).filter(|(node, pod)| self.is_open(node, pod)) {
                by_node.entry(node.name.clone()).or_default().push(pod);
            }
        }
        by_node
    }

    /// Whether `pod` could be bound to `node` now, or after the registration that is next.
    fn is_open(&self, node: &NodeRecord, pod: &PodRecord) -> bool {
        let machine = self.state.claim_of_node(node).and_then(|claim| self.machines.get(&claim.name));
        let next = machine
            .is_some_and(|machine| machine.nominating_since.is_some() && machine.registration_ordered_at.is_none());
        let bars = |taint: &&Taint| !(next && taint.key.as_ref() == UNREGISTERED);
        let taints: Vec<Taint> = node.taints.iter().filter(bars).cloned().collect();
        node.ready
            && !node.unschedulable
            && !self.state.is_node_terminating(&node.name)
            && first_untolerated(&taints, &pod.shape.tolerations).is_none()
    }

    /// Of `pods`, which are assigned to `node`, those without a nomination for which it still has
    /// capacity.
    fn unnominated_pods<'p>(&self, node: &NodeName, pods: &[&'p PodRecord]) -> Vec<&'p PodRecord> {
        let Some(record) = self.state.node(node) else { return Vec::new() };
        let mut free: Resources = record.allocatable.clone();
        for bound in self.state.pods_on(node) {
            free.subtract(&bound.shape.requests);
        }
        let (own_nomination, unnominated): (Vec<&PodRecord>, Vec<&PodRecord>) =
            pods.iter().partition(|pod| pod.own_nomination.is_some());
        for pod in own_nomination.iter().filter(|pod| pod.own_nomination.as_ref() == Some(node)) {
            free.subtract(&pod.shape.requests);
        }
        let mut fitting = Vec::new();
        for pod in unnominated.into_iter().filter(|pod| !spread_refuses_nomination(pod, pods)) {
            if pod.shape.requests.fits(&free) {
                free.subtract(&pod.shape.requests);
                fitting.push(pod);
            }
        }
        fitting
    }
}
