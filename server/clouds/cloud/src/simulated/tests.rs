use model::{CapacityType, ClusterName, MicroUsd, Text, Timestamp};

use super::*;

fn request(token: &str, types: &[&str]) -> LaunchRequest {
    let option = |kind: &&str| Override { instance_type: (*kind).into(), zone: "us-east-1a".into() };
    LaunchRequest {
        token: Text::from(token),
        cluster: "c1".into(),
        cluster_uid: Text::from("uid-1"),
        claim: "pool-abcde".into(),
        pool: "pool".into(),
        node_class: Text::from("default"),
        capacity_type: CapacityType::Spot,
        overrides: types.iter().map(option).collect(),
        reservation: None,
        terms: Text::default(),
        template: None,
    }
}

fn cloud(faults: FaultProfile) -> SimulatedCloud {
    SimulatedCloud::new(faults, None)
}

#[test]
fn one_token_launches_one_instance_however_often_it_is_sent() {
    let mut cloud = cloud(FaultProfile::default());
    let first = cloud.launch(&request("t", &["m5.large"]), Timestamp::from_millis(0)).unwrap();
    let again = cloud.launch(&request("t", &["m5.large"]), Timestamp::from_millis(9)).unwrap();
    assert_eq!(first.instance.id, again.instance.id);
    assert_eq!(cloud.ledger().launched_count(), 1);
}

#[test]
fn a_cloud_that_ignores_tokens_launches_twice() {
    let mut cloud = cloud(FaultProfile { ignore_tokens: true, ..FaultProfile::default() });
    for _ in 0..2 {
        cloud.launch(&request("t", &["m5.large"]), Timestamp::from_millis(0)).unwrap();
    }
    assert_eq!(cloud.ledger().duplicate_launches(), [("c1".into(), "pool-abcde".into())]);
}

#[test]
fn a_token_with_other_parameters_is_refused() {
    let mut cloud = cloud(FaultProfile::default());
    cloud.launch(&request("t", &["m5.large"]), Timestamp::from_millis(0)).unwrap();
    let other = cloud.launch(&request("t", &["c5.large"]), Timestamp::from_millis(1));
    assert_eq!(other, Err(CloudError::IdempotentParameterMismatch { token: Text::from("t") }));
    assert_eq!(cloud.ledger().launched_count(), 1);
}

#[test]
fn the_first_option_with_capacity_is_launched_and_earlier_ones_are_reported() {
    let short = CapacityShortage { instance_type: Some("m5.large".into()), ..CapacityShortage::default() };
    let mut cloud = cloud(FaultProfile { shortages: vec![short], ..FaultProfile::default() });
    let outcome = cloud.launch(&request("t", &["m5.large", "c5.large"]), Timestamp::from_millis(0)).unwrap();
    assert_eq!(outcome.instance.instance_type.as_ref(), "c5.large");
    let refused = request("t", &["m5.large"]).overrides[0].without_capacity();
    assert_eq!(outcome.unavailable, [refused]);
}

#[test]
fn without_capacity_nothing_is_launched() {
    let mut cloud = cloud(FaultProfile { no_capacity: true, ..FaultProfile::default() });
    let wanted = request("t", &["m5.large"]);
    assert_eq!(
        cloud.launch(&wanted, Timestamp::from_millis(0)),
        Err(CloudError::InsufficientCapacity {
            unavailable: wanted.overrides.iter().map(Override::without_capacity).collect()
        })
    );
    assert_eq!((cloud.ledger().launched_count(), cloud.ledger().refused), (0, 1));
}

#[test]
fn calls_beyond_the_rate_limit_get_a_retry_delay() {
    let mut cloud = cloud(FaultProfile { calls: TokenBucket::new(2, 500), ..FaultProfile::default() });
    assert!(cloud.launch(&request("a", &["x"]), Timestamp::from_millis(0)).is_ok());
    assert!(cloud.launch(&request("b", &["x"]), Timestamp::from_millis(0)).is_ok());
    let third = cloud.launch(&request("c", &["x"]), Timestamp::from_millis(0));
    // The bucket is empty and gets one call per 500 ms; one is added for rounding.
    assert_eq!(third, Err(CloudError::RequestLimitExceeded { retry_after_ms: 501 }));
    assert!(cloud.launch(&request("c", &["x"]), Timestamp::from_millis(501)).is_ok());
}

