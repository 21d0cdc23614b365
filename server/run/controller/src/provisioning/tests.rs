//! Events between the request of a plan and its arrival.

use std::sync::Arc;

use super::pending_plan::KEEP_NODES_FOR;
use crate::guardrails::{DisabledGuards, Freeze, Guard};
use crate::testing::{Input, SynchronousController};
use crate::tests::one_machine;
use crate::unavailable_offerings::{OfferingKey, UnavailableOffering};
use crate::{ClusterCall, ClusterController, Decision, DecisionAnswer, Effect, Event, RegionEvent, Settings};
use cluster::testing::{bound_to, claim, key, node, pod, pool, text};
use cluster::{ClusterSnapshot, Key, Object, Observation, PoolRecord};
use model::resources::NODES;
use model::{CapacityType, InstanceType, PodKey, Resources, SizeClass, Timestamp};

fn observe(controller: &mut SynchronousController, at: i64, observation: Observation) -> Vec<Effect> {
    controller.handle(Event::Observed(observation), Timestamp::from_millis(at))
}

fn decisions(effects: &[Effect]) -> Vec<&Decision> {
    let decisions = effects.iter().filter_map(|effect| match effect {
        Effect::Call(ClusterCall::RecordDecision(decision)) => Some(decision.as_ref()),
        _ => None,
    });
    decisions.collect()
}

/// The pods of the decided machines, in one line.
fn instance(effects: &[Effect]) -> String {
    let machines = decisions(effects).into_iter().flat_map(|decision| &decision.launches);
    machines.flat_map(|machine| &machine.pods).map(PodKey::to_string).collect::<Vec<_>>().join(" ")
}

/// The cluster `c` with the pods `a` and `b`, and a pending plan for them, requested at 1 s.
fn asked(change: impl FnOnce(&mut Settings), pools: Vec<PoolRecord>) -> SynchronousController {
    let mut settings = Settings::default();
    change(&mut settings);
    let mut controller = SynchronousController::new(settings, one_machine);
    controller.stalled = true;
    controller.handle(Event::AgentConnected, Timestamp::from_millis(0));
    let snapshot = ClusterSnapshot { pools, pods: vec![pod("a", 500), pod("b", 500)], ..ClusterSnapshot::default() };
    observe(&mut controller, 0, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp::from_millis(1_000));
    assert_eq!(controller.waiting.len(), 1);
    controller
}

fn plan_for_two() -> SynchronousController {
    asked(|_| {}, vec![pool()])
}

/// No offering is available until then.
fn unavailable(until: i64) -> Vec<UnavailableOffering> {
    let refused = |kind: &InstanceType| UnavailableOffering {
        key: OfferingKey {
            instance_type: kind.name.clone(),
            zone: text("z"),
            capacity_type: CapacityType::Spot,
            is_shared: false,
            size: SizeClass::ONE,
        },
        failures: 1,
        refused_at: Timestamp::from_millis(0),
        until: Timestamp::from_millis(until),
        reason: text("InsufficientInstanceCapacity"),
        version: 1,
    };
    pool().pool.catalogue.types.iter().map(refused).collect()
}

fn gone(name: &str) -> Observation {
    Observation::Delete(Key::Pod(key(name)))
}

#[test]
fn handling_an_event_calls_no_planner() {
    let mut controller = ClusterController::new(text("c"), Arc::default());
    controller.handle(Event::AgentConnected, Timestamp::from_millis(0));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500)], ..ClusterSnapshot::default() };
    let observation = Observation::Snapshot(Box::new(snapshot));
    controller.handle(Event::Observed(observation), Timestamp::from_millis(0));
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(1_000));
    assert!(decisions(&effects).is_empty());
    let asked = effects.into_iter().find_map(|effect| match effect {
        Effect::Plan(job) => Some(job.into_request()),
        _ => None,
    });
    assert_eq!(asked.map(|request| request.input.pods.len()), Some(1));
}

#[test]
fn a_cluster_has_one_pending_plan_and_handles_events_meanwhile() {
    let mut controller = plan_for_two();
    observe(&mut controller, 1_100, Observation::upsert(Object::Pod(pod("c", 500))));
    controller.handle(Event::Tick, Timestamp::from_millis(60_000));
    assert_eq!(controller.waiting.len(), 1, "the window of c stays open until the plan arrives");
    assert!(
        controller.next_wakeup().is_none_or(|at| at > Timestamp::from_millis(60_000)),
        "nothing is overdue meanwhile"
    );
    let effects = controller.plan_waiting(Timestamp::from_millis(60_100));
    assert_eq!(instance(&effects), "default/a default/b");
    assert_eq!(controller.waiting.len(), 1, "c is planned immediately");
    assert_eq!(instance(&controller.plan_waiting(Timestamp::from_millis(60_200))), "default/c");
}

