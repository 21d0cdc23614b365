//! Zones in which machines of a NodePool can be launched, cached per catalogue: a catalogue has
//! thousands of offerings in few zones and rarely changes between passes.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::PoolRecord;
use model::Zone;
use model::offering::{Catalogue, SharedCatalogue};

/// Zones by catalogue. Each entry holds its catalogue, so that the pointer comparison stays valid.
#[derive(Debug, Default)]
pub(super) struct ZoneCache(Vec<(SharedCatalogue, BTreeSet<Zone>)>);

impl ZoneCache {
    /// Reads new catalogues, and drops those that `pools` do not use.
    pub(super) fn update(&mut self, pools: &[PoolRecord]) {
        self.0.retain(|(known, _)| pools.iter().any(|pool| Arc::ptr_eq(known, &pool.pool.catalogue)));
        for catalogue in pools.iter().map(|pool| &pool.pool.catalogue) {
            if self.known(catalogue).is_none() {
                self.0.push((Arc::clone(catalogue), read(catalogue)));
            }
        }
    }

    /// Zones in which machines of these NodePools can be launched, by name.
    pub(super) fn for_pools(&self, pools: &[&PoolRecord]) -> Vec<Zone> {
        let mut all = BTreeSet::new();
        for pool in pools {
            match self.known(&pool.pool.catalogue) {
                Some(zones) => all.extend(zones.iter().cloned()),
                // The catalogue of an unmanaged NodePool is not cached.
                None => all.extend(read(&pool.pool.catalogue)),
            }
        }
        all.into_iter().collect()
    }

    fn known(&self, catalogue: &SharedCatalogue) -> Option<&BTreeSet<Zone>> {
        self.0.iter().find(|(known, _)| Arc::ptr_eq(known, catalogue)).map(|(_, zones)| zones)
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