#[test]
fn a_spot_instance_gets_a_notice_two_minutes_before_its_end() {
    let faults = FaultProfile { boot_ms: (10, 10), shutdown_ms: 5, ..FaultProfile::default() };
    let mut cloud = cloud(faults);
    let id = cloud.launch(&request("t", &["x"]), Timestamp::from_millis(0)).unwrap().instance.id;
    assert!(matches!(cloud.tick(Timestamp::from_millis(10)).as_slice(), [CloudEvent::Running(_)]));
    assert!(cloud.interrupt(&id, InterruptionKind::SpotInterrupted, Timestamp::from_millis(1_000)));
    let warned = cloud.tick(Timestamp::from_millis(1_000));
    assert!(
        matches!(warned.as_slice(), [CloudEvent::Interrupted { at: Some(at), .. }] if at.as_millis() == 121_000),
        "{warned:?}"
    );
    assert!(cloud.tick(Timestamp::from_millis(121_004)).is_empty());
    assert!(matches!(cloud.tick(Timestamp::from_millis(121_005)).as_slice(), [CloudEvent::Terminated(_)]));
    assert_eq!(cloud.ledger().active().count(), 0);
}

#[test]
fn a_repeated_request_finds_the_instance_of_a_lost_response() {
    let mut cloud = cloud(FaultProfile { lost_answers_percent: 100, ..FaultProfile::default() });
    let mut tries = 0;
    while cloud.ledger().launched_count() == 0 {
        tries += 1;
        assert!(tries < 100, "half of the lost responses come after the launch");
        assert!(matches!(
            cloud.launch(&request("t", &["x"]), Timestamp::from_millis(0)),
            Err(CloudError::Unknown { .. })
        ));
    }
    cloud.faults_mut().lost_answers_percent = 0;
    let found = cloud.launch(&request("t", &["x"]), Timestamp::from_millis(0)).unwrap();
    assert_eq!(cloud.ledger().entries().map(|entry| &entry.instance.id).collect::<Vec<_>>(), [&found.instance.id]);
}

#[test]
fn an_instance_is_terminated_for_its_own_cluster_only() {
    let mut cloud = cloud(FaultProfile::default());
    let id = cloud.launch(&request("t", &["x"]), Timestamp::from_millis(0)).unwrap().instance.id;
    let (own, other, none) = (ClusterName::from("c1"), ClusterName::from("c2"), ClusterName::default());
    let anew = Owner { cluster: &own, uid: "uid-2" };
    for stranger in [Owner { cluster: &other, uid: "uid-1" }, Owner { cluster: &none, uid: "uid-1" }, anew] {
        let refused = cloud.terminate_owned(stranger, &id, Timestamp::from_millis(10)).unwrap_err();
        assert!(matches!(&refused, CloudError::Foreign { id: of, .. } if *of == id), "{refused}");
        assert!(refused.to_string().contains("belongs to cluster \"c1"), "{refused}");
        assert_eq!(cloud.list(&own, Timestamp::from_millis(10)).count(), 1);
    }
    let message = cloud.terminate_owned(anew, &id, Timestamp::from_millis(10)).unwrap_err().to_string();
    assert!(message.contains("cluster \"c1 (UID uid-1)\", not to cluster \"c1 (UID uid-2)\""), "{message}");
    cloud.terminate_owned(Owner { cluster: &own, uid: "uid-1" }, &id, Timestamp::from_millis(10)).unwrap();
    assert_eq!(cloud.describe(&id).unwrap().state, InstanceState::ShuttingDown);
}

