//! Nominations apart from registration: for pods that lost theirs, and for pods assigned to a
//! registered Node.
//!
//! Every failed attempt of kube-scheduler clears the nomination and releases the pod's capacity to
//! others. A pending pod whose assigned Node is registered and has capacity for it, and that is not
//! nominated, is nominated again, a few times with growing delays. A pod whose capacity is taken is
//! left alone: it is planned again once its assignment expires.

use std::collections::BTreeMap;

use super::view::{NominationView, heeds_nominations, needs_node, nomination, spread_refuses_nomination};
use crate::Instruction;
use cluster::planning::UNREGISTERED;
use cluster::{ClusterState, NodeRecord, PodRecord, Target};
use model::taints::first_untolerated;
use model::{ClaimName, Millis, NodeName, PodKey, Resources, Taint, Timestamp};

/// Nominations lost at about the same time are repeated together, this long after the first: well
/// within the second that kube-scheduler waits at least before it tries a pod again.
const BATCH_DELAY: Millis = Millis::new(200);
/// Delay after the first nomination before it is repeated; each further one doubles it.
const FIRST_BACKOFF: Millis = Millis::new(500);
/// Minimum delay after a nomination that the pod has not shown yet: hundreds of them take a busy API server seconds, and to
/// repeat one that is on its way costs a request and changes nothing.
const MIN_UNSEEN_BACKOFF: Millis = Millis::from_secs(4);
/// Maximum number of nominations per pod and assignment.
const MAX_ATTEMPTS: u32 = 6;

/// Nominations that were made apart from registration.
#[derive(Debug, Default)]
pub(super) struct NominationRetries {
    /// When assignments are checked next.
    next: Option<Timestamp>,
    /// When a pending pod last got or lost one of our nominations.
    last_change: Timestamp,
    /// When an assigned pod was last bound.
    last_bound: Timestamp,
    retries: BTreeMap<PodKey, Retry>,
}

#[derive(Debug)]
struct Retry {
    target: Target,
    count: u32,
    /// When the last one was made.
    made: Timestamp,
    /// Whether the pod has shown it.
    is_seen: bool,
}

impl Retry {
    /// When the nomination may be repeated.
    fn not_before(&self) -> Timestamp {
        let backoff = FIRST_BACKOFF * (1 << (self.count.clamp(1, MAX_ATTEMPTS) - 1));
        self.made + if self.is_seen { backoff } else { backoff.max(MIN_UNSEEN_BACKOFF) }
    }
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
        let at = retry.not_before();
        if at > now {
            self.schedule_at(at);
        }
        at <= now
    }

    /// Records that `pod`, which is assigned to `target`, is nominated for its Node.
    pub fn record_attempt(&mut self, pod: PodKey, target: Target, now: Timestamp) {
        let before = self.retries.get(&pod).filter(|retry| retry.target == target);
        let retry = Retry { target, count: before.map_or(0, |retry| retry.count) + 1, made: now, is_seen: false };
        self.schedule_at(retry.not_before());
        self.retries.insert(pod, retry);
    }

    /// When assignments are checked next.
    pub fn next_retry(&self) -> Option<Timestamp> {
        self.next
    }

    /// When a pending pod last got or lost one of our nominations.
    pub fn last_change(&self) -> Timestamp {
        self.last_change
    }

    /// When an assigned pod was last bound.
    pub fn last_bound(&self) -> Timestamp {
        self.last_bound
    }

    /// Called before an observation of a pod is applied: if it is assigned, it may be bound, or
    /// have got or lost a nomination.
    pub fn observe_pod(&mut self, pod: &PodRecord, state: &ClusterState, now: Timestamp) {
        if state.assignments().get(&pod.key).is_none() {
            return;
        }
        if pod.node.is_some() {
            self.last_bound = now;
        } else if state.pod(&pod.key).is_some_and(|known| known.own_nomination != pod.own_nomination) {
            self.last_change = now;
        }
        if let Some(retry) = self.retries.get_mut(&pod.key).filter(|_| pod.own_nomination.is_some()) {
            retry.is_seen = true;
        }
    }

    /// Nominates every assigned pod that should have a nomination and has none, node by node, if
    /// that is due. `is_nominating` is whether the registration of a NodeClaim's Node is next.
    pub fn nominate_due(
        &mut self,
        is_nominating: impl Fn(&ClaimName) -> bool,
        view: &NominationView<'_>,
    ) -> Vec<Instruction> {
        let mut orders = Vec::new();
        if self.next.is_none_or(|next| next > view.now) {
            return orders;
        }
        self.next = None;
        let assignments = view.state.assignments();
        self.retries.retain(|pod, retry| assignments.get(pod).is_some_and(|to| to.target == retry.target));
        for (node, pods) in view.pods_assigned_to_open_nodes(is_nominating) {
            let mut nominations = Vec::new();
            for pod in view.unnominated_pods(&node, &pods) {
                if let Some(assignment) = assignments.get(&pod.key).filter(|_| self.allows(&pod.key, view.now)) {
                    self.record_attempt(pod.key.clone(), assignment.target.clone(), view.now);
                    nominations.push(nomination(pod));
                }
            }
            if !nominations.is_empty() {
                orders.push(Instruction::NominatePods { node, nominations });
            }
        }
        orders
    }
}

impl<'v> NominationView<'v> {
    /// Pending pods assigned to Nodes that accept them, by Node.
    fn pods_assigned_to_open_nodes(
        &self,
        is_nominating: impl Fn(&ClaimName) -> bool,
    ) -> BTreeMap<NodeName, Vec<&'v PodRecord>> {
        let mut by_node: BTreeMap<NodeName, Vec<&'v PodRecord>> = BTreeMap::new();
        for (key, assignment) in self.state.assignments().iter() {
            let node = match &assignment.target {
                Target::Claim(claim) => self.state.node_of_claim(claim),
                Target::Node(node) => self.state.node(node),
            };
            let pod = self.state.pod(key).filter(|pod| needs_node(pod) && heeds_nominations(pod));
            if let Some((node, pod)) = node.zip(pod).filter(|(node, pod)| self.is_open(node, pod, &is_nominating)) {
                by_node.entry(node.name.clone()).or_default().push(pod);
            }
        }
        by_node
    }

    /// Whether `pod` could be bound to `node` now, or after the registration that is next.
    fn is_open(&self, node: &NodeRecord, pod: &PodRecord, is_nominating: impl Fn(&ClaimName) -> bool) -> bool {
        let next = self.state.claim_of_node(node).is_some_and(|claim| is_nominating(&claim.name));
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
