use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Values that a planning input refers to by index, each once, in the order of insertion.
#[derive(Debug)]
pub struct DistinctValues<T> {
    values: Vec<T>,
    indices: FxHashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> DistinctValues<T> {
    /// Begins with `values`.
    #[must_use]
    pub fn of(values: Vec<T>) -> Self {
        let indices = values.iter().cloned().zip(0..).collect();
        Self { values, indices }
    }

    #[must_use]
    pub fn get(&self, index: u32) -> &T {
        &self.values[index as usize]
    }

    /// The index of `value`, which is added if it is new.
    pub fn index(&mut self, value: &T) -> u32 {
        if let Some(index) = self.indices.get(value) {
            return *index;
        }
        let index = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.clone());
        self.indices.insert(value.clone(), index);
        index
    }

    #[must_use]
    pub fn into_values(self) -> Vec<T> {
        self.values
    }
}
