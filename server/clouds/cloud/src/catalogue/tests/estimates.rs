//! Prices: known, estimated, missing.

use model::node_class::{NodeClassSettings, SubnetZone};
use model::{CapacityType, MicroUsd, Offering, Zone};

use super::super::{Built, RegionOptions, Snapshot, build};
use super::{build_us_east_1, builtin, find, is_available, offering_of};

fn in_region(region: &str, zones: &[&str]) -> Built {
    let zones = super::zones(zones);
    let region_options = RegionOptions { extra_zones: &zones, ..RegionOptions::new(region) };
    build(builtin(), &region_options, &NodeClassSettings::default())
}

#[test]
fn known_prices_are_exact_and_spot_is_a_share_of_them() {
    let built = build_us_east_1(&NodeClassSettings::default());
    let machine = find(&built, "m5.large");
    let on_demand = offering_of(machine, "us-east-1a", CapacityType::OnDemand);
    assert_eq!((on_demand.price, on_demand.estimated, on_demand.available), (MicroUsd(96_000), false, true));
    let spot = offering_of(machine, "us-east-1a", CapacityType::Spot);
    assert_eq!((spot.price, spot.estimated, spot.available), (MicroUsd(33_600), true, true)); // 0.35 * 0.096
    // m5.large is offered in five zones, each with two capacity types.
    assert_eq!(machine.offerings.len(), 10);
    assert_eq!(built.notes, ["estimate: spot is priced at 0.35 of on-demand where no spot price is known"]);
}

#[test]
fn spot_rounds_half_up_to_the_micro_dollar() {
    let built = build_us_east_1(&NodeClassSettings::default());
    // p4d.24xlarge costs 21.957642; times 0.35 is 7.6851747.
    assert_eq!(offering_of(find(&built, "p4d.24xlarge"), "us-east-1a", CapacityType::Spot).price, MicroUsd(7_685_175));
}

#[test]
fn types_without_spot_have_no_spot_offering() {
    let built = build_us_east_1(&NodeClassSettings::default());
    let offerings = &find(&built, "u-6tb1.56xlarge").offerings;
    assert!(offerings.iter().all(|offering| offering.capacity_type == CapacityType::OnDemand) && !offerings.is_empty());
}

#[test]
fn a_type_without_a_price_is_unavailable() {
    let built = build_us_east_1(&NodeClassSettings::default());
    let machine = find(&built, "t8i.nano");
    assert!(!is_available(machine) && !machine.offerings.is_empty());
    let preview = RegionOptions {
        preview_prices: [("t8i.nano".into(), MicroUsd(40_000_000)), ("m5.large".into(), MicroUsd(1))].into(),
        ..RegionOptions::new("us-east-1")
    };
    let priced = build(builtin(), &preview, &NodeClassSettings::default());
    let on_demand = find(&priced, "t8i.nano").offerings.iter().find(|offering| offering.available).unwrap();
    assert_eq!(on_demand.price, MicroUsd(40_000_000));
    let known = offering_of(find(&priced, "m5.large"), "us-east-1a", CapacityType::OnDemand);
    assert_eq!(known.price, MicroUsd(96_000));
}

#[test]
fn a_region_without_prices_uses_those_of_us_east_1() {
    let built = in_region("xx-north-1", &["xx-north-1a"]);
    let on_demand = offering_of(find(&built, "m5.large"), "xx-north-1a", CapacityType::OnDemand);
    assert_eq!((on_demand.price, on_demand.estimated), (MicroUsd(96_000), true));
    let note = |note: &String| note.contains("xx-north-1") && note.contains("us-east-1");
    assert!(built.notes.iter().any(note), "{:?}", built.notes);
}

#[test]
fn a_region_has_its_own_zones_prices_and_share_for_spot() {
    let built = in_region("eu-central-1", &["eu-central-1z"]);
    let machine = find(&built, "m5.large");
    // Frankfurt's price list: 0.115 an hour; its median spot price is 0.35 of on-demand.
    let on_demand = offering_of(machine, "eu-central-1a", CapacityType::OnDemand);
    assert_eq!((on_demand.price, on_demand.estimated, on_demand.available), (MicroUsd(115_000), false, true));
    assert_eq!(offering_of(machine, "eu-central-1b", CapacityType::Spot).price, MicroUsd(40_250)); // 0.35 * 0.115
    let elsewhere = |o: &Offering| o.zone.as_ref() == "eu-central-1z";
    assert!(!machine.offerings.iter().any(elsewhere), "the region's zones are known");
    // Stockholm's median is 0.204: m5.large costs 0.102.
    let north = in_region("eu-north-1", &[]);
    let spot = offering_of(find(&north, "m5.large"), "eu-north-1c", CapacityType::Spot);
    assert_eq!((spot.price, spot.estimated), (MicroUsd(20_808), true)); // 0.204 * 0.102
    assert!(north.notes.iter().any(|note| note.contains("spot is priced at 0.204 of on-demand")), "{:?}", north.notes);
}

