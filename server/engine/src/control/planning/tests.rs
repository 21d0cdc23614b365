//! What happens between a plan's being asked for and its coming.

use super::under_way::AWAITED_MS;
use crate::cluster::testing::{claim, node, on, pod, pool, text};
use crate::cluster::{ClusterSnapshot, Key, Object, Observation, PodKey, PoolRecord};
use crate::control::guardrails::Freeze;
use crate::control::testing::Planned;
use crate::control::tests::one_machine;
use crate::control::unavailable_offerings::UnavailableOffering;
use crate::control::{Decision, Effect, Event, RegionController, Settings};
use crate::model::resources::NODES;
use crate::model::{CapacityType, InstanceType, Resources, Text, Timestamp};

fn see(controller: &mut Planned, at: i64, observation: Observation) -> Vec<Effect> {
    controller.handle(Event::Observed { cluster: text("c"), observation }, Timestamp(at))
}

fn decisions(effects: &[Effect]) -> Vec<&Decision> {
    let decisions = effects.iter().filter_map(|effect| match effect {
        Effect::Record(decision) => Some(decision.as_ref()),
        _ => None,
    });
    decisions.collect()
}

/// The pods of the machines that were decided, in one line.
fn bought(effects: &[Effect]) -> String {
    let machines = decisions(effects).into_iter().flat_map(|decision| &decision.machines);
    machines.flat_map(|machine| &machine.pods).map(Text::to_string).collect::<Vec<_>>().join(" ")
}

/// The cluster `c` with the pods `a` and `b`, and a plan for them that was asked for at 1 s and is not there.
fn asked(change: impl FnOnce(&mut Settings), pools: Vec<PoolRecord>) -> Planned {
    let mut settings = Settings::default();
    change(&mut settings);
    let mut controller = Planned::new(settings, one_machine);
    controller.stalled = true;
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(0));
    let snapshot = ClusterSnapshot { pools, pods: vec![pod("a", 500), pod("b", 500)], ..ClusterSnapshot::default() };
    see(&mut controller, 0, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp(1_000));
    assert_eq!(controller.waiting.len(), 1);
    controller
}

fn plan_for_two() -> Planned {
    asked(|_| {}, vec![pool()])
}

/// Nothing is to be had until then.
fn sold_out(until: i64) -> Vec<UnavailableOffering> {
    let refused = |kind: &InstanceType| UnavailableOffering {
        instance_type: kind.name.clone(),
        zone: text("z"),
        capacity_type: CapacityType::Spot,
        until: Timestamp(until),
    };
    pool().pool.catalogue.types.iter().map(refused).collect()
}

fn gone(name: &str) -> Observation {
    Observation::Delete(Key::Pod(PodKey { namespace: text("default"), name: text(name) }))
}

#[test]
fn taking_an_event_in_calls_no_planner() {
    let mut controller = RegionController::new(Settings::default());
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(0));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500)], ..ClusterSnapshot::default() };
    let observation = Observation::Snapshot(Box::new(snapshot));
    controller.handle(Event::Observed { cluster: text("c"), observation }, Timestamp(0));
    let effects = controller.handle(Event::Tick, Timestamp(1_000));
    assert!(decisions(&effects).is_empty());
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::Plan(request) => Some(request),
        _ => None,
    });
    assert_eq!(asked.map(|request| request.input.pods.len()), Some(1));
}

#[test]
fn a_cluster_has_one_plan_under_way_and_hears_of_everything_meanwhile() {
    let mut controller = plan_for_two();
    see(&mut controller, 1_100, Observation::upsert(Object::Pod(pod("c", 500))));
    controller.handle(Event::Tick, Timestamp(60_000));
    assert_eq!(controller.waiting.len(), 1, "the window of c stays open until the plan is there");
    assert!(controller.next_wakeup().is_none_or(|at| at > Timestamp(60_000)), "nothing is overdue meanwhile");
    let effects = controller.plan_waiting(Timestamp(60_100));
    assert_eq!(bought(&effects), "default/a default/b");
    assert_eq!(controller.waiting.len(), 1, "c is planned at once");
    assert_eq!(bought(&controller.plan_waiting(Timestamp(60_200))), "default/c");
}

