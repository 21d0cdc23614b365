use super::*;
use crate::nodeclaim::StageKind;
use crate::testing::SynchronousController;
use crate::tests::{controller_with, instructions, one_machine, order_for_a, orders, see_and_plan};
use crate::{Effect, Event, InstructionId, Launched, Settings};
use cluster::testing::{bound_to, claim, node, pod, pool, text};
use cluster::{ClusterSnapshot, NodeRecord, Object, Observation};
use model::drain::{DISRUPTED, RecordedDrain};
use model::{CapacityType, ClaimName, Effect as TaintEffect, LaunchOrder, Millis, ProviderId, Taint};

fn cluster(snapshot: ClusterSnapshot) -> ClusterSnapshot {
    ClusterSnapshot { pools: vec![pool()], ..snapshot }
}

/// The launch that an earlier process decided for the pod `a`, at 3 s.
fn decided() -> DecidedLaunch {
    let mut earlier = controller_with(cluster(ClusterSnapshot::default()));
    let decision = see_and_plan(&mut earlier, pod("a", 500));
    DecidedLaunch { machine: decision.launches[0].clone(), decision: decision.id, at: Timestamp::from_millis(3_000) }
}

fn open(decided: &DecidedLaunch) -> OpenLaunch {
    let claim = decided.machine.claim.name.clone();
    OpenLaunch { claim, attempt: 1, state: LaunchState::Open, planned: Some(Box::new(decided.clone())) }
}

fn launched(decided: &DecidedLaunch, provider_id: &str) -> OpenLaunch {
    let claim = decided.machine.claim.name.clone();
    let state = LaunchState::Launched { provider_id: text(provider_id) };
    OpenLaunch { claim, attempt: 1, state, planned: None }
}

/// The NodeClaim of `decided` before its launch.
fn created(decided: &DecidedLaunch) -> ClaimRecord {
    let order = &decided.machine.claim;
    ClaimRecord { name: order.name.clone(), pool: order.pool.clone(), ours: true, ..ClaimRecord::default() }
}

/// A process that takes over the cluster at 100 s with unfinished `launches`, and then receives
/// `snapshot`.
fn successor(launches: Vec<OpenLaunch>, snapshot: ClusterSnapshot) -> (SynchronousController, Vec<Effect>) {
    successor_with(Settings { identity: 2, first_number: 1_000, ..Settings::default() }, launches, snapshot)
}

fn successor_with(
    settings: Settings,
    launches: Vec<OpenLaunch>,
    snapshot: ClusterSnapshot,
) -> (SynchronousController, Vec<Effect>) {
    let mut controller = SynchronousController::new(settings, one_machine);
    let effects = acquire_lease(&mut controller, launches, cluster(snapshot));
    (controller, effects)
}

fn acquire_lease(
    controller: &mut SynchronousController,
    launches: Vec<OpenLaunch>,
    snapshot: ClusterSnapshot,
) -> Vec<Effect> {
    let adopted = Event::LeaseAcquired { uid: text("uid-1"), launches };
    let mut effects = controller.handle(adopted, Timestamp::from_millis(100_000));
    effects.extend(controller.handle(Event::AgentConnected, Timestamp::from_millis(100_000)));
    let observation = Observation::Snapshot(Box::new(snapshot));
    effects.extend(controller.handle(Event::Observed(observation), Timestamp::from_millis(100_100)));
    effects
}

fn waiting_for_a() -> ClusterSnapshot {
    ClusterSnapshot { pods: vec![pod("a", 500)], ..ClusterSnapshot::default() }
}

/// A cluster with a pod that concerns no launch.
fn elsewhere() -> ClusterSnapshot {
    ClusterSnapshot { pods: vec![bound_to("m9", pod("z", 100))], nodes: vec![node("m9")], ..ClusterSnapshot::default() }
}

