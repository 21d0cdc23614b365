//! Pods assigned to a node that kube-scheduler has not bound yet (kube-scheduler: assumed pods).
//! They are not planned again, and their capacity is reserved, until they are bound, are deleted,
//! or the assignment expires. An evicted pod is recreated under another name: its reserved capacity
//! is kept for the successor for a while.

use std::collections::{BTreeMap, BTreeSet};

use super::record::PodRecord;
use super::successors::{PodDemand, Successors};
use super::target::Target;
use model::{ClaimName, Millis, PodKey, Timestamp};

/// How long kube-scheduler may take to bind a pod once its node is initialized: twice Karpenter's
/// longest batch window (Karpenter: nomination).
pub const NOMINATION_WINDOW: Millis = Millis::from_secs(20);

/// Assignment of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Where its capacity is reserved.
    pub target: Target,
    /// When it expires; `None` while the machine is not initialized.
    pub until: Option<Timestamp>,
}

/// All assignments of one cluster.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    by_pod: BTreeMap<PodKey, Assignment>,
    /// Index of `by_pod`.
    by_target: BTreeMap<Target, BTreeSet<PodKey>>,
    successors: Successors,
}

impl Assignments {
    /// Assigns `pod`, replacing an earlier assignment.
    pub fn assign(&mut self, pod: PodKey, target: Target, until: Option<Timestamp>) {
        self.remove(&pod);
        self.by_target.entry(target.clone()).or_default().insert(pod.clone());
        self.by_pod.insert(pod, Assignment { target, until });
    }

    /// Whether no pod is assigned.
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }

    /// Targets with reserved capacity: for assigned pods, and for successors of evicted pods.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.by_target.keys().chain(self.successors.targets())
    }

    /// Whether any pod is assigned to `target`.
    #[must_use]
    pub fn has_pods(&self, target: &Target) -> bool {
        self.by_target.contains_key(target)
    }

    /// Pods assigned to `target`, by namespace and name.
    pub fn pods_on(&self, target: &Target) -> impl Iterator<Item = &PodKey> {
        self.by_target.get(target).into_iter().flatten()
    }

    fn unindex(by_target: &mut BTreeMap<Target, BTreeSet<PodKey>>, pod: &PodKey, target: &Target) {
        if let Some(pods) = by_target.get_mut(target) {
            pods.remove(pod);
            if pods.is_empty() {
                by_target.remove(target);
            }
        }
    }

    /// Keeps the assignments for which `keep` holds.
    fn retain(&mut self, mut keep: impl FnMut(&PodKey, &Assignment) -> bool) {
        let by_target = &mut self.by_target;
        self.by_pod.retain(|pod, assignment| {
            let kept = keep(pod, assignment);
            if !kept {
                Self::unindex(by_target, pod, &assignment.target);
            }
            kept
        });
    }

    /// The assignment of `pod`.
    #[must_use]
    pub fn get(&self, pod: &PodKey) -> Option<&Assignment> {
        self.by_pod.get(pod)
    }

    /// Removes the assignment of a pod that is bound or deleted.
    pub fn remove(&mut self, pod: &PodKey) {
        if let Some(assignment) = self.by_pod.remove(pod) {
            Self::unindex(&mut self.by_target, pod, &assignment.target);
        }
    }

    /// Reserves the target of an evicted pod with `demand` for its successor until `until`.
    pub fn hand_to_successor(&mut self, pod: &PodKey, demand: PodDemand, until: Timestamp) {
        if let Some(target) = self.get(pod).map(|assignment| assignment.target.clone()) {
            self.remove(pod);
            self.successors.reserve(target, demand, until);
        }
    }

    /// Targets reserved for a successor like `pod`.
    pub fn reserved_for_successor<'a>(&'a self, pod: &'a PodRecord) -> impl Iterator<Item = &'a Target> {
        self.successors.targets_for(pod)
    }

    /// Assigns `pod` to the target that is reserved for the successor of a pod with `demand`, which needs it no more.
    pub fn take_over_reservation(&mut self, pod: PodKey, target: Target, demand: &PodDemand, until: Timestamp) {
        self.successors.release(&target, demand);
        self.assign(pod, target, Some(until));
    }

    pub fn clear_successors(&mut self) {
        self.successors.clear();
    }

    /// Removes all assignments to `target`.
    pub fn remove_target(&mut self, target: &Target) {
        self.successors.remove_target(target);
        if self.has_pods(target) {
            self.retain(|_, assignment| assignment.target != *target);
        }
    }

    /// Sets the expiry of the assignments to `claim`, whose machine is initialized.
    pub fn expire_claim_at(&mut self, claim: &ClaimName, until: Timestamp) {
        let target = Target::Claim(claim.clone());
        for assignment in self.by_pod.values_mut().filter(|assignment| assignment.target == target) {
            assignment.until.get_or_insert(until);
        }
    }

    /// Pods whose assignments expire by `now`, by namespace and name.
    pub fn expiring_by(&self, now: Timestamp) -> impl Iterator<Item = &PodKey> {
        let due = self.by_pod.iter().filter(move |(_, assignment)| assignment.until.is_some_and(|until| until <= now));
        due.map(|(pod, _)| pod)
    }

    /// Sets the expiry of the assignment of `pod`.
    pub fn extend_until(&mut self, pod: &PodKey, until: Timestamp) {
        if let Some(assignment) = self.by_pod.get_mut(pod) {
            assignment.until = Some(until);
        }
    }

    /// Removes what has expired by `now`; returns whether there was any.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let before = self.by_pod.len();
        self.retain(|_, assignment| assignment.until.is_none_or(|until| until > now));
        self.successors.expire(now) || self.by_pod.len() < before
    }

    /// When the next assignment or reservation expires.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        let assignments = self.by_pod.values().filter_map(|assignment| assignment.until);
        assignments.chain(self.successors.next_expiry()).min()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&PodKey, &Assignment)> {
        self.by_pod.iter()
    }
}
