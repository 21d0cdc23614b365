//! Pods that a decision gave room to and that kube-scheduler has not bound yet. They are not planned again, and their
//! room is taken, until they are bound, are gone, or the promise lapses. Who is evicted from a machine that goes comes back
//! under another name: where it had room, somebody is expected for a while.

use std::collections::{BTreeMap, BTreeSet};

use super::PodKey;
use crate::model::{Text, Timestamp};

/// How long a pod is expected to take to be bound once its node is in service, in milliseconds: twice Karpenter's longest
/// batch window (Karpenter: nomination).
pub const NOMINATION_MS: i64 = 20_000;

/// Where room was given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// On the machine of this NodeClaim, joined or not.
    Claim(Text),
    /// On this Node.
    Node(Text),
}

impl Target {
    /// The NodeClaim, if it is one.
    #[must_use]
    pub fn claim(&self) -> Option<&Text> {
        match self {
            Self::Claim(claim) => Some(claim),
            Self::Node(_) => None,
        }
    }
}

/// Room that was given to one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Where.
    pub target: Target,
    /// When it lapses; `None` while the machine is not in service.
    pub until: Option<Timestamp>,
}

/// All promises of one cluster.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    by_pod: BTreeMap<PodKey, Assignment>,
    /// Who was promised room there; follows `by_pod`.
    by_target: BTreeMap<Target, BTreeSet<PodKey>>,
    /// Where somebody comes in the place of a pod that had a promise, and until when that is expected.
    successors: BTreeMap<Target, Timestamp>,
}

impl Assignments {
    /// Gives room to `pod`; an earlier promise is forgotten.
    pub fn give(&mut self, pod: PodKey, target: Target, until: Option<Timestamp>) {
        self.settle(&pod);
        self.by_target.entry(target.clone()).or_default().insert(pod.clone());
        self.by_pod.insert(pod, Assignment { target, until });
    }

    /// Where pods are expected: those with a promise, and whoever comes in the place of one that was evicted.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.by_target.keys().chain(self.successors.keys())
    }

    /// Whether anybody was promised room on `target`.
    #[must_use]
    pub fn expected_by(&self, target: &Target) -> bool {
        self.by_target.contains_key(target)
    }

    /// Pods that were promised room on `target`, by namespace and name.
    pub fn on(&self, target: &Target) -> impl Iterator<Item = &PodKey> {
        self.by_target.get(target).into_iter().flatten()
    }

    fn release(by_target: &mut BTreeMap<Target, BTreeSet<PodKey>>, pod: &PodKey, target: &Target) {
        if let Some(pods) = by_target.get_mut(target) {
            pods.remove(pod);
            if pods.is_empty() {
                by_target.remove(target);
            }
        }
    }

    /// Keeps the promises for which `keep` holds.
    fn retain(&mut self, mut keep: impl FnMut(&PodKey, &Assignment) -> bool) {
        let by_target = &mut self.by_target;
        self.by_pod.retain(|pod, promise| {
            let kept = keep(pod, promise);
            if !kept {
                Self::release(by_target, pod, &promise.target);
            }
            kept
        });
    }

    /// The promise to `pod`.
    #[must_use]
    pub fn to(&self, pod: &PodKey) -> Option<&Assignment> {
        self.by_pod.get(pod)
    }

    /// The pod is bound or gone.
    pub fn settle(&mut self, pod: &PodKey) {
        if let Some(promise) = self.by_pod.remove(pod) {
            Self::release(&mut self.by_target, pod, &promise.target);
        }
    }

    /// The pod leaves a machine that goes: until `until` somebody is expected in its place.
    pub fn pass_on(&mut self, pod: &PodKey, until: Timestamp) {
        if let Some(target) = self.to(pod).map(|promise| promise.target.clone()) {
            self.settle(pod);
            self.successors.insert(target, until);
        }
    }

    /// Expects nobody in the place of pods that were evicted.
    pub fn expect_no_successors(&mut self) {
        self.successors.clear();
    }

    /// Takes back everything promised on `target`.
    pub fn withdraw(&mut self, target: &Target) {
        self.successors.remove(target);
        if self.expected_by(target) {
            self.retain(|_, promise| promise.target != *target);
        }
    }

    /// The machine of `claim` is in service: its promises lapse at `until`.
    pub fn limit(&mut self, claim: &Text, until: Timestamp) {
        let target = Target::Claim(claim.clone());
        for promise in self.by_pod.values_mut().filter(|promise| promise.target == target) {
            promise.until.get_or_insert(until);
        }
    }

    /// Pods whose promises lapse by `now`, by namespace and name.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = &PodKey> {
        let due = self.by_pod.iter().filter(move |(_, promise)| promise.until.is_some_and(|until| until <= now));
        due.map(|(pod, _)| pod)
    }

    /// The promise to `pod` lapses at `until` and not before.
    pub fn extend(&mut self, pod: &PodKey, until: Timestamp) {
        if let Some(promise) = self.by_pod.get_mut(pod) {
            promise.until = Some(until);
        }
    }

    /// Drops what has lapsed by `now`; says whether there was anything.
    pub fn lapse(&mut self, now: Timestamp) -> bool {
        let before = self.by_pod.len() + self.successors.len();
        self.retain(|_, promise| promise.until.is_none_or(|until| until > now));
        self.successors.retain(|_, until| *until > now);
        self.by_pod.len() + self.successors.len() < before
    }

    /// When something lapses next.
    #[must_use]
    pub fn next_lapse(&self) -> Option<Timestamp> {
        let promises = self.by_pod.values().filter_map(|promise| promise.until);
        promises.chain(self.successors.values().copied()).min()
    }

    /// Pods and promises, by pod.
    pub fn iter(&self) -> impl Iterator<Item = (&PodKey, &Assignment)> {
        self.by_pod.iter()
    }

    /// Keeps only promises to pods for which `keep` holds.
    pub fn keep(&mut self, mut keep: impl FnMut(&PodKey) -> bool) {
        self.retain(|pod, _| keep(pod));
    }
}
