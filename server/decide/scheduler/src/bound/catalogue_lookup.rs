//! Lookups shared by pools of one decision: the types compatible with a requirement, computed once
//! per catalogue.

use std::ptr;

use rustc_hash::FxHashMap;

use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::{Catalogue, NodePool, Requirement, Requirements, Text};

/// Cached results about the catalogues of pools. Catalogues are identified by address.
#[derive(Default)]
pub(super) struct CatalogueLookup<'a> {
    defined: FxHashMap<(*const Catalogue, Text), bool>,
    compatible: FxHashMap<(*const Catalogue, &'a Requirement), Vec<bool>>,
    /// Catalogue and requirements on labels that types or offerings define, of the pools seen so
    /// far.
    known: Vec<(*const Catalogue, Vec<&'a Requirement>)>,
}

impl<'a> CatalogueLookup<'a> {
    /// Whether some type of the pool's catalogue defines the label `key`.
    pub(super) fn defines_label(&mut self, pool: &NodePool, key: &Text) -> bool {
        let defines = || pool.catalogue.types.iter().any(|instance_type| instance_type.labels.get(key).is_some());
        *self.defined.entry((ptr::from_ref(pool.catalogue.as_ref()), key.clone())).or_insert_with(defines)
    }

    /// Whether an earlier pool offers the same to all pods; records `pool` as seen.
    pub(super) fn is_duplicate(&mut self, pool: &'a NodePool) -> bool {
        let catalogue = ptr::from_ref(pool.catalogue.as_ref());
        let about_offerings = |key: &str| {
            matches!(key, ZONE | CAPACITY_TYPE | INSTANCE_TYPE)
                || pool.catalogue.offering_keys.iter().any(|known| known.as_ref() == key)
        };
        let looked_at =
            pool.requirements.iter().filter(|own| about_offerings(own.key()) || self.defines_label(pool, own.key()));
        let own = (catalogue, looked_at.collect());
        let known = self.known.contains(&own);
        if !known {
            self.known.push(own);
        }
        known
    }

    /// For each type of the pool's catalogue, whether the pool's requirements allow it.
    pub(super) fn offered_types(&mut self, pool: &'a NodePool) -> Vec<bool> {
        let catalogue = ptr::from_ref(pool.catalogue.as_ref());
        let mut offered = vec![true; pool.catalogue.types.len()];
        for own in pool.requirements.iter() {
            if own.key().as_ref() == INSTANCE_TYPE || self.defines_label(pool, own.key()) {
                let compatible = self.compatible.entry((catalogue, own)).or_insert_with(|| compatible(pool, own));
                offered.iter_mut().zip(compatible).for_each(|(offered, compatible)| *offered &= *compatible);
            }
        }
        offered
    }
}

/// For each type, whether it is compatible with `requirement`.
fn compatible(pool: &NodePool, requirement: &Requirement) -> Vec<bool> {
    let alone = Requirements::from_iter([requirement.clone()]);
    let named = requirement.key().as_ref() == INSTANCE_TYPE;
    let types = pool.catalogue.types.iter();
    types
        .map(|instance_type| {
            instance_type.labels.first_conflict(&alone).is_none() && (!named || requirement.has(&instance_type.name))
        })
        .collect()
}
