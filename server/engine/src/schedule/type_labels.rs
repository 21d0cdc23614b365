//! The labels of a pool's instance types, each looked up once.

use rustc_hash::FxHashMap;

use super::pool_supply::PoolSupply;
use crate::model::{NodePool, Text};

/// For one type, the cached value of each of
/// [`super::pool_offerings::CatalogueOfferings::type_keys`], by its number; the inner option is
/// `None` where the type has no value or several.
type ValueRow = Vec<Option<Option<u32>>>;

/// The labels of the types of one pool.
#[derive(Debug)]
pub(super) struct TypeLabels<'p> {
    pool: &'p NodePool,
    supply: &'p PoolSupply,
    known: FxHashMap<usize, ValueRow>,
    values: Vec<&'p Text>,
    places: FxHashMap<&'p Text, u32>,
}

impl<'p> TypeLabels<'p> {
    pub(super) fn new(pool: &'p NodePool, supply: &'p PoolSupply) -> Self {
        Self { pool, supply, known: FxHashMap::default(), values: Vec::new(), places: FxHashMap::default() }
    }

    pub(super) fn supply(&self) -> &'p PoolSupply {
        self.supply
    }

    /// The labels, with their values, common to the types `options`.
    pub(super) fn common(&mut self, options: &[usize]) -> impl Iterator<Item = (&'p Text, &'p Text)> {
        (0..self.supply.type_keys.len()).filter_map(|key| {
            let (first, others) = options.split_first()?;
            let value = self.value(*first, key)?;
            let same = others.iter().all(|other| self.value(*other, key) == Some(value));
            same.then(|| (&self.supply.type_keys[key], self.values[value as usize]))
        })
    }

    /// The value of the label at position `key` of type `option`, if there is exactly one.
    fn value(&mut self, option: usize, key: usize) -> Option<u32> {
        let keys = self.supply.type_keys.len();
        let known = self.known.entry(option).or_insert_with(|| vec![None; keys])[key];
        if let Some(known) = known {
            return known;
        }
        let kind = &self.pool.catalogue.types[self.supply.instance_types[option].index as usize];
        let values = kind.labels.get(&self.supply.type_keys[key]).and_then(|known| known.finite_values());
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
