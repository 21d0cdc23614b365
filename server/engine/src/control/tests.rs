use std::sync::Arc;

use super::testing::Planned;
use super::*;
use crate::cluster::testing::{claim, in_service, node, on, pod, pool, text};
use crate::cluster::{ClusterSnapshot, Key, Object, Observation, PodRecord};
use crate::input::PlanningInput;
use crate::model::{CapacityType, Labels, MicroUsd, Resources, Taint, Timestamp};
use crate::plan::PlannedNode;
use crate::plan::{Plan, PlanReport};
use crate::schedule::CompileCache;

/// One machine of the cheapest type that is to be had, for all pods; none when nothing is to be had.
pub(super) fn one_machine(input: &PlanningInput, _: &mut CompileCache) -> Result<(Plan, PlanReport), String> {
    let types = &input.pools[0].catalogue.types;
    let pods: Vec<u32> = (0..u32::try_from(input.pods.len()).unwrap_or(0)).collect();
    let Some(kind) = types.iter().position(|kind| kind.offerings[0].available) else {
        return Ok((Plan { unschedulable: pods, ..Plan::default() }, PlanReport::default()));
    };
    let no_taints: Arc<[Taint]> = Arc::from([]);
    let node = PlannedNode {
        name: text("p-1"),
        pool: 0,
        capacity_type: CapacityType::Spot,
        zones: Arc::from([text("z")]),
        types: Arc::from([u32::try_from(kind).unwrap_or(0)]),
        price: MicroUsd(10_000),
        reservation: None,
        pods: pods.clone(),
        labels: Arc::new(Labels::new()),
        taints: no_taints,
        requests: Resources::new(),
    };
    Ok((Plan { nodes: vec![node], order: pods, ..Plan::default() }, PlanReport::default()))
}

pub(super) fn controller_with(snapshot: ClusterSnapshot) -> Planned {
    // Nodes are let in as soon as they can be: how they wait for one another has tests of its own.
    let settings = Settings { open_together_ms: 0, ..Settings::default() };
    let mut controller = Planned::new(settings, one_machine);
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(0));
    observe(&mut controller, 0, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp(1_000));
    controller
}

fn controller() -> Planned {
    controller_with(ClusterSnapshot { pools: vec![pool()], ..ClusterSnapshot::default() })
}

fn observe(controller: &mut Planned, at: i64, observation: Observation) -> Vec<Effect> {
    controller.handle(Event::Observed { cluster: text("c"), observation }, Timestamp(at))
}

fn see_pod(controller: &mut Planned, at: i64, pod: PodRecord) -> Vec<Effect> {
    observe(controller, at, Observation::upsert(Object::Pod(pod)))
}

fn decided(effects: &[Effect]) -> Vec<&Decision> {
    let decisions = effects.iter().filter_map(|effect| match effect {
        Effect::Record(decision) => Some(decision.as_ref()),
        _ => None,
    });
    decisions.collect()
}

/// Instructions that move a machine on; statuses and events have tests of their own.
pub(super) fn instructions(effects: &[Effect]) -> Vec<(InstructionId, &Instruction)> {
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::Instruct { id, instruction, .. } if instruction.claim().is_some() => Some((*id, instruction.as_ref())),
        _ => None,
    });
    told.collect()
}

pub(super) fn orders(effects: &[Effect]) -> Vec<&LaunchOrder> {
    let orders = effects.iter().filter_map(|effect| match effect {
        Effect::Launch(order) => Some(order.as_ref()),
        Effect::Relaunch(decided) => Some(&decided.machine.launch),
        _ => None,
    });
    orders.collect()
}

/// The decision for the pod `a`, seen at 2 s and planned at 3 s.
fn decision_for_a(controller: &mut Planned) -> Decision {
    see_pod(controller, 2_000, pod("a", 500));
    let effects = controller.handle(Event::Tick, Timestamp(3_000));
    decided(&effects)[0].clone()
}

/// The decision for `pod` alone.
pub(super) fn see_and_plan(controller: &mut Planned, pod: PodRecord) -> Decision {
    see_pod(controller, 2_000, pod);
    decided(&controller.handle(Event::Tick, Timestamp(3_000)))[0].clone()
}

