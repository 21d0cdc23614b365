//! Snapshots of one region from what an API answers.

use std::collections::{BTreeMap, BTreeSet};

use model::labels::ZONE_ID;
use model::node_class::{NodeClassSettings, SubnetZone};
use model::{CapacityType, MicroUsd};

use super::super::discovered::{DiscoveredRegion, DiscoveredType};
use super::super::{RegionOptions, Snapshot, build, unknown_label_keys};
use super::{builtin, find, offering_of, zones};

fn discovered(region: &str) -> Snapshot {
    discovered_with(region, None, None)
}

/// `m5.large` in zones a and b of `region`, spot in a for 0.03 dollars; zone b's id is not known.
fn discovered_with(region: &str, on_demand_price: Option<MicroUsd>, price_date: Option<&str>) -> Snapshot {
    let (a, b) = (format!("{region}a"), format!("{region}b"));
    let found = DiscoveredType {
        name: "m5.large".into(),
        info: builtin().instance_type_info("m5.large").unwrap().clone(),
        on_demand: true,
        spot: true,
        zones: BTreeSet::from([a.as_str().into(), b.as_str().into()]),
        on_demand_price,
        spot_prices: Some(BTreeMap::from([(a.as_str().into(), MicroUsd(30_000))])),
    };
    let zones = BTreeMap::from([(a.into(), Some("az3".into())), (b.into(), None)]);
    let price_date = price_date.map(Into::into);
    Snapshot::discovered(DiscoveredRegion { name: region.into(), zones, types: vec![found], price_date }, builtin())
}

#[test]
fn on_demand_prices_are_those_of_the_region_else_of_us_east_1() {
    // 0.107 dollars in eu-west-1, 0.096 in us-east-1.
    for (region, price, estimated) in
        [("eu-west-1", 107_000, false), ("us-east-1", 96_000, false), ("xx-north-1", 96_000, true)]
    {
        let built = build(&discovered(region), &RegionOptions::new(region), &NodeClassSettings::default());
        let machine = find(&built, "m5.large");
        let on_demand = offering_of(machine, &format!("{region}b"), CapacityType::OnDemand);
        assert_eq!((on_demand.price, on_demand.estimated), (MicroUsd(price), estimated), "{region}");
        let spot: Vec<_> = machine.offerings.iter().filter(|o| o.capacity_type == CapacityType::Spot).collect();
        // Zone b has no spot price.
        assert_eq!(spot.iter().map(|o| (o.price, o.estimated)).collect::<Vec<_>>(), [(MicroUsd(30_000), false)]);
        let note = "estimate: the catalogue has no on-demand price in xx-north-1 for 1 instance types; \
                    their prices follow those of us-east-1";
        assert_eq!(built.notes, if estimated { vec![note.to_owned()] } else { Vec::new() });
    }
}

#[test]
fn prices_of_the_region_itself_come_before_those_of_another_snapshot() {
    // us-east-1 substitutes unknown prices, and is a region of its own.
    for region in ["eu-west-1", "us-east-1", "xx-north-1"] {
        let snapshot = discovered_with(region, Some(MicroUsd(123_000)), Some("2026-11-26"));
        let built = build(&snapshot, &RegionOptions::new(region), &NodeClassSettings::default());
        let zone = format!("{region}b");
        let on_demand = offering_of(find(&built, "m5.large"), &zone, CapacityType::OnDemand);
        assert_eq!((on_demand.price, on_demand.estimated), (MicroUsd(123_000), false), "{region}");
        let dates: Vec<_> =
            snapshot.regions().iter().map(|found| (&*found.name, found.price_date.as_deref())).collect();
        assert_eq!(dates.last(), Some(&(region, Some("2026-11-26"))));
    }
}

#[test]
fn only_the_discovered_region_has_zones() {
    let snapshot = discovered("eu-west-1");
    let regions: Vec<_> = snapshot.regions().iter().map(|region| region.name.as_ref()).collect();
    assert_eq!(regions, ["us-east-1", "eu-west-1"]);
    assert!(snapshot.zones("us-east-1").is_empty());
    assert_eq!(snapshot.zones("eu-west-1"), zones(&["eu-west-1a", "eu-west-1b"]));
    // The date of its on-demand prices.
    assert_eq!(snapshot.regions()[1].price_date.as_deref(), Some("2026-05-12"));
}

#[test]
fn zone_ids_come_from_the_nodeclass_else_from_the_region() {
    let snapshot = discovered("eu-west-1");
    let ids = |subnets: Option<Vec<SubnetZone>>| {
        let settings = NodeClassSettings { zones: subnets, ..NodeClassSettings::default() };
        let built = build(&snapshot, &RegionOptions::new("eu-west-1"), &settings);
        ["eu-west-1a", "eu-west-1b"].map(|zone| {
            offering_of(find(&built, "m5.large"), zone, CapacityType::OnDemand)
                .labels
                .get(ZONE_ID)
                .map(ToString::to_string)
        })
    };
    let subnet = |name: &str, id: Option<&str>| SubnetZone { name: name.into(), id: id.map(Into::into) };
    let text = |id: &str| Some(id.to_owned());
    assert_eq!(ids(None), [text("az3"), None]);
    assert_eq!(ids(Some(vec![subnet("eu-west-1a", None)])), [text("az3"), None]);
    let stated = vec![subnet("eu-west-1a", Some("az7")), subnet("eu-west-1b", Some("az8"))];
    assert_eq!(ids(Some(stated)), [text("az7"), text("az8")]);
    // Without a subnet in its zone, an offering has no id.
    assert_eq!(ids(Some(vec![subnet("eu-west-1b", None)])), [None, None]);
}

#[test]
fn labels_of_devices_are_known_to_be_absent_where_no_type_has_one() {
    let unknown = unknown_label_keys(&discovered("eu-west-1"));
    assert!(!unknown.contains(&"karpenter.k8s.aws/instance-accelerator-count"), "{unknown:?}");
    assert!(unknown.contains(&"karpenter.k8s.aws/nitro-sandbox"), "{unknown:?}");
}
