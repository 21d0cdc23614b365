use std::sync::Arc;

use super::testing::SynchronousController;
use super::*;
use crate::guardrails::DisabledGuards;
use crate::unavailable_offerings::{Offering, OfferingKey, OfferingOutcome, OfferingUpdate, PROBE_LEASE, ProbeAnswer};
use cluster::testing::{bound_to, claim, initialized_cluster, key, node, pod, pool, text};
use cluster::{ClusterSnapshot, Key, Object, Observation, PodRecord};
use model::input::PlanningInput;
use model::interruption::InterruptionKind::SpotInterrupted;
use model::plan::{Plan, PlanReport, PlannedNode};
use model::removal::RemovalReason;
use model::{
    CapacityType, ClusterFacts, Labels, LaunchFailure, LaunchOrder, MicroUsd, Millis, PriorityLane, RefusalCause,
    RefusedOption, Resources, Taint, Text, Timestamp,
};

/// Plans one machine of the cheapest available type for all pods; none when no offering is
/// available.
pub(super) fn one_machine(input: &PlanningInput) -> PlanOutcome {
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
        credits: MicroUsd(0),
        reservation: None,
        pods: pods.clone(),
        labels: Arc::new(Labels::new()),
        taints: no_taints,
        requests: Resources::new(),
    };
    Ok((Plan { nodes: vec![node], order: pods, ..Plan::default() }, PlanReport::default()))
}

pub(super) fn controller_with(snapshot: ClusterSnapshot) -> SynchronousController {
    // Each Node is registered as soon as it is ready; the registration gate has its own tests.
    let settings = Settings { open_together: Millis::ZERO, ..Settings::default() };
    let mut controller = SynchronousController::new(settings, one_machine);
    controller.handle(Event::AgentConnected, Timestamp::from_millis(0));
    observe(&mut controller, 0, Observation::Snapshot(Box::new(snapshot)));
    controller.handle(Event::Tick, Timestamp::from_millis(1_000));
    controller
}

fn controller() -> SynchronousController {
    controller_with(ClusterSnapshot { pools: vec![pool()], ..ClusterSnapshot::default() })
}

fn observe(controller: &mut SynchronousController, at: i64, observation: Observation) -> Vec<Effect> {
    controller.handle(Event::Observed(observation), Timestamp::from_millis(at))
}

fn see_pod(controller: &mut SynchronousController, at: i64, pod: PodRecord) -> Vec<Effect> {
    observe(controller, at, Observation::upsert(Object::Pod(pod)))
}

fn decided(effects: &[Effect]) -> Vec<&Decision> {
    let decisions = effects.iter().filter_map(|effect| match effect {
        Effect::Call(ClusterCall::RecordDecision(decision)) => Some(decision.as_ref()),
        _ => None,
    });
    decisions.collect()
}

/// Instructions that advance a machine; statuses and events have their own tests.
pub(super) fn instructions(effects: &[Effect]) -> Vec<(InstructionId, &Instruction)> {
    let sent = effects.iter().filter_map(|effect| match effect {
        Effect::Instruct { id, instruction } if instruction.claim().is_some() => Some((*id, instruction.as_ref())),
        _ => None,
    });
    sent.collect()
}

pub(super) fn orders(effects: &[Effect]) -> Vec<&LaunchOrder> {
    let orders = effects.iter().filter_map(|effect| match effect {
        Effect::Call(ClusterCall::Launch(order)) => Some(order.as_ref()),
        Effect::Call(ClusterCall::Relaunch(decided)) => Some(&decided.machine.launch),
        _ => None,
    });
    orders.collect()
}

/// The decision for the pod `a`, seen at 2 s and planned at 3 s.
fn decision_for_a(controller: &mut SynchronousController) -> Decision {
    see_pod(controller, 2_000, pod("a", 500));
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(3_000));
    decided(&effects)[0].clone()
}

/// The decision for `pod` alone.
pub(super) fn see_and_plan(controller: &mut SynchronousController, pod: PodRecord) -> Decision {
    see_pod(controller, 2_000, pod);
    decided(&controller.handle(Event::Tick, Timestamp::from_millis(3_000)))[0].clone()
}

fn recorded(controller: &mut SynchronousController, decision: &Decision, at: i64) -> Vec<Effect> {
    controller.handle(Event::Recorded(decision.id), Timestamp::from_millis(at))
}