#[test]
fn what_has_changed_meanwhile_is_left_out_and_planned_again() {
    let other = || {
        let mut other = pod("a", 500);
        other.uid = text("another");
        other
    };
    let mut larger = pod("a", 500);
    larger.shape = pod("z", 900).shape;
    for change in [
        gone("a"),
        Observation::upsert(Object::Pod(on("m9", pod("a", 500)))),
        Observation::upsert(Object::Pod(other())),
        Observation::upsert(Object::Pod(larger)),
    ] {
        let mut controller = plan_for_two();
        see(&mut controller, 1_500, change.clone());
        let effects = controller.plan_waiting(Timestamp(2_000));
        assert_eq!(bought(&effects), "default/b", "{change:?}");
        assert_eq!(decisions(&effects)[0].basis.as_ref().unwrap().plan.nodes[0].pods, [0, 1], "as it was planned");
        controller.handle(Event::Tick, Timestamp(3_000));
        let again = matches!(&change, Observation::Upsert(object) if matches!(&**object, Object::Pod(pod) if pod.node.is_none()));
        assert_eq!(controller.waiting.len(), usize::from(again), "{change:?}");
    }
}

#[test]
fn a_pool_that_changed_or_was_frozen_or_sold_out_or_filled_meanwhile_is_not_bought_from() {
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
        since: Timestamp(1_500),
        until: None,
        by: text("p"),
        reason: text("r"),
    };
    let events = [
        ("changed", Event::Observed { cluster: text("c"), observation: Observation::upsert(Object::Pool(changed)) }),
        ("sold out", Event::OfferingsRefused { refusals: sold_out(180_000) }),
        ("frozen", Event::FreezesChanged { freezes: vec![freeze] }),
        (
            "filled",
            Event::Observed { cluster: text("c"), observation: Observation::upsert(Object::Claim(claim("m0"))) },
        ),
    ];
    for (name, event) in events {
        let mut controller = asked(|_| {}, vec![limited()]);
        controller.handle(event, Timestamp(1_500));
        let effects = controller.plan_waiting(Timestamp(2_000));
        assert_eq!(bought(&effects), "", "{name}");
        controller.handle(Event::Tick, Timestamp(3_000));
        assert_eq!(controller.waiting.len(), 1, "{name}: planned again");
    }
    let mut controller = asked(|_| {}, vec![limited()]);
    assert_eq!(bought(&controller.plan_waiting(Timestamp(2_000))), "default/a default/b", "without any of these");
}

#[test]
fn the_answer_to_a_former_keeper_changes_nothing() {
    let mut controller = plan_for_two();
    controller.handle(Event::Released { cluster: text("c") }, Timestamp(1_100));
    assert!(controller.plan_waiting(Timestamp(1_200)).is_empty());
    assert_eq!(controller.clusters().count(), 0, "and brings the cluster back to nobody's care");

    let mut controller = plan_for_two();
    controller.handle(Event::Released { cluster: text("c") }, Timestamp(1_100));
    let adopted = Event::Adopted { cluster: text("c"), uid: text("u"), launches: Vec::new() };
    controller.handle(adopted, Timestamp(1_200));
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(1_200));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500)], ..ClusterSnapshot::default() };
    see(&mut controller, 1_200, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp(2_200));
    assert_eq!(controller.waiting.len(), 2);
    assert_eq!(bought(&controller.plan_waiting(Timestamp(2_300))), "", "the plan of the first care");
    assert_eq!(bought(&controller.plan_waiting(Timestamp(2_400))), "default/a", "the plan of the second");
}

#[test]
fn a_plan_that_comes_while_the_agent_is_away_waits_for_what_it_shows() {
    let mut controller = plan_for_two();
    controller.handle(Event::AgentDisconnected { cluster: text("c") }, Timestamp(1_100));
    assert_eq!(bought(&controller.plan_waiting(Timestamp(1_200))), "");
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(2_000));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500)], ..ClusterSnapshot::default() };
    // 2 pods to 1: few enough to be believed.
    see(&mut controller, 2_000, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp(3_000));
    assert_eq!(bought(&controller.plan_waiting(Timestamp(3_100))), "default/a");
}

