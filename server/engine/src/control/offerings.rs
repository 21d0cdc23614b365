//! What is sold out: a refusal in one cluster spares every cluster that buys from the same account and region the same
//! refusal, for a while.

use std::collections::BTreeMap;

use crate::model::offering::SharedCatalogue;
use crate::model::{CapacityType, Offering, Text, Timestamp};

/// How long an offering that was refused is left alone, in milliseconds (Karpenter's AWS provider: three minutes).
pub const SOLD_OUT_MS: i64 = 180_000;

/// One offering of one account and region.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct OfferingKey {
    instance_type: Text,
    zone: Text,
    capacity_type: CapacityType,
}

/// Offerings that were refused lately, and catalogues with them marked.
#[derive(Debug, Clone, Default)]
pub struct OfferingMemory {
    until: BTreeMap<OfferingKey, Timestamp>,
    /// Catalogues as they were given and as they are under `until`. The first of each pair is held so that its address
    /// stays its own.
    marked: Vec<(SharedCatalogue, SharedCatalogue)>,
}

impl OfferingMemory {
    /// The offering was refused.
    pub fn refuse(&mut self, instance_type: Text, zone: Text, capacity_type: CapacityType, until: Timestamp) {
        self.until.insert(OfferingKey { instance_type, zone, capacity_type }, until);
        self.marked.clear();
    }

    /// Forgets refusals that are over by `now`.
    pub fn forget_past(&mut self, now: Timestamp) {
        let before = self.until.len();
        self.until.retain(|_, until| *until > now);
        if self.until.len() < before {
            self.marked.clear();
        }
    }

    /// When the next refusal is over.
    #[must_use]
    pub fn next_end(&self) -> Option<Timestamp> {
        self.until.values().min().copied()
    }

    /// How many offerings are sold out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.until.len()
    }

    /// Whether nothing is sold out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Whether the offering was refused lately.
    #[must_use]
    pub fn is_sold_out(&self, instance_type: &Text, zone: &Text, capacity_type: CapacityType) -> bool {
        let key = OfferingKey { instance_type: instance_type.clone(), zone: zone.clone(), capacity_type };
        self.until.contains_key(&key)
    }

    /// `catalogue` with what is sold out marked as not available.
    pub fn mark(&mut self, catalogue: &SharedCatalogue) -> SharedCatalogue {
        if self.until.is_empty() {
            return SharedCatalogue::clone(catalogue);
        }
        if let Some((_, marked)) = self.marked.iter().find(|(base, _)| SharedCatalogue::ptr_eq(base, catalogue)) {
            return SharedCatalogue::clone(marked);
        }
        let mut copy = catalogue.as_ref().clone();
        for kind in &mut copy.types {
            for offering in &mut kind.offerings {
                offering.available &= !self.bars(&kind.name, offering);
            }
        }
        let marked = SharedCatalogue::new(copy);
        self.marked.push((SharedCatalogue::clone(catalogue), SharedCatalogue::clone(&marked)));
        marked
    }

    fn bars(&self, instance_type: &Text, offering: &Offering) -> bool {
        self.is_sold_out(instance_type, &offering.zone, offering.capacity_type)
    }
}