fn acked(controller: &mut SynchronousController, instruction: InstructionId) -> Vec<Effect> {
    controller.handle(Event::InstructionAcked(instruction), Timestamp::from_millis(101_000))
}

fn closed(effects: &[Effect]) -> Vec<&ClaimName> {
    let closed = effects.iter().filter_map(|effect| match effect {
        Effect::Call(ClusterCall::CloseLaunch(claim)) => Some(claim),
        _ => None,
    });
    closed.collect()
}

fn findings(effects: &[Effect]) -> Vec<&Finding> {
    let findings = effects.iter().filter_map(|effect| match effect {
        Effect::ReportFinding(finding) => Some(finding),
        _ => None,
    });
    findings.collect()
}

/// Plans that the controller makes for the pods of the snapshot, up to 111 s.
fn planned_again(controller: &mut SynchronousController) -> usize {
    let effects = controller.handle(Event::Tick, Timestamp::from_millis(111_000));
    effects.iter().filter(|effect| matches!(effect, Effect::Call(ClusterCall::RecordDecision(_)))).count()
}

#[test]
fn a_claim_without_an_instance_is_launched_again_with_identical_bytes() {
    let decided = decided();
    let claims = vec![created(&decided)];
    let (mut controller, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims, ..waiting_for_a() });
    let again: Vec<&LaunchOrder> = orders(&effects);
    assert_eq!(again, [&decided.machine.launch]);
    assert_eq!(planned_again(&mut controller), 0, "the pod is assigned already");
}

#[test]
fn a_repeated_launch_uses_its_recorded_settings_and_a_new_attempt_the_current_ones() {
    let mut decided = decided();
    decided.machine.launch.terms = text("subnet-a");
    let claims = vec![created(&decided)];
    let (mut controller, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims, ..waiting_for_a() });
    assert_eq!(orders(&effects)[0].terms.as_ref(), "subnet-a");
    let failure = model::LaunchFailure::Refused { code: text("c"), message: String::new(), retryable: true };
    let claim = decided.machine.claim.name;
    let failed = Event::LaunchFailed { claim, attempt: 1, failure };
    let effects = controller.handle(failed, Timestamp::from_millis(101_000));
    let again = effects.iter().find_map(|effect| match effect {
        Effect::Call(ClusterCall::Relaunch(decided)) => Some(&decided.machine.launch),
        _ => None,
    });
    assert_eq!(again.map(|order| (order.attempt, order.terms.as_ref())), Some((2, "")));
}

#[test]
fn a_launch_whose_claim_has_an_instance_is_recorded_as_launched() {
    let decided = decided();
    let shown = ClaimRecord { provider_id: text("aws:///z/i-9"), ..created(&decided) };
    let (_, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims: vec![shown], ..waiting_for_a() });
    let settled = effects.iter().filter_map(|effect| match effect {
        Effect::Call(ClusterCall::RecordLaunched { claim, attempt, provider_id }) => {
            Some((claim, *attempt, provider_id.as_ref()))
        }
        _ => None,
    });
    assert_eq!(settled.collect::<Vec<_>>(), [(&decided.machine.claim.name, 1, "aws:///z/i-9")]);
    assert!(orders(&effects).is_empty() && instructions(&effects).is_empty());
}

#[test]
fn a_launch_for_another_cluster_of_that_name_is_not_repeated() {
    let ordered_for = |uid: &str| {
        let mut decided = decided();
        decided.machine.launch.cluster_uid = text(uid);
        let claims = vec![created(&decided)];
        let (_, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims, ..waiting_for_a() });
        let removed = instructions(&effects);
        let removed = removed.iter().filter(|(_, sent)| matches!(sent, Instruction::DeleteClaim { .. })).count();
        (orders(&effects).len(), removed)
    };
    assert_eq!(ordered_for("uid-of-the-cluster-that-was"), (0, 1));
    // UID of the cluster that was taken over.
    assert_eq!(ordered_for("uid-1"), (1, 0));
}

