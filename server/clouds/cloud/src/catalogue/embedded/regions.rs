//! Zones and prices of EC2 instance types by region.
//!
//! A section of `ec2-regions.csv` begins with `region NAME ZONES SPOT DATE`: zone letters, spot
//! price in thousandths of the on-demand price, date of the prices; `-` means unknown. The lines
//! below are `type,zones,usd`: letters of the zones that offer the type (`*`: all), and the
//! on-demand price in dollars per hour, prefixed with `~` when estimated.

use std::collections::BTreeMap;

use model::{CapacityType, Text, Zone};

use super::super::exchange::CatalogueError;
use super::super::price::parse_usd;
use super::super::snapshot::{Quote, Region, TypeEntry, ZoneOffering};

/// Reads the regions, and adds their offerings to `types`, which are sorted by name.
pub(super) fn decode(text: &str, types: &mut [TypeEntry]) -> Result<Vec<Region>, CatalogueError> {
    let mut regions: Vec<Region> = Vec::new();
    // Lines of a section are sorted like the types: each search begins where the previous one
    // ended.
    let mut next = 0;
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let damaged = CatalogueError::Damaged { file: "ec2-regions.csv", line: at + 1 };
        if let Some(heading) = line.strip_prefix("region ") {
            regions.push(read_region(heading).ok_or(damaged)?);
            next = 0;
            continue;
        }
        let index = regions.len().checked_sub(1);
        let read = index.and_then(|index| read_line(line, index, &regions[index], &mut types[next..]));
        next += read.ok_or(damaged)?;
    }
    Ok(regions)
}

fn read_region(heading: &str) -> Option<Region> {
    let mut words = heading.split(' ');
    let name = words.next()?;
    let letters = known(words.next()?).unwrap_or_default();
    let zones = letters.chars().map(|letter| Zone::from(format!("{name}{letter}"))).collect();
    let spot_per_mille = known(words.next()?).map(str::parse).transpose().ok()?;
    let price_date = known(words.next()?).map(Text::from);
    let zone_ids = BTreeMap::new();
    words.next().is_none().then(|| Region { name: Text::from(name), zones, zone_ids, spot_per_mille, price_date })
}

fn known(word: &str) -> Option<&str> {
    (word != "-").then_some(word)
}

/// Adds one line to its type; returns how many of `types` are finished.
fn read_line(line: &str, index: usize, region: &Region, types: &mut [TypeEntry]) -> Option<usize> {
    let mut fields = line.split(',');
    let (name, letters, usd) = (fields.next()?, fields.next()?, fields.next()?);
    let position = types.iter().position(|entry| entry.name.as_ref() == name)?;
    let entry = &mut types[position];
    if !usd.is_empty() {
        let exact = usd.strip_prefix('~');
        let price = parse_usd(exact.unwrap_or(usd))?;
        entry.regional.push((index, Quote { price, estimated: exact.is_some() }));
    }
    let offers = |zone: &Zone| letters == "*" || zone.ends_with(|letter| letters.contains(letter));
    let zones: Vec<usize> = (0..region.zones.len()).filter(|zone| offers(&region.zones[*zone])).collect();
    if letters != "*" && zones.len() != letters.len() {
        return None;
    }
    let capacity_types =
        if entry.spot { &[CapacityType::OnDemand, CapacityType::Spot][..] } else { &[CapacityType::OnDemand] };
    let sale = |zone: usize, capacity_type: &CapacityType| ZoneOffering {
        region: index,
        zone,
        capacity_type: *capacity_type,
        price: None,
    };
    entry
        .zone_offerings
        .extend(zones.iter().flat_map(|zone| capacity_types.iter().map(|capacity_type| sale(*zone, capacity_type))));
    Some(position + 1)
}

#[cfg(test)]
mod tests {
    use model::MicroUsd;

    use super::super::super::columns::Columns;
    use super::*;

    /// The embedded types without offerings.
    fn types() -> Vec<TypeEntry> {
        super::super::decode_types(super::super::TYPES, &mut Columns::default()).unwrap()
    }

    #[test]
    fn a_line_holds_the_zones_and_price_of_a_type() {
        let mut types = types();
        let text = "region rr-north-1 acd 280 2026-05-12\nm5.large,*,0.1\nu-6tb1.56xlarge,ad,~61.7945\nregion rr-gov-1 - - -\nm5.large,,0.2\n";
        let regions = decode(text, &mut types).unwrap();
        assert_eq!(&*regions[0].zones, ["rr-north-1a", "rr-north-1c", "rr-north-1d"].map(Zone::from));
        assert_eq!((regions[0].spot_per_mille, regions[0].price_date.as_deref()), (Some(280), Some("2026-05-12")));
        assert_eq!((regions[1].zones.len(), regions[1].spot_per_mille, &regions[1].price_date), (0, None, &None));
        let find = |name: &str| types.iter().find(|entry| entry.name.as_ref() == name).unwrap();
        let plain = find("m5.large");
        assert_eq!(plain.regional_price(0), Some(Quote { price: MicroUsd(100_000), estimated: false }));
        assert_eq!(plain.regional_price(1), Some(Quote { price: MicroUsd(200_000), estimated: false }));
        // Three zones, on demand and spot.
        assert_eq!(plain.zone_offerings.len(), 6);
        // It has no spot offering.
        let large = find("u-6tb1.56xlarge");
        assert_eq!(large.regional_price(0), Some(Quote { price: MicroUsd(61_794_500), estimated: true }));
        assert_eq!(large.zone_offerings.iter().map(|sale| sale.zone).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn damage_is_reported_with_its_line() {
        let region = "region rr-north-1 acd 280 2026-05-12\n";
        for line in ["m5.large,*,free", "m5.large,ab,0.1", "m5.vast,*,0.1", "m5.large", "m6i.large,*,1\nm5.large,*,1"] {
            let line_number = 2 + line.matches('\n').count();
            let expected = CatalogueError::Damaged { file: "ec2-regions.csv", line: line_number };
            assert_eq!(decode(&format!("{region}{line}"), &mut types()).unwrap_err(), expected, "{line}");
        }
        let unplaced = CatalogueError::Damaged { file: "ec2-regions.csv", line: 1 };
        assert_eq!(decode("m5.large,*,0.1", &mut types()).unwrap_err(), unplaced);
    }
}
