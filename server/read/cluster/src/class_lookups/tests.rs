use model::node_class::{ReservationEntry, ReservationStatus, SubnetEntry};
use model::{InstanceDetails, ProviderId, Zone};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn subnets(ids: &[&str]) -> NodeClassStatus {
    let entry = |id: &&str| SubnetEntry { id: Text::from(*id), zone: Zone::from("a"), zone_id: None };
    NodeClassStatus { subnets: Some(ids.iter().map(entry).collect()), ..NodeClassStatus::default() }
}

fn found(status: NodeClassStatus, kind: &'static str, seconds: i64) -> ResolvedNodeClass {
    ResolvedNodeClass {
        status,
        conditions: [(kind, Resolution::Met)].into(),
        found_at: [(kind, at(seconds))].into(),
        service_cidr: None,
    }
}

/// An instance that was first listed at `known`, when the last listing was requested at `requested`.
fn listings(known: i64, requested: i64) -> (ListedInstances, Timestamp) {
    let (id, details) = (ProviderId::from("i-1"), Arc::new(InstanceDetails { subnet: "a".into(), ..<_>::default() }));
    let mut listings = ListedInstances::default();
    listings.record(at(known), [(&id, &details)].into_iter(), at(known));
    listings.record(at(requested), [(&id, &details)].into_iter(), at(requested));
    let known_since = listings.get(&id).unwrap().known_since;
    (listings, known_since)
}

fn subnets_for(lookups: &ClassLookups, known: i64, requested: i64) -> Option<usize> {
    let (listings, known_since) = listings(known, requested);
    lookups.selected(&Text::from("default"), known_since, &listings).subnets.map(<[SubnetEntry]>::len)
}

#[test]
fn a_value_counts_for_instances_known_before_it_was_found_last_and_listed_after_it_was_found_first() {
    let (mut lookups, class) = (ClassLookups::default(), Text::from("default"));
    assert_eq!(subnets_for(&lookups, 0, 1), None);
    assert!(lookups.record(&class, &found(subnets(&["s-1"]), SUBNETS, 10), false, at(12)));
    // It was found at 10 s and arrived at 12 s.
    assert_eq!([9, 10, 11].map(|known| subnets_for(&lookups, known, 20)), [Some(1), Some(1), None]);
    assert_eq!([11, 12].map(|requested| subnets_for(&lookups, 5, requested)), [None, Some(1)]);
    // It is still the value at 30 s: later instances are compared with it, and the listing of 12 s will do.
    assert!(lookups.record(&class, &found(subnets(&["s-1"]), SUBNETS, 30), false, at(32)));
    assert_eq!([30, 31].map(|known| subnets_for(&lookups, known, 40)), [Some(1), None]);
    assert_eq!(subnets_for(&lookups, 5, 12), Some(1));
    // Another value needs another listing.
    assert!(lookups.record(&class, &found(subnets(&["s-1", "s-2"]), SUBNETS, 50), false, at(52)));
    assert_eq!([51, 52].map(|requested| subnets_for(&lookups, 5, requested)), [None, Some(2)]);
}

#[test]
fn an_answer_of_the_same_time_changes_nothing() {
    let (mut lookups, class) = (ClassLookups::default(), Text::from("default"));
    assert!(lookups.record(&class, &found(subnets(&["s-1"]), SUBNETS, 10), false, at(12)));
    assert!(!lookups.record(&class, &found(subnets(&["s-1"]), SUBNETS, 10), false, at(72)));
}

#[test]
fn an_order_by_free_addresses_and_a_count_of_free_instances_are_no_other_value() {
    let reservation = |count: i64| {
        let entry = ReservationEntry {
            id: "cr-1".into(),
            zone: "a".into(),
            instance_type: "m5.large".into(),
            expiring: false,
            reservation_type: "default".into(),
            interruptible: false,
            count: Some(count),
        };
        let (instance_match_criteria, owner_id) = ("open".into(), "1".into());
        NodeClassStatus {
            reservations: Some(vec![ReservationStatus { entry, instance_match_criteria, owner_id, end: None }]),
            ..NodeClassStatus::default()
        }
    };
    assert!(is_same_selection(SUBNETS, &subnets(&["s-1", "s-2"]), &subnets(&["s-2", "s-1"])));
    assert!(!is_same_selection(SUBNETS, &subnets(&["s-1", "s-2"]), &subnets(&["s-1"])));
    assert!(is_same_selection(RESERVATIONS, &reservation(1), &reservation(2)));
    assert!(!is_same_selection(RESERVATIONS, &reservation(1), &NodeClassStatus::default()));
}

#[test]
fn a_failed_lookup_keeps_the_value_and_a_selector_that_finds_nothing_has_none() {
    let (mut lookups, class) = (ClassLookups::default(), Text::from("default"));
    lookups.record(&class, &found(subnets(&["s-1"]), SUBNETS, 10), false, at(12));
    let with = |status: NodeClassStatus, result: Resolution| ResolvedNodeClass {
        status,
        conditions: [(SUBNETS, result)].into(),
        ..ResolvedNodeClass::default()
    };
    let (reason, message) = (Text::from("r"), Text::from("m"));
    let failed = Resolution::Unknown { reason: reason.clone(), message: message.clone() };
    assert!(!lookups.record(&class, &with(subnets(&["s-8", "s-9"]), failed), false, at(62)));
    assert_eq!(subnets_for(&lookups, 5, 20), Some(1));
    let missing = Resolution::Missing { reason, message };
    assert!(lookups.record(&class, &with(subnets(&[]), missing), false, at(122)));
    assert_eq!(subnets_for(&lookups, 5, 200), None);
}
