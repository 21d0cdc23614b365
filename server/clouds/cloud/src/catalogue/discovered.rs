//! A snapshot of one region from what EC2's API answers.
//!
//! `cloud-ec2` reads the API and fills [`DiscoveredRegion`]. On-demand prices come from another
//! API, so they are taken from a snapshot that has them: the embedded one, a catalogue file, or one
//! whose prices were refreshed.

use std::collections::{BTreeMap, BTreeSet};

use model::{CapacityType, InstanceTypeName, MicroUsd, Text, Zone};

use super::instance_type_info::InstanceTypeInfo;
use super::labels;
use super::snapshot::{Hardware, Quote, Region, Snapshot, TypeEntry, ZoneOffering};

/// One region of one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredRegion {
    /// Region name, such as `us-east-1`.
    pub name: Text,
    /// The zones, and their ids where known.
    pub zones: BTreeMap<Zone, Option<Text>>,
    /// The instance types, each name once.
    pub types: Vec<DiscoveredType>,
    /// Day of its on-demand prices, such as `2026-05-12`; `None` where they are those of another snapshot.
    pub price_date: Option<Text>,
}

/// One instance type of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredType {
    /// Name, such as `m5.large`.
    pub name: InstanceTypeName,
    /// Its data.
    pub info: InstanceTypeInfo,
    /// Whether it can be bought on demand.
    pub on_demand: bool,
    /// Whether it can be bought as spot.
    pub spot: bool,
    /// Zones that offer it; zones that the region lacks have no effect.
    pub zones: BTreeSet<Zone>,
    /// On-demand price per hour; `None` where it is that of another snapshot.
    pub on_demand_price: Option<MicroUsd>,
    /// Spot price per hour by zone. A zone without one has no spot offering. `None` where no spot price is known: then
    /// spot is estimated in each zone.
    pub spot_prices: Option<BTreeMap<Zone, MicroUsd>>,
}

impl Snapshot {
    /// The snapshot of `region`, with the on-demand prices of `prices`.
    ///
    /// Only `region` has zones and types. The region whose prices substitute unknown ones stands
    /// before it without zones, with its prices of these types. A type without a price in either
    /// region has on-demand offerings that are not available. Prices of `region` itself come before those of `prices`.
    #[must_use]
    pub fn discovered(region: DiscoveredRegion, prices: &Self) -> Self {
        let priced = PricedRegions::new(&region, prices);
        let index = priced.regions.len() - 1;
        let mut columns = labels::ec2_columns();
        let zones = priced.regions[index].zones.clone();
        let entry = |found: DiscoveredType| TypeEntry {
            labels: labels::labels_of_type(&found.name, &found.info, &mut columns),
            zone_offerings: zone_offerings(&found, index, &zones),
            regional: priced.on_demand(&found, prices),
            spot: found.spot,
            hardware: Hardware::Ec2(Box::new(found.info)),
            name: found.name,
        };
        let types = region.types.into_iter().map(entry).collect();
        Self::new(priced.regions, columns, types)
    }
}

/// The regions of a discovered snapshot, the discovered one last.
struct PricedRegions {
    regions: Vec<Region>,
    /// Per region its index in the snapshot of prices, if it is there.
    sources: Vec<Option<usize>>,
}

impl PricedRegions {
    fn new(region: &DiscoveredRegion, prices: &Snapshot) -> Self {
        let source = prices.region_index(&region.name);
        let reference = prices.reference_region().filter(|index| Some(*index) != source);
        let substitute = reference.map(|index| Region {
            zones: Vec::new(),
            zone_ids: BTreeMap::new(),
            ..prices.regions[index].clone()
        });
        let known = source.map(|index| &prices.regions[index]);
        let discovered = Region {
            name: region.name.clone(),
            zones: region.zones.keys().cloned().collect(),
            zone_ids: region.zones.iter().filter_map(|(zone, id)| Some((zone.clone(), id.clone()?))).collect(),
            spot_per_mille: known.and_then(|known| known.spot_per_mille),
            price_date: region.price_date.clone().or_else(|| known.and_then(|known| known.price_date.clone())),
        };
        let sources = reference.map(Some).into_iter().chain([source]).collect();
        Self { regions: substitute.into_iter().chain([discovered]).collect(), sources }
    }

    /// On-demand prices of a type by index of the region.
    fn on_demand(&self, found: &DiscoveredType, prices: &Snapshot) -> Vec<(usize, Quote)> {
        let own = self.regions.len() - 1;
        let stated = found.on_demand_price.map(|price| (own, Quote::exact(price)));
        let Some(entry) = prices.entry(&found.name) else { return stated.into_iter().collect() };
        let quote = |(index, source): (usize, &Option<usize>)| {
            stated.filter(|_| index == own).or_else(|| Some((index, entry.regional_price((*source)?)?)))
        };
        self.sources.iter().enumerate().filter_map(quote).collect()
    }
}

fn zone_offerings(found: &DiscoveredType, region: usize, zones: &[Zone]) -> Vec<ZoneOffering> {
    let offered = zones.iter().enumerate().filter(|(_, zone)| found.zones.contains(*zone));
    let sales = |(index, zone): (usize, &Zone)| {
        let sale = move |capacity_type, price| ZoneOffering { region, zone: index, capacity_type, price };
        let on_demand = found.on_demand.then(|| sale(CapacityType::OnDemand, None));
        let spot = || match &found.spot_prices {
            Some(prices) => prices.get(zone).map(|price| sale(CapacityType::Spot, Some(Quote::exact(*price)))),
            None => Some(sale(CapacityType::Spot, None)),
        };
        on_demand.into_iter().chain(found.spot.then(spot).flatten())
    };
    offered.flat_map(sales).collect()
}
