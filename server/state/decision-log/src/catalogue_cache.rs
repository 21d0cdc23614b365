//! Cache of catalogue references. All clusters of a region use the same few catalogues, each of
//! them megabytes when encoded: each is hashed once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::offering::SharedCatalogue;

use super::records::CatalogueRef;

/// Catalogues with their references. An entry holds its catalogue, so that the address stays
/// unique, until no other user holds it.
#[derive(Debug, Default)]
pub(super) struct CatalogueCache(Mutex<Vec<(SharedCatalogue, CatalogueRef)>>);

impl CatalogueCache {
    /// Reference to `catalogue`, from the cache or computed.
    pub(super) fn reference(&self, catalogue: &SharedCatalogue) -> CatalogueRef {
        let known =
            self.lock().iter().find(|(known, _)| Arc::ptr_eq(known, catalogue)).map(|(_, reference)| reference.clone());
        if let Some(known) = known {
            return known;
        }
        // Two decisions may hash the same catalogue concurrently, with equal results.
        let reference = CatalogueRef::of(catalogue);
        let mut cache = self.lock();
        cache.retain(|(held, _)| Arc::strong_count(held) > 1 && !Arc::ptr_eq(held, catalogue));
        cache.push((SharedCatalogue::clone(catalogue), reference.clone()));
        reference
    }

    /// Every change leaves a valid list, so a poisoned lock holds valid data.
    fn lock(&self) -> MutexGuard<'_, Vec<(SharedCatalogue, CatalogueRef)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use model::Text;
    use model::offering::Catalogue;

    use super::*;

    #[test]
    fn a_catalogue_is_identified_by_content_and_dropped_with_its_last_user() {
        let cache = CatalogueCache::default();
        let empty = SharedCatalogue::new(Catalogue::default());
        let other = Catalogue { offering_keys: vec![Text::from("a")], ..Catalogue::default() };
        let other = SharedCatalogue::new(other);
        assert_eq!(cache.reference(&empty), CatalogueRef::of(&empty));
        assert_ne!(cache.reference(&other), cache.reference(&empty));
        assert_eq!(cache.lock().len(), 2);
        drop(other);
        let third = SharedCatalogue::new(Catalogue::default());
        assert_eq!(cache.reference(&third), cache.reference(&empty), "equal in content");
        assert_eq!(cache.lock().len(), 2, "the unused one was dropped");
    }
}