fn acked(controller: &mut SynchronousController, instruction: InstructionId, at: i64) -> Vec<Effect> {
    controller.handle(Event::InstructionAcked(instruction), Timestamp::from_millis(at))
}

/// The order for `a`, with its NodeClaim created at 5 s.
pub(super) fn order_for_a(controller: &mut SynchronousController) -> LaunchOrder {
    let decision = decision_for_a(controller);
    let effects = recorded(controller, &decision, 4_000);
    let (create, _) = instructions(&effects)[0];
    orders(&acked(controller, create, 5_000))[0].clone()
}

fn no_capacity(order: &LaunchOrder) -> Event {
    let failure = LaunchFailure::InsufficientCapacity { unavailable: Vec::new() };
    Event::LaunchFailed { claim: order.claim.clone(), attempt: order.attempt, failure }
}

/// As of an API server whose CRD does not know an operator.
#[test]
fn a_nodeclaim_that_is_refused_is_a_decision_of_its_own_and_nothing_is_launched() {
    let mut controller = controller();
    let decision = decision_for_a(&mut controller);
    let effects = recorded(&mut controller, &decision, 4_000);
    let (instruction, _) = instructions(&effects)[0];
    let reason = "422: unsupported value \"Gte\"".to_owned();
    let failed = Event::InstructionFailed { instruction, reason, unmet: false };
    let effects = controller.handle(failed, Timestamp::from_millis(5_000));
    let (claim, number) = (&decision.launches[0].claim.name, decision.id.0);
    let refused = format!(
        "nothing is launched for NodeClaim {claim} of decision {number}, which was refused: 422: unsupported value \"Gte\""
    );
    let logged: Vec<Vec<String>> = decided(&effects).iter().map(|decision| decision.refused.clone()).collect();
    assert_eq!(logged, [vec![refused]]);
    assert!(orders(&effects).is_empty());
}

#[test]
fn a_pod_is_planned_when_its_window_closes_and_not_before() {
    let mut controller = controller();
    assert_eq!(decided(&see_pod(&mut controller, 2_000, pod("a", 500))).len(), 0);
    assert_eq!(controller.next_wakeup(), Some(Timestamp::from_millis(3_000)));
    assert_eq!(decided(&controller.handle(Event::Tick, Timestamp::from_millis(2_999))).len(), 0);
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(3_000));
    assert_eq!(decided(&effects)[0].launches[0].pods, [key("a")]);
    assert_eq!(decided(&effects)[0].launches[0].launch.lane, PriorityLane::Pending);
}

#[test]
fn recorded_then_created_then_launched() {
    let mut controller = controller();
    let decision = decision_for_a(&mut controller);
    let claim = &decision.launches[0].claim.name;
    let effects = recorded(&mut controller, &decision, 4_000);
    assert!(orders(&effects).is_empty());
    let sent = instructions(&effects);
    assert!(matches!(sent.as_slice(), [(_, Instruction::CreateClaim(order))] if order.name == *claim), "{sent:?}");
    let effects = acked(&mut controller, sent[0].0, 5_000);
    let order = orders(&effects)[0];
    assert_eq!((order.claim.clone(), order.attempt, order.token.to_string()), (claim.clone(), 1, format!("{claim}-1")));
}

#[test]
fn a_pod_that_is_bound_while_the_decision_is_recorded_needs_no_machine() {
    let mut controller = controller();
    let decision = decision_for_a(&mut controller);
    see_pod(&mut controller, 3_500, bound_to("m9", pod("a", 500)));
    assert!(instructions(&recorded(&mut controller, &decision, 4_000)).is_empty());
    assert!(controller.view(&text("c")).is_some_and(|view| view.machines().next().is_none()));
}

#[test]
fn a_decision_whose_pool_changes_while_it_is_recorded_is_planned_again() {
    let mut controller = controller();
    let decision = decision_for_a(&mut controller);
    let changed = cluster::PoolRecord { revision: text("2"), ..pool() };
    observe(&mut controller, 3_500, Observation::upsert(Object::Pool(changed)));
    assert!(instructions(&recorded(&mut controller, &decision, 4_000)).is_empty());
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(5_000));
    assert_eq!(decided(&effects)[0].launches[0].pods, [key("a")]);
}

#[test]
fn a_pod_assigned_to_a_launching_machine_is_not_planned_again() {
    let mut controller = controller();
    order_for_a(&mut controller);
    see_pod(&mut controller, 6_000, pod("a", 500));
    see_pod(&mut controller, 6_000, pod("b", 500));
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(7_000));
    assert_eq!(decided(&effects)[0].launches[0].pods, [key("b")]);
}