/// The cluster `c` with an empty machine `m0` in service since 0, for whose pods a plan was asked for at 29 s.
fn empty_node_awaited(keep_replacements: bool) -> Planned {
    let mut settings = Settings::default();
    settings.rails.keep_replacements = keep_replacements;
    let mut controller = Planned::new(settings, one_machine);
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(0));
    let snapshot = ClusterSnapshot {
        pools: vec![pool()],
        nodes: vec![node("m0")],
        claims: vec![claim("m0")],
        ..ClusterSnapshot::default()
    };
    see(&mut controller, 0, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp(1_000));
    controller.stalled = true;
    see(&mut controller, 28_000, Observation::upsert(Object::Pod(pod("a", 500))));
    controller.handle(Event::Tick, Timestamp(29_000));
    assert_eq!(controller.waiting.len(), 1);
    controller
}

fn removals(effects: &[Effect]) -> usize {
    decisions(effects).iter().map(|decision| decision.removals.len()).sum()
}

#[test]
fn empty_nodes_stay_while_a_plan_is_under_way_that_may_use_them() {
    let mut controller = empty_node_awaited(true);
    assert_eq!(removals(&controller.handle(Event::Tick, Timestamp(60_000))), 0);
    // Asked for at 29 s.
    let bound = 29_000 + AWAITED_MS;
    assert_eq!(removals(&controller.handle(Event::Tick, Timestamp(bound - 1))), 0);
    assert!(controller.next_wakeup().is_some_and(|at| at <= Timestamp(bound)));
    assert_eq!(removals(&controller.handle(Event::Tick, Timestamp(bound))), 1, "a plan is not awaited for ever");

    let mut unguarded = empty_node_awaited(false);
    assert_eq!(removals(&unguarded.handle(Event::Tick, Timestamp(60_000))), 1, "switched off, it goes");
}

#[test]
fn a_plan_takes_so_many_pods_and_the_rest_is_planned_next() {
    let mut controller = asked(|settings| settings.plan_pods = 1, vec![pool()]);
    assert_eq!(controller.view("c").and_then(|view| view.planning).map(|plan| (plan.pods, plan.left)), Some((1, 1)));
    let effects = controller.plan_waiting(Timestamp(1_100));
    assert_eq!(bought(&effects), "default/a");
    assert_eq!(
        decisions(&effects)[0].notes,
        ["1 more pods wait: a plan takes 1 pods at most (this one 1), and theirs is made next"]
    );
    let effects = controller.plan_waiting(Timestamp(1_200));
    assert_eq!((bought(&effects), decisions(&effects)[0].notes.len()), ("default/b".to_owned(), 0));
    assert!(controller.waiting.is_empty());
}

#[test]
fn pods_without_a_place_keep_no_others_from_their_turn() {
    let mut controller = asked(|settings| settings.plan_pods = 1, vec![pool()]);
    // Nothing is to be had until 5 s; b is planned all the same, and a again after the retry, 10 s after its plan.
    controller.waiting.clear();
    controller.handle(Event::Released { cluster: text("c") }, Timestamp(1_000));
    controller.handle(Event::OfferingsRefused { refusals: sold_out(5_000) }, Timestamp(1_000));
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(1_000));
    let snapshot =
        ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500), pod("b", 500)], ..ClusterSnapshot::default() };
    see(&mut controller, 1_000, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp(2_000));
    assert_eq!(bought(&controller.plan_waiting(Timestamp(2_100))), "");
    assert_eq!(controller.waiting[0].input.pods[0].name, text("b"));
    controller.plan_waiting(Timestamp(2_200));
    assert!(controller.waiting.is_empty(), "the round is over");
    controller.handle(Event::Tick, Timestamp(12_100));
    assert_eq!(bought(&controller.plan_waiting(Timestamp(12_100))), "default/a");
    assert_eq!(bought(&controller.plan_waiting(Timestamp(12_200))), "default/b");
}

#[test]
fn a_cluster_whose_plan_takes_minutes_keeps_no_other_cluster_waiting() {
    let mut controller = plan_for_two();
    controller.handle(Event::AgentConnected { cluster: text("d") }, Timestamp(1_500));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("x", 500)], ..ClusterSnapshot::default() };
    let observation = Observation::Snapshot(Box::new(snapshot));
    controller.handle(Event::Observed { cluster: text("d"), observation }, Timestamp(1_500));
    controller.handle(Event::Tick, Timestamp(2_500));
    assert_eq!(controller.waiting.len(), 2);
    controller.waiting.swap(0, 1);
    assert_eq!(bought(&controller.plan_waiting(Timestamp(2_600))), "default/x");
    assert_eq!(
        bought(&controller.plan_waiting(Timestamp(300_000))),
        "default/a default/b",
        "the other comes when it comes"
    );
}
