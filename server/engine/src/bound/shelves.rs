//! What pools have in common: types that agree with a requirement are looked for once for each catalogue.

use std::ptr;

use rustc_hash::FxHashMap;

use crate::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use crate::model::{Catalogue, NodePool, Requirement, Requirements, Text};

/// Answers about the catalogues of pools, kept for the next pool. Catalogues are told apart by where they are.
#[derive(Default)]
pub(super) struct Shelves<'a> {
    defined: FxHashMap<(*const Catalogue, Text), bool>,
    agreeing: FxHashMap<(*const Catalogue, &'a Requirement), Vec<bool>>,
    /// Catalogue and requirements on labels that types or offerings define, of the pools that were asked about.
    known: Vec<(*const Catalogue, Vec<&'a Requirement>)>,
}

impl<'a> Shelves<'a> {
    /// Whether some type of the pool's catalogue defines the label `key`.
    pub(super) fn define(&mut self, pool: &NodePool, key: &Text) -> bool {
        let defines = || pool.catalogue.types.iter().any(|machine| machine.labels.get(key).is_some());
        *self.defined.entry((ptr::from_ref(pool.catalogue.as_ref()), key.clone())).or_insert_with(defines)
    }

    /// Whether a pool that was asked about before sells the same to pods of any kind; the question counts as asked.
    pub(super) fn are_known(&mut self, pool: &'a NodePool) -> bool {
        let catalogue = ptr::from_ref(pool.catalogue.as_ref());
        let about_offerings = |key: &str| {
            matches!(key, ZONE | CAPACITY_TYPE | INSTANCE_TYPE)
                || pool.catalogue.offering_keys.iter().any(|known| known.as_ref() == key)
        };
        let looked_at =
            pool.requirements.iter().filter(|own| about_offerings(own.key()) || self.define(pool, own.key()));
        let own = (catalogue, looked_at.collect());
        let known = self.known.contains(&own);
        if !known {
            self.known.push(own);
        }
        known
    }

    /// For each type of the pool's catalogue, whether the pool may buy it at all.
    pub(super) fn sold_by(&mut self, pool: &'a NodePool) -> Vec<bool> {
        let catalogue = ptr::from_ref(pool.catalogue.as_ref());
        let mut sold = vec![true; pool.catalogue.types.len()];
        for own in pool.requirements.iter() {
            if own.key().as_ref() == INSTANCE_TYPE || self.define(pool, own.key()) {
                let agreeing = self.agreeing.entry((catalogue, own)).or_insert_with(|| agreeing(pool, own));
                sold.iter_mut().zip(agreeing).for_each(|(sold, agrees)| *sold &= *agrees);
            }
        }
        sold
    }
}

/// For each type, whether it agrees with `requirement`.
fn agreeing(pool: &NodePool, requirement: &Requirement) -> Vec<bool> {
    let alone = Requirements::from_iter([requirement.clone()]);
    let named = requirement.key().as_ref() == INSTANCE_TYPE;
    let types = pool.catalogue.types.iter();
    types
        .map(|machine| machine.labels.first_conflict(&alone).is_none() && (!named || requirement.has(&machine.name)))
        .collect()
}
