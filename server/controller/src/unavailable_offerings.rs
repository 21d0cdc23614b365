//! Cache of unavailable offerings (insufficient capacity): a failed launch in one cluster excludes
//! the offering in all clusters of the account and region for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::offering::SharedCatalogue;
use model::{CapacityType, InstanceTypeName, Millis, Timestamp, Zone};

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
#[derive(Debug, Default)]
pub struct UnavailableOfferings(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
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
        &self,
        instance_type: InstanceTypeName,
        zone: Zone,
        capacity_type: CapacityType,
        until: Timestamp,
    ) {
        let key = OfferingKey { instance_type: instance_type.clone(), zone: zone.clone(), capacity_type };
        let mut entries = self.entries();
        if entries.until.insert(key, until).is_none() {
            entries.unpublished.push(UnavailableOffering { instance_type, zone, capacity_type, until });
        }
        entries.masked.clear();
    }

    /// Merges offerings from other replicas; the later expiry wins.
    pub fn merge_remote(&self, offerings: Vec<UnavailableOffering>) {
        let mut entries = self.entries();
        for UnavailableOffering { instance_type, zone, capacity_type, until } in offerings {
            let known = entries.until.entry(OfferingKey { instance_type, zone, capacity_type }).or_insert(until);
            *known = (*known).max(until);
        }
        entries.masked.clear();
    }

    /// Offerings that became unavailable here since the last call.
    pub fn take_unpublished(&self) -> Vec<UnavailableOffering> {
        std::mem::take(&mut self.entries().unpublished)
    }

    /// Removes offerings whose exclusion ends by `now`.
    pub fn expire(&self, now: Timestamp) {
        let mut entries = self.entries();
        let before = entries.until.len();
        entries.until.retain(|_, until| *until > now);
        if entries.until.len() < before {
            entries.masked.clear();
        }
    }

    /// When the next exclusion ends.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.entries().until.values().min().copied()
    }

    /// Number of unavailable offerings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries().until.len()
    }

    /// Whether no offering is unavailable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries().until.is_empty()
    }

    /// Whether the offering is excluded.
    #[must_use]
    pub fn is_unavailable(&self, instance_type: &InstanceTypeName, zone: &Zone, capacity_type: CapacityType) -> bool {
        self.entries().is_unavailable(instance_type, zone, capacity_type)
    }

    /// `catalogue` with unavailable offerings marked as not available.
    pub fn mask_catalogue(&self, catalogue: &SharedCatalogue) -> SharedCatalogue {
        let mut entries = self.entries();
        if entries.until.is_empty() {
            return SharedCatalogue::clone(catalogue);
        }
        if let Some((_, masked)) = entries.masked.iter().find(|(base, _)| SharedCatalogue::ptr_eq(base, catalogue)) {
            return SharedCatalogue::clone(masked);
        }
        let mut copy = catalogue.as_ref().clone();
        for kind in &mut copy.types {
            for offering in &mut kind.offerings {
                offering.available &= !entries.is_unavailable(&kind.name, &offering.zone, offering.capacity_type);
            }
        }
        let masked = SharedCatalogue::new(copy);
        entries.masked.push((SharedCatalogue::clone(catalogue), SharedCatalogue::clone(&masked)));
        masked
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // A method that panicked has at most left a masked catalogue out, so a poisoned lock guards
        // consistent entries.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn is_unavailable(&self, instance_type: &InstanceTypeName, zone: &Zone, capacity_type: CapacityType) -> bool {
        let key = OfferingKey { instance_type: instance_type.clone(), zone: zone.clone(), capacity_type };
        self.until.contains_key(&key)
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

    fn mark(cache: &UnavailableOfferings, zone: &str, until: i64) {
        let UnavailableOffering { instance_type, zone, capacity_type, until } = offering(zone, until);
        cache.mark_unavailable(instance_type, zone, capacity_type, until);
    }

    #[test]
    fn an_unavailable_offering_is_published_once_and_again_after_expiry() {
        let cache = UnavailableOfferings::default();
        mark(&cache, "a", 100);
        mark(&cache, "a", 150);
        assert_eq!(cache.take_unpublished(), [offering("a", 100)]);
        assert_eq!(cache.take_unpublished(), []);
        cache.expire(Timestamp::from_millis(150));
        mark(&cache, "a", 300);
        assert_eq!(cache.take_unpublished(), [offering("a", 300)]);
    }

    #[test]
    fn remote_offerings_are_excluded_and_not_published_again() {
        let cache = UnavailableOfferings::default();
        mark(&cache, "a", 200);
        let _published = cache.take_unpublished();
        cache.merge_remote(vec![offering("a", 100), offering("b", 100)]);
        cache.expire(Timestamp::from_millis(100));
        let is_unavailable = |zone: &str| cache.is_unavailable(&"m5.large".into(), &zone.into(), CapacityType::Spot);
        assert!(is_unavailable("a"), "until 200, the later expiry");
        assert!(!is_unavailable("b"), "its exclusion ended at 100");
        assert_eq!(cache.take_unpublished(), []);
    }
}
