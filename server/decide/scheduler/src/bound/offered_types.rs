//! The types that pools offer, cached from one decision to the next: they depend on the catalogue
//! and the pool's requirements only, and comparing those of hundreds of types is most of the bound
//! of a small plan.

use std::sync::{Arc, Weak};

use super::catalogue_lookup::CatalogueLookup;
use model::{Catalogue, NodePool, Requirements};

/// Maximum number of cached pools; each takes one byte per type of its catalogue.
const MAX_POOLS: usize = 512;

/// For each type of a catalogue, whether a pool offers it.
#[derive(Debug, Default)]
pub(crate) struct OfferedTypes {
    /// Most recently used first.
    known: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// A weak reference: the catalogue can be freed, but no other can take its address.
    catalogue: Weak<Catalogue>,
    requirements: Requirements,
    offered: Arc<[bool]>,
}

impl Entry {
    fn is_of(&self, pool: &NodePool) -> bool {
        self.catalogue.as_ptr() == Arc::as_ptr(&pool.catalogue) && self.requirements == pool.requirements
    }
}

impl OfferedTypes {
    /// For each type of the catalogue of `pool`, whether `pool` offers it.
    pub(super) fn of<'a>(&mut self, pool: &'a NodePool, lookup: &mut CatalogueLookup<'a>) -> Arc<[bool]> {
        if let Some(at) = self.known.iter().position(|entry| entry.is_of(pool)) {
            self.known[..=at].rotate_right(1);
        } else {
            self.known.retain(|entry| entry.catalogue.strong_count() > 0);
            self.known.truncate(MAX_POOLS - 1);
            let (catalogue, requirements) = (Arc::downgrade(&pool.catalogue), pool.requirements.clone());
            let offered = lookup.offered_types(pool).into();
            self.known.insert(0, Entry { catalogue, requirements, offered });
        }
        Arc::clone(&self.known[0].offered)
    }
}
