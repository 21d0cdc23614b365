//! Another packing of the same pods beside the plan (`plan --compare`).

use std::io::{self, Write};

use model::MicroUsd;
use serde::Serialize;

use super::Rendering;
use super::document::Usd;
use super::table::write_columns;

/// Hours of a month, by which AWS converts prices.
const HOURS_OF_MONTH: i64 = 730;

/// What another packing launches for the same pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comparison {
    /// Name of the packing, as in the flag.
    pub(crate) name: &'static str,
    /// Number of nodes to launch.
    pub(crate) nodes: usize,
    /// Price of these nodes per hour.
    pub(crate) new_usd_per_hour: Usd,
    /// Number of pods without a place.
    pub(crate) unschedulable: usize,
}

/// Writes the plan, the other packing and the lower bound, a row each.
///
/// # Errors
/// Errors of `out`.
pub(super) fn write(rendering: &Rendering<'_>, other: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let (plan, report) = (rendering.plan, rendering.report);
    let header = ["PACKING", "NODES", "$/HOUR", "$/MONTH", "PODS WITHOUT A PLACE"].map(str::to_owned);
    let row = |name: &str, nodes: Option<usize>, cost: MicroUsd, left: Option<usize>| {
        let count = |number: Option<usize>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        [name.to_owned(), count(nodes), cost.to_string(), dollars_a_month(cost), count(left)]
    };
    let rows = vec![
        header,
        row("this plan", Some(plan.nodes.len()), report.new_cost, Some(plan.unschedulable.len())),
        row(other.name, Some(other.nodes), other.new_usd_per_hour.0, Some(other.unschedulable)),
        row("lower bound", None, report.lower_bound, None),
    ];
    writeln!(out, "\nCOMPARISON")?;
    write_columns(rows, out)
}

/// Whole dollars that `hourly` costs in a month.
pub(super) fn dollars_a_month(hourly: MicroUsd) -> String {
    (hourly.0.saturating_mul(HOURS_OF_MONTH) / 1_000_000).to_string()
}
