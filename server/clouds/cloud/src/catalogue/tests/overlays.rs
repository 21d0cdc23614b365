//! NodeOverlays.

use std::collections::BTreeMap;

use model::{
    CapacityType, Catalogue, InstanceType, InstanceTypeName, Labels, MicroUsd, Offering, Operator, Requirement,
    Requirements, Reservation, Resources, Text,
};

use super::super::overlay::{charge_unpriced, preview_prices};
use super::super::{Overlay, PriceChange, apply_overlays, resolve_overlays};
use super::{offering_of, requirements};

const ZONE: &str = "topology.kubernetes.io/zone";
const TYPE: &str = "node.kubernetes.io/instance-type";

fn offering(zone: &str, capacity_type: CapacityType, price: i64) -> Offering {
    let reservation =
        (capacity_type == CapacityType::Reserved).then(|| Reservation { id: "cr-1".into(), remaining: 2 });
    let labels: Labels = [("topology.k8s.aws/zone-id".into(), Text::from(format!("id-{zone}")))].into();
    Offering {
        zone: zone.into(),
        capacity_type,
        price: MicroUsd(price),
        estimated: true,
        catalogue_price: None,
        available: true,
        reservation,
        labels: labels.into(),
    }
}

/// Two types, `small` and `large`, on-demand in zones a and b, `large` also reserved in a.
fn catalogue() -> Catalogue {
    let machine = |name: &str, offerings| InstanceType {
        name: name.into(),
        labels: requirements([Requirement::equals(TYPE, name), Requirement::equals("example.com/disk", "fast")]).into(),
        capacity: Resources::from_iter([("cpu", 4000), ("memory", 1000)]),
        allocatable: Resources::from_iter([("cpu", 3900), ("memory", 900)]),
        exotic: false,
        burstable: None,
        offerings,
    };
    let on_demand = |zone, price| offering(zone, CapacityType::OnDemand, price);
    let large = vec![on_demand("a", 200), on_demand("b", 210), offering("a", CapacityType::Reserved, 0)];
    let types = vec![machine("large", large), machine("small", vec![on_demand("a", 100), on_demand("b", 110)])];
    Catalogue { types, offering_keys: Vec::new() }
}

fn pool() -> Requirements {
    requirements([Requirement::equals("karpenter.sh/nodepool", "general"), Requirement::equals("team", "red")])
}

fn overlay(name: &str, weight: i64, wanted: &[Requirement], price: Option<PriceChange>) -> Overlay {
    let requirements = requirements(wanted.iter().cloned());
    Overlay { name: name.into(), weight, requirements, price, capacity: Resources::new() }
}

fn set(price: i64) -> Option<PriceChange> {
    Some(PriceChange::Set(MicroUsd(price)))
}

fn gives(name: &str, resource: &'static str, amount: i64) -> Overlay {
    Overlay { capacity: Resources::from_iter([(resource, amount)]), ..overlay(name, 0, &[], None) }
}

/// On-demand prices by type, in zones a and b.
fn prices(overlays: &[Overlay]) -> Vec<(String, i64, i64)> {
    let changed = apply_overlays(&catalogue(), &pool(), overlays);
    let price = |machine: &InstanceType, zone: &str| offering_of(machine, zone, CapacityType::OnDemand).price.0;
    changed.types.iter().map(|m| (m.name.to_string(), price(m, "a"), price(m, "b"))).collect()
}

fn expect(large: (i64, i64), small: (i64, i64)) -> Vec<(String, i64, i64)> {
    vec![("large".into(), large.0, large.1), ("small".into(), small.0, small.1)]
}

#[test]
fn prices_and_adjustments_are_read_as_they_are_written() {
    assert_eq!(PriceChange::parse_price("0.05"), set(50_000));
    assert_eq!(PriceChange::parse_adjustment("+0.05"), Some(PriceChange::Add(MicroUsd(50_000))));
    assert_eq!(PriceChange::parse_adjustment("-2.5%"), Some(PriceChange::AddMillionths(-25_000)));
    for refused in ["0.05", "10%", "+", "+%", "--1", "+x%"] {
        assert_eq!(PriceChange::parse_adjustment(refused), None, "{refused}");
    }
}

#[test]
fn adjusted_prices_round_half_up_and_never_fall_below_zero() {
    let apply = |change: &str, price| PriceChange::parse_adjustment(change).unwrap().apply(MicroUsd(price)).0;
    assert_eq!(apply("+10%", 105), 116); // 115.5
    assert_eq!(apply("-10%", 105), 95); // 94.5
    assert_eq!(apply("-0.001", 500), 0); // 500 - 1000
    assert_eq!(apply("-200%", 500), 0);
}

