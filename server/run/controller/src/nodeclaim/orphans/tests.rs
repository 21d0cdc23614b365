use std::sync::Arc;

use super::*;
use crate::testing::SynchronousController;
use crate::tests::{instructions, one_machine};
use crate::{ClusterCall, Effect, Event, Instruction, LaunchState, ListedInstance, OpenLaunch, Settings};
use cluster::testing::{bound_to, claim, key, node, pod, pool, text};
use cluster::{ClusterSnapshot, Object};
use model::PodKey;

const NAMES: [&str; 4] = ["m0", "m1", "m2", "m3"];

/// Initialized machines of these names, with a pod on each.
fn snapshot(names: &[&str]) -> ClusterSnapshot {
    ClusterSnapshot {
        pools: vec![pool()],
        claims: names.iter().map(|name| claim(name)).collect(),
        nodes: names.iter().map(|name| node(name)).collect(),
        pods: names.iter().map(|name| bound_to(name, pod(&format!("on-{name}"), 500))).collect(),
        ..ClusterSnapshot::default()
    }
}

/// A cluster with these machines, taken over at 0 s. Drains wait for no plan; the collection period is 60 s.
fn controller(names: &[&str]) -> SynchronousController {
    taken_over(snapshot(names))
}

fn taken_over(snapshot: ClusterSnapshot) -> SynchronousController {
    let mut settings = Settings::default();
    settings.guardrails.replacement_wait = Millis::ZERO;
    taken_over_by(settings, snapshot)
}

fn taken_over_by(mut settings: Settings, snapshot: ClusterSnapshot) -> SynchronousController {
    // This test covers what follows after the quarantine accepted a snapshot.
    settings.guardrails.quarantine.block_percent = 0;
    settings.guardrails.quarantine.block_for = Millis::from_mins(1);
    let mut controller = SynchronousController::new(settings, one_machine);
    let adopted = Event::LeaseAcquired { uid: text("uid-1"), launches: Vec::new() };
    controller.handle(adopted, Timestamp::from_millis(0));
    controller.handle(Event::AgentConnected, Timestamp::from_millis(0));
    observe(&mut controller, 0, Observation::Snapshot(Box::new(snapshot)));
    controller
}

/// All four instances are in use, and only these have NodeClaims: the others are orphaned.
fn with_strays(claimed: &[&str]) -> SynchronousController {
    let claims = claimed.iter().map(|name| claim(name)).collect();
    taken_over(ClusterSnapshot { claims, ..snapshot(&NAMES) })
}

/// An operator confirms what the agent reports, which switches off the guards against its absences.
fn confirm(controller: &mut SynchronousController, second: i64) -> Vec<Effect> {
    controller.handle(Event::QuarantineReleased, Timestamp::from_millis(second * 1_000))
}

fn observe(controller: &mut SynchronousController, second: i64, observation: Observation) -> Vec<Effect> {
    controller.handle(Event::Observed(observation), Timestamp::from_millis(second * 1_000))
}

/// The finalizers of a NodeClaim are removed and it is deleted.
fn remove(controller: &mut SynchronousController, second: i64, name: &str) -> Vec<Effect> {
    observe(controller, second, Observation::Delete(Key::Claim(text(name))))
}

fn list(controller: &mut SynchronousController, second: i64) -> Vec<Effect> {
    list_these(controller, second, NAMES.iter().map(|name| instance(name, name)).collect())
}

fn list_these(controller: &mut SynchronousController, second: i64, instances: Vec<ListedInstance>) -> Vec<Effect> {
    let asked = Timestamp::from_millis(second * 1_000);
    let listing = Box::new(Listing { requested_at: asked, complete: true, instances });
    controller.handle(Event::Listed(listing), asked)
}

/// The instance `name`, launched for the NodeClaim `claim`.
fn instance(name: &str, claim: &str) -> ListedInstance {
    let provider_id = ProviderId::from(format!("aws:///z/i-{name}"));
    let (cluster_uid, claim) = (text("uid-1"), text(claim));
    ListedInstance { provider_id, cluster_uid, claim, terminating: false, details: Arc::default() }
}

/// NodeClaims whose Nodes are to be drained.
fn drained(effects: &[Effect]) -> Vec<String> {
    let sent = instructions(effects).into_iter().filter_map(|(_, instruction)| match instruction {
        Instruction::Drain { claim, node, .. } => Some(format!("{claim} on {node}")),
        _ => None,
    });
    sent.collect()
}