#[test]
fn a_claim_that_was_never_created_is_created_under_its_old_name_and_then_launched() {
    let decided = decided();
    let (mut controller, effects) = successor(vec![open(&decided)], waiting_for_a());
    let sent = instructions(&effects);
    assert!(
        matches!(sent.as_slice(), [(_, Instruction::CreateClaim(order))] if *order == decided.machine.claim),
        "{sent:?}"
    );
    assert!(orders(&effects).is_empty());
    let effects = acked(&mut controller, sent[0].0);
    assert_eq!(orders(&effects), [&decided.machine.launch]);
    assert_eq!(planned_again(&mut controller), 0);
}

#[test]
fn a_claim_that_no_pod_needs_is_deleted_and_closed() {
    let decided = decided();
    let (mut controller, effects) = successor(vec![open(&decided)], elsewhere());
    let sent = instructions(&effects);
    let name = &decided.machine.claim.name;
    assert!(matches!(sent.as_slice(), [(_, Instruction::DeleteClaim { claim, .. })] if claim == name), "{sent:?}");
    assert!(orders(&effects).is_empty());
    let effects = acked(&mut controller, sent[0].0);
    assert_eq!(closed(&effects), [name]);
}

#[test]
fn a_launch_with_unknown_outcome_is_repeated_although_no_pod_waits() {
    let decided = decided();
    let claims = vec![created(&decided)];
    let (_, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims, ..ClusterSnapshot::default() });
    assert_eq!(orders(&effects), [&decided.machine.launch], "only the cloud knows whether an instance exists");
    assert!(instructions(&effects).is_empty(), "its NodeClaim is kept until that is known");
}

#[test]
fn a_token_that_may_have_expired_is_not_reused() {
    let decided = DecidedLaunch { at: Timestamp::from_millis(100_100) - TOKEN_LIFETIME, ..decided() };
    let claims = vec![created(&decided)];
    let (_, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims, ..waiting_for_a() });
    assert!(orders(&effects).is_empty());
    assert!(matches!(instructions(&effects).as_slice(), [(_, Instruction::DeleteClaim { .. })]));
}

#[test]
fn an_instance_missing_in_its_claim_is_described_and_written_into_the_claim() {
    let decided = decided();
    let claims = vec![created(&decided)];
    let left = vec![launched(&decided, "aws:///z/i-9")];
    let (mut controller, effects) = successor(left, ClusterSnapshot { claims, ..waiting_for_a() });
    let looked = effects.iter().any(|effect| {
        matches!(effect, Effect::Call(ClusterCall::Describe { provider_id, attempt: 1, .. }) if provider_id.as_ref() == "aws:///z/i-9")
    });
    assert!(looked, "{effects:?}");
    let effects = controller.handle(runs(decided.machine.claim.name), Timestamp::from_millis(101_000));
    let sent = instructions(&effects);
    assert!(matches!(sent.as_slice(), [(_, Instruction::MarkLaunched { .. })]), "{sent:?}");
}

/// The cloud has the instance `i-9` for this NodeClaim.
fn runs(claim: ClaimName) -> Event {
    Event::Launched(Box::new(Launched {
        claim,
        attempt: 1,
        provider_id: text("aws:///z/i-9"),
        instance_type: text("t.2"),
        zone: text("z"),
        capacity_type: CapacityType::Spot,
        unavailable: Vec::new(),
        image: Text::default(),
    }))
}

