//! The open offerings of pools, computed once for each set of requirements.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use model::{Catalogue, InstanceType, Offering, Requirements};

/// The checks beside labels: availability, price ceilings and spot share are checked or ignored,
/// on-demand waits for spot, the node is already launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FilterOptions {
    pub(super) availability: bool,
    pub(super) ceilings: bool,
    pub(super) share: bool,
    pub(super) waits: bool,
    pub(super) already_launched: bool,
}

/// Number of a pool, the requirements, and the filter options.
type Key = (u32, Requirements, FilterOptions);

/// Open offerings by instance type, per pool, requirements and filter options. Used for lookup
/// only, never iterated.
#[derive(Debug, Default)]
pub(super) struct OpenOfferings(RefCell<FxHashMap<Key, Rc<[Vec<u32>]>>>);

impl OpenOfferings {
    /// The open offerings of `catalogue`, that of a pool, under the requirements; computed with
    /// `open` on a cache miss.
    pub(super) fn find(
        &self,
        (pool, merged, options): (u32, &Requirements, FilterOptions),
        catalogue: &Catalogue,
        open: impl Fn(&InstanceType, &Offering) -> bool,
    ) -> Rc<[Vec<u32>]> {
        let key = (pool, merged.clone(), options);
        if let Some(known) = self.0.borrow().get(&key) {
            return Rc::clone(known);
        }
        let of_type = |instance: &InstanceType| {
            let offerings = (0_u32..).zip(&instance.offerings).filter(|(_, offering)| open(instance, offering));
            offerings.map(|(at, _)| at).collect()
        };
        let found: Rc<[Vec<u32>]> = catalogue.types.iter().map(of_type).collect();
        self.0.borrow_mut().insert(key, Rc::clone(&found));
        found
    }
}