#[test]
fn a_type_without_a_regional_price_is_estimated_with_a_note() {
    // c8gn.large is offered in Tokyo; the price list of May lacks it.
    let built = in_region("ap-northeast-1", &[]);
    let estimated: Vec<&str> = (built.catalogue.types.iter())
        .filter(|machine| machine.offerings.iter().any(|o| o.capacity_type == CapacityType::OnDemand && o.estimated))
        .map(|machine| machine.name.as_ref())
        .collect();
    assert!(!estimated.is_empty());
    let note = format!("for {} instance types; their prices follow those of us-east-1", estimated.len());
    assert!(built.notes.iter().any(|found| found.contains(&note)), "{estimated:?} {:?}", built.notes);
}

#[test]
fn every_zone_of_a_commercial_region_has_a_priced_offering() {
    let regions: Vec<_> = builtin().regions().iter().filter(|region| !region.name.starts_with("us-gov-")).collect();
    assert_eq!(regions.len(), 34);
    for region in regions {
        let built = in_region(&region.name, &[]);
        let sells = |zone: &Zone| {
            let priced = |o: &Offering| o.zone == *zone && o.available && !o.estimated && o.price > MicroUsd(0);
            built.catalogue.types.iter().any(|machine| machine.offerings.iter().any(priced))
        };
        assert!(region.zones.len() >= 2 && region.zones.iter().all(sells), "{}", region.name);
        assert!(region.price_date.is_some(), "{}", region.name);
    }
}

#[test]
fn bare_metal_costs_what_shared_tenancy_costs() {
    let built = build_us_east_1(&NodeClassSettings::default());
    let price = |name| find(&built, name).offerings.iter().find(|offering| offering.available).unwrap().price;
    assert_eq!(price("c6g.metal"), MicroUsd(2_176_000));
    assert_eq!(price("m7i.metal-24xl"), MicroUsd(4_838_400));
}

#[test]
fn a_region_without_zones_offers_everything_in_the_zones_of_the_input() {
    let built = in_region("us-gov-west-1", &["us-gov-west-1b", "us-gov-west-1a", "us-gov-west-1a"]);
    let machine = find(&built, "m5.large");
    assert_eq!(machine.offerings.len(), 4);
    let on_demand = offering_of(machine, "us-gov-west-1a", CapacityType::OnDemand);
    assert_eq!((on_demand.price, on_demand.estimated, on_demand.available), (MicroUsd(121_000), true, true));
    assert!(built.notes.iter().any(|note| note.contains("us-gov-west-1a, us-gov-west-1b")), "{:?}", built.notes);
}

#[test]
fn subnets_name_zones_too_and_no_zone_means_no_offering() {
    let zones = Some(vec![SubnetZone { name: "us-gov-east-1c".into(), id: None }]);
    let settings = NodeClassSettings { zones, ..NodeClassSettings::default() };
    let built = build(builtin(), &RegionOptions::new("us-gov-east-1"), &settings);
    assert!(offering_of(find(&built, "m5.large"), "us-gov-east-1c", CapacityType::Spot).available);
    let nothing = in_region("us-gov-east-1", &[]);
    assert!(nothing.catalogue.types.is_empty());
    assert!(nothing.notes.iter().any(|note| note.contains("nothing can be launched")), "{:?}", nothing.notes);
}

#[test]
fn a_users_spot_price_is_taken_and_a_missing_one_follows_its_zone() {
    let file = br#"{"apiVersion":"fleetwright.dev/v1","kind":"Catalogue","regions":[{"name":"r","zones":["r1","r2"]}],"types":[
      {"name":"box","capacity":{"cpu":"4","memory":"16Gi"},"offerings":[
       {"zone":"r1","capacityType":"on-demand","priceUsdPerHour":1},{"zone":"r1","capacityType":"spot","priceUsdPerHour":0.2},
       {"zone":"r2","capacityType":"on-demand","priceUsdPerHour":2},{"zone":"r2","capacityType":"spot"}]}]}"#;
    let built = build(&Snapshot::parse(file).unwrap(), &RegionOptions::new("r"), &NodeClassSettings::default());
    let quote = |zone| {
        let spot = offering_of(find(&built, "box"), zone, CapacityType::Spot);
        (spot.price, spot.estimated)
    };
    assert_eq!(quote("r1"), (MicroUsd(200_000), false));
    assert_eq!(quote("r2"), (MicroUsd(700_000), true)); // 0.35 * 2
}
