//! Renders a plan. The output depends on the plan only: same plan, same bytes.
//!
//! [`document`] is the stable format (JSON and YAML); [`table`] is for operators, [`markdown`] for
//! comments on pull requests, [`svg`] a drawing.

pub(crate) mod colour;
mod columns;
pub(crate) mod comparison;
pub(crate) mod disruption;
pub(crate) mod document;
mod held;
pub(crate) mod markdown;
pub(crate) mod names;
mod repacking;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod usd;
pub(crate) mod wording;
pub(crate) mod workload;

use model::Pod;
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport};

use comparison::Comparison;
use repack::RepackSummary;

/// A plan with the input that its indices reference, the report, and all notes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rendering<'r> {
    pub(crate) input: &'r PlanningInput,
    pub(crate) plan: &'r Plan,
    pub(crate) report: &'r PlanReport,
    /// Day of the prices, if the catalogue states it.
    pub(crate) price_date: Option<&'r str>,
    /// Notes of compilation and planning, sorted.
    pub(crate) notes: &'r [String],
    /// Another packing of the same pods, if one was requested.
    pub(crate) comparison: Option<&'r Comparison>,
    /// What the running cluster costs and what holds it, if it was repacked.
    pub(crate) repacking: Option<&'r RepackSummary>,
}

impl<'r> Rendering<'r> {
    fn pod(&self, index: u32) -> &'r Pod {
        &self.input.pods[index as usize]
    }

    /// `namespace/name` of the pod with this index.
    pub(crate) fn pod_name(&self, index: u32) -> String {
        self.pod(index).key().to_string()
    }
}

#[cfg(test)]
mod tests;
