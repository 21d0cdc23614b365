//! One replica lists instances; replicas that own other clusters read the listing.

use std::time::Duration;

use super::{HOUR, granted};
use store::lease::{Lease, Scope};
use store::listing::{ListedDetails, ListedInstanceRow};
use store::{Store, StoreError};

pub(super) async fn all(store: &dyn Store, run: &str) {
    a_listing_is_stored_for_the_other_replicas(store, run).await;
    the_details_of_listed_instances_are_stored(store, run).await;
    a_replica_without_the_region_lease_writes_no_listing(store, run).await;
}

fn region(run: &str, name: &str) -> Scope {
    Scope::Region { account: run.to_owned(), region: name.to_owned() }
}

fn machine(cluster: &str, number: u32) -> ListedInstanceRow {
    ListedInstanceRow {
        cluster: cluster.to_owned(),
        provider_id: format!("aws:///a/i-{number}"),
        cluster_uid: "uid".to_owned(),
        claim: format!("web-{number}"),
        ends: false,
        details: details(&["sg-1"]),
    }
}

fn details(groups: &[&str]) -> ListedDetails {
    ListedDetails {
        image: "ami-1".to_owned(),
        subnet: "subnet-1".to_owned(),
        security_groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        reservation: None,
    }
}

async fn keep(store: &dyn Store, lease: &Lease, ago: Duration, machines: &[ListedInstanceRow]) {
    assert!(store.put_listing(lease, ago, machines).await.unwrap(), "another replica holds a cluster lease");
}

async fn a_listing_is_stored_for_the_other_replicas(store: &dyn Store, run: &str) {
    let name = |cluster: &str| format!("{run}-listed-{cluster}");
    let (mine, theirs, other) = (name("mine"), name("theirs"), name("other"));
    let (lease, _) = granted(store, &region(run, "listed"), "lister", HOUR).await;
    granted(store, &Scope::cluster(&mine), "lister", HOUR).await;
    granted(store, &Scope::cluster(&theirs), "reader", HOUR).await;
    let scope = &lease.scope;
    let of = |clusters: &[&String]| clusters.iter().map(ToString::to_string).collect::<Vec<String>>();
    assert_eq!(store.latest_listing(scope, &of(&[&theirs])).await.unwrap(), None, "no listing was stored");

    let all = [machine(&other, 3), machine(&theirs, 2), machine(&theirs, 1), machine(&mine, 4)];
    keep(store, &lease, Duration::from_secs(40), &all).await;
    let first = store.latest_listing(scope, &of(&[&theirs, &mine])).await.unwrap().unwrap();
    assert_eq!(
        first.machines,
        [machine(&theirs, 1), machine(&theirs, 2)],
        "instances of the lister's clusters are omitted"
    );
    assert!(first.age >= Duration::from_secs(40), "the listing was requested 40 s before: {:?}", first.age);
    assert!(first.age < HOUR, "{:?}", first.age);

    let ending = ListedInstanceRow { ends: true, ..machine(&theirs, 2) };
    keep(store, &lease, Duration::ZERO, &[ending.clone(), machine(&theirs, 5)]).await;
    let second = store.latest_listing(scope, &of(&[&theirs, &other])).await.unwrap().unwrap();
    assert_ne!(first.number, second.number);
    assert_eq!(second.machines, [ending, machine(&theirs, 5)], "unlisted instances are deleted");
    keep(store, &lease, Duration::ZERO, &[]).await;
    let third = store.latest_listing(scope, &of(&[&theirs])).await.unwrap().unwrap();
    assert_eq!(third.machines, [], "a listing without machines is a listing");
    assert_ne!(second.number, third.number);
}

async fn the_details_of_listed_instances_are_stored(store: &dyn Store, run: &str) {
    let theirs = format!("{run}-detailed");
    let (lease, _) = granted(store, &region(run, "detailed"), "lister", HOUR).await;
    granted(store, &Scope::cluster(&theirs), "reader", HOUR).await;
    let with = |number, details| ListedInstanceRow { details, ..machine(&theirs, number) };
    let two = with(2, details(&["sg-1", "sg-2"]));
    let reserved = with(3, ListedDetails { reservation: Some("cr-1".to_owned()), ..details(&["sg-1"]) });
    let unknown = with(4, ListedDetails::default());
    let partly = with(5, ListedDetails { security_groups: Vec::new(), ..details(&[]) });
    let first = [machine(&theirs, 1), two.clone(), reserved, unknown.clone(), partly];
    let read =
        async || store.latest_listing(&lease.scope, std::slice::from_ref(&theirs)).await.unwrap().unwrap().machines;
    keep(store, &lease, Duration::ZERO, &first).await;
    assert_eq!(read().await, first);
    // A group of the first one is changed by hand, the second one stays, the fourth one is described, the others are gone.
    let second = [with(1, details(&["sg-9"])), two, with(4, details(&["sg-1"]))];
    keep(store, &lease, Duration::ZERO, &second).await;
    assert_eq!(read().await, second);
    keep(store, &lease, Duration::ZERO, &first).await;
    assert_eq!(read().await, first);
}

async fn a_replica_without_the_region_lease_writes_no_listing(store: &dyn Store, run: &str) {
    let scope = region(run, "lost");
    let (lost, _) = granted(store, &scope, "lister", Duration::ZERO).await;
    let (held, _) = granted(store, &scope, "successor", HOUR).await;
    let late = store.put_listing(&lost, Duration::ZERO, &[machine("x", 1)]).await;
    assert!(matches!(late, Err(StoreError::LeaseLost { epoch: 1, .. })), "{late:?}");
    assert_eq!(store.latest_listing(&scope, &["x".to_owned()]).await.unwrap(), None);
    keep(store, &held, Duration::ZERO, &[]).await;
}
