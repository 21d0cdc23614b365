use std::time::Duration;

use engine::model::Text;

use super::*;

fn scope() -> Scope {
    Scope::Region { account: "1".to_owned(), region: "east".to_owned() }
}

fn lease(epoch: u64) -> Lease {
    Lease { scope: scope(), owner: "me".to_owned(), epoch }
}

fn granted(region: &mut Region, epoch: u64) {
    let answer = LeaseAnswer::Granted { lease: lease(epoch), open: crate::store::lease::Open::default() };
    assert!(region.taken(Ok(answer)).is_none());
}

fn held_by(owner: &str) -> LeaseAnswer {
    LeaseAnswer::Held { owner: owner.to_owned(), expires_in: Duration::from_secs(30) }
}

fn due(region: &mut Region, at: i64) -> Option<Call> {
    region.listing_due([Text::from("blue")].iter(), Timestamp(at))
}

fn kept(number: u64, age_ms: u64, clusters: &[&str]) -> Result<Option<KeptListing>, StoreError> {
    let machine = |cluster: &&str| ListedMachine {
        cluster: (*cluster).to_owned(),
        provider_id: format!("aws:///a/i-{cluster}"),
        cluster_uid: "uid".to_owned(),
        claim: "web-1".to_owned(),
        ends: false,
    };
    let machines = clusters.iter().map(machine).collect();
    Ok(Some(KeptListing { number, age: Duration::from_millis(age_ms), machines }))
}

#[test]
fn only_who_holds_the_regions_lease_asks_the_cloud_and_one_question_at_a_time() {
    let mut region = Region::new(scope());
    assert!(matches!(due(&mut region, 1_000), Some(Call::ReadListing { .. })));
    assert!(due(&mut region, 2_000).is_none(), "the store has not answered the first");
    assert!(region.overheard(Timestamp(1_000), Vec::new(), Ok(None)).is_none());

    assert!(matches!(region.renewal_due(Timestamp(3_000)), Some(Call::TakeRegion(_))));
    assert!(region.renewal_due(Timestamp(3_000)).is_none(), "the store has not answered the first");
    granted(&mut region, 3);
    assert!(matches!(due(&mut region, 3_000), Some(Call::List { lease: used, .. }) if used == lease(3)));
    assert!(due(&mut region, 4_000).is_none(), "the cloud has not answered the first");
    assert!(region.listed(true, Timestamp(4_500)).is_none());

    assert!(!region.lost(&lease(2)), "another epoch's");
    assert!(region.lost(&lease(3)));
    assert!(matches!(due(&mut region, 5_000), Some(Call::ReadListing { .. })));
}

#[test]
fn a_holder_is_told_once_that_somebody_waits_so_that_replicas_do_not_wake_each_other_for_ever() {
    let mut region = Region::new(scope());
    assert!(matches!(region.taken(Ok(held_by("a"))), Some(Call::AskFor(_))));
    assert!(region.taken(Ok(held_by("a"))).is_none());
    assert!(matches!(region.taken(Ok(held_by("b"))), Some(Call::AskFor(_))));
}

#[test]
fn what_another_has_listed_is_taken_in_once_and_is_as_old_as_its_question() {
    let mut region = Region::new(scope());
    let blue = || vec![Text::from("blue")];
    // Read at 100,000; the store says that the cloud was asked 12,000 ms before: 88,000.
    let (asked, machines) = region.overheard(Timestamp(100_000), blue(), kept(7, 12_000, &["blue"])).unwrap();
    assert_eq!((asked, machines[&blue()[0]].len()), (Timestamp(88_000), 1));
    assert!(region.overheard(Timestamp(110_000), blue(), kept(7, 22_000, &["blue"])).is_none(), "the same listing");
    let (asked, machines) = region.overheard(Timestamp(130_000), blue(), kept(8, 1_000, &[])).unwrap();
    assert_eq!((asked, machines[&blue()[0]].len()), (Timestamp(129_000), 0), "it has no machine any more");
}

#[test]
fn a_listing_says_nothing_about_a_cluster_that_was_not_asked_about() {
    let mut region = Region::new(scope());
    let asked_about = vec![Text::from("blue")];
    let (_, machines) = region.overheard(Timestamp(100_000), asked_about, kept(1, 0, &["blue", "green"])).unwrap();
    assert_eq!(machines.keys().map(|cluster| &**cluster).collect::<Vec<_>>(), ["blue"]);
}

/// Listings in a row that end so, half a minute apart from 0 s; what the replica does about the lease after each.
fn after(region: &mut Region, complete: &[bool]) -> Vec<bool> {
    let listed = |(number, complete): (i64, &bool)| {
        let at = Timestamp(number * 30_000);
        due(region, at.0);
        matches!(region.listed(*complete, at), Some(Call::Release(leases)) if leases == [lease(3)])
    };
    (0..).zip(complete).map(listed).collect()
}

#[test]
fn who_cannot_list_lets_a_replica_that_waits_try() {
    let mut region = Region::new(scope());
    granted(&mut region, 3);
    region.is_wanted(&lease(3));
    // One that went well in between begins the count anew: the fourth in a row is the seventh of all.
    let released = after(&mut region, &[false, false, true, false, false, false, false]);
    assert_eq!(released, [false, false, false, false, false, false, true]);
    // Given up at 180 s, and left to others for 120 s.
    assert!(matches!(due(&mut region, 190_000), Some(Call::ReadListing { .. })), "it listens to others");
    assert!(region.renewal_due(Timestamp(299_999)).is_none());
    assert!(matches!(region.renewal_due(Timestamp(300_000)), Some(Call::TakeRegion(_))));
}

#[test]
fn who_cannot_list_keeps_on_trying_while_nobody_else_would() {
    let mut region = Region::new(scope());
    granted(&mut region, 3);
    region.is_wanted(&lease(2));
    assert_eq!(after(&mut region, &[false; 10]), [false; 10]);
    region.is_wanted(&lease(3));
    assert_eq!(after(&mut region, &[false]), [true]);
}