fn recorded(controller: &mut Planned, decision: &Decision, at: i64) -> Vec<Effect> {
    controller.handle(Event::Recorded { decision: decision.id }, Timestamp(at))
}

fn acked(controller: &mut Planned, instruction: InstructionId, at: i64) -> Vec<Effect> {
    controller.handle(Event::InstructionAcked { cluster: text("c"), instruction }, Timestamp(at))
}

/// The order for `a`, with its NodeClaim created at 5 s.
pub(super) fn order_for_a(controller: &mut Planned) -> LaunchOrder {
    let decision = decision_for_a(controller);
    let effects = recorded(controller, &decision, 4_000);
    let (create, _) = instructions(&effects)[0];
    orders(&acked(controller, create, 5_000))[0].clone()
}

fn no_capacity(order: &LaunchOrder) -> Event {
    let failure = LaunchFailure::NoCapacity { sold_out: Vec::new() };
    Event::LaunchFailed { cluster: text("c"), claim: order.claim.clone(), attempt: order.attempt, failure }
}

#[test]
fn a_pod_is_planned_when_its_window_closes_and_not_before() {
    let mut controller = controller();
    assert_eq!(decided(&see_pod(&mut controller, 2_000, pod("a", 500))).len(), 0);
    assert_eq!(controller.next_wakeup(), Some(Timestamp(3_000)));
    assert_eq!(decided(&controller.handle(Event::Tick, Timestamp(2_999))).len(), 0);
    let effects = controller.handle(Event::Tick, Timestamp(3_000));
    assert_eq!(decided(&effects)[0].machines[0].pods, [text("default/a")]);
}

#[test]
fn recorded_then_created_then_launched() {
    let mut controller = controller();
    let decision = decision_for_a(&mut controller);
    let claim = &decision.machines[0].claim.name;
    let effects = recorded(&mut controller, &decision, 4_000);
    assert!(orders(&effects).is_empty());
    let told = instructions(&effects);
    assert!(matches!(told.as_slice(), [(_, Instruction::CreateClaim(order))] if order.name == *claim), "{told:?}");
    let effects = acked(&mut controller, told[0].0, 5_000);
    let order = orders(&effects)[0];
    assert_eq!((order.claim.clone(), order.attempt, order.token.to_string()), (claim.clone(), 1, format!("{claim}-1")));
}

#[test]
fn a_pod_that_is_bound_while_the_decision_is_recorded_needs_no_machine() {
    let mut controller = controller();
    let decision = decision_for_a(&mut controller);
    see_pod(&mut controller, 3_500, on("m9", pod("a", 500)));
    assert!(instructions(&recorded(&mut controller, &decision, 4_000)).is_empty());
    assert!(controller.view("c").is_some_and(|view| view.machines.is_empty()));
}

#[test]
fn a_pool_that_changes_while_the_decision_is_recorded_is_planned_for_again() {
    let mut controller = controller();
    let decision = decision_for_a(&mut controller);
    let changed = crate::cluster::PoolRecord { revision: text("2"), ..pool() };
    observe(&mut controller, 3_500, Observation::upsert(Object::Pool(changed)));
    assert!(instructions(&recorded(&mut controller, &decision, 4_000)).is_empty());
    let effects = controller.handle(Event::Tick, Timestamp(5_000));
    assert_eq!(decided(&effects)[0].machines[0].pods, [text("default/a")]);
}

#[test]
fn a_pod_with_a_machine_on_its_way_is_not_planned_again() {
    let mut controller = controller();
    order_for_a(&mut controller);
    see_pod(&mut controller, 6_000, pod("a", 500));
    see_pod(&mut controller, 6_000, pod("b", 500));
    let effects = controller.handle(Event::Tick, Timestamp(7_000));
    assert_eq!(decided(&effects)[0].machines[0].pods, [text("default/b")]);
}