fn claimed(effects: &[Effect]) -> Vec<OfferingKey> {
    let keys = effects.iter().filter_map(|effect| match effect {
        Effect::ClaimProbes(keys) => Some(keys.clone()),
        _ => None,
    });
    keys.flatten().collect()
}

/// The store's answer to a claim at `at`.
fn answer(controller: &mut SynchronousController, keys: Vec<OfferingKey>, answer: ProbeAnswer, at: i64) -> Vec<Effect> {
    let (now, answers) = (Timestamp::from_millis(at), keys.into_iter().map(|key| (key, answer)).collect());
    controller.handle(Event::ProbesAnswered { answers, until: now + PROBE_LEASE }, now)
}

/// The first option of the machine that is planned for a pod that is seen at `at`, a second later.
fn first_option(controller: &mut SynchronousController, name: &str, at: i64) -> (Vec<OfferingKey>, Decision) {
    let effects = see_pod(controller, at, pod(name, 1));
    let planned = controller.handle(Event::Tick, Timestamp::from_millis(at + 1_000));
    (claimed(&effects), decided(&planned)[0].clone())
}

fn option_of(decision: &Decision) -> &str {
    &decision.launches[0].launch.options[0].instance_type
}

#[test]
fn a_refused_offering_is_excluded_for_thirty_seconds_and_then_planned_with_a_probe_alone() {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    assert_eq!(order.options[0].instance_type.as_ref(), "t.2");
    let effects = controller.handle(no_capacity(&order), Timestamp::from_millis(6_000));
    assert!(matches!(instructions(&effects).as_slice(), [(_, Instruction::DeleteClaim { .. })]), "{effects:?}");
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(7_000));
    assert_eq!(option_of(decided(&effects)[0]), "t.4");
    // Refused at 6 s, so excluded until 36 s, when the probe is due.
    let (keys, decision) = first_option(&mut controller, "b", 34_000);
    assert_eq!((keys.len(), option_of(&decision)), (0, "t.4"));
    let (keys, decision) = first_option(&mut controller, "c", 36_000);
    assert_eq!(keys.iter().map(|key| key.instance_type.as_ref()).collect::<Vec<_>>(), ["t.2"]);
    assert_eq!(option_of(&decision), "t.4", "the store has not answered");
    // Denied at 37 s, so it asks again from 42 s on.
    answer(&mut controller, keys, ProbeAnswer::Denied, 37_000);
    assert_eq!(first_option(&mut controller, "d", 40_000).0, []);
    let effects = see_pod(&mut controller, 42_000, pod("e", 1));
    answer(&mut controller, claimed(&effects), ProbeAnswer::Granted, 42_100);
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(43_000));
    let probe = decided(&effects)[0].clone();
    assert_eq!(option_of(&probe), "t.2");
    let (keys, decision) = first_option(&mut controller, "f", 44_000);
    assert_eq!((keys.len(), option_of(&decision)), (0, "t.4"), "one launch has the probe");
    // Refused a second time, at 47 s: excluded for a minute.
    let effects = recorded(&mut controller, &probe, 45_000);
    let effects = acked(&mut controller, instructions(&effects)[0].0, 46_000);
    controller.handle(no_capacity(orders(&effects)[0]), Timestamp::from_millis(47_000));
    assert_eq!(claimed(&see_pod(&mut controller, 106_900, pod("g", 1))), []);
    assert_eq!(claimed(&see_pod(&mut controller, 107_000, pod("h", 1))).len(), 1);
}

