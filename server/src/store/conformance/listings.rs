//! One replica lists a cloud's machines, and those that decide for other clusters read what it saw.

use std::time::Duration;

use super::{HOUR, granted};
use crate::store::lease::{Lease, Scope};
use crate::store::listing::ListedMachine;
use crate::store::{Store, StoreError};

pub(super) async fn all(store: &dyn Store, run: &str) {
    a_listing_is_kept_for_those_who_decide_elsewhere(store, run).await;
    whoever_has_lost_the_region_keeps_nothing(store, run).await;
}

fn region(run: &str, name: &str) -> Scope {
    Scope::Region { account: run.to_owned(), region: name.to_owned() }
}

fn machine(cluster: &str, number: u32) -> ListedMachine {
    ListedMachine {
        cluster: cluster.to_owned(),
        provider_id: format!("aws:///a/i-{number}"),
        cluster_uid: "uid".to_owned(),
        claim: format!("web-{number}"),
        ends: false,
    }
}

async fn keep(store: &dyn Store, lease: &Lease, ago: Duration, machines: &[ListedMachine]) {
    assert!(store.keep_listing(lease, ago, machines).await.unwrap(), "somebody else decides for a cluster");
}

async fn a_listing_is_kept_for_those_who_decide_elsewhere(store: &dyn Store, run: &str) {
    let name = |cluster: &str| format!("{run}-listed-{cluster}");
    let (mine, theirs, other) = (name("mine"), name("theirs"), name("other"));
    let (lease, _) = granted(store, &region(run, "listed"), "lister", HOUR).await;
    granted(store, &Scope::cluster(&mine), "lister", HOUR).await;
    granted(store, &Scope::cluster(&theirs), "reader", HOUR).await;
    let scope = &lease.scope;
    let of = |clusters: &[&String]| clusters.iter().map(ToString::to_string).collect::<Vec<String>>();
    assert_eq!(store.last_listing(scope, &of(&[&theirs])).await.unwrap(), None, "nothing was listed yet");

    let all = [machine(&other, 3), machine(&theirs, 2), machine(&theirs, 1), machine(&mine, 4)];
    keep(store, &lease, Duration::from_secs(40), &all).await;
    let first = store.last_listing(scope, &of(&[&theirs, &mine])).await.unwrap().unwrap();
    assert_eq!(first.machines, [machine(&theirs, 1), machine(&theirs, 2)], "the lister knows its own at first hand");
    assert!(first.age >= Duration::from_secs(40), "the cloud was asked 40 s before: {:?}", first.age);
    assert!(first.age < HOUR, "{:?}", first.age);

    let ending = ListedMachine { ends: true, ..machine(&theirs, 2) };
    keep(store, &lease, Duration::ZERO, &[ending.clone(), machine(&theirs, 5)]).await;
    let second = store.last_listing(scope, &of(&[&theirs, &other])).await.unwrap().unwrap();
    assert_ne!(first.number, second.number);
    assert_eq!(second.machines, [ending, machine(&theirs, 5)], "what is not listed any more is gone");
    keep(store, &lease, Duration::ZERO, &[]).await;
    let third = store.last_listing(scope, &of(&[&theirs])).await.unwrap().unwrap();
    assert_eq!(third.machines, [], "a listing without machines is a listing");
    assert_ne!(second.number, third.number);
}

async fn whoever_has_lost_the_region_keeps_nothing(store: &dyn Store, run: &str) {
    let scope = region(run, "lost");
    let (lost, _) = granted(store, &scope, "lister", Duration::ZERO).await;
    let (held, _) = granted(store, &scope, "successor", HOUR).await;
    let late = store.keep_listing(&lost, Duration::ZERO, &[machine("x", 1)]).await;
    assert!(matches!(late, Err(StoreError::LeaseLost { epoch: 1, .. })), "{late:?}");
    assert_eq!(store.last_listing(&scope, &["x".to_owned()]).await.unwrap(), None);
    keep(store, &held, Duration::ZERO, &[]).await;
}