#[test]
fn what_is_sold_out_is_not_planned_for_three_minutes() {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    assert_eq!(order.options[0].instance_type.as_ref(), "t.2");
    let effects = controller.handle(no_capacity(&order), Timestamp(6_000));
    assert!(matches!(instructions(&effects).as_slice(), [(_, Instruction::DeleteClaim { .. })]), "{effects:?}");
    let effects = controller.handle(Event::Tick, Timestamp(7_000));
    assert_eq!(decided(&effects)[0].machines[0].launch.options[0].instance_type.as_ref(), "t.4");
    // Refused at 6 s, so to be had again at 186 s.
    see_pod(&mut controller, 184_000, pod("b", 1));
    let before = controller.handle(Event::Tick, Timestamp(185_000));
    assert_eq!(decided(&before)[0].machines[0].launch.options[0].instance_type.as_ref(), "t.4");
    see_pod(&mut controller, 186_000, pod("c", 1));
    let after = controller.handle(Event::Tick, Timestamp(187_000));
    assert_eq!(decided(&after)[0].machines[0].launch.options[0].instance_type.as_ref(), "t.2");
}

#[test]
fn nothing_is_decided_while_the_agent_is_away_and_no_pod_is_dropped() {
    let mut controller = controller();
    see_pod(&mut controller, 2_000, pod("a", 500));
    controller.handle(Event::AgentDisconnected { cluster: text("c") }, Timestamp(2_500));
    assert!(controller.handle(Event::Tick, Timestamp(60_000)).is_empty());
    assert_eq!(controller.next_wakeup(), None);
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(60_000));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500)], ..ClusterSnapshot::default() };
    let effects = observe(&mut controller, 60_000, Observation::Snapshot(Box::new(snapshot)));
    assert_eq!(decided(&effects).len(), 1, "the window of 2 s has been due since 3 s");
}

#[test]
fn another_attempt_has_another_token_and_only_definitive_failures_make_one() {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    let refused = |attempt: u32, retryable: bool| Event::LaunchFailed {
        cluster: text("c"),
        claim: order.claim.clone(),
        attempt,
        failure: LaunchFailure::Refused { code: text("Odd"), message: String::from("odd"), retryable },
    };
    let effects = controller.handle(refused(1, true), Timestamp(6_000));
    assert_eq!((orders(&effects)[0].attempt, orders(&effects)[0].token.to_string()), (2, format!("{}-2", order.claim)));
    assert!(controller.handle(refused(1, true), Timestamp(6_100)).is_empty(), "the first attempt is over");
    let effects = controller.handle(refused(2, false), Timestamp(6_200));
    assert!(orders(&effects).is_empty());
    assert!(matches!(instructions(&effects).as_slice(), [(_, Instruction::DeleteClaim { .. })]), "{effects:?}");
}

#[test]
fn a_machine_that_is_launched_too_late_is_given_back() {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    // Ordered at 5 s; five minutes later nobody waits for it any more and the pod is planned anew.
    controller.handle(Event::Tick, Timestamp(305_000));
    let launched = Launched {
        cluster: text("c"),
        claim: order.claim,
        attempt: 1,
        provider_id: text("aws:///z/i-late"),
        instance_type: text("t.2"),
        zone: text("z"),
        capacity_type: CapacityType::Spot,
        sold_out: Vec::new(),
    };
    let effects = controller.handle(Event::Launched(Box::new(launched)), Timestamp(306_000));
    let given_back =
        |effect: &Effect| matches!(effect, Effect::Terminate { provider_id, .. } if provider_id.ends_with("i-late"));
    assert!(effects.iter().any(given_back), "{effects:?}");
}

fn launched(order: &LaunchOrder, instance_type: &str, sold_out: &[&str]) -> Event {
    Event::Launched(Box::new(Launched {
        cluster: text("c"),
        claim: order.claim.clone(),
        attempt: order.attempt,
        provider_id: text("aws:///z/i-1"),
        instance_type: text(instance_type),
        zone: text("z"),
        capacity_type: CapacityType::Spot,
        sold_out: sold_out.iter().map(|kind| (text(kind), text("z"))).collect(),
    }))
}

