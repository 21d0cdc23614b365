use std::time::Duration;

use super::*;

fn scope() -> Scope {
    Scope::Region { account: "1".to_owned(), region: "east".to_owned() }
}

fn lease(epoch: u64) -> Lease {
    Lease { scope: scope(), owner: "me".to_owned(), epoch }
}

fn granted(region: &mut RegionLister, epoch: u64) {
    let answer = LeaseOutcome::Granted { lease: lease(epoch), open: Box::default() };
    assert!(region.handle_lease_answer(Ok(answer)).is_none());
}

fn held_by(owner: &str) -> LeaseOutcome {
    LeaseOutcome::Held { owner: owner.to_owned(), expires_in: Duration::from_secs(30) }
}

fn due(region: &mut RegionLister, at: i64) -> Option<Call> {
    region.begin_listing([ClusterName::from("blue")].iter(), Timestamp::from_millis(at))
}

fn kept(number: u64, age_ms: u64, clusters: &[&str]) -> Result<Option<StoredListing>, StoreError> {
    let machine = |cluster: &&str| ListedInstanceRow {
        cluster: (*cluster).to_owned(),
        provider_id: format!("aws:///a/i-{cluster}"),
        cluster_uid: "uid".to_owned(),
        claim: "web-1".to_owned(),
        ends: false,
        details: ListedDetails::default(),
    };
    let machines = clusters.iter().map(machine).collect();
    Ok(Some(StoredListing { number, age: Duration::from_millis(age_ms), machines }))
}

#[test]
fn only_the_holder_of_the_region_lease_lists_at_the_cloud_one_call_at_a_time() {
    let mut region = RegionLister::new(scope());
    assert!(matches!(due(&mut region, 1_000), Some(Call::ReadListing { .. })));
    assert!(due(&mut region, 2_000).is_none(), "the store has not answered the first");
    assert!(region.finish_reading(Timestamp::from_millis(1_000), Vec::new(), Ok(None)).is_none());

    assert!(matches!(region.try_take_lease(Timestamp::from_millis(3_000)), Some(Call::TakeRegionLease(_))));
    assert!(region.try_take_lease(Timestamp::from_millis(3_000)).is_none(), "the store has not answered the first");
    granted(&mut region, 3);
    assert!(matches!(due(&mut region, 3_000), Some(Call::ListInstances { lease: used, .. }) if used == lease(3)));
    assert!(due(&mut region, 4_000).is_none(), "the cloud has not answered the first");
    assert!(region.finish_listing(true, Timestamp::from_millis(4_500)).is_none());

    assert!(!region.drop_lease(&lease(2)), "a lease of another epoch");
    assert!(region.drop_lease(&lease(3)));
    assert!(matches!(due(&mut region, 5_000), Some(Call::ReadListing { .. })));
}

#[test]
fn a_lease_is_requested_once_per_holder_so_that_replicas_do_not_wake_each_other_forever() {
    let mut region = RegionLister::new(scope());
    assert!(matches!(region.handle_lease_answer(Ok(held_by("a"))), Some(Call::RequestLease(_))));
    assert!(region.handle_lease_answer(Ok(held_by("a"))).is_none());
    assert!(matches!(region.handle_lease_answer(Ok(held_by("b"))), Some(Call::RequestLease(_))));
}

#[test]
fn a_stored_listing_is_processed_once_and_is_as_old_as_its_cloud_call() {
    let mut region = RegionLister::new(scope());
    let blue = || vec![ClusterName::from("blue")];
    // Read at 100,000; the store reports that the cloud was asked 12,000 ms before: 88,000.
    let (asked, machines) =
        region.finish_reading(Timestamp::from_millis(100_000), blue(), kept(7, 12_000, &["blue"])).unwrap();
    assert_eq!((asked, machines[&blue()[0]].len()), (Timestamp::from_millis(88_000), 1));
    assert!(
        region.finish_reading(Timestamp::from_millis(110_000), blue(), kept(7, 22_000, &["blue"])).is_none(),
        "the same listing"
    );
    let (asked, machines) =
        region.finish_reading(Timestamp::from_millis(130_000), blue(), kept(8, 1_000, &[])).unwrap();
    assert_eq!((asked, machines[&blue()[0]].len()), (Timestamp::from_millis(129_000), 0), "it has no instance left");
}

