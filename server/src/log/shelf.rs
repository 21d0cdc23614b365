//! Catalogues that were hashed. All clusters that buy in one place use the same few, each of them megabytes when it is written
//! out: whoever decides first hashes for all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::model::offering::SharedCatalogue;

use super::records::Wares;

/// Catalogues with what is known of them. Each is held, so that its address stays its own, until nobody else does.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<Vec<(SharedCatalogue, Wares)>>);

impl Shelf {
    /// What is known of `catalogue`.
    pub(super) fn wares(&self, catalogue: &SharedCatalogue) -> Wares {
        let known = self.lock().iter().find(|(known, _)| Arc::ptr_eq(known, catalogue)).map(|(_, wares)| wares.clone());
        if let Some(known) = known {
            return known;
        }
        // Two decisions may hash the same catalogue at one moment, and find the same.
        let wares = Wares::of(catalogue);
        let mut shelf = self.lock();
        shelf.retain(|(held, _)| Arc::strong_count(held) > 1 && !Arc::ptr_eq(held, catalogue));
        shelf.push((SharedCatalogue::clone(catalogue), wares.clone()));
        wares
    }

    /// Every change leaves a whole list, so a panic elsewhere spoils nothing.
    fn lock(&self) -> MutexGuard<'_, Vec<(SharedCatalogue, Wares)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use engine::model::Text;
    use engine::model::offering::Catalogue;

    use super::*;

    #[test]
    fn a_catalogue_is_known_by_its_content_and_let_go_with_its_last_user() {
        let shelf = Shelf::default();
        let empty = SharedCatalogue::new(Catalogue::default());
        let other = Catalogue { offering_keys: vec![Text::from("a")], ..Catalogue::default() };
        let other = SharedCatalogue::new(other);
        assert_eq!(shelf.wares(&empty), Wares::of(&empty));
        assert_ne!(shelf.wares(&other), shelf.wares(&empty));
        assert_eq!(shelf.lock().len(), 2);
        drop(other);
        let third = SharedCatalogue::new(Catalogue::default());
        assert_eq!(shelf.wares(&third), shelf.wares(&empty), "equal in content");
        assert_eq!(shelf.lock().len(), 2, "the one that nobody uses is gone");
    }
}
