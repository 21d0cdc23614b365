use proptest::prelude::*;

use model::ClaimName;

use super::*;

/// A text, or a name of any kind.
fn text<T: From<String> + std::fmt::Debug>() -> impl Strategy<Value = T> {
    "[a-z0-9./\"é-]{0,12}".prop_map(T::from)
}

fn pod() -> impl Strategy<Value = PodKey> {
    ("[a-z0-9-]{1,12}", text()).prop_map(|(namespace, name)| PodKey { namespace: namespace.into(), name })
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let simple =
        (0..Operator::ALL.len(), prop::collection::btree_set("[a-c]|[0-9]{1,3}", 0..4)).prop_map(|(at, values)| {
            let operator = Operator::ALL[at];
            let values = values.into_iter().map(Text::from);
            // The comparison operators take one integer; the presence operators take none.
            match operator {
                Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
                    let number = values.filter(|value| value.parse::<i64>().is_ok()).take(1).collect::<Vec<_>>();
                    Requirement::new("k", operator, number)
                }
                Operator::Exists | Operator::DoesNotExist => Requirement::new("k", operator, []),
                _ => Requirement::new("k", operator, values),
            }
        });
    let several = prop::collection::vec(simple, 1..4);
    (several, prop::option::of(1_u32..5)).prop_map(|(several, min)| {
        let joined = several.into_iter().reduce(|one, other| one.intersection(&other));
        joined.unwrap_or_else(|| Requirement::new("k", Operator::Exists, [])).with_min_values(min)
    })
}

fn taint() -> impl Strategy<Value = Taint> {
    let effect = prop_oneof![Just(Effect::NoSchedule), Just(Effect::PreferNoSchedule), Just(Effect::NoExecute)];
    (text(), text(), effect).prop_map(|(key, value, effect)| Taint { key, value, effect })
}

fn order() -> impl Strategy<Value = LaunchOrder> {
    let paid = prop_oneof![Just(CapacityType::Spot), Just(CapacityType::OnDemand), Just(CapacityType::Reserved)];
    let option = (text(), text(), any::<i64>()).prop_map(|(instance_type, zone, price)| LaunchOption {
        instance_type,
        zone,
        price: MicroUsd(price),
    });
    let names = (text(), text(), text(), text(), text(), text());
    let rest = (1_u32..9, paid, prop::collection::vec(option, 0..4), prop::option::of(text()), text());
    let lane = prop::sample::select(&PriorityLane::ALL[..]);
    let rest = (rest, lane);
    (names, rest).prop_map(|((cluster, cluster_uid, claim, token, pool, node_class), (rest, lane))| {
        let (attempt, capacity_type, options, reservation, terms) = rest;
        LaunchOrder {
            cluster,
            cluster_uid,
            claim,
            attempt,
            token,
            pool,
            node_class,
            capacity_type,
            options,
            reservation,
            terms,
            lane,
            repeats: true,
            template: None,
        }
    })
}

fn claim_order() -> impl Strategy<Value = ClaimOrder> {
    let labels = prop::collection::btree_map(text::<Text>(), text::<Text>(), 0..3)
        .prop_map(|pairs| pairs.into_iter().collect::<Labels>());
    let taints = || prop::collection::vec(taint(), 0..3);
    let requests = prop::collection::btree_map(text::<Text>(), 1_i64..1 << 40, 0..3);
    let requests = requests.prop_map(|amounts| amounts.into_iter().collect::<Resources>());
    let times = (prop::option::of(any::<i64>()), prop::option::of(any::<i64>()));
    let hash = || prop::option::of((text::<Text>(), text::<Text>()));
    let times = (times, hash(), hash());
    (text(), text(), labels, taints(), taints(), requirement(), requests, times).prop_map(|parts| {
        let (pool, node_class, labels, taints, startup_taints, requirement, requests, (times, pool_hash, class_hash)) =
            parts;
        ClaimOrder {
            name: ClaimName::default(),
            pool,
            node_class,
            labels,
            taints,
            startup_taints,
            requirements: Requirements::from_iter([requirement]),
            requests,
            expire_after: times.0.map(Millis::new),
            termination_grace_period: times.1.map(Millis::new),
            pool_hash,
            class_hash,
        }
    })
}

