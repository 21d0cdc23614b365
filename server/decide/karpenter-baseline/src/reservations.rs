//! Capacity reservations within one round (Karpenter core §3.16).

use std::collections::{BTreeMap, BTreeSet};

use model::{NodePool, Text};

/// Remaining instances of every reservation. A NodeClaim holds one instance of each reservation that
/// it might use.
pub(crate) struct Reservations {
    remaining: BTreeMap<Text, i64>,
}

impl Reservations {
    /// The reservations of all catalogues; where they disagree, the smaller number of instances.
    pub(crate) fn of(pools: &[&NodePool]) -> Self {
        let mut remaining = BTreeMap::new();
        let types = pools.iter().flat_map(|pool| &pool.catalogue.types);
        let offerings = types.flat_map(|machine| &machine.offerings).filter(|offering| offering.available);
        for reservation in offerings.filter_map(|offering| offering.reservation.as_ref()) {
            let least = remaining.entry(reservation.id.clone()).or_insert(reservation.remaining);
            *least = reservation.remaining.min(*least);
        }
        Self { remaining }
    }

    /// Whether a NodeClaim that does not hold `id` yet may hold it.
    pub(crate) fn has_capacity(&self, id: &Text) -> bool {
        self.remaining.get(id).is_some_and(|remaining| *remaining > 0)
    }

    /// Records that a NodeClaim holds `now` instead of `before`.
    pub(crate) fn exchange(&mut self, before: &BTreeSet<Text>, now: &BTreeSet<Text>) {
        for id in before.difference(now) {
            *self.remaining.entry(id.clone()).or_insert(0) += 1;
        }
        for id in now.difference(before) {
            *self.remaining.entry(id.clone()).or_insert(0) -= 1;
        }
    }
}
