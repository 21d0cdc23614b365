//! The labels of a pool's instance types, each looked up once.

use rustc_hash::FxHashMap;

use super::pool_supply::PoolSupply;
use model::{NodePool, Text};

/// For one type, the cached value of each of
/// [`super::pool_offerings::CatalogueOfferings::type_keys`]; the inner option is `None` where the
/// type has no value or several.
type ValueRow<'p> = Vec<Option<Option<&'p Text>>>;

/// The labels of the types of one pool.
#[derive(Debug)]
pub(super) struct TypeLabels<'p> {
    pool: &'p NodePool,
    supply: &'p PoolSupply,
    known: FxHashMap<usize, ValueRow<'p>>,
}

impl<'p> TypeLabels<'p> {
    pub(super) fn new(pool: &'p NodePool, supply: &'p PoolSupply) -> Self {
        Self { pool, supply, known: FxHashMap::default() }
    }

    pub(super) fn pool(&self) -> &'p NodePool {
        self.pool
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
            same.then(|| (&self.supply.type_keys[key], value))
        })
    }

    /// The value of the label at position `key` of type `option`, if there is exactly one.
    fn value(&mut self, option: usize, key: usize) -> Option<&'p Text> {
        let (pool, supply) = (self.pool, self.supply);
        let row = self.known.entry(option).or_insert_with(|| vec![None; supply.type_keys.len()]);
        *row[key].get_or_insert_with(|| {
            let kind = &pool.catalogue.types[supply.instance_types[option].index as usize];
            let values = kind.labels.get(&supply.type_keys[key])?.finite_values()?;
            values.first().filter(|_| values.len() == 1)
        })
    }
}
