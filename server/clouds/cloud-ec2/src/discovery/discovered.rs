//! The result of a complete read.

use cloud::catalogue::Snapshot;

use super::left_out::LeftOut;

/// The result of a complete read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// The region's types, zones and prices.
    pub snapshot: Snapshot,
    /// Types, zones and prices that EC2 described incompletely, in the order of its answers.
    pub left_out: Vec<LeftOut>,
}
