//! What a region sells: instance types, zones, offerings, and prices, by default those of the embedded tables.
//!
//! The tables are read here as text, not by the decoder of the crate `cloud`: a test that reads them back through
//! the API compares two readers.

use std::collections::{BTreeMap, BTreeSet};

use cloud::catalogue::{embedded_tables, parse_usd};
use model::MicroUsd;

/// Columns of an instance type by the names of `ec2-catalogue.csv`, and `encryption`, `enclaves`, `ebsSupport`,
/// `ebsMbps`, `virtualization` and `usage`, which the file lacks. A missing or empty value is not shown.
pub type TypeRow = BTreeMap<String, String>;

/// Spot price in thousandths of the on-demand price in a region without a share of its own.
const SPOT_PER_MILLE: i64 = 350;

/// Since when the embedded spot prices hold; RFC 3339.
const SPOT_SINCE: &str = "2025-01-01T00:00:00Z";

/// Product of the spot prices of Linux in a VPC.
const LINUX: &str = "Linux/UNIX";

/// A spot price from a moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpotRow {
    pub instance_type: String,
    pub zone: String,
    /// Product description, such as `Linux/UNIX`.
    pub product: String,
    /// Dollars per hour, in decimal.
    pub usd: String,
    /// RFC 3339, in UTC and whole seconds.
    pub since: String,
}