#[test]
fn an_overlay_changes_the_offerings_that_it_names() {
    let zone_a = [Requirement::equals(ZONE, "a")];
    assert_eq!(prices(&[overlay("a", 0, &zone_a, set(7))]), expect((7, 210), (7, 110)));
    let small = [Requirement::equals(TYPE, "small")];
    assert_eq!(prices(&[overlay("s", 0, &small, set(7))]), expect((200, 210), (7, 7)));
    assert_eq!(prices(&[overlay("all", 0, &[], PriceChange::parse_adjustment("-50%"))]), expect((100, 105), (50, 55)));
}

#[test]
fn pool_and_type_together_must_meet_an_overlay() {
    let team = |value| [Requirement::equals("team", value)];
    assert_eq!(prices(&[overlay("red", 0, &team("red"), set(7))]), expect((7, 7), (7, 7)));
    assert_eq!(prices(&[overlay("blue", 0, &team("blue"), set(7))]), expect((200, 210), (100, 110)));
    let unknown = [Requirement::new("example.com/none", Operator::Exists, [])];
    assert_eq!(prices(&[overlay("none", 0, &unknown, set(7))]), expect((200, 210), (100, 110)));
    let absent = [Requirement::new("example.com/none", Operator::DoesNotExist, [])];
    assert_eq!(prices(&[overlay("absent", 0, &absent, set(7))]), expect((7, 7), (7, 7)));
    let slow = [Requirement::equals("example.com/disk", "slow")];
    assert_eq!(prices(&[overlay("slow", 0, &slow, set(7))]), expect((200, 210), (100, 110)));
}

#[test]
fn reserved_capacity_keeps_its_price_unless_named() {
    let reserved = |wanted: &[Requirement]| {
        let changed = apply_overlays(&catalogue(), &pool(), &[overlay("o", 0, wanted, set(7))]);
        offering_of(&changed.types[0], "a", CapacityType::Reserved).price.0
    };
    assert_eq!(reserved(&[]), 0);
    assert_eq!(reserved(&[Requirement::equals("karpenter.sh/capacity-type", "reserved")]), 7);
}

#[test]
fn everything_not_named_is_unchanged() {
    let before = catalogue();
    let changed = apply_overlays(&before, &pool(), &[overlay("o", 0, &[], set(7))]);
    for (old, new) in before.types.iter().zip(&changed.types) {
        assert_eq!((&old.labels, &old.capacity, &old.allocatable), (&new.labels, &new.capacity, &new.allocatable));
        for (old, new) in old.offerings.iter().zip(&new.offerings) {
            let kept = Offering {
                price: old.price,
                estimated: old.estimated,
                catalogue_price: old.catalogue_price,
                ..new.clone()
            };
            assert_eq!(*old, kept);
        }
    }
    assert!(
        !offering_of(&changed.types[0], "a", CapacityType::OnDemand).estimated,
        "a price set by an overlay is no estimate"
    );
    assert_eq!(apply_overlays(&before, &pool(), &[]), before);
}

#[test]
fn an_overlay_raises_what_is_charged_and_does_not_lower_it() {
    let charged = |change: Option<PriceChange>| {
        let changed = apply_overlays(&catalogue(), &pool(), &[overlay("o", 0, &[], change)]);
        let offering = offering_of(&changed.types[0], "a", CapacityType::OnDemand);
        (offering.price.0, offering.charged_price().0)
    };
    assert_eq!(charged(set(0)), (0, 200));
    assert_eq!(charged(PriceChange::parse_adjustment("-100%")), (0, 200));
    assert_eq!(charged(PriceChange::parse_adjustment("-50%")), (100, 200));
    assert_eq!(charged(set(300)), (300, 300));
    let unchanged = apply_overlays(&catalogue(), &pool(), &[overlay("o", 0, &[], set(200))]);
    assert_eq!(offering_of(&unchanged.types[0], "a", CapacityType::OnDemand).catalogue_price, None);
}

