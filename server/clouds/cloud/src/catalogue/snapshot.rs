//! Data about instance types, independent of settings: regions, zones, types, prices.

use std::collections::BTreeMap;

use model::{CapacityType, InstanceTypeName, MicroUsd, Resources, Text, Zone};

use super::columns::{Columns, Row};
use super::instance_type_info::InstanceTypeInfo;

/// Region whose prices substitute unknown ones.
const REFERENCE_REGION: &str = "us-east-1";

/// A region and its zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Region name, such as `us-east-1`.
    pub name: Text,
    /// Zone names, sorted; empty when unknown.
    pub zones: Vec<Zone>,
    /// Zone id by zone name, such as `use1-az1`, as the account sees them; empty when unknown. The
    /// catalogue file does not have them.
    pub zone_ids: BTreeMap<Zone, Text>,
    /// Spot price in thousandths of the on-demand price where no spot price is known; `None` when
    /// the region has no share.
    pub spot_per_mille: Option<i64>,
    /// Date of its prices, such as `2026-05-12`.
    pub price_date: Option<Text>,
}

/// Data about instance types, compact and immutable: one per server.
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
    pub(super) name: InstanceTypeName,
    /// Labels that do not depend on NodeClass, region or offering.
    pub(super) labels: Row,
    pub(super) hardware: Hardware,
    /// Whether spot is assumed where its zones are unknown.
    pub(super) spot: bool,
    /// On-demand prices by index of the region.
    pub(super) regional: Vec<(usize, Quote)>,
    pub(super) zone_offerings: Vec<ZoneOffering>,
}

/// Source of an instance type's capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hardware {
    /// EC2 data, from which the rules of EC2 and the kubelet follow.
    Ec2(Box<InstanceTypeInfo>),
    /// Stated by a user's catalogue.
    Explicit {
        capacity: Resources,
        /// Overhead; `None` when the kubelet's rules apply.
        overhead: Option<Resources>,
    },
}

/// A capacity type offered in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ZoneOffering {
    pub(super) region: usize,
    /// Index into the region's zones.
    pub(super) zone: usize,
    pub(super) capacity_type: CapacityType,
    /// Price in the zone, if known.
    pub(super) price: Option<Quote>,
}

/// A price, and whether it is an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quote {
    pub(super) price: MicroUsd,
    pub(super) estimated: bool,
}

impl Quote {
    /// A price that is no estimate.
    pub(super) fn exact(price: MicroUsd) -> Self {
        Self { price, estimated: false }
    }
}

impl Snapshot {
    /// Regions, in file order.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The region with this name.
    #[must_use]
    pub fn region(&self, name: &str) -> Option<&Region> {
        self.region_index(name).map(|index| &self.regions[index])
    }

    /// The zones of `region`, sorted; empty when the region or its zones are not known.
    #[must_use]
    pub fn zones(&self, region: &str) -> &[Zone] {
        self.region_index(region).map_or(&[], |index| &self.regions[index].zones)
    }

    /// Region of `zone`.
    #[must_use]
    pub fn region_of_zone(&self, zone: &Zone) -> Option<&Text> {
        let has = |region: &&Region| region.zones.contains(zone);
        self.regions.iter().find(has).map(|region| &region.name)
    }

    /// Names of all instance types, sorted.
    pub fn type_names(&self) -> impl Iterator<Item = &InstanceTypeName> {
        self.types.iter().map(|entry| &entry.name)
    }

    /// EC2's data of an instance type; `None` when it is unknown or stated by a user's catalogue.
    #[must_use]
    pub fn instance_type_info(&self, name: &str) -> Option<&InstanceTypeInfo> {
        match &self.entry(name)?.hardware {
            Hardware::Ec2(info) => Some(info),
            Hardware::Explicit { .. } => None,
        }
    }

    /// The instance type `name`.
    pub(super) fn entry(&self, name: &str) -> Option<&TypeEntry> {
        let found = self.types.binary_search_by(|entry| str::cmp(&entry.name, name));
        found.ok().map(|index| &self.types[index])
    }

    pub(super) fn region_index(&self, name: &str) -> Option<usize> {
        self.regions.iter().position(|region| region.name.as_ref() == name)
    }

    /// Index of the region whose prices substitute unknown ones.
    pub(super) fn reference_region(&self) -> Option<usize> {
        self.region_index(REFERENCE_REGION).or((!self.regions.is_empty()).then_some(0))
    }

    /// Sorts the types.
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
