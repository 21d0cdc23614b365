//! Holds as values.

use std::sync::Arc;

use cluster::{Booking, HoldId, Target};
use model::{Labels, MicroUsd, PodShape, Text, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldKind {
    /// Nodes of its own, with a taint that only its pods tolerate.
    Dedicated,
    /// Room on any node, which kube-scheduler may give to other pods.
    Shared,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPods {
    /// Name of the pod set, unique in the hold.
    pub name: Text,
    pub namespace: Text,
    /// What scheduling evaluates of them, as the client wrote it.
    pub shape: Arc<PodShape>,
    pub labels: Arc<Labels>,
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldPlace {
    pub target: Target,
    /// Position of the pod set in the hold.
    pub pod_set: u32,
    pub pods: u32,
    /// Price per hour of the node, if it was launched for the hold. Of several places on a node, one has it.
    pub price: MicroUsd,
}

/// Live holds of a cluster in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldCounts {
    /// Holds whose room is not all there.
    pub waiting: usize,
    pub ready: usize,
    /// Price per hour of the nodes that were launched for holds.
    pub price: MicroUsd,
}

/// A live hold, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityHold {
    pub id: HoldId,
    pub kind: HoldKind,
    /// Its pods; an error says why they are unreadable.
    pub pods: Result<Vec<HeldPods>, Text>,
    /// When it ends; `None` once it is committed.
    pub expires: Option<Timestamp>,
    /// Price per hour of the nodes that may be launched for it; `None` has no limit.
    pub max_price: Option<MicroUsd>,
    /// What was recorded of it last.
    pub status: HoldStatus,
}

/// What the owner of the cluster records of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HoldStatus {
    /// Where its pods have room.
    pub places: Vec<HoldPlace>,
    /// Whether all of the room is there: every pod has a place, on an initialized node.
    pub ready: bool,
    /// What it waits for, or why it ended.
    pub message: Text,
    /// How the owner of the cluster ended it.
    pub end: Option<HoldEnd>,
}

/// How the owner of the cluster ends a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldEnd {
    /// It was not committed in time.
    Expired,
    /// Its room cannot be had.
    Failed,
}

impl HoldStatus {
    /// Price per hour of the nodes that were launched for the hold.
    #[must_use]
    pub fn price(&self) -> MicroUsd {
        MicroUsd(self.places.iter().map(|place| place.price.0).sum())
    }
}

impl CapacityHold {
    /// Its pod sets; none if they are unreadable.
    pub(crate) fn pod_sets(&self) -> &[HeldPods] {
        self.pods.as_deref().unwrap_or_default()
    }

    /// Number of pods of each set that have no place.
    pub(crate) fn without_place(&self) -> Vec<u32> {
        let mut left: Vec<u32> = self.pod_sets().iter().map(|set| set.count).collect();
        for place in &self.status.places {
            if let Some(left) = left.get_mut(place.pod_set as usize) {
                *left = left.saturating_sub(place.pods);
            }
        }
        left
    }

    pub(crate) fn pod_count(&self) -> u32 {
        self.pod_sets().iter().map(|set| set.count).sum()
    }

    /// Its room as bookings.
    pub(crate) fn bookings(&self) -> impl Iterator<Item = Booking> {
        self.status.places.iter().filter_map(|place| {
            let set = self.pod_sets().get(place.pod_set as usize)?;
            Some(Booking {
                hold: self.id.clone(),
                pod_set: place.pod_set,
                name: set.name.clone(),
                namespace: set.namespace.clone(),
                shape: Arc::clone(&set.shape),
                labels: Arc::clone(&set.labels),
                target: place.target.clone(),
                pods: place.pods,
            })
        })
    }
}
