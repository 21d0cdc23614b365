//! Events that state what keeps nodes, and what excludes the instance types of NodePools.

use super::*;
use cluster::DoNotDisrupt;
use model::labels::INSTANCE_TYPE;
use model::{Operator, Requirement};

#[test]
fn a_pool_whose_budget_keeps_empty_nodes_gets_an_event() {
    let mut kept = pool();
    kept.disruption.budgets = vec![Budget { limit: BudgetLimit::Nodes(0), reasons: None, window: None }];
    let mut world = Fixture::new(ClusterSnapshot { pools: vec![kept], ..snapshot(&["m0"]) }, Settings::default());
    for second in 1..40 {
        world.tick(second * 1_000);
    }
    let event = world.events.iter().find(|event| event.reason == EventReason::DisruptionBlocked).unwrap();
    assert_eq!((event.subject.clone(), event.reason.is_warning()), (p(), false));
}

#[test]
fn a_pool_with_too_many_unhealthy_nodes_gets_a_warning() {
    // Two of two Nodes; the limit is 20 %, rounded up 1.
    let mut shown = snapshot(&["m0", "m1"]);
    for node in &mut shown.nodes {
        let since = Timestamp::from_millis(0);
        node.unmet = vec![UnmetCondition { kind: text("KernelReady"), status: text("False"), since }];
    }
    let settings = Settings {
        feature_gates: FeatureGates { node_repair: true, ..FeatureGates::default() },
        ..Settings::default()
    };
    let mut never = pool();
    never.disruption.consolidate_after = None;
    let mut world = Fixture::new(ClusterSnapshot { pools: vec![never], ..shown }, settings);
    let blocked = |world: &Fixture| {
        let mut events = world.events.iter().filter(|event| event.reason == EventReason::NodeRepairBlocked);
        events.find(|event| event.subject == p()).cloned()
    };
    for second in 1..1_800 {
        world.tick(second * 1_000);
    }
    assert_eq!(blocked(&world), None);
    for second in 1_800..1_820 {
        world.tick(second * 1_000);
    }
    let event = blocked(&world).expect("the repairs are blocked");
    let message = "2 of 2 nodes of this NodePool are unhealthy, more than 20 %: none is repaired";
    assert_eq!((event.subject, event.reason.is_warning(), event.message.as_ref()), (p(), true, message));
    // Each node has the Event too, with the next look at it.
    world.tick(1_900_000);
    let message = "NodePool/p has 2 unhealthy nodes of 2: too many for a repair ($0.02/h)";
    let of_m0: Vec<String> =
        world.said(EventReason::NodeRepairBlocked).into_iter().filter(|said| said.contains("m0")).collect();
    assert_eq!(of_m0, [format!("nodeclaim/m0: {message}"), format!("node/n-m0: {message}")]);
}

/// A pod of `m0` with `karpenter.sh/do-not-disrupt`.
fn protected(protection: DoNotDisrupt) -> PodRecord {
    PodRecord { do_not_disrupt: Some(protection), ..bound_to("m0", pod("a", 100)) }
}

fn with_pod(pod: PodRecord) -> Fixture {
    Fixture::new(ClusterSnapshot { pods: vec![pod], ..snapshot(&["m0"]) }, Settings::default())
}

#[test]
fn what_protects_a_node_is_said_on_node_and_node_claim_every_two_minutes() {
    let mut world = with_pod(protected(DoNotDisrupt::Always));
    let message = "Pod/default/a has karpenter.sh/do-not-disrupt ($0.02/h)";
    let expected = [format!("nodeclaim/m0: {message}"), format!("node/n-m0: {message}")];
    assert_eq!(world.said(EventReason::DisruptionBlocked), expected);
    for second in 1..120 {
        world.observe(second * 1_000, Observation::upsert(Object::Pod(pod("b", second))));
    }
    assert_eq!(world.said(EventReason::DisruptionBlocked).len(), 2);
    for second in 120..140 {
        world.observe(second * 1_000, Observation::upsert(Object::Pod(pod("b", second))));
    }
    assert_eq!(world.said(EventReason::DisruptionBlocked).len(), 4);
}

