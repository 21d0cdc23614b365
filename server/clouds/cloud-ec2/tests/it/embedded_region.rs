//! A region of the embedded catalogue as EC2 would answer for it, read from the data files.

use std::collections::{BTreeMap, BTreeSet};

use super::fake_ec2::catalogue::{Catalogue, SpotRow};
use super::fake_ec2::instance_types::TypeRow;

const TYPES: &str = include_str!("../../../cloud/data/ec2-catalogue.csv");
const REGIONS: &str = include_str!("../../../cloud/data/ec2-regions.csv");

/// A moment before all calls of these tests.
pub(crate) const EARLIER: &str = "2026-01-02T00:00:00Z";
/// A price in every zone for each type with spot; nothing is expected of its value.
const SOME_USD: &str = "0.012300";

/// All types, zones and offerings of `region`, with a spot price wherever spot is sold.
pub(crate) fn embedded_region(region: &str) -> Catalogue {
    let (letters, sold) = section(region);
    let zone = |letter: char| format!("{region}{letter}");
    let types: Vec<TypeRow> = type_rows().into_iter().filter(|row| sold.contains_key(&row["name"])).collect();
    let place =
        |(name, at): (&String, &String)| at.chars().map(|letter| (name.clone(), zone(letter))).collect::<Vec<_>>();
    let offerings: Vec<(String, String)> = sold.iter().flat_map(place).collect();
    let with_spot: BTreeSet<&str> =
        types.iter().filter(|row| row["spot"] == "y").map(|row| row["name"].as_str()).collect();
    let priced = offerings.iter().filter(|(name, _)| with_spot.contains(name.as_str()));
    let spot = priced.map(|(name, zone)| spot_row(name, zone, SOME_USD)).collect();
    let zones = letters.chars().enumerate().map(|(at, letter)| (zone(letter), format!("az{}", at + 1))).collect();
    Catalogue { types, offerings, zones, spot, throttled: None }
}

pub(crate) fn spot_row(name: &str, zone: &str, usd: &str) -> SpotRow {
    let (instance_type, zone, usd) = (name.to_owned(), zone.to_owned(), usd.to_owned());
    SpotRow { instance_type, zone, product: "Linux/UNIX", usd, since: EARLIER }
}

fn type_rows() -> Vec<TypeRow> {
    let mut lines = TYPES.lines().filter(|line| !line.starts_with('#'));
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| columns.iter().zip(line.split(',')).map(|(c, v)| ((*c).to_owned(), v.to_owned())).collect();
    lines.map(row).collect()
}

/// The region's zone letters, and by type the letters of the zones that sell it.
fn section(region: &str) -> (&'static str, BTreeMap<String, String>) {
    let mut lines = REGIONS.lines();
    let heading = lines.find(|line| line.starts_with(&format!("region {region} "))).unwrap();
    let letters = heading.split(' ').nth(2).unwrap();
    let mut sold = BTreeMap::new();
    for line in lines.take_while(|line| !line.starts_with("region ")) {
        let mut fields = line.split(',');
        let (name, at) = (fields.next().unwrap(), fields.next().unwrap());
        if !at.is_empty() {
            sold.insert(name.to_owned(), if at == "*" { letters } else { at }.to_owned());
        }
    }
    (letters, sold)
}