#[test]
fn a_probe_that_succeeds_frees_the_offering_and_one_that_launches_elsewhere_is_given_back() {
    for (launched_type, is_free) in [("t.2", true), ("t.4", false)] {
        let mut controller = controller();
        let order = order_for_a(&mut controller);
        controller.handle(no_capacity(&order), Timestamp::from_millis(6_000));
        controller.handle(Event::Tick, Timestamp::from_millis(7_000));
        let effects = see_pod(&mut controller, 36_000, pod("b", 1));
        answer(&mut controller, claimed(&effects), ProbeAnswer::Granted, 36_100);
        let effects = controller.handle(Event::Tick, Timestamp::from_millis(37_000));
        let probe = decided(&effects)[0].clone();
        controller.region().take_offering_updates();
        let effects = recorded(&mut controller, &probe, 38_000);
        let effects = acked(&mut controller, instructions(&effects)[0].0, 39_000);
        controller.handle(launched(orders(&effects)[0], launched_type, &[]), Timestamp::from_millis(40_000));
        let updates = controller.region().take_offering_updates();
        let is_cleared = matches!(updates.as_slice(), [OfferingUpdate::Cleared(_)]);
        let is_given_back = matches!(updates.as_slice(), [OfferingUpdate::ProbeReleased(_)]);
        assert_eq!((is_cleared, is_given_back), (is_free, !is_free), "{updates:?}");
        let (keys, decision) = first_option(&mut controller, "c", 41_000);
        assert_eq!((keys.len(), option_of(&decision)), if is_free { (0, "t.2") } else { (1, "t.4") });
    }
}

#[test]
fn an_option_that_is_refused_while_its_node_claim_is_created_is_not_tried() {
    // Another cluster's refusal arrives between order and launch: t.2 is the only option of the order.
    let mut controller = controller();
    let decision = decision_for_a(&mut controller);
    let effects = recorded(&mut controller, &decision, 4_000);
    let (create, _) = instructions(&effects)[0];
    let offering =
        Offering { instance_type: text("t.2"), zone: text("z"), zone_id: None, capacity_type: CapacityType::Spot };
    let refusal = Some((RefusalCause::Capacity, text("InsufficientInstanceCapacity")));
    let outcome = OfferingOutcome { offering, asked: 1, launched: 0, refusal };
    controller.region().offerings().record_outcome(&outcome, Timestamp::from_millis(4_500));
    let effects = acked(&mut controller, create, 5_000);
    assert_eq!(orders(&effects), Vec::<&LaunchOrder>::new());
    assert!(matches!(instructions(&effects).as_slice(), [(_, Instruction::DeleteClaim { .. })]), "{effects:?}");
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(6_000));
    assert_eq!(option_of(decided(&effects)[0]), "t.4");
}

#[test]
fn while_the_agent_is_disconnected_nothing_is_decided_and_no_pod_is_dropped() {
    let mut controller = controller();
    see_pod(&mut controller, 2_000, pod("a", 500));
    controller.handle(Event::AgentDisconnected, Timestamp::from_millis(2_500));
    assert!(controller.handle(Event::Tick, Timestamp::from_millis(60_000)).is_empty());
    assert_eq!(controller.next_wakeup(), None);
    controller.handle(Event::AgentConnected, Timestamp::from_millis(60_000));
    let snapshot = ClusterSnapshot { pools: vec![pool()], pods: vec![pod("a", 500)], ..ClusterSnapshot::default() };
    let effects = observe(&mut controller, 60_000, Observation::Snapshot(Box::new(snapshot)));
    assert_eq!(decided(&effects).len(), 1, "the window of 2 s has been due since 3 s");
}

#[test]
fn facts_of_the_agent_outlive_snapshots_and_an_unusable_one_is_a_finding() {
    let region = Arc::new(RegionState::with_disabled_guards(Settings::default(), DisabledGuards::default()));
    let mut controller = ClusterController::new(text("c"), region);
    assert_eq!(**controller.state.facts(), ClusterFacts::default());
    let facts = Arc::new(ClusterFacts { endpoint: text("https://a"), ..ClusterFacts::default() });
    let report = |refused: Vec<Text>| {
        let facts = Arc::clone(&facts);
        Event::ClusterFactsReported { facts, refused }
    };
    let effects = controller.handle(report(vec![text("no range")]), Timestamp::from_millis(0));
    let finding = Finding::UnusableFact { why: text("no range") };
    assert!(effects.iter().any(|effect| matches!(effect, Effect::ReportFinding(found) if *found == finding)));
    let message = finding.to_string();
    assert!(message.contains("no range") && message.contains("[cluster]"), "{message}");
    let usable = controller.handle(report(Vec::new()), Timestamp::from_millis(1));
    assert!(!usable.iter().any(|effect| matches!(effect, Effect::ReportFinding(_))));
    let snapshot = Observation::Snapshot(Box::default());
    controller.handle(Event::AgentConnected, Timestamp::from_millis(2));
    controller.handle(Event::Observed(snapshot), Timestamp::from_millis(3));
    assert!(controller.state.is_synced());
    assert!(Arc::ptr_eq(controller.state.facts(), &facts));
}

