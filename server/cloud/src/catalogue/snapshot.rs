//! What is known about machines before anybody configures anything: regions, zones, types, prices.

use engine::model::{CapacityType, MicroUsd, Resources, Text};

use super::columns::{Columns, Row};
use super::figures::InstanceTypeInfo;

/// The region whose prices stand in where a region's own are not known.
const HOME_REGION: &str = "us-east-1";

/// A region and its zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Name, such as `us-east-1`.
    pub name: Text,
    /// Names of its zones, sorted; empty when they are not known.
    pub zones: Vec<Text>,
    /// Spot price in thousandths of the on-demand price where no spot price is known; `None` when nothing is known of the region.
    pub spot_per_mille: Option<i64>,
    /// The day that its prices are of, such as `2026-05-12`.
    pub price_date: Option<Text>,
}

/// InstanceTypeInfo about machines, compact and immutable: one for a whole server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub(super) regions: Vec<Region>,
    /// Sorted by name.
    pub(super) types: Vec<TypeEntry>,
    pub(super) columns: Columns,
}

/// One instance type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypeEntry {
    pub(super) name: Text,
    /// Labels that do not depend on NodeClass, region or offering.
    pub(super) labels: Row,
    pub(super) machine: Machine,
    /// Whether it is sold as spot where its zones are not known.
    pub(super) spot: bool,
    /// On-demand prices by index of the region.
    pub(super) regional: Vec<(usize, Quote)>,
    pub(super) sales: Vec<Sale>,
}

/// How the room of a machine is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Machine {
    /// By figures, from which the rules of EC2 and of the kubelet follow.
    Ec2(Box<InstanceTypeInfo>),
    /// As somebody wrote it down.
    Given {
        capacity: Resources,
        /// What pods cannot use; `None` when the kubelet's rules decide.
        overhead: Option<Resources>,
    },
}

/// A capacity type for sale in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sale {
    pub(super) region: usize,
    /// Index into the region's zones.
    pub(super) zone: usize,
    pub(super) capacity_type: CapacityType,
    /// The zone's own price, where one is known.
    pub(super) price: Option<Quote>,
}

/// A price, and whether it is an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quote {
    pub(super) price: MicroUsd,
    pub(super) estimated: bool,
}

impl Snapshot {
    /// Regions, in the order of the file.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The zones of `region`, sorted; empty when the region or its zones are not known.
    #[must_use]
    pub fn zones(&self, region: &str) -> &[Text] {
        self.region_index(region).map_or(&[], |index| &self.regions[index].zones)
    }

    /// The region that has `zone`.
    #[must_use]
    pub fn region_of_zone(&self, zone: &str) -> Option<&Text> {
        let has = |region: &&Region| region.zones.iter().any(|known| known.as_ref() == zone);
        self.regions.iter().find(has).map(|region| &region.name)
    }

    /// Names of all instance types, sorted.
    pub fn type_names(&self) -> impl Iterator<Item = &Text> {
        self.types.iter().map(|entry| &entry.name)
    }

    pub(super) fn region_index(&self, name: &str) -> Option<usize> {
        self.regions.iter().position(|region| region.name.as_ref() == name)
    }

    /// The region whose prices stand in for unknown ones.
    pub(super) fn home(&self) -> Option<usize> {
        self.region_index(HOME_REGION).or((!self.regions.is_empty()).then_some(0))
    }

    /// Puts types in order.
    pub(super) fn new(regions: Vec<Region>, columns: Columns, mut types: Vec<TypeEntry>) -> Self {
        types.sort_by(|a, b| a.name.cmp(&b.name));
        Self { regions, types, columns }
    }
}

impl TypeEntry {
    /// The on-demand price of a region.
    pub(super) fn regional_price(&self, region: usize) -> Option<Quote> {
        self.regional.iter().find(|(index, _)| *index == region).map(|(_, quote)| *quote)
    }
}
