//! Prices: known, estimated, missing.

use engine::model::{CapacityType, MicroUsd};

use super::super::{Built, Market, NodeClassSettings, Snapshot, SubnetZone, build};
use super::{builtin, find, is_sold, sold, texts, virginia};

fn in_region(region: &str, zones: &[&str]) -> Built {
    let zones = texts(zones);
    let market = Market { extra_zones: &zones, ..Market::new(region) };
    build(builtin(), &market, &NodeClassSettings::default())
}

#[test]
fn known_prices_are_exact_and_spot_is_a_share_of_them() {
    let built = virginia(&NodeClassSettings::default());
    let machine = find(&built, "m5.large");
    let on_demand = sold(machine, "us-east-1a", CapacityType::OnDemand);
    assert_eq!((on_demand.price, on_demand.estimated, on_demand.available), (MicroUsd(96_000), false, true));
    let spot = sold(machine, "us-east-1a", CapacityType::Spot);
    assert_eq!((spot.price, spot.estimated, spot.available), (MicroUsd(33_600), true, true)); // 0.35 * 0.096
    // m5.large is sold in five zones, and in each both ways.
    assert_eq!(machine.offerings.len(), 10);
    assert_eq!(built.notes, ["estimate: spot is priced at 0.35 of on-demand where no spot price is known"]);
}

#[test]
fn spot_rounds_half_up_to_the_micro_dollar() {
    let built = virginia(&NodeClassSettings::default());
    // p4d.24xlarge costs 21.957642; times 0.35 is 7.6851747.
    assert_eq!(sold(find(&built, "p4d.24xlarge"), "us-east-1a", CapacityType::Spot).price, MicroUsd(7_685_175));
}

#[test]
fn machines_that_are_not_sold_as_spot_have_no_spot_offering() {
    let built = virginia(&NodeClassSettings::default());
    let offerings = &find(&built, "u-6tb1.56xlarge").offerings;
    assert!(offerings.iter().all(|offering| offering.capacity_type == CapacityType::OnDemand) && !offerings.is_empty());
}

#[test]
fn a_machine_without_a_price_cannot_be_bought() {
    let built = virginia(&NodeClassSettings::default());
    let machine = find(&built, "t8i.nano");
    assert!(!is_sold(machine) && !machine.offerings.is_empty());
    let preview = Market {
        preview_prices: [("t8i.nano".into(), MicroUsd(40_000_000)), ("m5.large".into(), MicroUsd(1))].into(),
        ..Market::new("us-east-1")
    };
    let priced = build(builtin(), &preview, &NodeClassSettings::default());
    let on_demand = find(&priced, "t8i.nano").offerings.iter().find(|offering| offering.available).unwrap();
    assert_eq!(on_demand.price, MicroUsd(40_000_000));
    let known = sold(find(&priced, "m5.large"), "us-east-1a", CapacityType::OnDemand);
    assert_eq!(known.price, MicroUsd(96_000));
}

#[test]
fn a_region_without_prices_borrows_those_of_us_east_1() {
    let built = in_region("us-west-2", &["us-west-2z"]);
    let machine = find(&built, "m5.large");
    let on_demand = sold(machine, "us-west-2a", CapacityType::OnDemand);
    assert_eq!((on_demand.price, on_demand.estimated), (MicroUsd(96_000), true));
    assert!(
        machine.offerings.iter().all(|offering| offering.zone.as_ref() != "us-west-2z"),
        "the region's zones are known"
    );
    assert!(
        built.notes.iter().any(|note| note.contains("us-west-2") && note.contains("us-east-1")),
        "{:?}",
        built.notes
    );
}

#[test]
fn a_region_without_zones_sells_everything_in_the_zones_of_the_input() {
    let built = in_region("us-gov-west-1", &["us-gov-west-1b", "us-gov-west-1a", "us-gov-west-1a"]);
    let machine = find(&built, "m5.large");
    assert_eq!(machine.offerings.len(), 4);
    let on_demand = sold(machine, "us-gov-west-1a", CapacityType::OnDemand);
    assert_eq!((on_demand.price, on_demand.estimated, on_demand.available), (MicroUsd(121_000), true, true));
    assert!(built.notes.iter().any(|note| note.contains("us-gov-west-1a, us-gov-west-1b")), "{:?}", built.notes);
}

#[test]
fn subnets_name_zones_too_and_no_zone_means_nothing_to_buy() {
    let zones = Some(vec![SubnetZone { name: "ap-south-1c".into(), id: None }]);
    let settings = NodeClassSettings { zones, ..NodeClassSettings::default() };
    let built = build(builtin(), &Market::new("ap-south-1"), &settings);
    assert!(sold(find(&built, "m5.large"), "ap-south-1c", CapacityType::Spot).available);
    let nothing = in_region("ap-south-1", &[]);
    assert!(nothing.catalogue.types.is_empty());
    assert!(nothing.notes.iter().any(|note| note.contains("nothing can be bought")), "{:?}", nothing.notes);
}

#[test]
fn a_users_spot_price_is_taken_and_a_missing_one_follows_its_zone() {
    let file = br#"{"apiVersion":"fleetwright.dev/v1","kind":"Catalogue","regions":[{"name":"r","zones":["r1","r2"]}],"types":[
      {"name":"box","capacity":{"cpu":"4","memory":"16Gi"},"offerings":[
       {"zone":"r1","capacityType":"on-demand","priceUsdPerHour":1},{"zone":"r1","capacityType":"spot","priceUsdPerHour":0.2},
       {"zone":"r2","capacityType":"on-demand","priceUsdPerHour":2},{"zone":"r2","capacityType":"spot"}]}]}"#;
    let built = build(&Snapshot::parse(file).unwrap(), &Market::new("r"), &NodeClassSettings::default());
    let quote = |zone| {
        let spot = sold(find(&built, "box"), zone, CapacityType::Spot);
        (spot.price, spot.estimated)
    };
    assert_eq!(quote("r1"), (MicroUsd(200_000), false));
    assert_eq!(quote("r2"), (MicroUsd(700_000), true)); // 0.35 * 2
}