#[test]
fn a_node_that_is_never_consolidated_is_said_every_quarter_of_an_hour() {
    let mut never = pool();
    never.disruption.consolidate_after = None;
    let mut world = Fixture::new(ClusterSnapshot { pools: vec![never], ..snapshot(&["m0"]) }, Settings::default());
    let message = "NodePool/p has consolidateAfter: Never ($0.02/h)";
    let expected = [format!("nodeclaim/m0: {message}"), format!("node/n-m0: {message}")];
    assert_eq!(world.said(EventReason::Unconsolidatable), expected);
    for second in 1..900 {
        world.observe(second * 1_000, Observation::upsert(Object::Pod(pod("b", second))));
    }
    assert_eq!(world.said(EventReason::Unconsolidatable).len(), 2);
    for second in 900..980 {
        world.observe(second * 1_000, Observation::upsert(Object::Pod(pod("b", second))));
    }
    assert_eq!(world.said(EventReason::Unconsolidatable).len(), 4);
}

#[test]
fn many_nodes_that_stay_leave_room_for_what_happens_to_others() {
    let names: Vec<String> = (0..300).map(|number| format!("m{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut never = pool();
    never.disruption.consolidate_after = None;
    let mut world = Fixture::new(ClusterSnapshot { pools: vec![never], ..snapshot(&names) }, Settings::default());
    // 600 Nodes and NodeClaims: half of the burst, and no more within a minute.
    for second in 1..60 {
        world.observe(second * 1_000, Observation::upsert(Object::Pod(pod("b", second))));
    }
    assert_eq!(world.said(EventReason::Unconsolidatable).len(), 5);
    world.observe(61_000, Observation::upsert(Object::Node(NodeRecord { deleting: true, ..node("m000") })));
    world.tick(62_000);
    assert_eq!(world.said(EventReason::DisruptionTerminating).len(), 2);
}

#[test]
fn a_pod_that_protects_its_node_for_some_time_says_until_when_and_that_it_is_over() {
    let mut world = with_pod(protected(DoNotDisrupt::For(Millis::from_mins(10))));
    let until = "pod/default/a: protects its node from voluntary disruption until 1970-01-01T00:10:00Z";
    assert_eq!(world.said(EventReason::DoNotDisruptUntil), [until]);
    assert_eq!(world.said(EventReason::DoNotDisruptGracePeriodElapsed), Vec::<String>::new());
    world.observe(610_000, Observation::upsert(Object::Pod(pod("b", 1))));
    let over = "pod/default/a: its protection of its node from voluntary disruption has ended at 1970-01-01T00:10:00Z";
    assert_eq!(world.said(EventReason::DoNotDisruptGracePeriodElapsed), [over]);
    // A quarter of an hour later nobody needs to know.
    let before = world.events.len();
    world.observe(1_500_000, Observation::upsert(Object::Pod(pod("b", 2))));
    let later = world.events[before..].iter().filter(|event| event.reason.as_str().starts_with("DoNotDisrupt"));
    assert_eq!(later.count(), 0);
}

#[test]
fn a_pod_whose_protection_cannot_be_read_gets_a_warning() {
    let wrong = PodRecord { has_invalid_protection: true, uid: text("u-1"), ..bound_to("m0", pod("a", 100)) };
    let world = with_pod(wrong);
    let event = world.events.iter().find(|event| event.reason == EventReason::InvalidDoNotDisruptAnnotation);
    let event = event.expect("an Event");
    assert_eq!((event.subject.to_string().as_str(), event.uid.as_ref()), ("pod/default/a", "u-1"));
    assert!(event.reason.is_warning());
    assert_eq!(with_pod(bound_to("m0", pod("a", 100))).said(EventReason::InvalidDoNotDisruptAnnotation).len(), 0);
}

#[test]
fn a_pool_without_instance_types_gets_a_warning_every_minute() {
    let mut none = pool();
    none.pool.requirements.add(Requirement::new(INSTANCE_TYPE, Operator::In, [text("t.8")]));
    let mut world = Fixture::new(ClusterSnapshot { pools: vec![none], ..snapshot(&[]) }, Settings::default());
    let said = "nodepool/p: its requirements exclude all available instance types";
    assert_eq!(world.said(EventReason::NoCompatibleInstanceTypes), [said]);
    world.observe(59_000, Observation::upsert(Object::Pod(pod("b", 1))));
    assert_eq!(world.said(EventReason::NoCompatibleInstanceTypes).len(), 1);
    world.observe(69_000, Observation::upsert(Object::Pod(pod("b", 2))));
    assert_eq!(world.said(EventReason::NoCompatibleInstanceTypes).len(), 2);
    assert!(EventReason::NoCompatibleInstanceTypes.is_warning());
}
