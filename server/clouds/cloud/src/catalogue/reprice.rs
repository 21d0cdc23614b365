//! A snapshot with other prices of one region.

use std::collections::BTreeMap;

use model::{CapacityType, InstanceTypeName, MicroUsd, Text, Zone};

use super::snapshot::{Hardware, Quote, Snapshot, TypeEntry, ZoneOffering};

/// On-demand prices per hour by type.
pub type OnDemandPrices = BTreeMap<InstanceTypeName, MicroUsd>;

/// Spot prices per hour by type and zone.
pub type SpotPrices = BTreeMap<InstanceTypeName, BTreeMap<Zone, MicroUsd>>;

/// Prices of one region that replace those of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegionPrices {
    /// The price of a type in all zones. Types without one keep that of the snapshot.
    pub on_demand: OnDemandPrices,
    /// Without one in a zone, a type of EC2 has no spot offering there, and a type of a catalogue file keeps its own.
    /// `None` where no spot price is known: then the snapshot's hold.
    pub spot: Option<SpotPrices>,
    /// Date of the prices; `None` keeps that of the snapshot.
    pub date: Option<Text>,
}

impl Snapshot {
    /// This snapshot with `prices` in `region`; unchanged if it lacks the region.
    #[must_use]
    pub fn with_prices(mut self, region: &str, prices: &RegionPrices) -> Self {
        let Some(index) = self.region_index(region) else { return self };
        let zones = std::mem::take(&mut self.regions[index].zones);
        for entry in &mut self.types {
            if let Some(price) = prices.on_demand.get(&entry.name) {
                set_on_demand(entry, index, *price);
            }
            if let Some(spot) = &prices.spot {
                set_spot(entry, index, &zones, spot.get(&entry.name));
            }
        }
        let region = &mut self.regions[index];
        region.zones = zones;
        if let Some(date) = &prices.date {
            region.price_date = Some(date.clone());
        }
        self
    }

    /// The on-demand price of `instance_type` in `region`; `None` when it is unknown or an estimate.
    #[must_use]
    pub fn on_demand_price(&self, region: &str, instance_type: &str) -> Option<MicroUsd> {
        let (index, entry) = (self.region_index(region)?, self.entry(instance_type)?);
        let is_on_demand = |sale: &&ZoneOffering| sale.region == index && sale.capacity_type == CapacityType::OnDemand;
        let zonal = || entry.zone_offerings.iter().filter(is_on_demand).find_map(|sale| sale.price);
        entry.regional_price(index).or_else(zonal).filter(|quote| !quote.estimated).map(|quote| quote.price)
    }
}

/// The price of the region replaces those of its zones.
fn set_on_demand(entry: &mut TypeEntry, region: usize, price: MicroUsd) {
    entry.regional.retain(|(index, _)| *index != region);
    entry.regional.push((region, Quote::exact(price)));
    let zonal = entry.zone_offerings.iter_mut().filter(|sale| sale.region == region);
    zonal.filter(|sale| sale.capacity_type == CapacityType::OnDemand).for_each(|sale| sale.price = None);
}

fn set_spot(entry: &mut TypeEntry, region: usize, zones: &[Zone], prices: Option<&BTreeMap<Zone, MicroUsd>>) {
    let is_of_ec2 = matches!(entry.hardware, Hardware::Ec2(_));
    let price_in = |zone: usize| prices.and_then(|prices| prices.get(zones.get(zone)?)).copied();
    let is_spot = |sale: &ZoneOffering| sale.region == region && sale.capacity_type == CapacityType::Spot;
    entry.zone_offerings.retain(|sale| !is_spot(sale) || !is_of_ec2 || price_in(sale.zone).is_some());
    for sale in entry.zone_offerings.iter_mut().filter(|sale| is_spot(sale)) {
        sale.price = price_in(sale.zone).map(Quote::exact).or(sale.price);
    }
    let has_spot = |zone: usize| entry.zone_offerings.iter().any(|sale| is_spot(sale) && sale.zone == zone);
    let sold = |sale: &&ZoneOffering| sale.region == region && sale.capacity_type == CapacityType::OnDemand;
    let added = entry.zone_offerings.iter().filter(sold).filter(|sale| entry.spot && !has_spot(sale.zone));
    let added = added.filter_map(|sale| {
        let price = Some(Quote::exact(price_in(sale.zone)?));
        Some(ZoneOffering { capacity_type: CapacityType::Spot, price, ..*sale })
    });
    let added: Vec<ZoneOffering> = added.collect();
    entry.zone_offerings.extend(added);
}