#[test]
fn only_a_definitive_failure_begins_an_attempt_which_has_its_own_token() {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    let refused = |attempt: u32, retryable: bool| Event::LaunchFailed {
        claim: order.claim.clone(),
        attempt,
        failure: LaunchFailure::Refused { code: text("Odd"), message: String::from("odd"), retryable },
    };
    let effects = controller.handle(refused(1, true), Timestamp::from_millis(6_000));
    assert_eq!((orders(&effects)[0].attempt, orders(&effects)[0].token.to_string()), (2, format!("{}-2", order.claim)));
    assert!(controller.handle(refused(1, true), Timestamp::from_millis(6_100)).is_empty(), "the first attempt is over");
    let effects = controller.handle(refused(2, false), Timestamp::from_millis(6_200));
    assert!(orders(&effects).is_empty());
    assert!(matches!(instructions(&effects).as_slice(), [(_, Instruction::DeleteClaim { .. })]), "{effects:?}");
}

#[test]
fn an_instance_launched_after_the_timeout_is_terminated() {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    // Ordered at 5 s; after the launch timeout of five minutes the pod is planned again.
    controller.handle(Event::Tick, Timestamp::from_millis(305_000));
    let launched = Launched {
        claim: order.claim,
        attempt: 1,
        provider_id: text("aws:///z/i-late"),
        instance_type: text("t.2"),
        zone: text("z"),
        capacity_type: CapacityType::Spot,
        unavailable: Vec::new(),
        image: "".into(),
    };
    let effects = controller.handle(Event::Launched(Box::new(launched)), Timestamp::from_millis(306_000));
    let terminated = |effect: &Effect| matches!(effect, Effect::Call(ClusterCall::Terminate { provider_id, .. }) if provider_id.ends_with("i-late"));
    assert!(effects.iter().any(terminated), "{effects:?}");
}

pub(super) fn launched(order: &LaunchOrder, instance_type: &str, unavailable: &[&str]) -> Event {
    Event::Launched(Box::new(Launched {
        claim: order.claim.clone(),
        attempt: order.attempt,
        provider_id: text("aws:///z/i-1"),
        instance_type: text(instance_type),
        zone: text("z"),
        capacity_type: CapacityType::Spot,
        unavailable: unavailable.iter().map(|kind| RefusedOption::without_capacity(text(kind), text("z"))).collect(),
        image: "".into(),
    }))
}

#[test]
fn a_machine_whose_pool_is_deleted_before_the_launch_keeps_its_expected_capacity() {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    observe(&mut controller, 5_500, Observation::Delete(Key::Pool(text("p"))));
    let effects = controller.handle(launched(&order, "t.2", &[]), Timestamp::from_millis(6_000));
    let sent = instructions(&effects);
    let [(_, Instruction::MarkLaunched { facts, .. })] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(facts.capacity.get("cpu"), 2_000, "a NodeClaim without capacity is never initialized");
    assert!(facts.allocatable.get("cpu") > 0, "{facts:?}");
}

#[test]
fn options_that_failed_before_the_launch_succeeded_are_unavailable() {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    controller.handle(launched(&order, "t.4", &["t.2"]), Timestamp::from_millis(6_000));
    see_pod(&mut controller, 7_000, pod("b", 1));
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(8_000));
    assert_eq!(decided(&effects)[0].launches[0].launch.options[0].instance_type.as_ref(), "t.4");
}

/// The Node of the machine for `a`, as its kubelet creates it.
fn young_node() -> cluster::NodeRecord {
    let mut young = node("m0");
    young.provider_id = text("aws:///z/i-1");
    young.labels.retain(|key, _| !key.starts_with("karpenter.sh/"));
    young
}

#[test]
fn a_node_is_registered_with_nominations_of_its_pending_pods() {
    let mut controller = controller();
    see_pod(&mut controller, 2_000, pod("b", 500));
    see_pod(&mut controller, 2_000, pod("c", 500));
    see_pod(&mut controller, 2_000, pod("d", 500));
    let order = order_for_a(&mut controller);
    let effects = controller.handle(launched(&order, "t.2", &[]), Timestamp::from_millis(6_000));
    acked(&mut controller, instructions(&effects)[0].0, 6_100);
    // b is bound elsewhere, c is deleted, kube-scheduler nominated d by preemption; only a still
    // waits for this node.
    see_pod(&mut controller, 7_000, bound_to("m9", pod("b", 500)));
    observe(&mut controller, 7_000, Observation::Delete(Key::Pod(pod("c", 500).key)));
    see_pod(&mut controller, 7_000, PodRecord { nominated: Some(text("n-m9")), ..pod("d", 500) });
    let effects = observe(&mut controller, 8_000, Observation::upsert(Object::Node(young_node())));
    let sent = instructions(&effects);
    let [(_, Instruction::RegisterNode { nominations, .. })] = sent.as_slice() else { panic!("{sent:?}") };
    let named: Vec<String> = nominations.iter().map(|one| format!("{} {}", one.pod, one.uid)).collect();
    assert_eq!(named, ["default/a default/a"]);
}

