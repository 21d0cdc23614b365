//! The result of a complete read.

use cloud::catalogue::Snapshot;
use cloud::catalogue::discovered::DiscoveredRegion;

use super::left_out::LeftOut;

/// The result of a complete read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// The region's types, zones and prices.
    pub snapshot: Snapshot,
    /// Types, zones and prices that EC2 described incompletely, in the order of its answers.
    pub left_out: Vec<LeftOut>,
    /// What the snapshot was built from, so that it can be built again with other prices.
    region: DiscoveredRegion,
}

impl Discovered {
    pub(super) fn new(region: DiscoveredRegion, left_out: Vec<LeftOut>, prices: &Snapshot) -> Self {
        Self { snapshot: Snapshot::discovered(region.clone(), prices), left_out, region }
    }

    pub(super) fn region(&self) -> &DiscoveredRegion {
        &self.region
    }
}
