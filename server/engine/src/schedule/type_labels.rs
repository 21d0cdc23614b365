//! The labels that instance types give their nodes, each looked up once for a pool.

use rustc_hash::FxHashMap;

use super::market::PoolSupply;
use crate::model::{NodePool, Text};

/// Of one type, the value of each of [`super::stall::CatalogueOfferings::type_keys`] that was looked up, by its place among the values met
/// so far; `None` inside where the type has no value or several.
type Row = Vec<Option<Option<u32>>>;

/// The labels of the types of one pool.
#[derive(Debug)]
pub(super) struct TypeLabels<'p> {
    pool: &'p NodePool,
    market: &'p PoolSupply,
    known: FxHashMap<usize, Row>,
    values: Vec<&'p Text>,
    places: FxHashMap<&'p Text, u32>,
}

impl<'p> TypeLabels<'p> {
    pub(super) fn new(pool: &'p NodePool, market: &'p PoolSupply) -> Self {
        Self { pool, market, known: FxHashMap::default(), values: Vec::new(), places: FxHashMap::default() }
    }

    pub(super) fn market(&self) -> &'p PoolSupply {
        self.market
    }

    /// The labels, with their values, that the machines `options` have in common.
    pub(super) fn common(&mut self, options: &[usize]) -> impl Iterator<Item = (&'p Text, &'p Text)> {
        (0..self.market.type_keys.len()).filter_map(|key| {
            let (first, others) = options.split_first()?;
            let value = self.value(*first, key)?;
            let same = others.iter().all(|other| self.value(*other, key) == Some(value));
            same.then(|| (&self.market.type_keys[key], self.values[value as usize]))
        })
    }

    /// The value of the label at place `key` of machine `option`, if there is exactly one.
    fn value(&mut self, option: usize, key: usize) -> Option<u32> {
        let keys = self.market.type_keys.len();
        let known = self.known.entry(option).or_insert_with(|| vec![None; keys])[key];
        if let Some(known) = known {
            return known;
        }
        let kind = &self.pool.catalogue.types[self.market.machines[option].index as usize];
        let values = kind.labels.get(&self.market.type_keys[key]).and_then(|known| known.finite_values());
        let value = values.filter(|values| values.len() == 1).and_then(|values| values.first());
        let place = value.map(|value| self.place_of(value));
        self.known.entry(option).and_modify(|row| row[key] = Some(place));
        place
    }

    fn place_of(&mut self, value: &'p Text) -> u32 {
        let next = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let place = *self.places.entry(value).or_insert(next);
        if place == next {
            self.values.push(value);
        }
        place
    }
}
