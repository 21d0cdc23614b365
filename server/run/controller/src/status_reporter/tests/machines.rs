//! Events of machines from their launch on.

use super::pods::decision_of;
use super::*;
use crate::tests::{instructions, launched, one_machine, orders};
use crate::{DecidedLaunch, Decision, LaunchState, OpenLaunch};
use cluster::Key;
use model::labels::{INITIALIZED, REGISTERED};
use model::{Effect as TaintEffect, LaunchFailure, LaunchOrder, Taint};

/// A cluster whose Nodes are registered at once, and the decision to launch a machine for the pod `a` at 3 s.
fn deciding() -> (Fixture, Decision) {
    let settings = Settings { open_together: Millis::ZERO, ..Settings::default() };
    let mut world = Fixture::planned_by(one_machine, snapshot(&[]), settings);
    world.observe(2_000, Observation::upsert(Object::Pod(pod("a", 100))));
    let decision = decision_of(&world.tick(3_000)).expect("a decision");
    (world, decision)
}

/// Acknowledges all instructions for machines among `effects`.
fn acked(world: &mut Fixture, at: i64, effects: &[Effect]) -> Vec<Effect> {
    let sent: Vec<InstructionId> = instructions(effects).iter().map(|(id, _)| *id).collect();
    let ack = |id| Event::InstructionAcked(id);
    sent.into_iter().flat_map(|id| world.handle(at, ack(id))).collect()
}

/// The order of the launch, whose NodeClaim was created at 5 s.
fn ordered(world: &mut Fixture, decision: &Decision) -> LaunchOrder {
    let effects = world.handle(4_000, Event::Recorded(decision.id));
    let effects = acked(world, 5_000, &effects);
    orders(&effects)[0].clone()
}

/// The NodeClaim of the decision, launched.
fn launched_claim(decision: &Decision) -> ClaimRecord {
    ClaimRecord { name: decision.launches[0].claim.name.clone(), provider_id: text("aws:///z/i-1"), ..claim("m0") }
}

/// Its Node, which has just joined.
fn young_node(taints: Vec<Taint>) -> NodeRecord {
    let mut young = NodeRecord { name: text("n-1"), provider_id: text("aws:///z/i-1"), taints, ..node("m0") };
    young.labels.remove(INITIALIZED);
    young.labels.remove(REGISTERED);
    young
}

#[test]
fn every_stage_of_a_machine_names_the_decision_and_the_price() {
    let (mut world, decision) = deciding();
    let order = ordered(&mut world, &decision);
    let effects = world.handle(6_000, launched(&order, "t.2", &[]));
    acked(&mut world, 6_500, &effects);
    let subject = format!("nodeclaim/{}", order.claim);
    let origin = format!("(decision {}, $0.02/h)", decision.id.0);
    let said =
        format!("{subject}: machine aws:///z/i-1 is launched in the simulated cloud; no instance is bought {origin}");
    assert_eq!(world.said(EventReason::Launched), [said]);
    world.observe(7_000, Observation::upsert(Object::Claim(launched_claim(&decision))));
    let mut joined = young_node(Vec::new());
    joined.labels.insert(text(REGISTERED), text("true"));
    world.observe(8_000, Observation::upsert(Object::Node(joined.clone())));
    assert_eq!(world.said(EventReason::Registered), [format!("{subject}: its Node has joined {origin}")]);
    joined.labels.insert(text(INITIALIZED), text("true"));
    world.observe(10_000, Observation::upsert(Object::Node(joined)));
    assert_eq!(world.said(EventReason::Initialized), [format!("{subject}: its Node is initialized {origin}")]);
}

/// The Events for a Node that joins with these taints.
fn joined_with(taints: Vec<Taint>) -> Vec<String> {
    let (mut world, decision) = deciding();
    let order = ordered(&mut world, &decision);
    let effects = world.handle(6_000, launched(&order, "t.2", &[]));
    acked(&mut world, 6_500, &effects);
    world.observe(7_000, Observation::upsert(Object::Claim(launched_claim(&decision))));
    world.observe(8_000, Observation::upsert(Object::Node(young_node(taints))));
    world.tick(9_000);
    let said = world.said(EventReason::UnregisteredTaintMissing);
    let origin = format!("(decision {}, $0.02/h)", decision.id.0);
    said.into_iter().map(|said| said.replace(&origin, "ORIGIN").replace(order.claim.as_ref(), "CLAIM")).collect()
}

