//! Bookings: pods of holds that do not exist yet, on the nodes where they have a place.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::target::Target;
use model::{Effect, Labels, PodShape, Taint, Text, Toleration, TolerationOperator};

/// Key of the taint and of the label of the nodes of a dedicated hold, and of the label of pods that take the room of a hold.
/// The value is the id of the hold.
pub const HOLD: &str = "fleetwright.dev/hold";

/// Id of a hold, unique in the fleet: a label value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub Text);

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HoldId {
    /// The taint of the nodes of a dedicated hold.
    pub fn taint(&self) -> Taint {
        Taint { key: Text::from(HOLD), value: self.0.clone(), effect: Effect::NoSchedule }
    }

    /// What pods of a dedicated hold need: its nodes, and the toleration of their taint.
    pub fn confine(&self, shape: &mut PodShape) {
        shape.node_selector.insert(Text::from(HOLD), self.0.clone());
        let Taint { key, value, effect } = self.taint();
        shape.tolerations.push(Toleration { key, operator: TolerationOperator::Equal, value, effect: Some(effect) });
    }
}

/// Equal booked pods on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booking {
    pub hold: HoldId,
    /// Position of the pod set in the hold.
    pub pod_set: u32,
    pub name: Text,
    pub namespace: Text,
    pub shape: Arc<PodShape>,
    pub labels: Arc<Labels>,
    pub target: Target,
    pub pods: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bookings {
    /// By hold.
    all: Vec<Booking>,
    /// Holds that have not ended; `None` before they are known.
    live: Option<BTreeSet<HoldId>>,
}

impl Bookings {
    /// The bookings of the holds that have not ended.
    #[must_use]
    pub fn new(mut all: Vec<Booking>, live: BTreeSet<HoldId>) -> Self {
        all.sort_by(|a, b| (&a.hold, a.pod_set, &a.target).cmp(&(&b.hold, b.pod_set, &b.target)));
        Self { all, live: Some(live) }
    }

    #[must_use]
    pub fn has_ended(&self, hold: &HoldId) -> bool {
        self.live.as_ref().is_some_and(|live| !live.contains(hold))
    }

    /// All of them, by hold.
    pub(super) fn all(&self) -> &[Booking] {
        &self.all
    }

    /// Positions of the bookings of a hold.
    pub(super) fn of_hold(&self, hold: &HoldId) -> std::ops::Range<usize> {
        let from = self.all.partition_point(|booking| booking.hold < *hold);
        from..self.all.partition_point(|booking| booking.hold <= *hold)
    }
}
