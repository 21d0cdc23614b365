//! Index of placed pods by label: most selectors require a label value, and most workloads have a
//! distinct one.

use rustc_hash::FxHashMap;

use model::input::PlanningInput;
use model::{LabelSelector, SelectorOperator, Text};

use super::placed_pods::PlacedGroup;

/// Group indices by label and value, ascending.
#[derive(Debug)]
pub(super) struct LabelIndex(FxHashMap<Text, FxHashMap<Text, Vec<usize>>>);

impl LabelIndex {
    pub(super) fn of(input: &PlanningInput, groups: &[PlacedGroup]) -> Self {
        let mut found: FxHashMap<Text, FxHashMap<Text, Vec<usize>>> = FxHashMap::default();
        for (at, group) in groups.iter().enumerate() {
            for (key, value) in &input.label_sets[group.labels as usize] {
                found.entry(key.clone()).or_default().entry(value.clone()).or_default().push(at);
            }
        }
        Self(found)
    }

    /// Indices of the groups that `selector` may select, ascending; `None` if the index cannot
    /// narrow them.
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
