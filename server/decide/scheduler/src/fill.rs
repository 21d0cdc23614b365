//! Fills what is there and then opens machines, in given domains.

use super::classes::PreferenceSet;
use super::packing::{Packing, Reach};
use super::topology::Pin;

impl Packing<'_, '_> {
    /// Fills what `reach` allows, in order, in the domains `pins`.
    pub(super) fn fill_within(
        &mut self,
        class: u32,
        count: u32,
        pins: &[Pin],
        preferences: PreferenceSet,
        reach: Reach,
    ) -> u32 {
        let mut left = count;
        if reach == Reach::ExistingNodes {
            return self.fill_existing_nodes(class, left, pins, preferences);
        }
        left -= self.fill_cohorts(class, left, pins, preferences, true);
        if reach == Reach::Cohorts {
            return count - left;
        }
        while left > 0 {
            let got = self.launch(class, left, pins, preferences);
            if got == 0 {
                break;
            }
            left -= got;
        }
        // Pools reach their `min-nodes` before pods share a machine, hence this second pass.
        if left > 0 && self.pool_counts.any_pool_misses_nodes() {
            left -= self.fill_cohorts(class, left, pins, preferences, false);
        }
        if left > 0 && !self.patterns.are_in_use() {
            left -= self.grow_cohorts(class, left, pins, preferences);
        }
        count - left
    }
}
