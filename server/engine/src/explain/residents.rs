//! Residents, found by their labels: most selectors ask for a value of a label, and most workloads have one of their own.

use rustc_hash::FxHashMap;

use crate::input::PlanningInput;
use crate::model::{LabelSelector, SelectorOperator, Text};

use super::world::Resident;

/// Residents by label and value, by index, ascending.
#[derive(Debug)]
pub(super) struct ByLabel(FxHashMap<Text, FxHashMap<Text, Vec<usize>>>);

impl ByLabel {
    pub(super) fn of(input: &PlanningInput, residents: &[Resident]) -> Self {
        let mut found: FxHashMap<Text, FxHashMap<Text, Vec<usize>>> = FxHashMap::default();
        for (at, resident) in residents.iter().enumerate() {
            for (key, value) in &input.label_sets[resident.labels as usize] {
                found.entry(key.clone()).or_default().entry(value.clone()).or_default().push(at);
            }
        }
        Self(found)
    }

    /// The residents that `selector` could select, by index, ascending; `None` when that may be anybody.
    pub(super) fn candidates(&self, selector: Option<&LabelSelector>) -> Option<Vec<usize>> {
        let Some(selector) = selector else { return Some(Vec::new()) };
        let wanted = selector.terms.iter().find(|term| term.operator == SelectorOperator::In)?;
        let Some(by_value) = self.0.get(&wanted.key) else { return Some(Vec::new()) };
        let mut found: Vec<usize> =
            wanted.values.iter().filter_map(|value| by_value.get(value)).flatten().copied().collect();
        found.sort_unstable();
        Some(found)
    }
}
