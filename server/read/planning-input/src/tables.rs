//! Shared tables: equal shapes, label sets and volume requirements are stored once and referenced
//! by index.

use std::hash::Hash;

use model::input::PlanningInput;
use model::{Labels, PodShape, VolumeAlternatives};
use rustc_hash::FxHashMap;

/// Values, each stored once, by index in order of insertion.
#[derive(Debug)]
pub struct Table<T> {
    values: Vec<T>,
    indices: FxHashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> Table<T> {
    /// A table that begins with `values`.
    pub fn of(values: Vec<T>) -> Self {
        let indices = values.iter().cloned().zip(0..).collect();
        Self { values, indices }
    }

    /// The value with this index.
    pub fn get(&self, index: u32) -> &T {
        &self.values[index as usize]
    }

    /// Returns the index of `value`, which is added if it is new.
    pub fn index(&mut self, value: &T) -> u32 {
        if let Some(index) = self.indices.get(value) {
            return *index;
        }
        let index = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.clone());
        self.indices.insert(value.clone(), index);
        index
    }

    /// The values, by index.
    #[must_use]
    pub fn into_values(self) -> Vec<T> {
        self.values
    }
}

/// The tables of a planning input.
#[derive(Debug)]
pub struct Tables {
    pub shapes: Table<PodShape>,
    pub labels: Table<Labels>,
    pub volumes: Table<VolumeAlternatives>,
}

impl Tables {
    /// Takes the tables of `input`.
    pub fn take_from(input: &mut PlanningInput) -> Self {
        Self {
            shapes: Table::of(std::mem::take(&mut input.shapes)),
            labels: Table::of(std::mem::take(&mut input.label_sets)),
            volumes: Table::of(std::mem::take(&mut input.volume_sets)),
        }
    }

    /// The index of `needs`, `None` when there are none.
    pub fn volumes(&mut self, needs: &VolumeAlternatives) -> Option<u32> {
        (*needs != VolumeAlternatives::default()).then(|| self.volumes.index(needs))
    }
}
