//! Capacity that is kept for the successors of evicted pods. A workload recreates an evicted pod under another
//! name, and kube-scheduler binds the new pod to any node with room: while capacity is kept, its node is not consolidated.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::record::PodRecord;
use super::target::Target;
use model::pod::VolumeAlternatives;
use model::{Labels, PodShape, Timestamp};

/// What the scheduler reads of a pod: pods that have the same take each other's places.
#[derive(Debug, Clone, PartialEq)]
pub struct PodDemand {
    shape: Arc<PodShape>,
    labels: Arc<Labels>,
    volumes: Option<Arc<VolumeAlternatives>>,
}

impl PodDemand {
    /// That of `pod`.
    #[must_use]
    pub fn of(pod: &PodRecord) -> Self {
        Self { shape: Arc::clone(&pod.shape), labels: Arc::clone(&pod.labels), volumes: pod.volumes.clone() }
    }

    /// Whether `pod` has it.
    #[must_use]
    pub fn is_of(&self, pod: &PodRecord) -> bool {
        self.shape == pod.shape && self.labels == pod.labels && self.volumes == pod.volumes
    }
}

#[derive(Debug, Clone)]
struct Reservation {
    demand: PodDemand,
    until: Timestamp,
}

/// Reservations for successors, by target.
#[derive(Debug, Clone, Default)]
pub(super) struct Successors {
    by_target: BTreeMap<Target, Vec<Reservation>>,
}

impl Successors {
    /// Reserves capacity of `target` until `until` for a successor with `demand`.
    pub(super) fn reserve(&mut self, target: Target, demand: PodDemand, until: Timestamp) {
        self.by_target.entry(target).or_default().push(Reservation { demand, until });
    }

    /// Targets with a reservation for a successor like `pod`.
    pub(super) fn targets_for<'a>(&'a self, pod: &'a PodRecord) -> impl Iterator<Item = &'a Target> {
        let is_for = |reserved: &Vec<Reservation>| reserved.iter().any(|one| one.demand.is_of(pod));
        self.by_target.iter().filter(move |(_, reserved)| is_for(reserved)).map(|(target, _)| target)
    }

    /// Ends one reservation of `target` for a successor with `demand`.
    pub(super) fn release(&mut self, target: &Target, demand: &PodDemand) {
        if let Some(reserved) = self.by_target.get_mut(target) {
            if let Some(index) = reserved.iter().position(|one| one.demand == *demand) {
                reserved.remove(index);
            }
            self.by_target.retain(|_, reserved| !reserved.is_empty());
        }
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = &Target> {
        self.by_target.keys()
    }

    pub(super) fn clear(&mut self) {
        self.by_target.clear();
    }

    pub(super) fn remove_target(&mut self, target: &Target) {
        self.by_target.remove(target);
    }

    /// Removes what has expired by `now`; returns whether there was any.
    pub(super) fn expire(&mut self, now: Timestamp) -> bool {
        let before = self.len();
        self.by_target.retain(|_, reserved| {
            reserved.retain(|one| one.until > now);
            !reserved.is_empty()
        });
        self.len() < before
    }

    /// When the next reservation expires.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.by_target.values().flatten().map(|one| one.until).min()
    }

    fn len(&self) -> usize {
        self.by_target.values().map(Vec::len).sum()
    }
}