fn terminated(effects: &[Effect]) -> Vec<&str> {
    let ended = effects.iter().filter_map(|effect| match effect {
        Effect::Call(ClusterCall::Terminate { provider_id, .. }) => Some(provider_id.as_ref()),
        _ => None,
    });
    ended.collect()
}

fn planned(effects: &[Effect]) -> Vec<&PodKey> {
    let decided = effects.iter().filter_map(|effect| match effect {
        Effect::Call(ClusterCall::RecordDecision(decision)) => Some(&decision.launches),
        _ => None,
    });
    decided.flatten().flat_map(|machine| &machine.pods).collect()
}

fn doubts(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::ReportFinding(_))).count()
}

#[test]
fn a_machine_whose_claim_was_removed_by_force_is_drained_and_terminated() {
    let mut controller = controller(&NAMES);
    assert!(drained(&remove(&mut controller, 5, "m1")).is_empty());
    assert!(drained(&list(&mut controller, 10)).is_empty());
    assert!(drained(&list(&mut controller, 69)).is_empty());
    // 60 s after the first listing that contains an instance without a NodeClaim.
    let effects = list(&mut controller, 70);
    assert_eq!(drained(&effects), ["m1 on n-m1"]);
    assert!(terminated(&effects).is_empty(), "pods run on it");
    let drain = instructions(&effects).into_iter().find(|(_, sent)| matches!(sent, Instruction::Drain { .. }));
    let over = Event::InstructionAcked(drain.unwrap().0);
    let effects = controller.handle(over, Timestamp::from_millis(80_000));
    assert_eq!(terminated(&effects), ["aws:///z/i-m1"]);
    let gone = Event::InstanceGone(text("aws:///z/i-m1"));
    let effects = controller.handle(gone, Timestamp::from_millis(90_000));
    let last = instructions(&effects).into_iter().find(|(_, sent)| matches!(sent, Instruction::DeleteClaim { .. }));
    let done = Event::InstructionAcked(last.unwrap().0);
    let effects = controller.handle(done, Timestamp::from_millis(91_000));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Call(ClusterCall::CloseLaunch(claim)) if claim.as_ref() == "m1"))
    );
    assert!(controller.state(&text("c")).unwrap().claim(&text("m1")).is_none());
}

#[test]
fn the_pods_of_such_a_machine_are_planned_again_before_their_eviction() {
    let mut controller = controller(&NAMES);
    remove(&mut controller, 5, "m1");
    list(&mut controller, 10);
    assert!(planned(&controller.handle(Event::Tick, Timestamp::from_millis(60_000))).is_empty());
    assert_eq!(drained(&list(&mut controller, 70)), ["m1 on n-m1"]);
    // The batch window that the drain opens closes a second later.
    assert_eq!(planned(&controller.handle(Event::Tick, Timestamp::from_millis(71_000))), [&key("on-m1")]);
}

/// At 70 s the drain of m1, whose NodeClaim is not observed, waits for the plan of its pod, which is made at 71 s.
fn waiting_for_its_plan() -> SynchronousController {
    let mut controller = taken_over_by(Settings::default(), snapshot(&NAMES));
    remove(&mut controller, 5, "m1");
    list(&mut controller, 10);
    assert!(drained(&list(&mut controller, 70)).is_empty());
    controller
}

#[test]
fn a_machine_stays_if_its_claim_is_observed_again_before_the_drain_begins() {
    let mut controller = waiting_for_its_plan();
    let mut effects = observe(&mut controller, 70, Observation::upsert(Object::Claim(claim("m1"))));
    for second in [71, 72, 85, 86, 100] {
        effects.extend(controller.handle(Event::Tick, Timestamp::from_millis(second * 1_000)));
    }
    effects.extend([list(&mut controller, 110), list(&mut controller, 170)].concat());
    assert!(drained(&effects).is_empty() && planned(&effects).is_empty(), "{effects:?}");
    let mut controller = waiting_for_its_plan();
    assert_eq!(drained(&controller.handle(Event::Tick, Timestamp::from_millis(71_000))), ["m1 on n-m1"]);
}

