//! A feature: one change to the plain input.

use anyhow::Result;
use model::input::PlanningInput;

use super::scenario::{Growth, Scenario};

/// A change to the plain input.
pub struct Feature {
    /// Name in the table, selected by `--only`.
    pub name: &'static str,
    /// Adds the feature to a plain scenario.
    pub change: fn(&mut Scenario),
}

impl Feature {
    /// A feature called `name`.
    pub const fn new(name: &'static str, change: fn(&mut Scenario)) -> Self {
        Self { name, change }
    }

    pub(super) fn input(&self, pods: usize, growth: Growth) -> Result<PlanningInput> {
        let mut scenario = Scenario::plain(pods, growth);
        (self.change)(&mut scenario);
        scenario.input()
    }
}