#[test]
fn a_machine_whose_pool_went_before_it_was_launched_has_the_capacity_that_was_ordered() {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    observe(&mut controller, 5_500, Observation::Delete(Key::Pool(text("p"))));
    let effects = controller.handle(launched(&order, "t.2", &[]), Timestamp(6_000));
    let told = instructions(&effects);
    let [(_, Instruction::MarkLaunched { facts, .. })] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(facts.capacity.get("cpu"), 2_000, "a NodeClaim without capacity is never initialized");
    assert!(facts.allocatable.get("cpu") > 0, "{facts:?}");
}

#[test]
fn what_a_launch_could_not_get_before_it_succeeded_is_sold_out_as_well() {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    controller.handle(launched(&order, "t.4", &["t.2"]), Timestamp(6_000));
    see_pod(&mut controller, 7_000, pod("b", 1));
    let effects = controller.handle(Event::Tick, Timestamp(8_000));
    assert_eq!(decided(&effects)[0].machines[0].launch.options[0].instance_type.as_ref(), "t.4");
}

/// The Node of the machine that was ordered for `a`, as its kubelet registers it.
fn young_node() -> crate::cluster::NodeRecord {
    let mut young = node("m0");
    young.provider_id = text("aws:///z/i-1");
    young.labels.retain(|key, _| !key.starts_with("karpenter.sh/"));
    young
}

#[test]
fn a_node_is_let_in_with_the_pods_that_still_wait_for_it() {
    let mut controller = controller();
    see_pod(&mut controller, 2_000, pod("b", 500));
    see_pod(&mut controller, 2_000, pod("c", 500));
    see_pod(&mut controller, 2_000, pod("d", 500));
    let order = order_for_a(&mut controller);
    let effects = controller.handle(launched(&order, "t.2", &[]), Timestamp(6_000));
    acked(&mut controller, instructions(&effects)[0].0, 6_100);
    // b is bound elsewhere, c is gone, kube-scheduler makes room for d by preemption; only a still waits for this node.
    see_pod(&mut controller, 7_000, on("m9", pod("b", 500)));
    observe(&mut controller, 7_000, Observation::Delete(Key::Pod(pod("c", 500).key)));
    see_pod(&mut controller, 7_000, PodRecord { nominated: Some(text("n-m9")), ..pod("d", 500) });
    let effects = observe(&mut controller, 8_000, Observation::upsert(Object::Node(young_node())));
    let told = instructions(&effects);
    let [(_, Instruction::RegisterNode { hints, .. })] = told.as_slice() else { panic!("{told:?}") };
    let named: Vec<String> = hints.iter().map(|hint| format!("{} {}", hint.pod, hint.uid)).collect();
    assert_eq!(named, ["default/a default/a"]);
}

/// The machine for `a` is launched, and its Node, made at 8 s, is not ready.
fn with_slow_node() -> (Planned, crate::cluster::NodeRecord) {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    let effects = controller.handle(launched(&order, "t.2", &[]), Timestamp(6_000));
    acked(&mut controller, instructions(&effects)[0].0, 6_100);
    let slow = crate::cluster::NodeRecord { ready: false, created: Some(Timestamp(8_000)), ..young_node() };
    let effects = observe(&mut controller, 8_000, Observation::upsert(Object::Node(slow.clone())));
    assert!(instructions(&effects).is_empty(), "{effects:?}");
    (controller, slow)
}

fn lets_in(effects: &[Effect]) -> bool {
    matches!(instructions(effects).as_slice(), [(_, Instruction::RegisterNode { .. })])
}

#[test]
fn a_node_that_is_not_ready_is_let_in_with_its_hints_as_soon_as_it_is() {
    let (mut controller, slow) = with_slow_node();
    let ready = crate::cluster::NodeRecord { ready: true, ..slow };
    assert!(lets_in(&observe(&mut controller, 12_000, Observation::upsert(Object::Node(ready)))));
}

#[test]
fn a_node_that_does_not_become_ready_is_let_in_after_half_a_minute() {
    let (mut controller, _) = with_slow_node();
    assert!(!lets_in(&controller.handle(Event::Tick, Timestamp(37_999))));
    // Made at 8 s; the patience is 30 s.
    assert!(controller.next_wakeup().is_some_and(|at| at <= Timestamp(38_000)));
    assert!(lets_in(&controller.handle(Event::Tick, Timestamp(38_000))));
}

