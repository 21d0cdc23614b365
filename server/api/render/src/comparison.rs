//! Another packing of the same pods beside the plan (`plan --compare`).

use serde::Serialize;

use super::usd::Usd;

/// What another packing launches for the same pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Name of the packing, as in the flag.
    pub name: &'static str,
    pub nodes: usize,
    /// Price of these nodes per hour.
    pub new_usd_per_hour: Usd,
    /// Number of pods without a place.
    pub unschedulable: usize,
    /// The nodes by instance type and capacity type, the dearest first.
    pub node_types: Vec<NodeTypeEntry>,
    /// What differs most from the plan, as sentences.
    pub differences: Vec<String>,
}

/// Nodes of one instance type and capacity type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTypeEntry {
    pub instance_type: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: &'static str,
    pub count: usize,
}
