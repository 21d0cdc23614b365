use std::sync::Arc;

use controller::holds::HeldPods;
use model::{PodShape, Resources};

use super::*;

fn row(cluster: &str, id: &str) -> HoldRow {
    let shape = PodShape { requests: Resources::from_iter([("cpu", 500)]), ..PodShape::default() };
    let pods = HeldPods {
        name: "workers".into(),
        namespace: "default".into(),
        shape: Arc::new(shape),
        labels: Arc::default(),
        count: 4,
    };
    HoldRow {
        id: id.to_owned(),
        cluster: cluster.to_owned(),
        client: "kueue".to_owned(),
        pod_sets: Vec::new(),
        pods: decision_log::held_pods::encode(&[pods]),
        dedicated: true,
        max_price: Some(2_000_000),
        state: HoldState::Pending,
        created_ms: 1_000,
        expires_ms: 601_000,
        left_ms: 600_000,
        committed_ms: None,
        ended_ms: None,
        status: HoldStatusRow { id: id.to_owned(), ..HoldStatusRow::default() },
        version: 1,
    }
}

#[test]
fn a_status_comes_back_as_it_was_written_and_the_end_of_a_hold_is_by_the_clock_of_the_reader() {
    let places = vec![
        HoldPlace { target: Target::Claim("m-1".into()), pod_set: 0, pods: 3, price: MicroUsd(96_000) },
        HoldPlace { target: Target::Node("ip-10-0-0-1".into()), pod_set: 0, pods: 1, price: MicroUsd(0) },
    ];
    let status = HoldStatus { places, ready: true, message: "".into(), end: None };
    let id = HoldId("h-1".into());
    let row = HoldRow { status: encode_status(&id, &status), ..row("blue", "h-1") };
    let read = decode(&row, Timestamp::from_millis(50_000));
    assert_eq!(read.status, status);
    assert_eq!(read.expires, Some(Timestamp::from_millis(650_000)));
    assert_eq!((read.kind, read.max_price), (HoldKind::Dedicated, Some(MicroUsd(2_000_000))));
    assert_eq!(read.pods.unwrap()[0].count, 4);
    let committed = HoldRow { committed_ms: Some(2_000), ..row };
    assert_eq!(decode(&committed, Timestamp::from_millis(50_000)).expires, None);
}

#[test]
fn unreadable_pods_are_told_and_the_hold_is_kept() {
    let read = decode(&HoldRow { pods: vec![200, 1], ..row("blue", "h-1") }, Timestamp::from_millis(0));
    assert!(read.pods.unwrap_err().contains("unreadable"));
}

#[test]
fn a_cluster_without_holds_is_told_so() {
    let live = LiveHolds { read: 7, holds: vec![row("blue", "h-1"), row("blue", "h-2"), row("red", "h-3")] };
    let events = changed_events(&live, ["blue".into(), "green".into()], Timestamp::from_millis(0));
    let told: Vec<(String, u64, usize)> = events
        .iter()
        .map(|ClusterEvent { cluster, event }| match event {
            Event::HoldsChanged { read, holds } => (cluster.to_string(), *read, holds.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [("blue".to_owned(), 7, 2), ("green".to_owned(), 7, 0), ("red".to_owned(), 7, 1)]);
}
