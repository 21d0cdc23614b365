//! Pods that a decision gave room to and that kube-scheduler has not bound yet. They are not planned again, and their
//! room is taken, until they are bound, are gone, or the promise lapses.

use std::collections::BTreeMap;

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
pub struct Promise {
    /// Where.
    pub target: Target,
    /// When it lapses; `None` while the machine is not in service.
    pub until: Option<Timestamp>,
}

/// All promises of one cluster.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    by_pod: BTreeMap<PodKey, Promise>,
}

impl Promises {
    /// Gives room to `pod`; an earlier promise is forgotten.
    pub fn give(&mut self, pod: PodKey, target: Target, until: Option<Timestamp>) {
        self.by_pod.insert(pod, Promise { target, until });
    }

    /// The promise to `pod`.
    #[must_use]
    pub fn to(&self, pod: &PodKey) -> Option<&Promise> {
        self.by_pod.get(pod)
    }

    /// The pod is bound or gone.
    pub fn settle(&mut self, pod: &PodKey) {
        self.by_pod.remove(pod);
    }

    /// Takes back everything promised on `target`.
    pub fn withdraw(&mut self, target: &Target) {
        self.by_pod.retain(|_, promise| promise.target != *target);
    }

    /// The machine of `claim` is in service: its promises lapse at `until`.
    pub fn limit(&mut self, claim: &Text, until: Timestamp) {
        let target = Target::Claim(claim.clone());
        for promise in self.by_pod.values_mut().filter(|promise| promise.target == target) {
            promise.until.get_or_insert(until);
        }
    }

    /// Drops promises that have lapsed by `now`; says whether there were any.
    pub fn lapse(&mut self, now: Timestamp) -> bool {
        let before = self.by_pod.len();
        self.by_pod.retain(|_, promise| promise.until.is_none_or(|until| until > now));
        self.by_pod.len() < before
    }

    /// When the next promise lapses.
    #[must_use]
    pub fn next_lapse(&self) -> Option<Timestamp> {
        self.by_pod.values().filter_map(|promise| promise.until).min()
    }

    /// Pods and promises, by pod.
    pub fn iter(&self) -> impl Iterator<Item = (&PodKey, &Promise)> {
        self.by_pod.iter()
    }

    /// Keeps only promises to pods for which `keep` holds.
    pub fn keep(&mut self, mut keep: impl FnMut(&PodKey) -> bool) {
        self.by_pod.retain(|pod, _| keep(pod));
    }
}
