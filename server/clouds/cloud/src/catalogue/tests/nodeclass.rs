//! Effects of a NodeClass: launchable types, zones, and reservations.

use model::node_class::{AmiFamily, NetworkInterface, NodeClassSettings, ReservationEntry, SubnetZone};
use model::{CapacityType, Requirement};

use super::{build_us_east_1, find, is_available, offering_of, requirements};

#[test]
fn types_without_an_image_are_listed_as_unavailable() {
    for (family, name, expected) in [
        (AmiFamily::Al2023, "m5.large", true),
        (AmiFamily::Al2023, "a1.medium", false),
        (AmiFamily::Al2, "a1.medium", true),
        (AmiFamily::Al2023, "g5g.xlarge", true),
        (AmiFamily::Al2, "g5g.xlarge", false), // no image with drivers for arm64
        (AmiFamily::Al2, "g4dn.xlarge", true),
        (AmiFamily::Bottlerocket, "inf2.xlarge", true),
        (AmiFamily::Custom, "g5g.xlarge", true),
    ] {
        let built = build_us_east_1(&NodeClassSettings { ami_family: family, ..NodeClassSettings::default() });
        assert_eq!(is_available(find(&built, name)), expected, "{family:?} {name}");
        assert!(!find(&built, name).offerings.is_empty());
    }
}

#[test]
fn custom_images_exclude_incompatible_types() {
    let arm = requirements([Requirement::equals("kubernetes.io/arch", "arm64")]);
    let built = build_us_east_1(&NodeClassSettings { ami_requirements: vec![arm], ..NodeClassSettings::default() });
    assert!(is_available(find(&built, "m6g.large")) && !is_available(find(&built, "m5.large")));
}

#[test]
fn special_requirements_leave_only_matching_types() {
    let plain = NodeClassSettings::default;
    let tracking = build_us_east_1(&NodeClassSettings { connection_tracking: true, ..plain() });
    assert!(is_available(find(&tracking, "m5.large")));
    assert!(!is_available(find(&tracking, "t2.medium")) && !is_available(find(&tracking, "m5.metal")));
    let nested = build_us_east_1(&NodeClassSettings { nested_virtualization: true, ..plain() });
    assert!(is_available(find(&nested, "m8i.large")) && is_available(find(&nested, "c8i-flex.large")));
    assert!(!is_available(find(&nested, "m8i.metal-48xl")) && !is_available(find(&nested, "m7i.large")));
}

#[test]
fn interfaces_need_their_cards_devices_and_adapters() {
    let with = |interfaces: &[(u32, u32, bool)]| {
        let interface = |(card, device, efa_only): &(u32, u32, bool)| NetworkInterface {
            card: *card,
            device: *device,
            efa_only: *efa_only,
        };
        build_us_east_1(&NodeClassSettings {
            network_interfaces: interfaces.iter().map(interface).collect(),
            ..NodeClassSettings::default()
        })
    };
    let second_card = with(&[(0, 0, false), (1, 0, false)]);
    assert!(is_available(find(&second_card, "p4d.24xlarge")) && !is_available(find(&second_card, "m5.large")));
    let fourth_device = with(&[(0, 0, false), (0, 3, false)]);
    assert!(is_available(find(&fourth_device, "m5.xlarge")) && !is_available(find(&fourth_device, "m5.large"))); // 4 and 3 interfaces
    let efa = with(&[(0, 0, false), (0, 1, true)]);
    assert!(is_available(find(&efa, "c6a.48xlarge")) && !is_available(find(&efa, "m5.xlarge")));
}

#[test]
fn zones_without_a_subnet_are_unavailable_and_zone_ids_become_labels() {
    let subnet = |name: &str, id: Option<&str>| SubnetZone { name: name.into(), id: id.map(Into::into) };
    let zones = vec![subnet("us-east-1a", Some("use1-az4")), subnet("us-east-1-atl-1a", None)];
    let built = build_us_east_1(&NodeClassSettings { zones: Some(zones), ..NodeClassSettings::default() });
    let machine = find(&built, "m5.large");
    let here = offering_of(machine, "us-east-1a", CapacityType::OnDemand);
    assert!(here.available && !offering_of(machine, "us-east-1b", CapacityType::OnDemand).available);
    assert_eq!(here.labels.get("topology.k8s.aws/zone-id").map(AsRef::as_ref), Some("use1-az4"));
    assert!(built.notes.iter().any(|note| note.contains("us-east-1-atl-1a")), "{:?}", built.notes);
}

fn reservation(id: &str, zone: &str) -> ReservationEntry {
    ReservationEntry {
        id: id.into(),
        zone: zone.into(),
        instance_type: "m5.large".into(),
        expiring: false,
        reservation_type: "default".into(),
        interruptible: false,
        count: Some(3),
    }
}

#[test]
fn reservations_are_offerings_that_cost_nothing() {
    let one = ReservationEntry { count: None, ..reservation("cr-one", "us-east-1b") };
    let expiring = ReservationEntry { expiring: true, ..reservation("cr-ends", "us-east-1a") };
    let spent = ReservationEntry { count: Some(0), ..reservation("cr-spent", "us-east-1a") };
    let elsewhere = reservation("cr-far", "us-west-2a");
    let reservations = vec![reservation("cr-three", "us-east-1a"), one, expiring, spent, elsewhere];
    let built = build_us_east_1(&NodeClassSettings { reservations, ..NodeClassSettings::default() });
    let reserved = |id: &str| {
        let of = |o: &&model::Offering| o.reservation.as_ref().is_some_and(|r| r.id.as_ref() == id);
        find(&built, "m5.large").offerings.iter().find(of).unwrap()
    };
    let three = reserved("cr-three");
    assert_eq!((three.price.0, three.available, three.estimated), (0, true, false));
    assert_eq!(three.reservation.as_ref().unwrap().remaining, 3);
    assert_eq!(three.labels.get("karpenter.k8s.aws/capacity-reservation-id").map(AsRef::as_ref), Some("cr-three"));
    assert_eq!(three.labels.get("karpenter.k8s.aws/capacity-reservation-type").map(AsRef::as_ref), Some("default"));
    assert_eq!(reserved("cr-one").reservation.as_ref().unwrap().remaining, 1);
    for unusable in ["cr-ends", "cr-spent", "cr-far"] {
        assert!(!reserved(unusable).available, "{unusable}");
    }
    assert!(built.notes.iter().any(|note| note.contains("cr-one")));
    assert!(!built.notes.iter().any(|note| note.contains("cr-three")));
    let on_demand = offering_of(find(&built, "m5.large"), "us-east-1a", CapacityType::OnDemand);
    assert!(!on_demand.labels.contains_key("karpenter.k8s.aws/capacity-reservation-id"));
}
