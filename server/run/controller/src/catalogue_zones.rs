//! Zones in which machines of a NodePool can be launched, cached per catalogue: a catalogue has
//! thousands of offerings in few zones, and most clusters of a region use the same one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cluster::PoolRecord;
use model::Zone;
use model::offering::{Catalogue, SharedCatalogue};

/// Zones by catalogue. A weak reference lets a catalogue be freed, but no other can take its
/// address.
#[derive(Debug, Default)]
pub(crate) struct CatalogueZones(Mutex<Vec<Entry>>);

type Entry = (Weak<Catalogue>, Arc<BTreeSet<Zone>>);

impl CatalogueZones {
    /// Zones in which machines of these NodePools can be launched, by name.
    pub(crate) fn for_pools(&self, pools: &[&PoolRecord]) -> Vec<Zone> {
        let mut all = BTreeSet::new();
        for pool in pools {
            all.extend(self.zones(&pool.pool.catalogue).iter().cloned());
        }
        all.into_iter().collect()
    }

    fn zones(&self, catalogue: &SharedCatalogue) -> Arc<BTreeSet<Zone>> {
        // An entry is complete when it is added, so a poisoned lock guards valid entries.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(one, _): &&Entry| one.as_ptr() == Arc::as_ptr(catalogue);
        if let Some((_, zones)) = known.iter().find(is_it) {
            return Arc::clone(zones);
        }
        known.retain(|(catalogue, _)| catalogue.strong_count() > 0);
        let zones = Arc::new(read(catalogue));
        known.push((Arc::downgrade(catalogue), Arc::clone(&zones)));
        zones
    }
}

fn read(catalogue: &Catalogue) -> BTreeSet<Zone> {
    let mut zones: Vec<&Zone> = Vec::new();
    for offering in catalogue.types.iter().flat_map(|kind| &kind.offerings) {
        // Offerings of one zone usually share one allocation, so pointers are compared first.
        if !zones.iter().any(|known| Arc::ptr_eq(known, &offering.zone)) && !zones.contains(&&offering.zone) {
            zones.push(&offering.zone);
        }
    }
    zones.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::testing::{pool, text};

    /// `pool` with a catalogue of its own, whose offerings are all in `zone`.
    fn pool_in(zone: &str) -> PoolRecord {
        let mut record = pool();
        let mut catalogue = Catalogue::clone(&record.pool.catalogue);
        let offerings = catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings);
        offerings.for_each(|offering| offering.zone = text(zone));
        record.pool.catalogue = Arc::new(catalogue);
        record
    }

    #[test]
    fn zones_of_several_catalogues_are_merged_and_entries_of_freed_catalogues_dropped() {
        let zones = CatalogueZones::default();
        let (b, a) = (pool_in("b"), pool_in("a"));
        assert_eq!(zones.for_pools(&[&b, &a, &b]), [text::<Zone>("a"), text("b")]);
        drop((b, a));
        assert_eq!(zones.for_pools(&[&pool_in("c")]), [text::<Zone>("c")]);
        assert_eq!(zones.0.lock().expect("no other test has the lock").len(), 1);
    }
}