#[test]
fn the_details_of_instances_reach_the_clusters_of_other_replicas_and_equal_ones_are_shared() {
    let details = |subnet: &str| InstanceDetails {
        image: "ami-1".into(),
        subnet: subnet.into(),
        security_groups: vec!["sg-1".into(), "sg-2".into()],
        reservation: Some("cr-1".into()),
    };
    let instance = |id: &str, subnet: &str| Instance {
        id: id.into(),
        provider_id: format!("aws:///a/{id}").into(),
        instance_type: "m5.large".into(),
        zone: "a".into(),
        capacity_type: model::CapacityType::OnDemand,
        state: InstanceState::Running,
        cluster: "blue".into(),
        cluster_uid: "uid".into(),
        claim: "web-1".into(),
        pool: "general".into(),
        launched: Timestamp::from_millis(0),
        details: details(subnet),
    };
    let all = vec![instance("i-1", "subnet-1"), instance("i-2", "subnet-2"), instance("i-3", "subnet-1")];
    let rows = all.iter().map(to_row).collect();
    let blue = || [ClusterName::from("blue")];
    let own = group_by_cluster(blue().iter(), all).remove("blue").unwrap();
    let kept = StoredListing { number: 1, age: Duration::ZERO, machines: rows };
    let mut region = RegionLister::new(scope());
    let (_, mut read) = region.finish_reading(Timestamp::from_millis(1), blue().to_vec(), Ok(Some(kept))).unwrap();
    let read = read.remove("blue").unwrap();
    assert_eq!(own, read);
    let shown: Vec<&InstanceDetails> = own.iter().map(|listed| &*listed.details).collect();
    assert_eq!(shown, [&details("subnet-1"), &details("subnet-2"), &details("subnet-1")]);
    for listed in [own, read] {
        assert!(Arc::ptr_eq(&listed[0].details, &listed[2].details));
    }
}

#[test]
fn a_stored_listing_omits_clusters_that_were_not_requested() {
    let mut region = RegionLister::new(scope());
    let asked_about = vec![ClusterName::from("blue")];
    let (_, machines) =
        region.finish_reading(Timestamp::from_millis(100_000), asked_about, kept(1, 0, &["blue", "green"])).unwrap();
    assert_eq!(machines.keys().collect::<Vec<_>>(), ["blue"]);
}

/// Consecutive listings with these results, half a minute apart from 0 s; whether each releases the
/// lease.
fn after(region: &mut RegionLister, complete: &[bool]) -> Vec<bool> {
    let listed = |(number, complete): (i64, &bool)| {
        let at = Timestamp::from_millis(number * 30_000);
        due(region, at.as_millis());
        matches!(region.finish_listing(*complete, at), Some(Call::ReleaseLeases(leases)) if leases == [lease(3)])
    };
    (0..).zip(complete).map(listed).collect()
}

#[test]
fn a_replica_that_cannot_list_releases_the_lease_to_one_that_requested_it() {
    let mut region = RegionLister::new(scope());
    granted(&mut region, 3);
    region.mark_wanted(&lease(3));
    // A success resets the count: the fourth consecutive failure is the seventh listing.
    let released = after(&mut region, &[false, false, true, false, false, false, false]);
    assert_eq!(released, [false, false, false, false, false, false, true]);
    // Released at 180 s, and left to others for 120 s.
    assert!(matches!(due(&mut region, 190_000), Some(Call::ReadListing { .. })), "it reads the listings of others");
    assert!(region.try_take_lease(Timestamp::from_millis(299_999)).is_none());
    assert!(matches!(region.try_take_lease(Timestamp::from_millis(300_000)), Some(Call::TakeRegionLease(_))));
}

#[test]
fn a_replica_that_cannot_list_keeps_an_unrequested_lease() {
    let mut region = RegionLister::new(scope());
    granted(&mut region, 3);
    region.mark_wanted(&lease(2));
    assert_eq!(after(&mut region, &[false; 10]), [false; 10]);
    region.mark_wanted(&lease(3));
    assert_eq!(after(&mut region, &[false]), [true]);
}