#[test]
fn outdated_parts_of_a_plan_are_dropped_and_planned_again() {
    let other = || {
        let mut other = pod("a", 500);
        other.uid = text("another");
        other
    };
    let mut larger = pod("a", 500);
    larger.shape = pod("z", 900).shape;
    for change in [
        gone("a"),
        Observation::upsert(Object::Pod(bound_to("m9", pod("a", 500)))),
        Observation::upsert(Object::Pod(other())),
        Observation::upsert(Object::Pod(larger)),
    ] {
        let mut controller = plan_for_two();
        observe(&mut controller, 1_500, change.clone());
        let effects = controller.plan_waiting(Timestamp::from_millis(2_000));
        assert_eq!(instance(&effects), "default/b", "{change:?}");
        let basis = decisions(&effects)[0].basis.as_ref().unwrap();
        let DecisionAnswer::Pods(planned) = &basis.answer else { panic!("a plan of disruption") };
        assert_eq!(planned.0.nodes[0].pods, [0, 1], "as it was planned");
        controller.handle(Event::Tick, Timestamp::from_millis(3_000));
        let again = matches!(&change, Observation::Upsert(object) if matches!(&**object, Object::Pod(pod) if pod.node.is_none()));
        assert_eq!(controller.waiting.len(), usize::from(again), "{change:?}");
    }
}

#[test]
fn a_pool_that_changed_or_was_frozen_or_unavailable_or_full_meanwhile_launches_nothing() {
    let limited = || {
        let mut record = pool();
        record.pool.limits = Resources::from_iter([(NODES, 1)]);
        record
    };
    let mut changed = limited();
    changed.revision = text("2");
    let freeze = Freeze {
        id: 1,
        cluster: None,
        pool: None,
        only_disruption: false,
        since: Timestamp::from_millis(1_500),
        until: None,
        by: text("p"),
        reason: text("r"),
    };
    let events = [
        ("changed", Input::from(Event::Observed(Observation::upsert(Object::Pool(changed))))),
        ("sold out", RegionEvent::OfferingsUnavailable(unavailable(180_000)).into()),
        ("frozen", RegionEvent::FreezesChanged(vec![freeze]).into()),
        ("filled", Event::Observed(Observation::upsert(Object::Claim(claim("m0")))).into()),
    ];
    for (name, event) in events {
        let mut controller = asked(|_| {}, vec![limited()]);
        controller.handle(event, Timestamp::from_millis(1_500));
        let effects = controller.plan_waiting(Timestamp::from_millis(2_000));
        assert_eq!(instance(&effects), "", "{name}");
        controller.handle(Event::Tick, Timestamp::from_millis(3_000));
        assert_eq!(controller.waiting.len(), 1, "{name}: planned again");
    }
    let mut controller = asked(|_| {}, vec![limited()]);
    assert_eq!(
        instance(&controller.plan_waiting(Timestamp::from_millis(2_000))),
        "default/a default/b",
        "without any of these"
    );
}

#[test]
fn a_plan_requested_before_a_takeover_changes_nothing() {
    let mut controller = plan_for_two();
    controller.release(&text("c"));
    assert!(controller.plan_waiting(Timestamp::from_millis(1_200)).is_empty());
    assert_eq!(controller.clusters().count(), 0, "and does not recreate the cluster");

    let mut controller = plan_for_two();
    controller.release(&text("c"));
    let adopted = Event::LeaseAcquired { uid: text("u"), launches: Vec::new() };
    controller.handle(adopted, Timestamp::from_millis(1_200));
    controller.handle(Event::AgentConnected, Timestamp::from_millis(1_200));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500)], ..ClusterSnapshot::default() };
    observe(&mut controller, 1_200, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp::from_millis(2_200));
    assert_eq!(controller.waiting.len(), 2);
    assert_eq!(
        instance(&controller.plan_waiting(Timestamp::from_millis(2_300))),
        "",
        "the plan of the first ownership"
    );
    assert_eq!(
        instance(&controller.plan_waiting(Timestamp::from_millis(2_400))),
        "default/a",
        "the plan of the second"
    );
}

#[test]
fn a_plan_that_arrives_while_the_agent_is_disconnected_is_made_again_after_its_snapshot() {
    let mut controller = plan_for_two();
    controller.handle(Event::AgentDisconnected, Timestamp::from_millis(1_100));
    assert_eq!(instance(&controller.plan_waiting(Timestamp::from_millis(1_200))), "");
    controller.handle(Event::AgentConnected, Timestamp::from_millis(2_000));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500)], ..ClusterSnapshot::default() };
    // From 2 pods to 1: too small a loss for quarantine.
    observe(&mut controller, 2_000, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp::from_millis(3_000));
    assert_eq!(instance(&controller.plan_waiting(Timestamp::from_millis(3_100))), "default/a");
}