/// The instance for `a` is launched, and its Node, created at 8 s, is not ready.
fn with_slow_node() -> (SynchronousController, cluster::NodeRecord) {
    let mut controller = controller();
    let order = order_for_a(&mut controller);
    let effects = controller.handle(launched(&order, "t.2", &[]), Timestamp::from_millis(6_000));
    acked(&mut controller, instructions(&effects)[0].0, 6_100);
    let slow = cluster::NodeRecord { ready: false, created: Some(Timestamp::from_millis(8_000)), ..young_node() };
    let effects = observe(&mut controller, 8_000, Observation::upsert(Object::Node(slow.clone())));
    assert!(instructions(&effects).is_empty(), "{effects:?}");
    (controller, slow)
}

fn lets_in(effects: &[Effect]) -> bool {
    matches!(instructions(effects).as_slice(), [(_, Instruction::RegisterNode { .. })])
}

#[test]
fn a_node_is_registered_with_its_nominations_when_it_becomes_ready() {
    let (mut controller, slow) = with_slow_node();
    let ready = cluster::NodeRecord { ready: true, ..slow };
    assert!(lets_in(&observe(&mut controller, 12_000, Observation::upsert(Object::Node(ready)))));
}

#[test]
fn a_registration_is_repeated_only_when_the_node_stays_unregistered() {
    let (mut controller, slow) = with_slow_node();
    let ready = cluster::NodeRecord { ready: true, ..slow };
    let effects = observe(&mut controller, 12_000, Observation::upsert(Object::Node(ready)));
    let registration = instructions(&effects)[0].0;
    assert!(!lets_in(&acked(&mut controller, registration, 12_100)), "the Node is about to be observed");
    assert!(!lets_in(&controller.handle(Event::Tick, Timestamp::from_millis(17_099))));
    assert!(lets_in(&controller.handle(Event::Tick, Timestamp::from_millis(17_100))));
}

#[test]
fn a_node_that_stays_not_ready_is_registered_after_half_a_minute() {
    let (mut controller, _) = with_slow_node();
    assert!(!lets_in(&controller.handle(Event::Tick, Timestamp::from_millis(37_999))));
    // Created at 8 s; the gate waits 30 s at most.
    assert!(controller.next_wakeup().is_some_and(|at| at <= Timestamp::from_millis(38_000)));
    assert!(lets_in(&controller.handle(Event::Tick, Timestamp::from_millis(38_000))));
}

#[test]
fn a_node_without_assigned_pods_is_registered_before_it_is_ready() {
    let (mut controller, _) = with_slow_node();
    assert!(lets_in(&observe(&mut controller, 9_000, Observation::Delete(Key::Pod(pod("a", 500).key)))));
}

fn with_machine() -> SynchronousController {
    let state = initialized_cluster(pool(), &["m0"]);
    controller_with(ClusterSnapshot {
        pools: vec![pool()],
        nodes: state.nodes().cloned().collect(),
        claims: state.claims().cloned().collect(),
        ..ClusterSnapshot::default()
    })
}

