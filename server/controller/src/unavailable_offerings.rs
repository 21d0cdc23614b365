//! Cache of unavailable offerings (insufficient capacity): a failed launch in one cluster excludes
//! the offering in all clusters of the account and region for a while.

use std::collections::BTreeMap;

use model::offering::SharedCatalogue;
use model::{CapacityType, InstanceTypeName, Millis, Offering, Timestamp, Zone};

/// How long an offering is excluded after insufficient capacity (Karpenter's AWS provider: three
/// minutes).
pub const UNAVAILABLE_TTL: Millis = Millis::from_mins(3);

/// An offering of the account and region.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct OfferingKey {
    instance_type: InstanceTypeName,
    zone: Zone,
    capacity_type: CapacityType,
}

/// An unavailable offering and its expiry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnavailableOffering {
    /// Name of the instance type, such as `m5.large`.
    pub instance_type: InstanceTypeName,
    /// Name of the zone.
    pub zone: Zone,
    /// Capacity type of the failed launch.
    pub capacity_type: CapacityType,
    /// When the exclusion expires.
    pub until: Timestamp,
}

/// Unavailable offerings, and catalogues with these offerings masked.
#[derive(Debug, Clone, Default)]
pub struct UnavailableOfferings {
    until: BTreeMap<OfferingKey, Timestamp>,
    /// Offerings that other replicas do not have yet. An extended expiry is not published: the
    /// other replica's own attempt fails too.
    unpublished: Vec<UnavailableOffering>,
    /// Pairs of original and masked catalogue under `until`. The original is held so that its
    /// address is not reused.
    masked: Vec<(SharedCatalogue, SharedCatalogue)>,
}

impl UnavailableOfferings {
    /// Excludes an offering until `until`.
    pub fn mark_unavailable(
        &mut self,
        instance_type: InstanceTypeName,
        zone: Zone,
        capacity_type: CapacityType,
        until: Timestamp,
    ) {
        let key = OfferingKey { instance_type: instance_type.clone(), zone: zone.clone(), capacity_type };
        if self.until.insert(key, until).is_none() {
            self.unpublished.push(UnavailableOffering { instance_type, zone, capacity_type, until });
        }
        self.masked.clear();
    }

    /// Merges offerings from other replicas; the later expiry wins.
    pub fn merge_remote(&mut self, offerings: Vec<UnavailableOffering>) {
        for UnavailableOffering { instance_type, zone, capacity_type, until } in offerings {
            let known = self.until.entry(OfferingKey { instance_type, zone, capacity_type }).or_insert(until);
            *known = (*known).max(until);
        }
        self.masked.clear();
    }

    /// Offerings that became unavailable here since the last call.
    pub fn take_unpublished(&mut self) -> Vec<UnavailableOffering> {
        std::mem::take(&mut self.unpublished)
    }

    /// Removes offerings whose exclusion ends by `now`.
    pub fn expire(&mut self, now: Timestamp) {
        let before = self.until.len();
        self.until.retain(|_, until| *until > now);
        if self.until.len() < before {
            self.masked.clear();
        }
    }

    /// When the next exclusion ends.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.until.values().min().copied()
    }

    /// Number of unavailable offerings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.until.len()
    }

    /// Whether no offering is unavailable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Whether the offering is excluded.
    #[must_use]
    pub fn is_unavailable(&self, instance_type: &InstanceTypeName, zone: &Zone, capacity_type: CapacityType) -> bool {
        let key = OfferingKey { instance_type: instance_type.clone(), zone: zone.clone(), capacity_type };
        self.until.contains_key(&key)
    }

    /// `catalogue` with unavailable offerings marked as not available.
    pub fn mask_catalogue(&mut self, catalogue: &SharedCatalogue) -> SharedCatalogue {
        if self.until.is_empty() {
            return SharedCatalogue::clone(catalogue);
        }
        if let Some((_, masked)) = self.masked.iter().find(|(base, _)| SharedCatalogue::ptr_eq(base, catalogue)) {
            return SharedCatalogue::clone(masked);
        }
        let mut copy = catalogue.as_ref().clone();
        for kind in &mut copy.types {
            for offering in &mut kind.offerings {
                offering.available &= !self.covers(&kind.name, offering);
            }
        }
        let masked = SharedCatalogue::new(copy);
        self.masked.push((SharedCatalogue::clone(catalogue), SharedCatalogue::clone(&masked)));
        masked
    }

    fn covers(&self, instance_type: &InstanceTypeName, offering: &Offering) -> bool {
        self.is_unavailable(instance_type, &offering.zone, offering.capacity_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(zone: &str, until: i64) -> UnavailableOffering {
        let (instance_type, zone) = (InstanceTypeName::from("m5.large"), Zone::from(zone));
        UnavailableOffering {
            instance_type,
            zone,
            capacity_type: CapacityType::Spot,
            until: Timestamp::from_millis(until),
        }
    }

    fn mark(cache: &mut UnavailableOfferings, zone: &str, until: i64) {
        let UnavailableOffering { instance_type, zone, capacity_type, until } = offering(zone, until);
        cache.mark_unavailable(instance_type, zone, capacity_type, until);
    }

    #[test]
    fn an_unavailable_offering_is_published_once_and_again_after_expiry() {
        let mut cache = UnavailableOfferings::default();
        mark(&mut cache, "a", 100);
        mark(&mut cache, "a", 150);
        assert_eq!(cache.take_unpublished(), [offering("a", 100)]);
        assert_eq!(cache.take_unpublished(), []);
        cache.expire(Timestamp::from_millis(150));
        mark(&mut cache, "a", 300);
        assert_eq!(cache.take_unpublished(), [offering("a", 300)]);
    }

    #[test]
    fn remote_offerings_are_excluded_and_not_published_again() {
        let mut cache = UnavailableOfferings::default();
        mark(&mut cache, "a", 200);
        let _published = cache.take_unpublished();
        cache.merge_remote(vec![offering("a", 100), offering("b", 100)]);
        cache.expire(Timestamp::from_millis(100));
        let is_unavailable = |zone: &str| cache.is_unavailable(&"m5.large".into(), &zone.into(), CapacityType::Spot);
        assert!(is_unavailable("a"), "until 200, the later expiry");
        assert!(!is_unavailable("b"), "its exclusion ended at 100");
        assert_eq!(cache.take_unpublished(), []);
    }
}
