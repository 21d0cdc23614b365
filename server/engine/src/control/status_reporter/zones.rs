//! Zones in which the machines of a NodePool can be bought. A catalogue has thousands of offerings in a handful of zones, and
//! is the same from pass to pass: it is read once.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::PoolRecord;
use crate::model::Text;
use crate::model::offering::{Catalogue, SharedCatalogue};

/// The zones of every catalogue that some pool uses. Each catalogue is held, so that its address stays its own.
#[derive(Debug, Default)]
pub(super) struct Zones(Vec<(SharedCatalogue, BTreeSet<Text>)>);

impl Zones {
    /// Reads the catalogues that were not there before, and lets go of those that `pools` do not use.
    pub(super) fn follow(&mut self, pools: &[PoolRecord]) {
        self.0.retain(|(known, _)| pools.iter().any(|pool| Arc::ptr_eq(known, &pool.pool.catalogue)));
        for catalogue in pools.iter().map(|pool| &pool.pool.catalogue) {
            if self.known(catalogue).is_none() {
                self.0.push((Arc::clone(catalogue), read(catalogue)));
            }
        }
    }

    /// Zones in which machines of these pools can be bought, by name.
    pub(super) fn of(&self, pools: &[&PoolRecord]) -> Vec<Text> {
        let mut all = BTreeSet::new();
        for pool in pools {
            match self.known(&pool.pool.catalogue) {
                Some(zones) => all.extend(zones.iter().cloned()),
                // A pool that is left to others is not followed.
                None => all.extend(read(&pool.pool.catalogue)),
            }
        }
        all.into_iter().collect()
    }

    fn known(&self, catalogue: &SharedCatalogue) -> Option<&BTreeSet<Text>> {
        self.0.iter().find(|(known, _)| Arc::ptr_eq(known, catalogue)).map(|(_, zones)| zones)
    }
}

fn read(catalogue: &Catalogue) -> BTreeSet<Text> {
    let mut zones: Vec<&Text> = Vec::new();
    for offering in catalogue.types.iter().flat_map(|kind| &kind.offerings) {
        // Offerings of one zone share its text as a rule: no letter is compared then.
        if !zones.iter().any(|known| Arc::ptr_eq(known, &offering.zone)) && !zones.contains(&&offering.zone) {
            zones.push(&offering.zone);
        }
    }
    zones.into_iter().cloned().collect()
}
