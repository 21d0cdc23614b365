//! Renders a plan. The output depends on the plan only: same plan, same bytes.
//!
//! [`document`] is the stable format (JSON and YAML); [`table`] is for operators, [`markdown`] for
//! comments on pull requests, [`svg`] a drawing.

pub mod colour;
mod columns;
pub mod comparison;
pub mod disruption;
pub mod document;
mod held;
pub mod markdown;
pub mod names;
mod repacking;
pub mod svg;
pub mod table;
pub mod usd;
pub mod workload;

use model::Pod;
use model::input::PlanningInput;
use model::plan::{Plan, PlanReport};

use comparison::Comparison;
use repack::RepackSummary;

/// A plan with the input that its indices reference, the report, and all notes.
#[derive(Debug, Clone, Copy)]
pub struct Rendering<'r> {
    pub input: &'r PlanningInput,
    pub plan: &'r Plan,
    pub report: &'r PlanReport,
    /// Day of the prices, if the catalogue states it.
    pub price_date: Option<&'r str>,
    /// Notes of compilation and planning, sorted.
    pub notes: &'r [String],
    /// Another packing of the same pods, if one was requested.
    pub comparison: Option<&'r Comparison>,
    /// What the running cluster costs and what holds it, if it was repacked.
    pub repacking: Option<&'r RepackSummary>,
}

impl<'r> Rendering<'r> {
    fn pod(&self, index: u32) -> &'r Pod {
        &self.input.pods[index as usize]
    }

    /// `namespace/name` of the pod with this index.
    pub fn pod_name(&self, index: u32) -> String {
        self.pod(index).key().to_string()
    }
}

#[cfg(test)]
mod tests;