#[test]
fn a_drain_that_has_begun_goes_on_when_the_claim_is_observed_again() {
    let mut controller = controller(&NAMES);
    remove(&mut controller, 5, "m1");
    list(&mut controller, 10);
    let effects = list(&mut controller, 70);
    let drain = instructions(&effects).into_iter().find(|(_, sent)| matches!(sent, Instruction::Drain { .. }));
    observe(&mut controller, 71, Observation::upsert(Object::Claim(claim("m1"))));
    let over = Event::InstructionAcked(drain.unwrap().0);
    assert_eq!(terminated(&controller.handle(over, Timestamp::from_millis(80_000))), ["aws:///z/i-m1"]);
}

#[test]
fn an_orphaned_instance_with_a_node_is_drained() {
    let collected = |controller: &mut SynchronousController| {
        assert!(drained(&list(controller, 10)).is_empty());
        [list(controller, 69), list(controller, 70)].concat()
    };
    let mut guarded = with_strays(&["m0", "m2", "m3"]);
    let effects = collected(&mut guarded);
    assert_eq!((drained(&effects), terminated(&effects)), (vec!["m1 on n-m1".to_owned()], Vec::new()));
    assert_eq!(planned(&guarded.handle(Event::Tick, Timestamp::from_millis(71_000))), [&key("on-m1")]);
    let drain = instructions(&effects)[0].0;
    let over = Event::InstructionAcked(drain);
    assert_eq!(terminated(&guarded.handle(over, Timestamp::from_millis(80_000))), ["aws:///z/i-m1"]);
    // Sabotage: the agent hides its Node and its pod. Nothing shows that it is in use, and it is terminated.
    let effects = collected(&mut controller(&["m0", "m2", "m3"]));
    assert_eq!((drained(&effects), terminated(&effects)), (Vec::new(), vec!["aws:///z/i-m1"]));
}

/// m1 has no NodeClaim, and its Node is not observed; a pod is bound to a Node that is not observed.
fn unshown() -> (SynchronousController, Vec<Effect>) {
    let others = ["m0", "m2", "m3"];
    let pods = NAMES.iter().map(|name| bound_to(name, pod(&format!("on-{name}"), 500))).collect();
    let mut controller = taken_over(ClusterSnapshot { pods, ..snapshot(&others) });
    let effects = [10, 69, 70, 100].map(|second| list(&mut controller, second)).concat();
    (controller, effects)
}

#[test]
fn an_orphaned_instance_without_observed_node_is_kept_while_a_pod_may_run_on_it() {
    let (mut controller, effects) = unshown();
    assert_eq!((drained(&effects), terminated(&effects)), (Vec::new(), Vec::new()));
    let shown = observe(&mut controller, 110, Observation::upsert(Object::Node(node("m1"))));
    let effects = [shown, controller.handle(Event::Tick, Timestamp::from_millis(140_000))].concat();
    assert_eq!((drained(&effects), terminated(&effects)), (vec!["m1 on n-m1".to_owned()], Vec::new()));
    // The pod is deleted.
    let (mut controller, _) = unshown();
    let gone = observe(&mut controller, 110, Observation::Delete(Key::Pod(pod("on-m1", 500).key)));
    let effects = [gone, controller.handle(Event::Tick, Timestamp::from_millis(140_000))].concat();
    assert_eq!((drained(&effects), terminated(&effects)), (Vec::new(), vec!["aws:///z/i-m1"]));
}

#[test]
fn sabotage_when_an_operator_overrules_the_guard_such_an_instance_is_terminated_under_its_pod() {
    let (mut controller, _) = unshown();
    let confirmed = Event::RemovalsConfirmed;
    let confirmed = controller.handle(confirmed, Timestamp::from_millis(110_000));
    let effects = [confirmed, controller.handle(Event::Tick, Timestamp::from_millis(140_000))].concat();
    assert_eq!(terminated(&effects), ["aws:///z/i-m1"]);
}

#[test]
fn an_orphaned_instance_is_kept_while_no_node_is_observed() {
    let bare = ClusterSnapshot { nodes: Vec::new(), pods: Vec::new(), ..snapshot(&["m0"]) };
    let mut controller = taken_over(bare);
    let both = || vec![instance("m0", "m0"), instance("m1", "m1")];
    let listed = [10, 69, 70, 100].map(|second| list_these(&mut controller, second, both())).concat();
    assert_eq!(terminated(&listed), Vec::<&str>::new());
    // The agent runs on a Node, so only a snapshot with Nodes is plausible.
    let shown = observe(&mut controller, 110, Observation::upsert(Object::Node(node("m0"))));
    let effects = [shown, controller.handle(Event::Tick, Timestamp::from_millis(140_000))].concat();
    assert_eq!(terminated(&effects), ["aws:///z/i-m1"]);
}