#[test]
fn a_node_that_nobody_waits_for_is_let_in_before_it_is_ready() {
    let (mut controller, _) = with_slow_node();
    assert!(lets_in(&observe(&mut controller, 9_000, Observation::Delete(Key::Pod(pod("a", 500).key)))));
}

fn with_machine() -> Planned {
    let state = in_service(pool(), &["m0"]);
    controller_with(ClusterSnapshot {
        pools: vec![pool()],
        nodes: state.nodes().cloned().collect(),
        claims: state.claims().cloned().collect(),
        ..ClusterSnapshot::default()
    })
}

#[test]
fn an_empty_node_is_drained_given_back_and_removed_in_this_order() {
    let mut controller = with_machine();
    // Seen in service at 0; consolidateAfter is 30 s.
    assert_eq!(decided(&controller.handle(Event::Tick, Timestamp(29_999))).len(), 0);
    let effects = controller.handle(Event::Tick, Timestamp(30_000));
    let decision = decided(&effects)[0].clone();
    assert_eq!((decision.kind, decision.removals[0].claim.as_ref()), (DecisionKind::Empty, "m0"));
    let effects = recorded(&mut controller, &decision, 30_100);
    let told = instructions(&effects);
    assert!(matches!(told.as_slice(), [(_, Instruction::Drain { deadline: None, .. })]), "{told:?}");
    let effects = acked(&mut controller, told[0].0, 31_000);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Terminate { .. })), "{effects:?}");
    let gone = Event::InstanceGone { cluster: text("c"), provider_id: claim("m0").provider_id };
    let effects = controller.handle(gone, Timestamp(40_000));
    let told = instructions(&effects);
    assert!(
        matches!(told.as_slice(), [(_, Instruction::DeleteClaim { node: Some(node), .. })] if node.as_ref() == "n-m0")
    );
    acked(&mut controller, told[0].0, 41_000);
    assert!(controller.view("c").is_some_and(|view| view.machines.is_empty()));
}

#[test]
fn a_pod_that_comes_while_a_removal_is_recorded_keeps_the_node() {
    let mut controller = with_machine();
    let effects = controller.handle(Event::Tick, Timestamp(30_000));
    let decision = decided(&effects)[0].clone();
    see_pod(&mut controller, 30_050, on("m0", pod("a", 500)));
    assert!(instructions(&recorded(&mut controller, &decision, 30_100)).is_empty());
}

#[test]
fn an_interrupted_machine_is_drained_within_two_minutes_and_its_pods_are_planned_at_once() {
    let mut controller = with_machine();
    see_pod(&mut controller, 2_000, on("m0", pod("a", 500)));
    let (cluster, provider_id) = (text("c"), claim("m0").provider_id);
    let event = Event::Interrupted { cluster, provider_id, reason: text("spot") };
    controller.handle(event, Timestamp(10_000));
    let effects = controller.handle(Event::Tick, Timestamp(11_000));
    let told = instructions(&effects);
    assert!(
        matches!(told.as_slice(), [(_, Instruction::Drain { deadline: Some(Timestamp(130_000)), .. })]),
        "{told:?}"
    );
    let decision = decided(&effects)[0];
    assert_eq!(decision.machines[0].pods, [text("default/a")]);
    // The offering that was taken back, a t.2 on spot, is left alone.
    assert_eq!(decision.machines[0].launch.options[0].instance_type.as_ref(), "t.4");
}

#[test]
fn a_node_deleted_by_hand_takes_its_machine_along() {
    let mut controller = with_machine();
    let deleted = crate::cluster::NodeRecord { deleting: true, ..node("m0") };
    let effects = observe(&mut controller, 2_000, Observation::upsert(Object::Node(deleted)));
    assert!(matches!(instructions(&effects).as_slice(), [(_, Instruction::Drain { .. })]), "{effects:?}");
}

