//! Zones, zone ids, and spot prices.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::{AvailabilityZone, InstanceTypeOffering, SpotPrice};
use cloud::catalogue::{SpotPrices, parse_usd};
use model::{InstanceTypeName, MicroUsd, Text, Zone};

use super::left_out::{LeftOut, Reason};

/// Zones by the type that they offer.
pub(super) type OfferedZones = BTreeMap<InstanceTypeName, BTreeSet<Zone>>;

/// Zone ids by zone name.
pub(super) fn zone_ids(described: &[AvailabilityZone], left_out: &mut Vec<LeftOut>) -> BTreeMap<Zone, Text> {
    let mut ids = BTreeMap::new();
    for zone in described {
        match (zone.zone_name(), zone.zone_id()) {
            (Some(name), Some(id)) => {
                ids.insert(Zone::from(name), Text::from(id));
            }
            (Some(name), None) => left_out.push(refuse(format!("the id of zone {name}"), Reason::Missing("ZoneId"))),
            (None, _) => left_out.push(refuse("a zone without a name".to_owned(), Reason::Missing("ZoneName"))),
        }
    }
    ids
}

pub(super) fn offered_zones(offerings: &[InstanceTypeOffering], left_out: &mut Vec<LeftOut>) -> OfferedZones {
    let mut offered = OfferedZones::new();
    for offering in offerings {
        match (offering.instance_type(), offering.location()) {
            (Some(name), Some(zone)) => {
                offered.entry(InstanceTypeName::from(name.as_str())).or_default().insert(Zone::from(zone));
            }
            (Some(name), None) => {
                left_out.push(refuse(format!("an offering of {}", name.as_str()), Reason::Missing("Location")));
            }
            (None, _) => {
                left_out.push(refuse("an offering without a type".to_owned(), Reason::Missing("InstanceType")));
            }
        }
    }
    offered
}

/// The newest price of each type and zone. Of several at the same time, the highest counts, so that
/// a plan does not promise too low a price.
pub(super) fn spot_prices(history: &[SpotPrice], left_out: &mut Vec<LeftOut>) -> SpotPrices {
    let mut newest = BTreeMap::new();
    for entry in history {
        match read_price(entry) {
            Ok((place, price)) => {
                let stated = (entry.timestamp().map(|at| (at.secs(), at.subsec_nanos())), price);
                let known = newest.entry(place).or_insert(stated);
                *known = stated.max(*known);
            }
            Err(refused) => left_out.push(refused),
        }
    }
    let mut prices = SpotPrices::new();
    for ((name, zone), (_, price)) in newest {
        prices.entry(name).or_default().insert(zone, price);
    }
    prices
}

type Place = (InstanceTypeName, Zone);

fn read_price(entry: &SpotPrice) -> Result<(Place, MicroUsd), LeftOut> {
    let name = entry.instance_type().map(|name| name.as_str());
    let item = || {
        let (name, zone) = (name.unwrap_or("an unnamed type"), entry.availability_zone().unwrap_or("an unnamed zone"));
        format!("the spot price of {name} in {zone}")
    };
    let missing = |field| move || refuse(item(), Reason::Missing(field));
    let name = name.ok_or_else(missing("InstanceType"))?;
    let zone = entry.availability_zone().ok_or_else(missing("AvailabilityZone"))?;
    let stated = entry.spot_price().ok_or_else(missing("SpotPrice"))?;
    // Nothing is free: a zero is a price that EC2 does not know.
    let price = parse_usd(stated).filter(|price| price.0 > 0);
    let price = price.ok_or_else(|| refuse(item(), Reason::Invalid("SpotPrice")))?;
    Ok(((InstanceTypeName::from(name), Zone::from(zone)), price))
}

fn refuse(item: String, reason: Reason) -> LeftOut {
    LeftOut { item: Text::from(item), reason }
}

#[cfg(test)]
mod tests;
