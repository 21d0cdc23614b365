//! Another packing of the same pods beside the plan (`plan --compare`).

use serde::Serialize;

use super::usd::Usd;

/// What another packing launches for the same pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comparison {
    /// Name of the packing, as in the flag.
    pub(crate) name: &'static str,
    pub(crate) nodes: usize,
    /// Price of these nodes per hour.
    pub(crate) new_usd_per_hour: Usd,
    /// Number of pods without a place.
    pub(crate) unschedulable: usize,
    /// The nodes by instance type and capacity type, the dearest first.
    pub(crate) node_types: Vec<NodeTypeEntry>,
    /// What differs most from the plan, as sentences.
    pub(crate) differences: Vec<String>,
}

/// Nodes of one instance type and capacity type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeTypeEntry {
    pub(crate) instance_type: String,
    /// `spot`, `on-demand` or `reserved`.
    pub(crate) capacity_type: &'static str,
    pub(crate) count: usize,
}