#[test]
fn the_second_instance_of_a_claim_is_drained_under_its_own_name() {
    let mut controller = controller(&["m0", "m1"]);
    let both = || vec![instance("m0", "m0"), instance("m1", "m1"), instance("m2", "m0")];
    list_these(&mut controller, 10, both());
    observe(&mut controller, 20, Observation::upsert(Object::Node(node("m2"))));
    assert_eq!(drained(&list_these(&mut controller, 70, both())), ["i-m2 on n-m2"]);
}

#[test]
fn most_instances_without_claim_and_record_make_the_snapshot_suspicious() {
    let mut guarded = with_strays(&["m0"]);
    let effects = [list(&mut guarded, 10), list(&mut guarded, 70), list(&mut guarded, 100)].concat();
    assert_eq!((drained(&effects).len(), terminated(&effects).len(), doubts(&effects)), (0, 0, 1));
    confirm(&mut guarded, 110);
    assert_eq!(drained(&list(&mut guarded, 120)).len(), 3);
    // Sabotage: without the guard the machines are terminated after the collection period.
    let mut sabotaged = with_strays(&["m0"]);
    confirm(&mut sabotaged, 5);
    assert_eq!(drained(&[list(&mut sabotaged, 10), list(&mut sabotaged, 70)].concat()).len(), 3);
}

#[test]
fn a_claim_that_reappears_was_not_lost() {
    let mut controller = controller(&NAMES);
    remove(&mut controller, 5, "m1");
    list(&mut controller, 10);
    observe(&mut controller, 20, Observation::upsert(Object::Claim(claim("m1"))));
    list(&mut controller, 40);
    remove(&mut controller, 50, "m1");
    assert!(drained(&list(&mut controller, 75)).is_empty(), "missing for 0 s by the listings");
    assert_eq!(drained(&list(&mut controller, 135)), ["m1 on n-m1"]);
}

#[test]
fn losing_most_claims_at_once_is_suspicious_until_an_operator_confirms_it() {
    let lose_three = |controller: &mut SynchronousController| {
        for name in ["m0", "m1", "m2"] {
            remove(controller, 5, name);
        }
        [list(controller, 10), list(controller, 70), list(controller, 100)].concat()
    };
    let mut guarded = controller(&NAMES);
    let effects = lose_three(&mut guarded);
    assert_eq!((drained(&effects).len(), doubts(&effects)), (0, 1));
    confirm(&mut guarded, 110);
    assert_eq!(drained(&list(&mut guarded, 120)).len(), 3);
    // Sabotage: without the guard a snapshot that lacks NodeClaims terminates the machines.
    let mut sabotaged = controller(&NAMES);
    confirm(&mut sabotaged, 1);
    assert_eq!(drained(&lose_three(&mut sabotaged)).len(), 3);
}

/// How many of three machines without NodeClaim are terminated, when an operator confirms at 110 s and the cloud lists
/// them next at this second.
fn go_on_a_word(second: i64) -> usize {
    let mut controller = controller(&NAMES);
    confirm(&mut controller, 110);
    for name in ["m0", "m1", "m2"] {
        remove(&mut controller, 120, name);
    }
    list(&mut controller, second - 60);
    drained(&list(&mut controller, second)).len()
}

#[test]
fn an_operator_confirmation_expires_after_ten_minutes_without_a_snapshot() {
    assert_eq!(go_on_a_word(709), 3);
    assert_eq!(go_on_a_word(710), 0);
}

#[test]
fn an_empty_snapshot_terminates_no_instance_however_long_it_lasts() {
    let goes_blind = |controller: &mut SynchronousController, confirmed: bool| {
        let nothing = || {
            let pools = vec![pool()];
            Observation::Snapshot(Box::new(ClusterSnapshot { pools, ..ClusterSnapshot::default() }))
        };
        observe(controller, 5, nothing());
        // A second snapshot agrees with the first after a minute and is accepted.
        observe(controller, 66, nothing());
        if confirmed {
            confirm(controller, 67);
        }
        [list(controller, 70), list(controller, 130), list(controller, 600)].concat()
    };
    // One machine: too few to be "most of them".
    let mut guarded = controller(&["m0"]);
    let effects = goes_blind(&mut guarded, false);
    assert!(guarded.view(&text("c")).unwrap().guardrails.quarantine.is_none());
    assert_eq!((terminated(&effects).len(), doubts(&effects)), (0, 1));
    // Sabotage: without the guard the instance is terminated with its pods, and so are orphaned ones.
    assert_eq!(terminated(&goes_blind(&mut controller(&["m0"]), true)).len(), 4);
}