#[test]
fn a_node_claim_deleted_by_hand_is_drained_given_back_and_let_go() {
    for deleted in ["claim", "node"] {
        let mut controller = with_machine();
        let object = match deleted {
            "claim" => Object::Claim(crate::cluster::ClaimRecord { deleting: true, ..claim("m0") }),
            _ => Object::Node(crate::cluster::NodeRecord { deleting: true, ..node("m0") }),
        };
        let effects = observe(&mut controller, 2_000, Observation::upsert(object));
        let told = instructions(&effects);
        assert!(matches!(told.as_slice(), [(_, Instruction::Drain { .. })]), "{deleted}: {told:?}");
        let effects = acked(&mut controller, told[0].0, 3_000);
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Terminate { .. })), "{deleted}: {effects:?}");
        let gone = Event::InstanceGone { cluster: text("c"), provider_id: claim("m0").provider_id };
        let effects = controller.handle(gone, Timestamp(4_000));
        let told = instructions(&effects);
        assert!(
            matches!(told.as_slice(), [(_, Instruction::DeleteClaim { node: Some(_), .. })]),
            "{deleted}: {told:?}"
        );
        acked(&mut controller, told[0].0, 5_000);
        assert!(controller.view("c").is_some_and(|view| view.machines.is_empty()), "{deleted}");
    }
}

#[test]
fn a_pod_that_is_deleted_before_its_window_closes_is_not_planned() {
    let mut controller = controller();
    see_pod(&mut controller, 2_000, pod("a", 500));
    observe(&mut controller, 2_100, Observation::Delete(Key::Pod(pod("a", 500).key)));
    assert!(decided(&controller.handle(Event::Tick, Timestamp(3_000))).is_empty());
}

/// Connects clusters `c0` to `c2`, each with a pod that waits from 2 s on; their windows close at 3 s.
fn three_that_wait() -> Planned {
    let mut controller = Planned::new(Settings::default(), one_machine);
    for cluster in ["c2", "c0", "c1"].map(text) {
        controller.handle(Event::AgentConnected { cluster: cluster.clone() }, Timestamp(0));
        let snapshot = ClusterSnapshot { pools: vec![pool()], ..ClusterSnapshot::default() };
        let observation = Observation::Snapshot(Box::new(snapshot));
        controller.handle(Event::Observed { cluster: cluster.clone(), observation }, Timestamp(0));
    }
    while controller.next_wakeup().is_some_and(|at| at <= Timestamp(1_500)) {
        controller.handle(Event::Tick, Timestamp(1_500));
    }
    for (cluster, at) in [("c1", 2_002), ("c2", 2_000), ("c0", 2_001)] {
        let observation = Observation::upsert(Object::Pod(pod("a", 500)));
        controller.handle(Event::Observed { cluster: text(cluster), observation }, Timestamp(at));
    }
    controller
}

#[test]
fn one_tick_plans_for_one_cluster_and_the_one_that_waited_longest_comes_first() {
    let mut controller = three_that_wait();
    let mut planned = Vec::new();
    while controller.next_wakeup().is_some_and(|at| at <= Timestamp(3_010)) {
        let effects = controller.handle(Event::Tick, Timestamp(3_010));
        let decisions = decided(&effects);
        assert!(decisions.len() <= 1, "{decisions:?}");
        planned.extend(decisions.iter().map(|decision| decision.cluster.clone()));
    }
    // 2.000 s, 2.001 s and 2.002 s, each and a second.
    assert_eq!(planned, ["c2", "c0", "c1"].map(text));
}

#[test]
fn a_cluster_that_is_given_away_while_it_waits_for_its_turn_is_not_looked_at_again() {
    let mut controller = three_that_wait();
    assert_eq!(decided(&controller.handle(Event::Tick, Timestamp(3_010))).len(), 1);
    controller.handle(Event::Released { cluster: text("c0") }, Timestamp(3_010));
    let effects = controller.handle(Event::Tick, Timestamp(3_010));
    let clusters: Vec<&ClusterId> = decided(&effects).into_iter().map(|decision| &decision.cluster).collect();
    assert_eq!(clusters, [&text("c1")]);
    assert!(!controller.clusters().any(|cluster| **cluster == *"c0"));
}
