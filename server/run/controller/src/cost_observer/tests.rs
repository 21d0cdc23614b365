use cost::{CostCause, CostInterval};
use model::{MicroUsd, Timestamp};

use crate::testing::SynchronousController;
use crate::tests::{controller_with, instructions, one_machine};
use crate::{ClusterCall, DecisionId, Effect, Event, Instruction, Settings};
use cluster::testing::{bound_to, claim, key, node, pod, pool, text};
use cluster::{ClusterSnapshot, Key, Observation};

const MINUTE: i64 = 60_000;

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_millis(minutes * MINUTE)
}

/// One machine of $0.02 an hour, half of which a pod requests.
fn one_machine_in_use() -> ClusterSnapshot {
    ClusterSnapshot {
        pools: vec![pool()],
        claims: vec![claim("m0")],
        nodes: vec![node("m0")],
        pods: vec![bound_to("m0", pod("a", 1_000))],
        ..ClusterSnapshot::default()
    }
}

fn written(effects: &[Effect]) -> Vec<CostInterval> {
    let intervals = effects.iter().filter_map(|effect| match effect {
        Effect::Call(ClusterCall::RecordCosts(intervals)) => Some(intervals.clone()),
        _ => None,
    });
    intervals.flatten().collect()
}

/// Minutes of start and end, cost, and whether the machine runs on.
fn brief(intervals: &[CostInterval]) -> Vec<(i64, i64, i64, bool)> {
    let minutes = |at: Timestamp| at.as_millis() / MINUTE;
    let of = |one: &CostInterval| (minutes(one.start), minutes(one.end), one.parts.total(), one.is_running);
    intervals.iter().map(of).collect()
}

fn tick(controller: &mut SynchronousController, minutes: i64) -> Vec<CostInterval> {
    written(&controller.handle(Event::Tick, at(minutes)))
}

fn confirm(controller: &mut SynchronousController, minutes: i64) {
    controller.handle(Event::CostsRecorded, at(minutes));
}

#[test]
fn costs_are_written_every_half_hour_until_now() {
    let mut controller = controller_with(one_machine_in_use());
    // The first write is due within a minute, at a time that depends on the cluster's name. $0.02 an hour, half of it useful.
    let first = tick(&mut controller, 10);
    assert_eq!(brief(&first), [(0, 10, 3_333, true)]);
    assert_eq!(first[0].parts.get(CostCause::Useful), 1_667);
    assert_eq!(tick(&mut controller, 50), [], "the first write is not confirmed");
    confirm(&mut controller, 51);
    // It was due at 0:40, so the confirmation has it written. The next one is due half an hour later, and has a new hour.
    assert_eq!(tick(&mut controller, 60), []);
    confirm(&mut controller, 60);
    assert_eq!(brief(&tick(&mut controller, 82)), [(0, 60, 20_000, true), (60, 82, 7_333, true)]);
}

#[test]
fn a_machine_goes_on_costing_while_the_agent_is_away() {
    let mut controller = controller_with(one_machine_in_use());
    let first = controller.handle(Event::AgentDisconnected, at(1));
    assert_eq!(brief(&written(&first)), [(0, 1, 333, true)]);
    confirm(&mut controller, 1);
    assert_eq!(brief(&tick(&mut controller, 32)), [(0, 32, 10_666, true)]);
}

#[test]
fn a_successor_continues_what_was_written() {
    let mut controller = controller_with(one_machine_in_use());
    let last = tick(&mut controller, 10);
    let mut successor = SynchronousController::new(Settings::default(), one_machine);
    successor.handle(Event::CostsLoaded(last), at(11));
    successor.handle(Event::AgentConnected, at(12));
    assert_eq!(tick(&mut successor, 24), [], "not all machines are known");
    let snapshot = Observation::Snapshot(Box::new(one_machine_in_use()));
    successor.handle(Event::Observed(snapshot), at(24));
    // A gap of 14 minutes is used as before.
    let continued = tick(&mut successor, 34);
    assert_eq!(brief(&continued), [(0, 34, 11_333, true)]);
    assert_eq!(continued[0].parts.get(CostCause::Useful), 1_667 + 2_334 + 1_667);
}

#[test]
fn the_decision_that_removes_a_machine_is_written_with_its_end() {
    let (mut controller, mut intervals) = (controller_with(one_machine_in_use()), Vec::new());
    let mut step = |event, minutes| {
        let effects = controller.handle(event, at(minutes));
        intervals.extend(written(&effects));
        confirm(&mut controller, minutes);
        effects
    };
    let gone = Observation::Delete(Key::Pod(key("a")));
    step(Event::Observed(gone), 1);
    // Empty for 30 seconds at 1:30.
    let decision = step(Event::Tick, 2).iter().find_map(|effect| match effect {
        Effect::Call(ClusterCall::RecordDecision(decision)) => Some(decision.id),
        _ => None,
    });
    let decision = decision.expect("the empty machine is removed");
    let effects = step(Event::Recorded(decision), 2);
    let (drain, instruction) = instructions(&effects)[0];
    assert!(matches!(instruction, Instruction::Drain { .. }), "{instruction:?}");
    step(Event::InstructionAcked(drain), 3);
    step(Event::InstanceGone(text("aws:///z/i-m0")), 4);
    // With a minute's delay at most, and not with the machines that run after half an hour: the next owner charges those.
    step(Event::Tick, 5);
    // $0.02 × 4 / 60; half of the first minute is useful, and nothing after it.
    assert_eq!(brief(&intervals).last(), Some(&(0, 4, 1_333, false)));
    assert_eq!(intervals.last().map(|interval| interval.parts.get(CostCause::Useful)), Some(167));
    let last = intervals.last().map(|interval| &interval.machine);
    assert_eq!(
        last.map(|machine| (machine.removed_by.map(|saving| (DecisionId(saving.number), saving.at)), machine.price)),
        Some((Some((decision, at(2))), MicroUsd(20_000)))
    );
}
