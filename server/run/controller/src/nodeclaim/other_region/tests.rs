use super::*;
use crate::guardrails::{DisabledGuards, Guard};
use crate::nodeclaim::Listing;
use crate::testing::SynchronousController;
use crate::tests::one_machine;
use crate::{ClusterCall, Effect, Event, Instruction, Settings};
use cluster::testing::{claim, node, pool, text};
use cluster::{ClusterSnapshot, NodeRecord, Object, Observation};
use model::Timestamp;

/// A cluster with one initialized machine in zone `z`, and a server that launches its instances in `region`. The collection
/// period is 60 s.
fn controller(region: &str, disabled_guards: DisabledGuards) -> SynchronousController {
    let controller = SynchronousController::with_disabled_guards(Settings::default(), one_machine, disabled_guards);
    let mut controller = controller.in_region(region);
    let snapshot = ClusterSnapshot {
        pools: vec![pool()],
        claims: vec![claim("m0")],
        nodes: vec![node("m0")],
        ..ClusterSnapshot::default()
    };
    let adopted = Event::LeaseAcquired { uid: text("uid-1"), launches: Vec::new() };
    let observation = Observation::Snapshot(Box::new(snapshot));
    let seen = Event::Observed(observation);
    for event in [adopted, Event::AgentConnected, seen] {
        controller.handle(event, Timestamp::default());
    }
    controller
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1_000)
}

/// A complete listing without any instance.
fn list_nothing(controller: &mut SynchronousController, second: i64) -> Vec<Effect> {
    let listing = Box::new(Listing { requested_at: at(second), complete: true, instances: Vec::new() });
    controller.handle(Event::Listed(listing), at(second))
}

/// The kubelet of `m0` does not report any more.
fn stop_kubelet(controller: &mut SynchronousController, second: i64) {
    let observation = Observation::upsert(Object::Node(NodeRecord { ready: false, ..node("m0") }));
    controller.handle(Event::Observed(observation), at(second));
}

fn answer(controller: &mut SynchronousController, second: i64) -> Vec<Effect> {
    let provider_id = ProviderId::from("aws:///z/i-m0");
    controller.handle(Event::Inspected { provider_id, found: Inspection::Unknown }, at(second))
}

fn is_inspected(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Call(ClusterCall::Inspect { .. })))
}

fn is_terminated(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Call(ClusterCall::Terminate { .. })))
}

fn is_deleted(effects: &[Effect]) -> bool {
    let deletes = |instruction: &Instruction| matches!(instruction, Instruction::DeleteClaim { .. });
    effects.iter().any(|effect| matches!(effect, Effect::Instruct { instruction, .. } if deletes(instruction)))
}

fn findings(effects: &[Effect]) -> Vec<String> {
    let findings = effects.iter().filter_map(|effect| match effect {
        Effect::ReportFinding(finding) => Some(finding.to_string()),
        _ => None,
    });
    findings.collect()
}

/// Whether a machine whose Node is not ready is inspected, and deleted, when two listings lack it.
fn is_collected(region: &str, disabled_guards: DisabledGuards) -> (bool, bool) {
    let mut controller = controller(region, disabled_guards);
    stop_kubelet(&mut controller, 50);
    list_nothing(&mut controller, 100);
    let inspected = is_inspected(&list_nothing(&mut controller, 160));
    (inspected, is_deleted(&answer(&mut controller, 161)))
}

#[test]
fn a_machine_of_another_region_is_not_gone_because_listings_lack_it() {
    assert_eq!(is_collected("z", DisabledGuards::default()), (true, true), "its own region knows it");
    assert_eq!(is_collected("eu-west-1", DisabledGuards::default()), (false, false));
}

#[test]
fn sabotage_without_the_guard_a_machine_of_another_region_is_gone() {
    assert_eq!(is_collected("eu-west-1", DisabledGuards::only(Guard::OtherRegion)), (true, true));
}

#[test]
fn machines_of_another_region_are_reported_once() {
    let mut controller = controller("eu-west-1", DisabledGuards::default());
    let reported = findings(&list_nothing(&mut controller, 100));
    assert_eq!(reported.len(), 1);
    let begins = "1 of 1 machines of this cluster are in another region than eu-west-1, where its instances are launched; \
                  one of them is aws:///z/i-m0.";
    assert!(reported[0].starts_with(begins), "{reported:?}");
    assert!(findings(&list_nothing(&mut controller, 130)).is_empty());
}

/// Drains the empty machine, until its instance is terminated.
fn terminate(controller: &mut SynchronousController) {
    // It has been empty for 30 s.
    let mut effects = controller.handle(Event::Tick, at(40));
    let follows = |effects: &[Effect]| {
        effects.iter().find_map(|effect| match effect {
            Effect::Call(ClusterCall::RecordDecision(decision)) => Some((Event::Recorded(decision.id), at(41))),
            Effect::Instruct { id, instruction } if matches!(**instruction, Instruction::Drain { .. }) => {
                Some((Event::InstructionAcked(*id), at(42)))
            }
            _ => None,
        })
    };
    while let Some((event, now)) = follows(&effects) {
        effects = controller.handle(event, now);
    }
    assert!(is_terminated(&effects));
    stop_kubelet(controller, 43);
}

#[test]
fn a_termination_that_finds_no_instance_is_held_until_an_operator_confirms_it() {
    let mut controller = controller("eu-west-1", DisabledGuards::default());
    terminate(&mut controller);
    assert!(!is_deleted(&answer(&mut controller, 44)));
    let held = controller.view(&text("c")).unwrap().guardrails.waiting_removals;
    assert_eq!(held.len(), 1);
    assert!(held[0].reason.contains("aws:///z/i-m0 is not in eu-west-1, the region whose API is called"), "{held:?}");
    assert!(held[0].release.contains("fleetwright removals confirm c"), "{held:?}");
    // The termination is repeated after five minutes.
    let again = controller.handle(Event::Tick, at(44 + 300));
    assert!(is_terminated(&again));
    controller.handle(Event::RemovalsConfirmed, at(345));
    assert!(is_deleted(&answer(&mut controller, 346)));
}

#[test]
fn sabotage_without_the_guard_a_termination_in_the_wrong_region_deletes_the_machine() {
    let mut controller = controller("eu-west-1", DisabledGuards::only(Guard::OtherRegion));
    terminate(&mut controller);
    assert!(is_deleted(&answer(&mut controller, 44)));
}