impl SpotRow {
    /// A price for Linux that holds since 2025.
    #[must_use]
    pub fn linux(instance_type: &str, zone: &str, usd: &str) -> Self {
        Self {
            instance_type: instance_type.to_owned(),
            zone: zone.to_owned(),
            product: LINUX.to_owned(),
            usd: usd.to_owned(),
            since: SPOT_SINCE.to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegionCatalogue {
    /// Instance types, sorted by name.
    pub types: Vec<TypeRow>,
    pub offerings: Vec<(String, String)>,
    /// Zone name and id, sorted by name.
    pub zones: Vec<(String, String)>,
    pub spot: Vec<SpotRow>,
    /// On-demand price per hour by type.
    pub on_demand: BTreeMap<String, MicroUsd>,
}

impl RegionCatalogue {
    /// All types, zones, offerings and on-demand prices of the embedded tables for `region`. Spot costs the
    /// region's share of the on-demand price in every zone of a type that is sold as spot. Empty for an unknown
    /// region.
    #[must_use]
    pub fn embedded(region: &str) -> Self {
        let Some(section) = Section::read(region) else { return Self::default() };
        let types: Vec<TypeRow> =
            type_rows().into_iter().filter(|row| section.sold.contains_key(name_of(row))).collect();
        let zone = |letter: char| format!("{region}{letter}");
        let sold = section.sold.iter();
        let offerings: Vec<(String, String)> = sold
            .flat_map(|(name, (letters, _))| letters.chars().map(|letter| ((*name).to_owned(), zone(letter))))
            .collect();
        let is_spot = |row: &&TypeRow| row.get("spot").is_some_and(|spot| spot == "y");
        let with_spot: BTreeSet<&str> = types.iter().filter(is_spot).map(name_of).collect();
        let priced =
            |(name, (_, price)): (&&str, &(&str, Option<MicroUsd>))| price.map(|usd| ((*name).to_owned(), usd));
        let on_demand: BTreeMap<String, MicroUsd> = section.sold.iter().filter_map(priced).collect();
        let spot_row = |(name, zone): &(String, String)| {
            let usd = on_demand.get(name).map(|price| share(*price, section.spot_per_mille))?;
            with_spot.contains(name.as_str()).then(|| SpotRow::linux(name, zone, &decimal(usd)))
        };
        let spot = offerings.iter().filter_map(spot_row).collect();
        let zones = section.zone_letters.chars();
        let zones = zones.enumerate().map(|(at, letter)| (zone(letter), zone_id(region, at))).collect();
        Self { types, offerings, zones, spot, on_demand }
    }

    /// Column `name` of a type, if it has a value.
    pub(crate) fn column<'r>(row: &'r TypeRow, name: &str) -> Option<&'r str> {
        row.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(crate) fn zone_id(&self, zone: &str) -> Option<&str> {
        self.zones.iter().find(|(name, _)| name == zone).map(|(_, id)| id.as_str())
    }
}

fn name_of(row: &TypeRow) -> &str {
    row.get("name").map_or("", String::as_str)
}

/// Dollars per hour with six places.
pub(crate) fn decimal(price: MicroUsd) -> String {
    format!("{}.{:06}", price.0 / 1_000_000, price.0 % 1_000_000)
}

fn share(price: MicroUsd, per_mille: i64) -> MicroUsd {
    MicroUsd(price.0.saturating_mul(per_mille) / 1_000)
}

fn type_rows() -> Vec<TypeRow> {
    let mut lines = embedded_tables().0.lines().filter(|line| !line.starts_with('#'));
    let columns: Vec<&str> = lines.next().map_or_else(Vec::new, |heading| heading.split(',').collect());
    let row = |line: &str| columns.iter().zip(line.split(',')).map(|(c, v)| ((*c).to_owned(), v.to_owned())).collect();
    lines.map(row).collect()
}

/// A region's section of `ec2-regions.csv`.
struct Section {
    zone_letters: &'static str,
    spot_per_mille: i64,
    /// By type: letters of the zones that sell it, and its on-demand price.
    sold: BTreeMap<&'static str, (&'static str, Option<MicroUsd>)>,
}

impl Section {
    fn read(region: &str) -> Option<Self> {
        let mut lines = embedded_tables().1.lines();
        let mut heading =
            lines.find_map(|line| line.strip_prefix("region ")?.strip_prefix(region)?.strip_prefix(' '))?;
        let mut next = || {
            let (word, rest) = heading.split_once(' ')?;
            heading = rest;
            Some(word)
        };
        let zone_letters = next().filter(|letters| *letters != "-").unwrap_or("");
        let spot_per_mille = next().and_then(|share| share.parse().ok()).unwrap_or(SPOT_PER_MILLE);
        let mut sold = BTreeMap::new();
        for line in lines.take_while(|line| !line.starts_with("region ")) {
            let mut fields = line.split(',');
            let (name, at) = (fields.next()?, fields.next()?);
            let usd = fields.next().unwrap_or("").trim_start_matches('~');
            if !at.is_empty() {
                sold.insert(name, (if at == "*" { zone_letters } else { at }, parse_usd(usd)));
            }
        }
        Some(Self { zone_letters, spot_per_mille, sold })
    }
}

/// The id of a region's zone at position `at`, such as `use1-az1`. Accounts differ in which zone has which id; here
/// the first zone is the first.
fn zone_id(region: &str, at: usize) -> String {
    let abbreviation = |word: &str| match word {
        "northeast" => "ne".to_owned(),
        "northwest" => "nw".to_owned(),
        "southeast" => "se".to_owned(),
        "southwest" => "sw".to_owned(),
        "north" | "south" | "east" | "west" | "central" | "gov" => word[..1].to_owned(),
        other => other.to_owned(),
    };
    let short: String = region.split('-').map(abbreviation).collect();
    format!("{short}-az{}", at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_ids_have_the_short_name_of_the_region() {
        // EC2: AZ IDs.
        for (region, id) in [
            ("us-east-1", "use1-az1"),
            ("ap-southeast-2", "apse2-az1"),
            ("eu-central-1", "euc1-az1"),
            ("us-gov-west-1", "usgw1-az1"),
        ] {
            assert_eq!(zone_id(region, 0), id);
        }
    }

    #[test]
    fn a_region_has_the_prices_of_the_table_and_spot_at_its_share() {
        let region = RegionCatalogue::embedded("eu-west-1");
        // `region eu-west-1 abc 425 2026-05-12` and `m5.large,*,0.107`: 0.107 * 0.425.
        assert_eq!(region.on_demand["m5.large"], MicroUsd(107_000));
        let spot = region.spot.iter().find(|row| row.instance_type == "m5.large" && row.zone == "eu-west-1b").unwrap();
        assert_eq!(spot.usd, "0.045475");
        assert_eq!(region.zones[0], ("eu-west-1a".to_owned(), "euw1-az1".to_owned()));
        assert!(RegionCatalogue::embedded("xx-north-9").types.is_empty());
    }
}
