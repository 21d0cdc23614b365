use std::sync::Arc;

use super::*;
use cluster::testing::{pool, text};
use model::offering::Catalogue;
use model::{InstanceTypeName, MicroUsd, RefusalCause, Text, Zone};

const BASE: Millis = Millis::from_secs(30);

fn offerings() -> UnavailableOfferings {
    UnavailableOfferings::new(BASE, true)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

/// `t.2` for spot in zone `z`, whose id is `use1-az1`.
fn offering() -> Offering {
    Offering {
        instance_type: text("t.2"),
        zone: text("z"),
        zone_id: Some(text("use1-az1")),
        capacity_type: CapacityType::Spot,
    }
}

fn option(zone: &str) -> LaunchOption {
    LaunchOption { instance_type: text("t.2"), zone: text(zone), price: MicroUsd(10) }
}

fn outcome(asked: u32, launched: u32, cause: RefusalCause) -> OfferingOutcome {
    let refusal = (launched < asked).then(|| (cause, text("Code")));
    OfferingOutcome { offering: offering(), asked, launched, refusal }
}

fn refuse(offerings: &UnavailableOfferings, seconds: i64) {
    offerings.record_outcome(&outcome(1, 0, RefusalCause::Capacity), at(seconds));
}

fn holder(claim: &str) -> ProbeHolder {
    ProbeHolder { cluster: text("c"), claim: text(claim) }
}

fn claim(offerings: &UnavailableOfferings, seconds: i64) -> Vec<OfferingKey> {
    offerings.probes_to_claim(&text("c"), |_| true, |_| true, at(seconds))
}

fn grant(offerings: &UnavailableOfferings, seconds: i64) -> bool {
    let keys = claim(offerings, seconds);
    assert_eq!(keys.len(), 1, "one probe is due after {seconds} s");
    let answers = keys.into_iter().map(|key| (key, ProbeAnswer::Granted)).collect();
    offerings.record_answers(answers, at(seconds) + PROBE_LEASE, at(seconds))
}

/// The options that the launch `name` gets of `t.2` in zone `z`.
fn taken(offerings: &UnavailableOfferings, name: &str, seconds: i64) -> usize {
    let mut options = vec![option("z")];
    offerings.take_options(&mut options, CapacityType::Spot, &holder(name), at(seconds));
    options.len()
}

fn only_refusal(offerings: &UnavailableOfferings) -> UnavailableOffering {
    match offerings.take_unpublished().as_slice() {
        [OfferingUpdate::Refused(refused)] => refused.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_exclusion_doubles_with_each_refusal_up_to_ten_minutes() {
    let windows: Vec<i64> = (1..=7).map(|failures| window::window(BASE, failures).as_secs()).collect();
    assert_eq!(windows, [30, 60, 120, 240, 480, 600, 600]);
    assert_eq!(window::window(BASE, u32::MAX).as_secs(), 600);
    assert_eq!(window::window(Millis::from_secs(2), 3).as_secs(), 8, "the base of a demo");
}

#[test]
fn refusals_in_a_row_come_at_the_ends_of_exclusions() {
    let offerings = offerings();
    // A dead offering, probed whenever that is due: after 30, 60, 120, 240, 480, 600, 600, 600 and 600 seconds.
    let mut expected = [0, 30, 90, 210, 450, 930, 1_530, 2_130, 2_730, 3_330].into_iter();
    let mut refused = Vec::new();
    for second in 0..3_600 {
        let is_first = second == 0;
        if is_first || (!claim(&offerings, second).is_empty()) {
            refuse(&offerings, second);
            refused.push(second);
            assert_eq!(Some(second), expected.next());
        }
    }
    assert_eq!(refused.len(), 10);
}

#[test]
fn refusals_of_launches_that_began_before_the_exclusion_count_once() {
    let offerings = offerings();
    refuse(&offerings, 0);
    (1..29).for_each(|second| refuse(&offerings, second));
    let refused = only_refusal(&offerings);
    assert_eq!((refused.failures, refused.until), (1, at(30)));
}

#[test]
fn refusals_are_forgotten_an_hour_after_the_last_one() {
    let offerings = offerings();
    refuse(&offerings, 0);
    offerings.expire(at(3_599));
    assert_eq!(offerings.counts(), (1, 0));
    refuse(&offerings, 3_599);
    assert_eq!(only_refusal(&offerings).failures, 2);
    offerings.expire(at(3_599 + 3_600));
    assert_eq!(offerings.counts(), (0, 0));
    refuse(&offerings, 3_599 + 3_600);
    assert_eq!(only_refusal(&offerings).failures, 1, "it begins anew");
}

#[test]
fn the_first_launch_takes_the_probe_and_no_other_one_gets_the_option() {
    let offerings = offerings();
    refuse(&offerings, 0);
    assert_eq!(taken(&offerings, "a", 29), 0);
    assert_eq!(taken(&offerings, "a", 31), 0, "the exclusion has ended, and the store gave no probe");
    assert!(grant(&offerings, 31));
    assert_eq!((taken(&offerings, "a", 32), taken(&offerings, "b", 32), taken(&offerings, "a", 33)), (1, 0, 1));
    // Launched elsewhere: given back, and due at once.
    offerings.take_unpublished();
    offerings.release_probes(&holder("a"));
    assert!(matches!(offerings.take_unpublished().as_slice(), [OfferingUpdate::ProbeReleased(_)]));
    assert_eq!(taken(&offerings, "b", 34), 0);
    assert!(grant(&offerings, 34));
    assert_eq!(taken(&offerings, "b", 35), 1);
    offerings.record_outcome(&outcome(1, 1, RefusalCause::Capacity), at(36));
    assert!(matches!(offerings.take_unpublished().as_slice(), [OfferingUpdate::Cleared(_)]));
    assert_eq!((taken(&offerings, "c", 37), taken(&offerings, "d", 37)), (1, 1), "it is free for all");
}

#[test]
fn sabotage_without_the_guard_every_launch_gets_the_option_when_the_exclusion_ends() {
    let offerings = UnavailableOfferings::new(BASE, false);
    refuse(&offerings, 0);
    assert_eq!(taken(&offerings, "a", 29), 0);
    assert_eq!(["a", "b", "c"].map(|name| taken(&offerings, name, 31)), [1, 1, 1]);
}

#[test]
fn a_probe_that_nobody_takes_is_given_back_and_asked_for_later() {
    let offerings = offerings();
    refuse(&offerings, 0);
    grant(&offerings, 30);
    offerings.take_unpublished();
    offerings.expire(at(59));
    assert_eq!(offerings.take_unpublished(), []);
    // After 30 seconds; asked for again after 30 more, so that another process gets it meanwhile.
    offerings.expire(at(60));
    assert!(matches!(offerings.take_unpublished().as_slice(), [OfferingUpdate::ProbeReleased(_)]));
    assert_eq!((claim(&offerings, 89).len(), claim(&offerings, 90).len()), (0, 1));
}

#[test]
fn a_probe_is_extended_while_its_launch_is_under_way_and_else_ends_with_its_lease() {
    let offerings = offerings();
    refuse(&offerings, 0);
    grant(&offerings, 30);
    taken(&offerings, "a", 31);
    // Its lease ends at 90 s, and is extended from 60 s on.
    assert_eq!(offerings.next_renewal(&text("c")), Some(at(60)));
    assert_eq!(claim(&offerings, 59), []);
    grant(&offerings, 60);
    assert_eq!(offerings.next_renewal(&text("c")), Some(at(90)));
    let ended = offerings.probes_to_claim(&text("c"), |_| true, |_| false, at(90));
    assert_eq!((ended.len(), offerings.next_renewal(&text("c"))), (0, Some(at(120))));
    // No call begins with less than 15 seconds left.
    let is_available =
        |second| offerings.is_available(&option("z"), CapacityType::Spot, Some(&holder("a")), at(second));
    assert!(is_available(104) && !is_available(106));
    offerings.expire(at(120));
    assert_eq!(offerings.counts(), (1, 0));
}

#[test]
fn another_owner_of_the_cluster_repeats_the_launch_so_the_probe_is_not_given_back() {
    let offerings = offerings();
    refuse(&offerings, 0);
    grant(&offerings, 30);
    taken(&offerings, "a", 31);
    offerings.take_unpublished();
    offerings.forget_cluster(&text("c"));
    assert_eq!(offerings.take_unpublished(), []);
    assert_eq!((claim(&offerings, 89).len(), claim(&offerings, 90).len()), (0, 1), "its lease ends at 90 s");
}

#[test]
fn what_the_store_has_replaces_what_is_older() {
    let (one, two) = (offerings(), offerings());
    refuse(&one, 0);
    let refused = UnavailableOffering { version: 1, ..only_refusal(&one) };
    two.merge_remote(vec![refused.clone()], at(1));
    let is_excluded = |of: &UnavailableOfferings, second| taken(of, "x", second) == 0;
    two.record_outcome(&outcome(1, 1, RefusalCause::Capacity), at(2));
    assert!(!is_excluded(&two, 3));
    // Read before its success was written.
    two.merge_remote(vec![refused.clone()], at(4));
    assert!(!is_excluded(&two, 4));
    let cleared = UnavailableOffering { failures: 0, until: at(2), version: 2, ..refused.clone() };
    one.merge_remote(vec![cleared], at(5));
    assert!(!is_excluded(&one, 5), "the success of another replica");
    one.merge_remote(vec![UnavailableOffering { version: 3, ..refused.clone() }], at(6));
    assert!(is_excluded(&one, 6), "refused to another replica since");
    // A row of an hour ago says nothing.
    let empty = offerings();
    empty.merge_remote(vec![refused], at(3_600));
    assert_eq!(empty.counts(), (0, 0));
}

#[test]
fn a_refusal_that_the_store_does_not_have_is_published_again_and_a_success_there_frees() {
    let offerings = offerings();
    refuse(&offerings, 0);
    let refused = only_refusal(&offerings);
    let absent = |keys: Vec<OfferingKey>, seconds| {
        let answers = keys.into_iter().map(|key| (key, ProbeAnswer::Absent)).collect();
        offerings.record_answers(answers, at(seconds) + PROBE_LEASE, at(seconds))
    };
    assert!(!absent(claim(&offerings, 30), 31));
    assert_eq!(only_refusal(&offerings), refused);
    offerings.merge_remote(vec![UnavailableOffering { version: 1, ..refused }], at(32));
    assert!(!absent(claim(&offerings, 40), 41));
    assert_eq!(offerings.counts(), (0, 0));
}

#[test]
fn a_capacity_answer_holds_for_all_accounts_by_zone_id_and_any_other_for_one() {
    let key = |change: fn(&mut Offering), cause| {
        let mut offering = offering();
        change(&mut offering);
        let key = OfferingKey::of_refusal(&offering, cause, SizeClass::ONE);
        (key.zone.to_string(), key.is_shared)
    };
    let (id, name) = (("use1-az1".to_owned(), true), ("z".to_owned(), false));
    assert_eq!(key(|_| {}, RefusalCause::Capacity), id);
    assert_eq!(key(|_| {}, RefusalCause::Account), ("use1-az1".to_owned(), false));
    assert_eq!(key(|offering| offering.zone_id = None, RefusalCause::Capacity), name);
    let reserved = key(|offering| offering.capacity_type = CapacityType::Reserved, RefusalCause::Capacity);
    assert_eq!(reserved, ("use1-az1".to_owned(), false));
}

#[test]
fn both_a_shared_refusal_and_one_of_the_account_exclude_until_both_have_ended() {
    let offerings = offerings();
    refuse(&offerings, 0);
    offerings.record_outcome(&outcome(1, 0, RefusalCause::Account), at(20));
    let keys = claim(&offerings, 31);
    assert_eq!(keys.iter().map(|key| key.is_shared).collect::<Vec<_>>(), [true]);
    let granted = |keys: Vec<OfferingKey>, seconds| {
        let answers = keys.into_iter().map(|key| (key, ProbeAnswer::Granted)).collect();
        offerings.record_answers(answers, at(seconds) + PROBE_LEASE, at(seconds));
    };
    granted(keys, 40);
    assert_eq!(taken(&offerings, "a", 41), 0, "the account's quota excludes it until 50 s");
    granted(claim(&offerings, 50), 50);
    assert_eq!((taken(&offerings, "a", 51), taken(&offerings, "b", 51)), (1, 0));
    offerings.record_outcome(&outcome(1, 1, RefusalCause::Capacity), at(52));
    assert_eq!(offerings.counts(), (0, 0), "a success ends both");
}

#[test]
fn a_refusal_excludes_larger_asks_and_a_success_clears_smaller_ones() {
    let offerings = offerings();
    let sizes = || {
        let refused = offerings.state().entries.refused_sizes();
        refused.iter().map(|size| size.smallest()).collect::<Vec<_>>()
    };
    // 20 asked, 7 got: success at 7 and fewer, refusal at 8 and more, whose class begins at 5.
    offerings.record_outcome(&outcome(20, 7, RefusalCause::Capacity), at(0));
    assert_eq!(sizes(), [5]);
    assert_eq!(taken(&offerings, "a", 1), 1, "launches of one instance go on");
    assert_eq!(offerings.counts(), (0, 0), "they are what is counted");
    offerings.record_outcome(&outcome(2, 1, RefusalCause::Capacity), at(2));
    assert_eq!(sizes(), [2, 5]);
    offerings.record_outcome(&outcome(1, 0, RefusalCause::Capacity), at(3));
    assert_eq!(sizes(), [1, 2, 5]);
    offerings.record_outcome(&outcome(2, 2, RefusalCause::Capacity), at(4));
    assert_eq!(sizes(), [5]);
    offerings.record_outcome(&outcome(16, 16, RefusalCause::Capacity), at(5));
    assert_eq!(sizes(), Vec::<u32>::new());
}

#[test]
fn only_plans_for_pods_see_an_offering_that_may_be_probed() {
    let offerings = offerings();
    let mut catalogue = Catalogue::clone(&pool().pool.catalogue);
    for found in catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        Arc::make_mut(&mut found.labels).insert(Text::from(model::labels::ZONE_ID), text("use1-az1"));
    }
    let catalogue = SharedCatalogue::new(catalogue);
    let kind: InstanceTypeName = text("t.2");
    let is_shown = |probing, second| {
        let masked = offerings.mask_catalogue(&catalogue, probing, at(second));
        let found = masked.types.iter().find(|found| found.name == kind).expect("it is in the catalogue");
        found.offerings.iter().any(|found| found.available && found.capacity_type == CapacityType::Spot)
    };
    let both = |second| (is_shown(Probing::Allowed, second), is_shown(Probing::Excluded, second));
    assert_eq!(both(0), (true, true));
    // Refused in another account, whose name for the zone is not ours.
    let elsewhere = Offering { zone: Zone::from("elsewhere"), ..offering() };
    let refused = OfferingOutcome { offering: elsewhere, ..outcome(1, 0, RefusalCause::Capacity) };
    offerings.record_outcome(&refused, at(0));
    assert_eq!((both(1), both(31)), ((false, false), (false, false)));
    grant(&offerings, 31);
    assert_eq!(both(32), (true, false));
    assert_eq!(taken(&offerings, "a", 33), 1, "the zone's id is that of the catalogue");
    assert_eq!(both(34), (false, false));
}