#[test]
fn an_instance_or_a_caller_without_a_uid_is_foreign() {
    let mut cloud = cloud(FaultProfile::default());
    let (own, other) = (ClusterName::from("c1"), ClusterName::from("c2"));
    for (tagged, asked, ours) in [("", "uid-1", false), ("uid-1", "", false), ("", "", false), ("uid-1", "uid-1", true)]
    {
        let token = format!("t-{tagged}-{asked}");
        let order = LaunchRequest { cluster_uid: Text::from(tagged), ..request(&token, &["x"]) };
        let id = cloud.launch(&order, Timestamp::from_millis(0)).unwrap().instance.id;
        assert!(cloud.terminate_owned(Owner { cluster: &other, uid: asked }, &id, Timestamp::from_millis(10)).is_err());
        let ended = cloud.terminate_owned(Owner { cluster: &own, uid: asked }, &id, Timestamp::from_millis(10));
        assert_eq!(ended.is_ok(), ours, "{tagged:?} {asked:?}");
    }
}

#[test]
fn a_termination_is_reported_once_at_its_end() {
    let mut cloud = cloud(FaultProfile { shutdown_ms: 100, boot_ms: (60, 60), ..FaultProfile::default() });
    let id = cloud.launch(&request("t", &["x"]), Timestamp::from_millis(0)).unwrap().instance.id;
    cloud.terminate(&id, Timestamp::from_millis(10)).unwrap();
    cloud.terminate(&id, Timestamp::from_millis(50)).unwrap();
    let events = cloud.tick(Timestamp::from_millis(110));
    // It would have booted at 60, but was shutting down since 10; it is terminated at 10 + 100.
    assert!(matches!(events.as_slice(), [CloudEvent::Terminated(_)]), "{events:?}");
    assert!(matches!(cloud.terminate(&id, Timestamp::from_millis(200)), Err(CloudError::NotFound { .. })));
    assert_eq!(cloud.list(&"c1".into(), Timestamp::from_millis(200)).count(), 0);
}

/// The event of `kind` for an instance of `capacity_type` at 1 s, and when the instance ends without a server.
fn interrupted(kind: InterruptionKind, capacity_type: CapacityType) -> Option<(Option<i64>, Option<i64>)> {
    let faults = FaultProfile { boot_ms: (10, 10), shutdown_ms: 5, ..FaultProfile::default() };
    let mut cloud = cloud(faults);
    let order = LaunchRequest { capacity_type, ..request("t", &["x"]) };
    let id = cloud.launch(&order, Timestamp::from_millis(0)).unwrap().instance.id;
    cloud.tick(Timestamp::from_millis(10));
    if !cloud.interrupt(&id, kind, Timestamp::from_millis(1_000)) {
        return None;
    }
    let warned = cloud.tick(Timestamp::from_millis(1_000));
    let [CloudEvent::Interrupted { kind: told, at, .. }] = warned.as_slice() else { panic!("{warned:?}") };
    assert_eq!(*told, kind);
    cloud.tick(Timestamp::from_millis(10_000_000));
    let ended = cloud.ledger().entries().find_map(|entry| entry.ended);
    Some((at.map(Timestamp::as_millis), ended.map(Timestamp::as_millis)))
}

#[test]
fn every_kind_of_interruption_is_told_and_ends_the_instance_when_the_cloud_would() {
    use InterruptionKind as Kind;
    let spot = |kind| interrupted(kind, CapacityType::Spot);
    // The notice at 1 s, and a shutdown of 5 ms.
    assert_eq!(spot(Kind::SpotInterrupted), Some((Some(121_000), Some(121_005))));
    assert_eq!(spot(Kind::RebalanceRecommendation), Some((None, None)));
    assert_eq!(spot(Kind::ScheduledChange), Some((Some(1_801_000), Some(1_801_005))));
    assert_eq!(spot(Kind::InstanceStopped), Some((None, Some(1_005))));
    assert_eq!(spot(Kind::InstanceTerminated), Some((None, Some(1_005))));
    assert_eq!(spot(Kind::StatusCheckFailed), Some((None, None)));
    let reserved = interrupted(Kind::CapacityReservationInterrupted, CapacityType::Reserved);
    assert_eq!(reserved, Some((Some(121_000), Some(121_005))));
    assert_eq!(interrupted(Kind::SpotInterrupted, CapacityType::OnDemand), None);
    assert_eq!(spot(Kind::CapacityReservationInterrupted), None);
}

