use std::sync::Arc;

use super::*;
use crate::nodeclaim::InstanceAnomalies;
use crate::testing::SynchronousController;
use crate::tests::one_machine;
use crate::{Effect, Event, EventReason, Inspection, Instruction, LaunchState, OpenLaunch, Settings};
use cluster::testing::{claim, node, pool, text};
use cluster::{ClusterSnapshot, NodeRecord, Object, Observation};

/// One initialized machine, `m0`, in a cluster that was taken over at 0 s; the collection period is 60 s.
fn controller(ready: bool) -> SynchronousController {
    controller_by(Settings::default(), ready)
}

fn controller_by(settings: Settings, ready: bool) -> SynchronousController {
    let mut controller = SynchronousController::new(settings, one_machine);
    let mut node = node("m0");
    node.ready = ready;
    let snapshot = ClusterSnapshot {
        pools: vec![pool()],
        claims: vec![claim("m0")],
        nodes: vec![node],
        ..ClusterSnapshot::default()
    };
    let adopted = Event::LeaseAcquired { uid: text("uid-1"), launches: Vec::new() };
    controller.handle(adopted, Timestamp::from_millis(0));
    controller.handle(Event::AgentConnected, Timestamp::from_millis(0));
    let observation = Observation::Snapshot(Box::new(snapshot));
    controller.handle(Event::Observed(observation), Timestamp::from_millis(0));
    controller
}

fn instance(claim: &str, uid: &str) -> ListedInstance {
    let provider_id = ProviderId::from(format!("aws:///z/i-{claim}"));
    let (cluster_uid, claim) = (text(uid), text(claim));
    ListedInstance { provider_id, cluster_uid, claim, terminating: false, details: Arc::default() }
}

/// The machine of [`controller`].
fn known() -> ListedInstance {
    instance("m0", "uid-1")
}

fn listed(
    controller: &mut SynchronousController,
    second: i64,
    complete: bool,
    instances: &[ListedInstance],
) -> Vec<Effect> {
    let asked = Timestamp::from_millis(second * 1_000);
    let listing = Box::new(Listing { requested_at: asked, complete, instances: instances.to_vec() });
    controller.handle(Event::Listed(listing), asked)
}

fn ended(effects: &[Effect]) -> Vec<&str> {
    let ended = effects.iter().filter_map(|effect| match effect {
        Effect::Call(ClusterCall::Terminate { cluster_uid, provider_id, .. }) if cluster_uid.as_ref() == "uid-1" => {
            Some(provider_id.as_ref())
        }
        _ => None,
    });
    ended.collect()
}

fn removed(effects: &[Effect]) -> Vec<&str> {
    let removed = effects.iter().filter_map(|effect| match effect {
        Effect::Instruct { instruction, .. } => match instruction.as_ref() {
            Instruction::DeleteClaim { claim, .. } => Some(claim.as_ref()),
            _ => None,
        },
        _ => None,
    });
    removed.collect()
}

#[test]
fn an_orphaned_instance_is_terminated_after_the_collection_period() {
    let mut controller = controller(true);
    let both = [known(), instance("lost", "uid-1")];
    assert!(ended(&listed(&mut controller, 10, true, &both)).is_empty());
    // 59 s after it was first listed, and 60 s after.
    assert!(ended(&listed(&mut controller, 69, true, &both)).is_empty());
    assert_eq!(ended(&listed(&mut controller, 70, true, &both)), ["aws:///z/i-lost"]);
    assert!(ended(&listed(&mut controller, 80, true, &both)).is_empty(), "its termination was requested");
}

#[test]
fn a_gap_in_the_listings_restarts_the_collection_period() {
    let mut controller = controller(true);
    let both = [known(), instance("lost", "uid-1")];
    listed(&mut controller, 10, true, &both);
    listed(&mut controller, 40, true, &[known()]);
    assert!(ended(&listed(&mut controller, 75, true, &both)).is_empty());
}

#[test]
fn an_instance_of_another_cluster_is_reported_once_and_not_changed() {
    let mut controller = controller(true);
    let both = [known(), instance("lost", "uid-2")];
    let effects = listed(&mut controller, 10, true, &both);
    let sent = effects.iter().filter(|effect| matches!(effect, Effect::ReportFinding(_))).count();
    assert_eq!(sent, 1);
    let later = listed(&mut controller, 200, true, &both);
    assert!(ended(&later).is_empty() && !later.iter().any(|effect| matches!(effect, Effect::ReportFinding(_))));
}