#[test]
fn a_node_that_joins_without_the_taint_gets_a_warning() {
    let said = "nodeclaim/CLAIM: its Node joined without the taint karpenter.sh/unregistered: pods may run on it before \
                it is registered ORIGIN";
    assert_eq!(joined_with(Vec::new()), [said]);
    let taint = Taint { key: text("karpenter.sh/unregistered"), value: text(""), effect: TaintEffect::NoExecute };
    assert_eq!(joined_with(vec![taint]), Vec::<String>::new());
    assert!(EventReason::UnregisteredTaintMissing.is_warning());
}

#[test]
fn a_launch_without_capacity_names_its_decision_and_no_price() {
    let (mut world, decision) = deciding();
    let order = ordered(&mut world, &decision);
    let failure = LaunchFailure::InsufficientCapacity { unavailable: Vec::new() };
    let (claim, attempt) = (order.claim.clone(), order.attempt);
    world.handle(6_000, Event::LaunchFailed { claim, attempt, failure });
    world.tick(7_000);
    let said = format!(
        "nodeclaim/{}: the cloud has no capacity for any launch option (decision {})",
        order.claim, decision.id.0
    );
    assert_eq!(world.said(EventReason::InsufficientCapacityError), [said]);
}

/// A process that takes over while the machine starts, and reads this launch record: what it says when the Node is
/// initialized.
fn taken_over(recorded: bool) -> Vec<String> {
    let (_, decision) = deciding();
    let (claim, id) = (launched_claim(&decision), decision.id);
    let planned = DecidedLaunch { machine: decision.launches[0].clone(), decision: id, at: decision.at };
    let open = OpenLaunch {
        claim: claim.name.clone(),
        attempt: 1,
        state: LaunchState::Open,
        planned: Some(Box::new(planned)),
    };
    let mut world = Fixture::new(snapshot(&[]), Settings { identity: 2, first_number: 1_000, ..Settings::default() });
    let launches = if recorded { vec![open] } else { Vec::new() };
    world.handle(10_000, Event::LeaseAcquired { uid: text("uid-1"), launches });
    let mut young = young_node(Vec::new());
    young.labels.insert(text(REGISTERED), text("true"));
    let shown = ClusterSnapshot { claims: vec![claim], nodes: vec![young.clone()], ..snapshot(&[]) };
    world.observe(11_000, Observation::Snapshot(Box::new(shown)));
    world.tick(12_000);
    young.labels.insert(text(INITIALIZED), text("true"));
    world.observe(14_000, Observation::upsert(Object::Node(young)));
    world.tick(15_000);
    let said = world.said(EventReason::Initialized);
    said.into_iter().map(|said| said.replace(&format!("decision {}", id.0), "decision OF-RECORD")).collect()
}

#[test]
fn the_next_owner_knows_the_decision_from_the_launch_record_and_says_only_what_it_knows() {
    let message = |said: Vec<String>| said.first().and_then(|said| said.split_once(": ")).map(|(_, m)| m.to_owned());
    assert_eq!(message(taken_over(true)).as_deref(), Some("its Node is initialized (decision OF-RECORD, $0.02/h)"));
    assert_eq!(message(taken_over(false)).as_deref(), Some("its Node is initialized ($0.02/h)"));
}

#[test]
fn a_class_that_is_deleted_names_how_many_node_claims_it_waits_for_once() {
    let mut world = Fixture::new(snapshot(&["m0", "m1"]), Settings::default());
    let going = ClassRecord { deleting: true, has_finalizer: true, ..class() };
    world.observe(2_000, Observation::upsert(Object::Class(going)));
    world.tick(3_000);
    let said = ["ec2nodeclass/default: waits for 2 NodeClaims to end, m0 among them"];
    assert_eq!(world.said(EventReason::WaitingOnNodeClaimTermination), said);
    // Another number within two minutes is the same Event.
    world.handle(4_000, Event::InstanceGone(claim("m0").provider_id));
    world.observe(4_000, Observation::Delete(Key::Claim(text("m0"))));
    world.tick(6_000);
    assert_eq!(world.said(EventReason::WaitingOnNodeClaimTermination), said);
}