fn decided() -> impl Strategy<Value = DecidedLaunch> {
    let pods = prop::collection::vec(pod(), 0..4);
    (order(), claim_order(), pods, text(), any::<u64>(), any::<i64>()).prop_map(|parts| {
        let (launch, claim, pods, reason, decision, at) = parts;
        let claim = ClaimOrder { name: launch.claim.clone(), ..claim };
        let machine = PlannedMachine { claim, launch, pods, reason };
        DecidedLaunch { machine, decision: DecisionId(decision), at: Timestamp::from_millis(at) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_open_launch_is_the_same_after_a_crash(decided in decided()) {
        let row = OpenIntent { intent: encode(&decided, |_| Text::default()), state: IntentState::Open };
        let read = decode(row);
        prop_assert_eq!(read.planned.as_deref(), Some(&decided));
        prop_assert_eq!((read.claim, read.attempt), (decided.machine.launch.claim, decided.machine.launch.attempt));
    }
}

/// The terms are part of the row; an order that has terms keeps them.
#[test]
fn a_row_holds_the_terms_of_the_first_call() {
    proptest!(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() }, |(decided in decided())| {
        let read = |decided: &DecidedLaunch, now: &'static str| {
            let row = OpenIntent { intent: encode(decided, |_| Text::from(now)), state: IntentState::Open };
            decode(row).planned.map(|decided| decided.machine.launch.terms)
        };
        let mut decided = decided;
        decided.machine.launch.terms = Text::default();
        prop_assert_eq!(read(&decided, "subnet-a"), Some(Text::from("subnet-a")));
        decided.machine.launch.terms = Text::from("subnet-a");
        prop_assert_eq!(read(&decided, "subnet-b"), Some(Text::from("subnet-a")));
    });
}

#[test]
fn a_row_of_an_older_version_has_no_terms_and_is_pending() {
    let request =
        r#"{"cluster":"c","cluster_uid":"u","pool":"p","node_class":"n","capacity_type":"spot","options":[]}"#;
    let claim_order = r#"{"decision":1,"at":2,"reason":"r","pods":[],"pool":"p","node_class":"n","labels":[],"taints":[],
        "startup_taints":[],"requirements":[],"requests":[]}"#;
    let intent = Intent {
        claim: "web-1".to_owned(),
        attempt: 1,
        token: "web-1-1".to_owned(),
        request: request.as_bytes().to_vec(),
        claim_order: claim_order.to_owned(),
    };
    let read = decode(OpenIntent { intent, state: IntentState::Open });
    let order = read.planned.map(|decided| decided.machine.launch);
    assert_eq!(order.map(|order| (order.terms, order.lane)), Some((Text::default(), PriorityLane::Pending)));
}

#[test]
fn an_unreadable_row_is_decoded_without_an_order() {
    let intent = Intent {
        claim: "web-1".to_owned(),
        attempt: 1,
        token: "web-1-1".to_owned(),
        request: b"{}".to_vec(),
        claim_order: "from another program".to_owned(),
    };
    let read = decode(OpenIntent { intent, state: IntentState::Open });
    assert_eq!((read.state, read.planned), (LaunchState::Open, None));
}

#[test]
fn a_past_launch_is_dated_by_its_age_and_names_its_pods() {
    let row = |claim_order: &str| RecentAttempt {
        claim: "web-1".to_owned(),
        claim_order: claim_order.to_owned(),
        launched: Some(true),
        begun_ago_ms: 60_000,
        closed_ago_ms: Some(20_000),
    };
    let read = recent_launch(row("from another program"), Timestamp::from_millis(100_000));
    assert_eq!((read.begun, read.closed), (Timestamp::from_millis(40_000), Some(Timestamp::from_millis(80_000))));
    assert!(read.pods.is_empty());
    proptest!(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() }, |(decided in decided())| {
        let read = recent_launch(row(&encode(&decided, |_| Text::default()).claim_order), Timestamp::from_millis(100_000));
        prop_assert_eq!(read.pods, decided.machine.pods);
    });
}
