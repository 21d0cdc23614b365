//! Snapshots with other prices of a region.

use std::collections::BTreeMap;

use model::node_class::NodeClassSettings;
use model::{CapacityType, MicroUsd};

use super::super::{RegionOptions, RegionPrices, Snapshot, build};
use super::builtin;

/// Offerings of `name` in `region`: zone, capacity type, price in micro-dollars.
fn offerings(snapshot: &Snapshot, region: &str, name: &str) -> Vec<(String, CapacityType, i64)> {
    let types = build(snapshot, &RegionOptions::new(region), &NodeClassSettings::default()).catalogue.types;
    let found = types.iter().find(|found| found.name == name).unwrap();
    let mut all: Vec<_> = found.offerings.iter().map(|o| (o.zone.to_string(), o.capacity_type, o.price.0)).collect();
    all.sort();
    all
}

#[test]
fn prices_of_one_region_leave_the_others_alone() {
    let prices = RegionPrices {
        on_demand: BTreeMap::from([("m5.large".into(), MicroUsd(120_000))]),
        spot: Some(BTreeMap::from([("m5.large".into(), BTreeMap::from([("eu-west-1c".into(), MicroUsd(31_000))]))])),
        date: Some("2026-11-26".into()),
    };
    let priced = builtin().clone().with_prices("eu-west-1", &prices);
    assert_eq!(
        offerings(&priced, "eu-west-1", "m5.large"),
        [
            ("eu-west-1a".to_owned(), CapacityType::OnDemand, 120_000),
            ("eu-west-1b".to_owned(), CapacityType::OnDemand, 120_000),
            ("eu-west-1c".to_owned(), CapacityType::Spot, 31_000),
            ("eu-west-1c".to_owned(), CapacityType::OnDemand, 120_000),
        ]
    );
    let others = |snapshot: &Snapshot| offerings(snapshot, "us-east-1", "m5.large");
    assert_eq!(others(&priced), others(builtin()));
    let date = |region: &str| priced.region(region).and_then(|region| region.price_date.as_deref());
    assert_eq!((date("eu-west-1"), date("us-east-1")), (Some("2026-11-26"), Some("2026-07-20")));
    assert_eq!(priced.on_demand_price("eu-west-1", "m5.large"), Some(MicroUsd(120_000)));
}

#[test]
fn prices_of_an_unknown_region_change_nothing() {
    let prices = RegionPrices { on_demand: BTreeMap::from([("m5.large".into(), MicroUsd(1))]), ..Default::default() };
    assert_eq!(builtin().clone().with_prices("xx-north-1", &prices), *builtin());
    assert_eq!(builtin().on_demand_price("xx-north-1", "m5.large"), None);
}

/// A type of one's own keeps its prices, and a type of EC2 gets those of AWS.
#[test]
fn types_of_a_catalogue_file_keep_the_prices_that_aws_does_not_have() {
    let file = r#"{"apiVersion":"fleetwright.dev/v1","kind":"Catalogue","regions":[{"name":"eu-west-1","zones":["eu-west-1a"]}],
        "types":[
          {"name":"box","capacity":{"cpu":"8","memory":"32Gi"},"offerings":[
            {"zone":"eu-west-1a","capacityType":"on-demand","priceUsdPerHour":0.25},
            {"zone":"eu-west-1a","capacityType":"spot","priceUsdPerHour":0.1}]},
          {"name":"m5.large","capacity":{"cpu":"2","memory":"8Gi"},"offerings":[
            {"zone":"eu-west-1a","capacityType":"on-demand","priceUsdPerHour":0.107},
            {"zone":"eu-west-1a","capacityType":"spot","priceUsdPerHour":0.05}]}]}"#;
    let file = Snapshot::parse(file.as_bytes()).unwrap();
    assert_eq!(file.on_demand_price("eu-west-1", "m5.large"), Some(MicroUsd(107_000)));
    let prices = RegionPrices {
        on_demand: BTreeMap::from([("m5.large".into(), MicroUsd(120_000))]),
        spot: Some(BTreeMap::from([("m5.large".into(), BTreeMap::from([("eu-west-1a".into(), MicroUsd(31_000))]))])),
        date: None,
    };
    let priced = file.with_prices("eu-west-1", &prices);
    let of =
        |name: &str| offerings(&priced, "eu-west-1", name).into_iter().map(|(_, _, price)| price).collect::<Vec<_>>();
    assert_eq!((of("box"), of("m5.large")), (vec![100_000, 250_000], vec![31_000, 120_000]));
}