/// The cluster `c` with an empty machine `m0`, initialized at 0, and a plan requested at 29 s.
fn empty_node_awaited(disabled_guards: DisabledGuards) -> SynchronousController {
    let mut controller = SynchronousController::with_disabled_guards(Settings::default(), one_machine, disabled_guards);
    controller.handle(Event::AgentConnected, Timestamp::from_millis(0));
    let snapshot = ClusterSnapshot {
        pools: vec![pool()],
        nodes: vec![node("m0")],
        claims: vec![claim("m0")],
        ..ClusterSnapshot::default()
    };
    observe(&mut controller, 0, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp::from_millis(1_000));
    controller.stalled = true;
    observe(&mut controller, 28_000, Observation::upsert(Object::Pod(pod("a", 500))));
    controller.handle(Event::Tick, Timestamp::from_millis(29_000));
    assert_eq!(controller.waiting.len(), 1);
    controller
}

fn removals(effects: &[Effect]) -> usize {
    decisions(effects).iter().map(|decision| decision.removals.len()).sum()
}

#[test]
fn empty_nodes_are_kept_while_a_pending_plan_may_use_them() {
    let mut controller = empty_node_awaited(DisabledGuards::default());
    assert_eq!(removals(&controller.handle(Event::Tick, Timestamp::from_millis(60_000))), 0);
    // Requested at 29 s.
    let bound = 29_000 + KEEP_NODES_FOR.get();
    assert_eq!(removals(&controller.handle(Event::Tick, Timestamp::from_millis(bound - 1))), 0);
    assert!(controller.next_wakeup().is_some_and(|at| at <= Timestamp::from_millis(bound)));
    assert_eq!(
        removals(&controller.handle(Event::Tick, Timestamp::from_millis(bound))),
        1,
        "nodes are kept for a bounded time"
    );

    let mut unguarded = empty_node_awaited(DisabledGuards::only(Guard::Replacement));
    assert_eq!(
        removals(&unguarded.handle(Event::Tick, Timestamp::from_millis(60_000))),
        1,
        "without the guard, it is removed"
    );
}

#[test]
fn a_plan_takes_a_bounded_number_of_pods_and_the_rest_is_planned_next() {
    let mut controller = asked(|settings| settings.plan_pods = 1, vec![pool()]);
    assert_eq!(
        controller.view(&text("c")).and_then(|view| view.planning).map(|plan| (plan.pods, plan.left)),
        Some((1, 1))
    );
    let effects = controller.plan_waiting(Timestamp::from_millis(1_100));
    assert_eq!(instance(&effects), "default/a");
    assert_eq!(
        decisions(&effects)[0].notes,
        ["1 more pods are pending: a plan takes at most 1 pods (this one 1); the next plan follows"]
    );
    let effects = controller.plan_waiting(Timestamp::from_millis(1_200));
    assert_eq!((instance(&effects), decisions(&effects)[0].notes.len()), ("default/b".to_owned(), 0));
    assert!(controller.waiting.is_empty());
}

#[test]
fn unschedulable_pods_do_not_starve_others() {
    let mut controller = asked(|settings| settings.plan_pods = 1, vec![pool()]);
    // No offering is available before 5 s; b is planned nevertheless, and a again 10 s after its plan.
    controller.waiting.clear();
    controller.release(&text("c"));
    controller.handle(RegionEvent::OfferingsUnavailable(unavailable(5_000)), Timestamp::from_millis(1_000));
    controller.handle(Event::AgentConnected, Timestamp::from_millis(1_000));
    let snapshot =
        ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500), pod("b", 500)], ..ClusterSnapshot::default() };
    observe(&mut controller, 1_000, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp::from_millis(2_000));
    assert_eq!(instance(&controller.plan_waiting(Timestamp::from_millis(2_100))), "");
    assert_eq!(controller.waiting[0].input.pods[0].name, text("b"));
    controller.plan_waiting(Timestamp::from_millis(2_200));
    assert!(controller.waiting.is_empty(), "the round is over");
    // A launch of another replica succeeded.
    let cleared = |row| UnavailableOffering { failures: 0, version: 2, ..row };
    let refusals = unavailable(5_000).into_iter().map(cleared).collect();
    controller.handle(RegionEvent::OfferingsUnavailable(refusals), Timestamp::from_millis(5_000));
    controller.handle(Event::Tick, Timestamp::from_millis(12_100));
    assert_eq!(instance(&controller.plan_waiting(Timestamp::from_millis(12_100))), "default/a");
    assert_eq!(instance(&controller.plan_waiting(Timestamp::from_millis(12_200))), "default/b");
}

#[test]
fn a_plan_that_takes_minutes_delays_no_other_cluster() {
    let mut controller = plan_for_two();
    controller.handle(Event::AgentConnected.of("d"), Timestamp::from_millis(1_500));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("x", 500)], ..ClusterSnapshot::default() };
    let observation = Observation::Snapshot(Box::new(snapshot));
    controller.handle(Event::Observed(observation).of("d"), Timestamp::from_millis(1_500));
    controller.handle(Event::Tick, Timestamp::from_millis(2_500));
    assert_eq!(controller.waiting.len(), 2);
    controller.waiting.swap(0, 1);
    assert_eq!(instance(&controller.plan_waiting(Timestamp::from_millis(2_600))), "default/x");
    assert_eq!(
        instance(&controller.plan_waiting(Timestamp::from_millis(300_000))),
        "default/a default/b",
        "the other arrives later"
    );
}