fn asked(effects: &[Effect]) -> Vec<&str> {
    let asked = effects.iter().filter_map(|effect| match effect {
        Effect::Call(ClusterCall::Inspect { claim, .. }) => Some(claim.as_ref()),
        _ => None,
    });
    asked.collect()
}

/// The cloud answers about `m0`.
fn answered(controller: &mut SynchronousController, second: i64, found: Inspection) -> Vec<Effect> {
    let sent = Event::Inspected { provider_id: known().provider_id, found };
    controller.handle(sent, Timestamp::from_millis(second * 1_000))
}

/// Two listings lack `m0`, a minute apart, and the cloud answers the inspection with this.
fn lacked(ready: bool, found: Inspection) -> (SynchronousController, Vec<Effect>) {
    let mut controller = controller(ready);
    assert!(asked(&listed(&mut controller, 100, true, &[])).is_empty(), "listings lag");
    let effects = listed(&mut controller, 160, true, &[]);
    assert_eq!((asked(&effects), removed(&effects)), (vec!["m0"], Vec::new()));
    let effects = answered(&mut controller, 161, found);
    (controller, effects)
}

#[test]
fn a_claim_whose_instance_two_listings_lack_is_deleted_when_an_inspection_confirms_it() {
    assert_eq!(removed(&lacked(false, Inspection::Ended).1), ["m0"]);
    assert_eq!(removed(&lacked(false, Inspection::Unknown).1), ["m0"], "its Node is not ready");
    assert!(removed(&lacked(false, Inspection::Runs).1).is_empty());
    assert!(removed(&lacked(false, Inspection::Foreign).1).is_empty());
}

#[test]
fn a_ready_node_is_not_deleted_until_it_is_not_ready() {
    let (mut controller, effects) = lacked(true, Inspection::Unknown);
    assert!(removed(&effects).is_empty());
    let held = controller.view(&text("c")).unwrap().guardrails.waiting_removals;
    assert_eq!(held.len(), 1);
    assert!(held[0].reason.contains("its Node is ready: check that they belong to the right account"), "{held:?}");
    let lost = NodeRecord { ready: false, ..node("m0") };
    let seen = Observation::upsert(Object::Node(lost));
    controller.handle(Event::Observed(seen), Timestamp::from_millis(170_000));
    assert_eq!(asked(&listed(&mut controller, 200, true, &[])), ["m0"]);
    assert_eq!(removed(&answered(&mut controller, 201, Inspection::Unknown)), ["m0"]);
}

#[test]
fn an_instance_without_tags_is_counted_and_kept() {
    let (mut controller, _) = lacked(true, Inspection::Foreign);
    let view = controller.view(&text("c")).unwrap();
    assert_eq!(view.anomalies, InstanceAnomalies { orphaned: 0, foreign: 1, termination_refused: 0 });
    assert!(
        view.guardrails.waiting_removals[0].release.contains("fleetwright.dev/cluster=c"),
        "{:?}",
        view.guardrails.waiting_removals
    );
    // The tags are restored.
    listed(&mut controller, 220, true, &[known()]);
    let view = controller.view(&text("c")).unwrap();
    assert_eq!((view.anomalies, view.guardrails.waiting_removals.len()), (InstanceAnomalies::default(), 0));
}

