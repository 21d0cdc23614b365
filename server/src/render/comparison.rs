//! Another packing of the same pods beside the plan (`plan --compare`).

use serde::Serialize;

use super::usd::Usd;

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