#[test]
fn a_claim_that_was_launched_while_its_pool_was_not_observed_gets_its_capacity_when_it_is() {
    let decided = decided();
    let claims = vec![created(&decided)];
    let mut controller = SynchronousController::new(Settings { identity: 2, ..Settings::default() }, one_machine);
    acquire_lease(&mut controller, vec![open(&decided)], ClusterSnapshot { claims, ..waiting_for_a() });
    let effects = controller.handle(runs(decided.machine.claim.name.clone()), Timestamp::from_millis(101_000));
    let sent = instructions(&effects);
    let [(id, Instruction::MarkLaunched { facts, .. })] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(facts.capacity.get("cpu"), 0, "there is no catalogue");
    let ClaimRecord { name, pool: of, ours, .. } = created(&decided);
    let (provider_id, labels) = (facts.provider_id.clone(), facts.labels.clone());
    let written = ClaimRecord { name, pool: of, ours, provider_id, labels, ..ClaimRecord::default() };
    acked(&mut controller, *id);
    let mut shown = |second: i64, object: Object| {
        let seen = Event::Observed(Observation::upsert(object));
        controller.handle(seen, Timestamp::from_millis(second * 1_000))
    };
    assert!(instructions(&shown(102, Object::Claim(written.clone()))).is_empty(), "nothing is known yet");
    let effects = shown(103, Object::Pool(pool()));
    let sent = instructions(&effects);
    let marked = sent.iter().find_map(|(_, one)| match one {
        Instruction::MarkLaunched { facts, .. } => Some(facts),
        _ => None,
    });
    // A t.2 has 2 cores.
    assert_eq!(marked.map(|facts| facts.capacity.get("cpu")), Some(2_000), "{sent:?}");
    let complete = marked.map(|facts| (facts.capacity.clone(), facts.allocatable.clone())).unwrap_or_default();
    let written = ClaimRecord { capacity: complete.0, allocatable: complete.1, ..written };
    let again = shown(120, Object::Claim(written));
    let again = instructions(&again);
    assert!(!again.iter().any(|(_, one)| matches!(one, Instruction::MarkLaunched { .. })), "{again:?}");
}

/// Lists the instances `m0` to `m2` and `i-9` twice, with the collection period (60 s) in between.
fn listed_twice(controller: &mut SynchronousController, claim: &ClaimName) -> Vec<Effect> {
    let instance = |(claim, id): (ClaimName, &str)| super::super::ListedInstance {
        provider_id: ProviderId::from(format!("aws:///z/i-{id}")),
        cluster_uid: text("uid-1"),
        claim,
        terminating: false,
        details: std::sync::Arc::default(),
    };
    let all = [(claim.clone(), "9"), (text("m0"), "m0"), (text("m1"), "m1"), (text("m2"), "m2")];
    let instances: Vec<super::super::ListedInstance> = all.into_iter().map(instance).collect();
    let mut list = |at| {
        let listing = super::super::Listing {
            requested_at: Timestamp::from_millis(at),
            complete: true,
            instances: instances.clone(),
        };
        controller.handle(Event::Listed(Box::new(listing)), Timestamp::from_millis(at))
    };
    [list(110_000), list(170_000)].concat()
}

#[test]
fn an_instance_without_claim_is_described_and_terminated_if_the_cloud_lists_it() {
    let decided = decided();
    let (mut controller, effects) = successor(vec![launched(&decided, "aws:///z/i-9")], elsewhere());
    let terminated = |effects: &[Effect]| {
        let is = |effect: &Effect| matches!(effect, Effect::Call(ClusterCall::Terminate { provider_id, .. }) if provider_id.as_ref() == "aws:///z/i-9");
        effects.iter().any(is)
    };
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Call(ClusterCall::Describe { .. }))), "{effects:?}");
    assert!(!terminated(&effects), "one listing is no proof");
    assert!(terminated(&listed_twice(&mut controller, &decided.machine.claim.name)));
}

#[test]
fn a_launch_without_claim_and_instance_is_closed() {
    let decided = decided();
    let (mut controller, _) = successor(vec![launched(&decided, "aws:///z/i-9")], elsewhere());
    let gone = Event::InstanceGone(text("aws:///z/i-9"));
    let effects = controller.handle(gone, Timestamp::from_millis(100_500));
    let sent = instructions(&effects);
    assert!(matches!(sent.as_slice(), [(_, Instruction::DeleteClaim { .. })]), "{sent:?}");
    assert_eq!(closed(&acked(&mut controller, sent[0].0)), [&decided.machine.claim.name]);
}