#[test]
fn a_drain_waiting_for_capacity_terminates_no_instance_while_the_snapshot_is_empty() {
    let goes_blind = |quarantine_percent: usize| {
        // No plan is recorded, so the drain waits as long as permitted: 15 s.
        let mut settings = Settings::default();
        settings.guardrails.quarantine.percent = quarantine_percent;
        let mut controller = taken_over_by(settings, snapshot(&NAMES));
        remove(&mut controller, 5, "m1");
        list(&mut controller, 10);
        assert!(drained(&list(&mut controller, 70)).is_empty());
        let nothing = || {
            let pools = vec![pool()];
            Observation::Snapshot(Box::new(ClusterSnapshot { pools, ..ClusterSnapshot::default() }))
        };
        observe(&mut controller, 71, nothing());
        // The second snapshot agrees after a minute and is accepted.
        let effects = observe(&mut controller, 132, nothing());
        (controller, effects)
    };
    let (mut guarded, effects) = goes_blind(50);
    assert!(guarded.view(&text("c")).unwrap().guardrails.quarantine.is_none());
    assert_eq!((terminated(&effects).len(), doubts(&effects)), (0, 1));
    let shown = ClusterSnapshot { claims: vec![claim("m0"), claim("m2"), claim("m3")], ..snapshot(&NAMES) };
    observe(&mut guarded, 140, Observation::Snapshot(Box::new(shown)));
    assert_eq!(
        drained(&guarded.handle(Event::Tick, Timestamp::from_millis(200_000))),
        ["m1 on n-m1"],
        "it is there, and drained"
    );
    // Sabotage: without quarantine, an operator confirms the empty snapshot. The drain is tried again 10 s after the
    // last attempt, and the instance is terminated with its pods.
    let (mut sabotaged, _) = goes_blind(0);
    confirm(&mut sabotaged, 133);
    let effects = sabotaged.handle(Event::Tick, Timestamp::from_millis(142_000));
    assert_eq!(terminated(&effects), ["aws:///z/i-m1"]);
}

#[test]
fn instances_that_ended_while_the_snapshot_was_empty_do_not_block_adoption() {
    let mut controller = controller(&NAMES);
    let row = |name: &&str| OpenLaunch {
        claim: text(name),
        attempt: 1,
        state: LaunchState::Launched { provider_id: ProviderId::from(format!("aws:///z/i-{name}")) },
        planned: None,
    };
    let again = Event::LeaseAcquired { uid: text("uid-1"), launches: NAMES.iter().map(row).collect() };
    controller.handle(again, Timestamp::from_millis(5_000));
    let nothing =
        || Observation::Snapshot(Box::new(ClusterSnapshot { pools: vec![pool()], ..ClusterSnapshot::default() }));
    observe(&mut controller, 6, nothing());
    for name in ["m1", "m2", "m3"] {
        let provider_id = ProviderId::from(format!("aws:///z/i-{name}"));
        let effects = controller.handle(Event::InstanceGone(provider_id), Timestamp::from_millis(30_000));
        let instruction = instructions(&effects)[0].0;
        controller.handle(Event::InstructionAcked(instruction), Timestamp::from_millis(30_000));
    }
    // The second snapshot agrees after a minute, and is accepted.
    observe(&mut controller, 67, nothing());
    // The NodeClaim of the fourth was removed meanwhile.
    let shown = ClusterSnapshot { claims: Vec::new(), ..snapshot(&["m0"]) };
    observe(&mut controller, 80, Observation::Snapshot(Box::new(shown)));
    let listed =
        |controller: &mut SynchronousController, second| list_these(controller, second, vec![instance("m0", "m0")]);
    assert!(drained(&listed(&mut controller, 90)).is_empty());
    assert_eq!(drained(&listed(&mut controller, 150)), ["m0 on n-m0"], "one of one, after the collection period");
}