#[test]
fn a_refused_termination_keeps_the_claim_and_is_retried() {
    let mut controller = controller(true);
    // It has been empty for 30 s.
    let mut effects = controller.handle(Event::Tick, Timestamp::from_millis(40_000));
    while let Some((event, at)) = effects.iter().find_map(|effect| match effect {
        Effect::Call(ClusterCall::RecordDecision(decision)) => Some((Event::Recorded(decision.id), 41_000)),
        Effect::Instruct { id, instruction } if matches!(**instruction, Instruction::Drain { .. }) => {
            Some((Event::InstructionAcked(*id), 42_000))
        }
        _ => None,
    }) {
        effects = controller.handle(event, Timestamp::from_millis(at));
    }
    assert_eq!(ended(&effects), ["aws:///z/i-m0"]);
    let refused = Event::TerminateRefused { claim: text("m0"), provider_id: known().provider_id };
    let effects = controller.handle(refused, Timestamp::from_millis(43_000));
    assert!(removed(&effects).is_empty());
    let sent = effects.iter().any(|effect| match effect {
        Effect::Instruct { instruction, .. } => match instruction.as_ref() {
            Instruction::RecordEvent(event) => {
                event.reason == EventReason::ForeignInstance && event.reason.is_warning()
            }
            _ => false,
        },
        _ => false,
    });
    assert!(sent, "an Event is recorded: {effects:?}");
    let view = controller.view(&text("c")).unwrap();
    assert_eq!(view.anomalies, InstanceAnomalies { orphaned: 0, foreign: 1, termination_refused: 1 });
    assert_eq!(view.measured.lifecycle.termination_failures.values().sum::<u64>(), 1);
    assert!(ended(&controller.handle(Event::Tick, Timestamp::from_millis(342_999))).is_empty());
    assert_eq!(ended(&controller.handle(Event::Tick, Timestamp::from_millis(343_000))), ["aws:///z/i-m0"]);
}

#[test]
fn an_incomplete_listing_changes_nothing() {
    let mut guarded = controller(false);
    for second in [100, 160, 600] {
        let effects = listed(&mut guarded, second, false, &[]);
        assert!(removed(&effects).is_empty() && asked(&effects).is_empty());
    }
    // Sabotage: the listing counts as complete, the inspection repeats it, and a running instance counts as gone.
    assert_eq!(removed(&lacked(false, Inspection::Ended).1), ["m0"]);
}

#[test]
fn disabled_garbage_collection_collects_nothing() {
    let mut controller = controller_by(Settings { gc_after: None, ..Settings::default() }, true);
    let both = [known(), instance("lost", "uid-1")];
    for second in [10, 100, 1_000] {
        assert!(ended(&listed(&mut controller, second, true, &both)).is_empty());
    }
}

/// The claims whose machines the cloud is asked about when so many of three launches are listed again and again after the
/// cluster was taken over with none of their NodeClaims. No row is closed: an agent that shows nothing may have them all.
fn recovered(listed_ones: &[&str], complete: bool) -> Vec<ClaimName> {
    let launches = ["a", "b", "c"].map(|name| OpenLaunch {
        claim: text(name),
        attempt: 1,
        state: LaunchState::Launched { provider_id: instance(name, "uid-1").provider_id },
        planned: None,
    });
    let mut controller = SynchronousController::new(Settings::default(), one_machine);
    let adopted = Event::LeaseAcquired { uid: text("uid-1"), launches: launches.into() };
    controller.handle(adopted, Timestamp::from_millis(0));
    controller.handle(Event::AgentConnected, Timestamp::from_millis(0));
    let snapshot = ClusterSnapshot { pools: vec![pool()], nodes: vec![node("a")], ..ClusterSnapshot::default() };
    let vouched = Observation::Snapshot(Box::new(snapshot));
    controller.handle(Event::Observed(vouched.clone()), Timestamp::from_millis(0));
    // The snapshot is quarantined for a minute, and accepted when it is repeated.
    controller.handle(Event::Observed(vouched), Timestamp::from_millis(61_000));
    let instances: Vec<ListedInstance> = listed_ones.iter().map(|name| instance(name, "uid-1")).collect();
    let mut asked = Vec::new();
    for second in [70, 129, 130] {
        for effect in listed(&mut controller, second, complete, &instances) {
            match effect {
                Effect::Call(ClusterCall::Describe { claim, .. }) => asked.push(claim),
                Effect::Call(ClusterCall::CloseLaunch(claim)) => panic!("{claim} is closed"),
                _ => {}
            }
        }
        // 60 s from 70 s on.
        assert!(second == 130 || asked.is_empty());
    }
    asked
}

#[test]
fn a_claim_deleted_with_its_instance_does_not_make_the_snapshot_suspicious() {
    let none = Vec::<ClaimName>::new;
    assert_eq!(recovered(&["a", "b", "c"], true), none(), "three of three: an operator has to confirm it");
    assert_eq!(recovered(&["a", "b"], true), ["a", "b", "c"], "two of two");
    assert_eq!(recovered(&["a", "b"], false), none(), "the listing is incomplete");
}