#[test]
fn a_type_that_only_an_overlay_prices_is_charged_by_its_vcpus() {
    // `large` has no price; a vCPU of `small` costs 212 / 4 = 53, and `large` has two.
    let mut unpriced = catalogue();
    unpriced.types[0].capacity.set("cpu", 2_000);
    unpriced.types[0].offerings.iter_mut().for_each(|offering| offering.price = MicroUsd(0));
    unpriced.types[1].offerings.iter_mut().for_each(|offering| offering.price = MicroUsd(212));
    let previews = BTreeMap::from(["large", "small"].map(|name| (InstanceTypeName::from(name), MicroUsd(1))));
    let mut changed = unpriced.clone();
    changed.types[0].offerings.iter_mut().for_each(|offering| offering.price = MicroUsd(1));
    charge_unpriced(&mut changed, &unpriced, &previews);
    let charged = |at: usize, zone, kind| offering_of(&changed.types[at], zone, kind).charged_price().0;
    assert_eq!(["a", "b"].map(|zone| charged(0, zone, CapacityType::OnDemand)), [106, 106]);
    assert_eq!(charged(0, "a", CapacityType::Reserved), 1, "reserved capacity is paid for");
    assert_eq!(charged(1, "a", CapacityType::OnDemand), 212);
}

#[test]
fn resources_are_added_to_capacity_and_allocatable() {
    let changed = apply_overlays(
        &catalogue(),
        &pool(),
        &[gives("gpu", "nvidia.com/gpu", 2), gives("huge", "hugepages-2Mi", 300)],
    );
    let machine = &changed.types[0];
    assert_eq!((machine.capacity.get("nvidia.com/gpu"), machine.allocatable.get("nvidia.com/gpu")), (2, 2));
    assert_eq!(machine.allocatable.get("memory"), 600); // 900 less 300 of huge pages
    assert_eq!(machine.capacity.get("memory"), 1000);
    assert!(machine.exotic, "it has an accelerator");
}

#[test]
fn more_weight_wins_then_the_later_name() {
    let overlays = [
        overlay("light", 1, &[Requirement::equals(TYPE, "small")], set(1)),
        overlay("heavy", 2, &[Requirement::equals(ZONE, "a")], set(2)),
        overlay("alpha", 1, &[Requirement::equals(TYPE, "large")], set(3)),
    ];
    let (pool, catalogue) = (pool(), catalogue());
    let resolved = resolve_overlays(&[(&pool, &catalogue)], &overlays);
    let order: Vec<&str> = resolved.overlays.iter().map(|o| o.name.as_ref()).collect();
    assert_eq!(order, ["heavy", "light", "alpha"]);
    assert!(resolved.notes.is_empty());
    assert_eq!(prices(&resolved.overlays), expect((2, 3), (2, 1)));
}

#[test]
fn of_two_conflicting_overlays_the_later_is_dropped_for_all_pools() {
    let red = pool();
    let blue = requirements([Requirement::equals("team", "blue")]);
    let catalogue = catalogue();
    let everywhere = overlay("everywhere", 1, &[], set(1));
    let small_in_red =
        overlay("small-in-red", 1, &[Requirement::equals("team", "red"), Requirement::equals(TYPE, "small")], set(2));
    let both = [everywhere, small_in_red.clone()];
    let resolved = resolve_overlays(&[(&red, &catalogue), (&blue, &catalogue)], &both);
    assert_eq!(resolved.overlays, [small_in_red]);
    assert_eq!(resolved.notes.len(), 1);
    assert!(
        resolved.notes[0].contains("everywhere is left out") && resolved.notes[0].contains("small in a"),
        "{:?}",
        resolved.notes
    );
    assert!(resolve_overlays(&[(&blue, &catalogue)], &both).notes.is_empty(), "they conflict in the red pool only");
    let resources = [
        gives("one", "example.com/port", 1),
        gives("two", "example.com/port", 2),
        gives("three", "example.com/slot", 1),
    ];
    let resolved = resolve_overlays(&[(&red, &catalogue)], &resources);
    let names: Vec<&str> = resolved.overlays.iter().map(|o| o.name.as_ref()).collect();
    assert_eq!(names, ["two", "three"]); // "two" is later in the alphabet than "three", and "three" than "one"
}

#[test]
fn overlays_that_name_only_types_price_previews() {
    let only = [Requirement::new(TYPE, Operator::In, [Text::from("x1"), Text::from("x2")])];
    let zoned = [Requirement::equals(TYPE, "x3"), Requirement::equals(ZONE, "a")];
    let overlays = [overlay("only", 1, &only, set(5)), overlay("zoned", 2, &zoned, set(6))];
    let resolved = resolve_overlays(&[], &overlays);
    assert_eq!(preview_prices(&resolved), [("x1".into(), MicroUsd(5)), ("x2".into(), MicroUsd(5))].into());
}