#[test]
fn an_empty_node_is_drained_terminated_and_deleted_in_this_order() {
    let mut controller = with_machine();
    // Initialized at 0; consolidateAfter is 30 s.
    assert_eq!(decided(&controller.handle(Event::Tick, Timestamp::from_millis(29_999))).len(), 0);
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(30_000));
    let decision = decided(&effects)[0].clone();
    let reason = DecisionReason::Disruption(RemovalReason::Empty);
    assert_eq!((decision.reason, decision.removals[0].claim.as_ref()), (reason, "m0"));
    let effects = recorded(&mut controller, &decision, 30_100);
    let sent = instructions(&effects);
    assert!(matches!(sent.as_slice(), [(_, Instruction::Drain { deadline: None, .. })]), "{sent:?}");
    let effects = acked(&mut controller, sent[0].0, 31_000);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Call(ClusterCall::Terminate { .. }))), "{effects:?}");
    let gone = Event::InstanceGone(claim("m0").provider_id);
    let effects = controller.handle(gone, Timestamp::from_millis(40_000));
    let sent = instructions(&effects);
    assert!(
        matches!(sent.as_slice(), [(_, Instruction::DeleteClaim { node: Some(node), .. })] if node.as_ref() == "n-m0")
    );
    acked(&mut controller, sent[0].0, 41_000);
    assert!(controller.view(&text("c")).is_some_and(|view| view.machines().next().is_none()));
}

#[test]
fn a_pod_bound_while_a_removal_is_recorded_keeps_the_node() {
    let mut controller = with_machine();
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(30_000));
    let decision = decided(&effects)[0].clone();
    see_pod(&mut controller, 30_050, bound_to("m0", pod("a", 500)));
    assert!(instructions(&recorded(&mut controller, &decision, 30_100)).is_empty());
}

#[test]
fn an_interrupted_machine_is_drained_within_two_minutes_and_its_pods_are_planned_immediately() {
    let mut controller = with_machine();
    see_pod(&mut controller, 2_000, bound_to("m0", pod("a", 500)));
    let provider_id = claim("m0").provider_id;
    let event = Event::Interrupted { provider_id, kind: SpotInterrupted, ends: None };
    controller.handle(event, Timestamp::from_millis(10_000));
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(11_000));
    let sent = instructions(&effects);
    assert!(
        matches!(sent.as_slice(), [(_, Instruction::Drain { deadline: Some(at), .. })] if at.as_millis() == 130_000),
        "{sent:?}"
    );
    let decision = decided(&effects)[0];
    assert_eq!(decision.launches[0].pods, [key("a")]);
    assert_eq!(decision.launches[0].launch.lane, PriorityLane::Interruption);
    // The offering of the interrupted instance, a t.2 on spot, is excluded.
    assert_eq!(decision.launches[0].launch.options[0].instance_type.as_ref(), "t.4");
}

#[test]
fn deleting_a_node_terminates_its_instance() {
    let mut controller = with_machine();
    let deleted = cluster::NodeRecord { deleting: true, ..node("m0") };
    let effects = observe(&mut controller, 2_000, Observation::upsert(Object::Node(deleted)));
    assert!(matches!(instructions(&effects).as_slice(), [(_, Instruction::Drain { .. })]), "{effects:?}");
}

#[test]
fn a_deleted_node_claim_is_drained_terminated_and_removed() {
    for deleted in ["claim", "node"] {
        let mut controller = with_machine();
        let object = match deleted {
            "claim" => Object::Claim(cluster::ClaimRecord { deleting: true, ..claim("m0") }),
            _ => Object::Node(cluster::NodeRecord { deleting: true, ..node("m0") }),
        };
        let effects = observe(&mut controller, 2_000, Observation::upsert(object));
        let sent = instructions(&effects);
        assert!(matches!(sent.as_slice(), [(_, Instruction::Drain { .. })]), "{deleted}: {sent:?}");
        let effects = acked(&mut controller, sent[0].0, 3_000);
        assert!(
            effects.iter().any(|effect| matches!(effect, Effect::Call(ClusterCall::Terminate { .. }))),
            "{deleted}: {effects:?}"
        );
        let gone = Event::InstanceGone(claim("m0").provider_id);
        let effects = controller.handle(gone, Timestamp::from_millis(4_000));
        let sent = instructions(&effects);
        assert!(
            matches!(sent.as_slice(), [(_, Instruction::DeleteClaim { node: Some(_), .. })]),
            "{deleted}: {sent:?}"
        );
        acked(&mut controller, sent[0].0, 5_000);
        assert!(controller.view(&text("c")).is_some_and(|view| view.machines().next().is_none()), "{deleted}");
    }
}

#[test]
fn a_pod_that_is_deleted_before_its_window_closes_is_not_planned() {
    let mut controller = controller();
    see_pod(&mut controller, 2_000, pod("a", 500));
    observe(&mut controller, 2_100, Observation::Delete(Key::Pod(pod("a", 500).key)));
    assert!(decided(&controller.handle(Event::Tick, Timestamp::from_millis(3_000))).is_empty());
}