#[test]
fn every_reader_of_the_changes_gets_all_of_them_in_order() {
    use InstanceState::{Pending, Running, ShuttingDown, Terminated};
    let faults = FaultProfile { boot_ms: (10, 10), shutdown_ms: 5, ..FaultProfile::default() };
    let mut cloud = cloud(faults);
    let id = cloud.launch(&request("t", &["x"]), Timestamp::from_millis(0)).unwrap().instance.id;
    cloud.tick(Timestamp::from_millis(10));
    let (early, position) = cloud.changes_since(0);
    let running = cloud.events_since(0).0;
    assert!(matches!(running.as_slice(), [CloudEvent::Running(_)]), "{running:?}");
    assert!(cloud.interrupt(&id, InterruptionKind::SpotInterrupted, Timestamp::from_millis(1_000)));
    cloud.tick(Timestamp::from_millis(200_000));
    let kind = InterruptionKind::SpotInterrupted;
    let notice = ChangeKind::Interrupted { kind, ends: Some(Timestamp::from_millis(121_000)) };
    // The notice at 1 s ends the instance two minutes later.
    let expected = [
        (0, ChangeKind::State(Pending)),
        (10, ChangeKind::State(Running)),
        (1_000, notice),
        (121_000, ChangeKind::State(ShuttingDown)),
        (121_005, ChangeKind::State(Terminated)),
    ];
    let read = |changes: &[InstanceChange]| changes.iter().map(|c| (c.at.as_millis(), c.kind)).collect::<Vec<_>>();
    assert_eq!(read(&early), expected[..2]);
    assert_eq!(read(&cloud.changes_since(position).0), expected[2..]);
    assert_eq!(read(&cloud.changes_since(0).0), expected);
    assert_eq!(cloud.changes_since(5), (Vec::new(), 5));
    let later = cloud.events_since(position).0;
    assert!(
        matches!(
            later.as_slice(),
            [CloudEvent::Interrupted { at: Some(at), .. }, CloudEvent::Terminated(_)] if at.as_millis() == 121_000
        ),
        "{later:?}"
    );
}

#[test]
fn a_placement_is_launched_where_it_says_and_is_in_the_ledger() {
    let short = CapacityShortage { instance_type: Some("m5.large".into()), ..CapacityShortage::default() };
    let mut cloud = cloud(FaultProfile { shortages: vec![short], ..FaultProfile::default() });
    let option = Override { instance_type: "m5.large".into(), zone: "us-east-1b".into() };
    let now = Timestamp::from_millis(7);
    assert!(!cloud.is_available(&option, CapacityType::OnDemand, now));
    let placement = Placement {
        token: Text::from("t"),
        cluster: "c1".into(),
        cluster_uid: Text::from("uid-1"),
        claim: "pool-abcde".into(),
        pool: "pool".into(),
        option,
        capacity_type: CapacityType::OnDemand,
        price: Some(MicroUsd(96_000)),
    };
    let first = cloud.launch_placement(&placement, now);
    let second = cloud.launch_placement(&placement, now);
    assert_eq!(first.provider_id.as_ref(), format!("aws:///us-east-1b/{}", first.id));
    assert_ne!(first.id, second.id);
    assert_eq!(cloud.ledger().hourly_cost(), MicroUsd(192_000));
    assert_eq!(cloud.ledger().duplicate_launches(), [("c1".into(), "pool-abcde".into())]);
    assert!(cloud.shut_down(&first.id, now) && !cloud.shut_down("i-unknown", now));
    assert_eq!(cloud.describe(&first.id).unwrap().state, InstanceState::ShuttingDown);
}