#[test]
fn a_claim_without_a_launch_record_is_reported_and_not_changed() {
    let unrecorded = ClaimRecord { provider_id: ProviderId::default(), ..claim("m7") };
    let (_, effects) =
        successor(Vec::new(), ClusterSnapshot { claims: vec![unrecorded], ..ClusterSnapshot::default() });
    assert_eq!(findings(&effects), [&Finding::ClaimWithoutRow { claim: text("m7") }]);
    assert!(instructions(&effects).is_empty() && orders(&effects).is_empty());
}

/// The Node of `m0` with the taint of a removal, and with a drain of the NodeClaim `of` until `deadline` in its annotation.
fn tainted(of: Option<&str>, deadline: Option<Timestamp>) -> NodeRecord {
    let mut tainted = node("m0");
    tainted.taints.push(Taint { key: text(DISRUPTED), value: Text::default(), effect: TaintEffect::NoSchedule });
    tainted.drain = of.map(|claim| RecordedDrain { claim: text(claim), deadline, reason: Text::default() });
    tainted
}

#[test]
fn a_drain_in_progress_continues() {
    let nodes = vec![tainted(Some("m0"), None)];
    let snapshot = ClusterSnapshot { claims: vec![claim("m0")], nodes, ..ClusterSnapshot::default() };
    let (_, effects) = successor(Vec::new(), snapshot);
    let sent = instructions(&effects);
    assert!(matches!(sent.as_slice(), [(_, Instruction::Drain { claim, .. })] if claim.as_ref() == "m0"), "{sent:?}");
}

/// A Karpenter that ended in the middle of a command leaves its taint, and so may anybody.
#[test]
fn a_taint_without_the_drain_of_its_claim_is_taken_off_and_removes_nothing() {
    for of in [None, Some("m9")] {
        let snapshot =
            ClusterSnapshot { claims: vec![claim("m0")], nodes: vec![tainted(of, None)], ..ClusterSnapshot::default() };
        let (controller, effects) = successor(Vec::new(), snapshot);
        let sent = instructions(&effects);
        assert!(
            matches!(sent.as_slice(), [(_, Instruction::RemoveDisruptedTaint { claim, .. })] if claim.as_ref() == "m0"),
            "{of:?}: {sent:?}"
        );
        let view = controller.view(&text("c")).unwrap();
        assert_eq!(view.machines().map(|machine| machine.stage).collect::<Vec<_>>(), [StageKind::Initialized]);
    }
}

/// An interrupted machine has two minutes, and a terminationGracePeriod runs from the beginning of
/// the drain: a restart prolongs neither.
#[test]
fn a_continued_drain_keeps_its_deadline() {
    let deadline = |recorded, grace| {
        let tainted = tainted(Some("m0"), recorded);
        let claim = ClaimRecord { termination_grace_period: grace, ..claim("m0") };
        let snapshot = ClusterSnapshot { claims: vec![claim], nodes: vec![tainted], ..ClusterSnapshot::default() };
        let (_, effects) = successor(Vec::new(), snapshot);
        match instructions(&effects).as_slice() {
            [(_, Instruction::Drain { deadline, .. })] => *deadline,
            sent => panic!("{sent:?}"),
        }
    };
    // It is 100.1 s now.
    assert_eq!(deadline(Some(Timestamp::from_millis(120_000)), None), Some(Timestamp::from_millis(120_000)));
    assert_eq!(
        deadline(Some(Timestamp::from_millis(120_000)), Some(Millis::from_hours(1))),
        Some(Timestamp::from_millis(120_000))
    );
    assert_eq!(
        deadline(None, Some(Millis::from_mins(1))),
        Some(Timestamp::from_millis(160_100)),
        "no deadline was recorded"
    );
    assert_eq!(deadline(None, None), None);
}

#[test]
fn the_state_of_a_released_cluster_is_discarded() {
    let mut controller = controller_with(cluster(ClusterSnapshot::default()));
    let order = order_for_a(&mut controller);
    controller.release(&text("c"));
    assert!(controller.view(&text("c")).is_none());
    // A late answer has no effect.
    let late = Event::LaunchFailed {
        claim: order.claim,
        attempt: 1,
        failure: model::LaunchFailure::InsufficientCapacity { unavailable: Vec::new() },
    };
    assert!(instructions(&controller.handle(late, Timestamp::from_millis(7_000))).is_empty());
}

#[test]
fn a_first_snapshot_without_most_machines_terminates_nothing_until_an_operator_confirms_it() {
    let row = |name: &str| {
        let state = LaunchState::Launched { provider_id: ProviderId::from(format!("aws:///z/i-{name}")) };
        OpenLaunch { claim: text(name), attempt: 1, state, planned: None }
    };
    let rows: Vec<OpenLaunch> = ["m0", "m1", "m2"].into_iter().map(row).collect();
    let ended = |effects: &[Effect]| {
        effects.iter().filter(|effect| matches!(effect, Effect::Call(ClusterCall::Terminate { .. }))).count()
    };
    let nobody = text("m9");
    let (mut controller, effects) = successor(rows, elsewhere());
    assert_eq!(findings(&effects), vec![&Finding::ClaimsMissing { missing: 3, of: 3 }]);
    assert_eq!(ended(&listed_twice(&mut controller, &nobody)), 0);
    // Sabotage: the confirmation switches the guard off, and the incomplete snapshot terminates
    // every instance: the three, and the orphaned one.
    controller.handle(Event::QuarantineReleased, Timestamp::from_millis(102_000));
    assert_eq!(ended(&listed_twice(&mut controller, &nobody)), 4);
}

#[test]
fn an_empty_first_snapshot_is_not_accepted_while_launches_are_recorded() {
    let decided = decided();
    for left in [launched(&decided, "aws:///z/i-9"), open(&decided)] {
        let mut settings = Settings { identity: 2, first_number: 1_000, ..Settings::default() };
        // This test covers what follows after the quarantine accepted the snapshot.
        settings.guardrails.quarantine.block_percent = 0;
        settings.guardrails.quarantine.block_for = Millis::from_mins(1);
        let (mut controller, effects) = successor_with(settings, vec![left.clone()], ClusterSnapshot::default());
        let quarantine =
            |controller: &SynchronousController| controller.view(&text("c")).unwrap().guardrails.quarantine;
        assert!(quarantine(&controller).is_some(), "{left:?}");
        assert!(instructions(&effects).is_empty());
        // A second one, 60 s later, agrees: the snapshot is accepted, and still no proof that the
        // instance is orphaned.
        let observation = Observation::Snapshot(Box::new(cluster(ClusterSnapshot::default())));
        let again = Event::Observed(observation);
        let effects = controller.handle(again, Timestamp::from_millis(160_100));
        assert!(quarantine(&controller).is_none());
        assert_eq!(findings(&effects), vec![&Finding::ClaimsMissing { missing: 1, of: 1 }]);
        assert!(instructions(&effects).is_empty() && orders(&effects).is_empty(), "{effects:?}");
        // As soon as a snapshot has objects, the launches are recovered.
        let shown = Event::Observed(Observation::upsert(Object::Pod(bound_to("m9", pod("z", 100)))));
        let effects = controller.handle(shown, Timestamp::from_millis(170_000));
        assert!(!effects.is_empty(), "{left:?}");
        let acts =
            |effect: &Effect| matches!(effect, Effect::Call(ClusterCall::Describe { .. }) | Effect::Instruct { .. });
        assert!(effects.iter().any(acts), "{effects:?}");
    }
}
