use super::super::testing::Planned;
use super::super::tests::{controller_with, instructions, one_machine, order_for_a, orders, see_and_plan};
use super::super::{Event, InstructionId, LaunchOrder, Launched, Settings};
use super::*;
use crate::cluster::testing::{claim, node, on, pod, pool, text};
use crate::cluster::{ClusterSnapshot, NodeRecord, Observation};
use crate::model::{CapacityType, Effect as TaintEffect, Taint};

fn cluster(snapshot: ClusterSnapshot) -> ClusterSnapshot {
    ClusterSnapshot { pools: vec![pool()], ..snapshot }
}

/// What an earlier process had decided for the pod `a`, at 3 s.
fn decided() -> DecidedLaunch {
    let mut earlier = controller_with(cluster(ClusterSnapshot::default()));
    let decision = see_and_plan(&mut earlier, pod("a", 500));
    DecidedLaunch { machine: decision.machines[0].clone(), decision: decision.id, at: Timestamp(3_000) }
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

/// The NodeClaim of `decided` as the cluster shows it before it is launched.
fn created(decided: &DecidedLaunch) -> ClaimRecord {
    let order = &decided.machine.claim;
    ClaimRecord { name: order.name.clone(), pool: order.pool.clone(), ours: true, ..ClaimRecord::default() }
}

/// A process that takes the cluster over at 100 s with `launches` left, and then sees `snapshot`.
fn successor(launches: Vec<OpenLaunch>, snapshot: ClusterSnapshot) -> (Planned, Vec<Effect>) {
    successor_with(Settings { identity: 2, first_number: 1_000, ..Settings::default() }, launches, snapshot)
}

fn successor_with(settings: Settings, launches: Vec<OpenLaunch>, snapshot: ClusterSnapshot) -> (Planned, Vec<Effect>) {
    let mut controller = Planned::new(settings, one_machine);
    let adopted = Event::Adopted { cluster: text("c"), uid: text("uid-1"), launches };
    let mut effects = controller.handle(adopted, Timestamp(100_000));
    effects.extend(controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(100_000)));
    let observation = Observation::Snapshot(Box::new(cluster(snapshot)));
    effects.extend(controller.handle(Event::Observed { cluster: text("c"), observation }, Timestamp(100_100)));
    (controller, effects)
}

fn waiting_for_a() -> ClusterSnapshot {
    ClusterSnapshot { pods: vec![pod("a", 500)], ..ClusterSnapshot::default() }
}

/// A cluster in which something runs that is nobody's here.
fn elsewhere() -> ClusterSnapshot {
    ClusterSnapshot { pods: vec![on("m9", pod("z", 100))], nodes: vec![node("m9")], ..ClusterSnapshot::default() }
}

fn acked(controller: &mut Planned, instruction: InstructionId) -> Vec<Effect> {
    controller.handle(Event::InstructionAcked { cluster: text("c"), instruction }, Timestamp(101_000))
}

fn closed(effects: &[Effect]) -> Vec<&Text> {
    let closed = effects.iter().filter_map(|effect| match effect {
        Effect::Close { claim, .. } => Some(claim),
        _ => None,
    });
    closed.collect()
}

fn findings(effects: &[Effect]) -> Vec<&Finding> {
    let findings = effects.iter().filter_map(|effect| match effect {
        Effect::Report { finding, .. } => Some(finding),
        _ => None,
    });
    findings.collect()
}

/// Plans that the controller makes for the pods of the snapshot, up to 111 s.
fn planned_again(controller: &mut Planned) -> usize {
    let effects = controller.handle(Event::Tick, Timestamp(111_000));
    effects.iter().filter(|effect| matches!(effect, Effect::Record(_))).count()
}

#[test]
fn a_claim_without_a_machine_is_launched_again_with_the_same_bytes() {
    let decided = decided();
    let claims = vec![created(&decided)];
    let (mut controller, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims, ..waiting_for_a() });
    let again: Vec<&LaunchOrder> = orders(&effects);
    assert_eq!(again, [&decided.machine.launch]);
    assert_eq!(planned_again(&mut controller), 0, "the pod has its room already");
}

#[test]
fn a_launch_is_sent_again_on_the_terms_of_its_row_and_the_next_attempt_on_those_of_its_own_day() {
    let mut decided = decided();
    decided.machine.launch.terms = text("subnet-a");
    let claims = vec![created(&decided)];
    let (mut controller, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims, ..waiting_for_a() });
    assert_eq!(orders(&effects)[0].terms.as_ref(), "subnet-a");
    let failure = super::super::LaunchFailure::Refused { code: text("c"), message: String::new(), retryable: true };
    let claim = decided.machine.claim.name;
    let failed = Event::LaunchFailed { cluster: text("c"), claim, attempt: 1, failure };
    let effects = controller.handle(failed, Timestamp(101_000));
    let again = effects.iter().find_map(|effect| match effect {
        Effect::Relaunch(decided) => Some(&decided.machine.launch),
        _ => None,
    });
    assert_eq!(again.map(|order| (order.attempt, order.terms.as_ref())), Some((2, "")));
}

#[test]
fn a_launch_whose_claim_shows_a_machine_is_written_down_as_bought() {
    let decided = decided();
    let shown = ClaimRecord { provider_id: text("aws:///z/i-9"), ..created(&decided) };
    let (_, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims: vec![shown], ..waiting_for_a() });
    let settled = effects.iter().filter_map(|effect| match effect {
        Effect::Settle { claim, attempt, provider_id, .. } => Some((claim, *attempt, provider_id.as_ref())),
        _ => None,
    });
    assert_eq!(settled.collect::<Vec<_>>(), [(&decided.machine.claim.name, 1, "aws:///z/i-9")]);
    assert!(orders(&effects).is_empty() && instructions(&effects).is_empty());
}

#[test]
fn a_launch_that_was_ordered_for_another_cluster_of_that_name_is_not_ordered_again() {
    let ordered_for = |uid: &str| {
        let mut decided = decided();
        decided.machine.launch.cluster_uid = text(uid);
        let claims = vec![created(&decided)];
        let (_, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims, ..waiting_for_a() });
        let removed = instructions(&effects);
        let removed = removed.iter().filter(|(_, told)| matches!(told, Instruction::DeleteClaim { .. })).count();
        (orders(&effects).len(), removed)
    };
    assert_eq!(ordered_for("uid-of-the-cluster-that-was"), (0, 1));
    // The cluster that was taken over has this UID.
    assert_eq!(ordered_for("uid-1"), (1, 0));
}

#[test]
fn a_claim_that_was_never_created_is_created_under_its_old_name_and_then_launched() {
    let decided = decided();
    let (mut controller, effects) = successor(vec![open(&decided)], waiting_for_a());
    let told = instructions(&effects);
    assert!(
        matches!(told.as_slice(), [(_, Instruction::CreateClaim(order))] if *order == decided.machine.claim),
        "{told:?}"
    );
    assert!(orders(&effects).is_empty());
    let effects = acked(&mut controller, told[0].0);
    assert_eq!(orders(&effects), [&decided.machine.launch]);
    assert_eq!(planned_again(&mut controller), 0);
}

#[test]
fn what_nobody_waits_for_is_removed_and_closed() {
    let decided = decided();
    let (mut controller, effects) = successor(vec![open(&decided)], elsewhere());
    let told = instructions(&effects);
    let name = &decided.machine.claim.name;
    assert!(matches!(told.as_slice(), [(_, Instruction::DeleteClaim { claim, .. })] if claim == name), "{told:?}");
    assert!(orders(&effects).is_empty());
    let effects = acked(&mut controller, told[0].0);
    assert_eq!(closed(&effects), [name]);
}

#[test]
fn a_launch_that_may_have_gone_out_is_asked_for_again_although_nobody_waits() {
    let decided = decided();
    let claims = vec![created(&decided)];
    let (_, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims, ..ClusterSnapshot::default() });
    assert_eq!(orders(&effects), [&decided.machine.launch], "only the cloud knows whether there is a machine");
    assert!(instructions(&effects).is_empty(), "its NodeClaim stays until that is known");
}

#[test]
fn a_token_that_the_cloud_may_have_forgotten_is_not_sent_again() {
    let decided = DecidedLaunch { at: Timestamp(100_100 - TOKEN_LIFE_MS), ..decided() };
    let claims = vec![created(&decided)];
    let (_, effects) = successor(vec![open(&decided)], ClusterSnapshot { claims, ..waiting_for_a() });
    assert!(orders(&effects).is_empty());
    assert!(matches!(instructions(&effects).as_slice(), [(_, Instruction::DeleteClaim { .. })]));
}

#[test]
fn a_machine_that_the_cluster_does_not_know_is_looked_at_and_written_into_its_claim() {
    let decided = decided();
    let claims = vec![created(&decided)];
    let left = vec![launched(&decided, "aws:///z/i-9")];
    let (mut controller, effects) = successor(left, ClusterSnapshot { claims, ..waiting_for_a() });
    let looked = effects.iter().any(|effect| {
        matches!(effect, Effect::Describe { provider_id, attempt: 1, .. } if provider_id.as_ref() == "aws:///z/i-9")
    });
    assert!(looked, "{effects:?}");
    let there = Launched {
        cluster: text("c"),
        claim: decided.machine.claim.name,
        attempt: 1,
        provider_id: text("aws:///z/i-9"),
        instance_type: text("t.2"),
        zone: text("z"),
        capacity_type: CapacityType::Spot,
        sold_out: Vec::new(),
    };
    let effects = controller.handle(Event::Launched(Box::new(there)), Timestamp(101_000));
    let told = instructions(&effects);
    assert!(matches!(told.as_slice(), [(_, Instruction::MarkLaunched { .. })]), "{told:?}");
}

/// What the cloud says of the machines `m0` to `m2` and of `i-9` two times, with the collection period (60 s) in between.
fn listed_twice(controller: &mut Planned, claim: &Text) -> Vec<Effect> {
    let instance = |(claim, id): (Text, &str)| super::super::ListedInstance {
        provider_id: Text::from(format!("aws:///z/i-{id}")),
        cluster_uid: text("uid-1"),
        claim,
        ends: false,
    };
    let all = [(claim.clone(), "9"), (text("m0"), "m0"), (text("m1"), "m1"), (text("m2"), "m2")];
    let instances: Vec<super::super::ListedInstance> = all.into_iter().map(instance).collect();
    let mut list = |at| {
        let listing = super::super::Listing { asked: Timestamp(at), complete: true, instances: instances.clone() };
        controller.handle(Event::Listed { cluster: text("c"), listing: Box::new(listing) }, Timestamp(at))
    };
    [list(110_000), list(170_000)].concat()
}

#[test]
fn a_machine_whose_claim_is_gone_is_looked_at_and_given_back_when_the_cloud_still_lists_it() {
    let decided = decided();
    let (mut controller, effects) = successor(vec![launched(&decided, "aws:///z/i-9")], elsewhere());
    let given_back = |effects: &[Effect]| {
        let is = |effect: &Effect| matches!(effect, Effect::Terminate { provider_id, .. } if provider_id.as_ref() == "aws:///z/i-9");
        effects.iter().any(is)
    };
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Describe { .. })), "{effects:?}");
    assert!(!given_back(&effects), "one picture is no proof");
    assert!(given_back(&listed_twice(&mut controller, &decided.machine.claim.name)));
}

#[test]
fn a_machine_whose_claim_is_gone_and_that_is_gone_itself_is_closed() {
    let decided = decided();
    let (mut controller, _) = successor(vec![launched(&decided, "aws:///z/i-9")], elsewhere());
    let gone = Event::InstanceGone { cluster: text("c"), provider_id: text("aws:///z/i-9") };
    let effects = controller.handle(gone, Timestamp(100_500));
    let told = instructions(&effects);
    assert!(matches!(told.as_slice(), [(_, Instruction::DeleteClaim { .. })]), "{told:?}");
    assert_eq!(closed(&acked(&mut controller, told[0].0)), [&decided.machine.claim.name]);
}

#[test]
fn a_claim_without_a_row_is_reported_and_left_alone() {
    let stranger = ClaimRecord { provider_id: Text::default(), ..claim("m7") };
    let (_, effects) = successor(Vec::new(), ClusterSnapshot { claims: vec![stranger], ..ClusterSnapshot::default() });
    assert_eq!(findings(&effects), [&Finding::ClaimWithoutRow { claim: text("m7") }]);
    assert!(instructions(&effects).is_empty() && orders(&effects).is_empty());
}

#[test]
fn a_drain_that_had_begun_goes_on() {
    let mut tainted = node("m0");
    tainted.taints.push(Taint { key: text(DISRUPTED), value: Text::default(), effect: TaintEffect::NoSchedule });
    let snapshot = ClusterSnapshot { claims: vec![claim("m0")], nodes: vec![tainted], ..ClusterSnapshot::default() };
    let (_, effects) = successor(Vec::new(), snapshot);
    let told = instructions(&effects);
    assert!(matches!(told.as_slice(), [(_, Instruction::Drain { claim, .. })] if claim.as_ref() == "m0"), "{told:?}");
}

/// An interrupted machine has two minutes, and a terminationGracePeriod runs from the beginning of the drain: a restart prolongs
/// neither.
#[test]
fn a_drain_that_goes_on_keeps_its_deadline() {
    let deadline = |drain_by, grace| {
        let mut tainted = NodeRecord { drain_by, ..node("m0") };
        tainted.taints.push(Taint { key: text(DISRUPTED), value: Text::default(), effect: TaintEffect::NoSchedule });
        let claim = ClaimRecord { termination_grace_period_ms: grace, ..claim("m0") };
        let snapshot = ClusterSnapshot { claims: vec![claim], nodes: vec![tainted], ..ClusterSnapshot::default() };
        let (_, effects) = successor(Vec::new(), snapshot);
        match instructions(&effects).as_slice() {
            [(_, Instruction::Drain { deadline, .. })] => *deadline,
            told => panic!("{told:?}"),
        }
    };
    // It is 100.1 s now.
    assert_eq!(deadline(Some(Timestamp(120_000)), None), Some(Timestamp(120_000)));
    assert_eq!(deadline(Some(Timestamp(120_000)), Some(3_600_000)), Some(Timestamp(120_000)));
    assert_eq!(deadline(None, Some(60_000)), Some(Timestamp(160_100)), "nobody has begun to count");
    assert_eq!(deadline(None, None), None);
}

#[test]
fn a_cluster_that_is_given_away_is_forgotten() {
    let mut controller = controller_with(cluster(ClusterSnapshot::default()));
    let order = order_for_a(&mut controller);
    let effects = controller.handle(Event::Released { cluster: text("c") }, Timestamp(6_000));
    assert!(matches!(effects.as_slice(), [Effect::PublishView { .. }]));
    assert!(controller.view("c").is_none());
    // An answer that comes late finds nobody.
    let late = Event::LaunchFailed {
        cluster: text("c"),
        claim: order.claim,
        attempt: 1,
        failure: super::super::LaunchFailure::NoCapacity { sold_out: Vec::new() },
    };
    assert!(instructions(&controller.handle(late, Timestamp(7_000))).is_empty());
}

#[test]
fn a_first_snapshot_without_most_of_the_machines_gives_nothing_back_until_somebody_vouches_for_it() {
    let row = |name: &str| {
        let state = LaunchState::Launched { provider_id: Text::from(format!("aws:///z/i-{name}")) };
        OpenLaunch { claim: text(name), attempt: 1, state, planned: None }
    };
    let rows: Vec<OpenLaunch> = ["m0", "m1", "m2"].into_iter().map(row).collect();
    let ended = |effects: &[Effect]| effects.iter().filter(|effect| matches!(effect, Effect::Terminate { .. })).count();
    let nobody = text("m9");
    let (mut controller, effects) = successor(rows.clone(), elsewhere());
    assert_eq!(findings(&effects), vec![&Finding::ClaimsMissing { missing: 3, of: 3 }]);
    assert_eq!(ended(&listed_twice(&mut controller, &nobody)), 0);
    controller.handle(Event::QuarantineReleased { cluster: text("c") }, Timestamp(102_000));
    // The three, and the machine that nobody knows.
    assert_eq!(ended(&listed_twice(&mut controller, &nobody)), 4);
    // Sabotage: without the guard a poor picture costs every machine.
    let mut settings = Settings::default();
    settings.collect.believe_absence = true;
    let (mut controller, _) = successor_with(settings, rows, elsewhere());
    assert_eq!(ended(&listed_twice(&mut controller, &nobody)), 4);
}

#[test]
fn a_first_snapshot_that_shows_nothing_is_not_believed_by_who_knows_of_machines() {
    let decided = decided();
    for left in [launched(&decided, "aws:///z/i-9"), open(&decided)] {
        let mut settings = Settings { identity: 2, first_number: 1_000, ..Settings::default() };
        // What is looked at here is what follows when the quarantine has let the picture pass.
        settings.rails.quarantine.hold_percent = 100;
        settings.rails.quarantine.second_witness = false;
        let (mut controller, effects) = successor_with(settings, vec![left.clone()], ClusterSnapshot::default());
        let quarantine = |controller: &Planned| controller.view("c").unwrap().rails.quarantine;
        assert!(quarantine(&controller).is_some(), "{left:?}");
        assert!(instructions(&effects).is_empty());
        // A second one, 60 s later, agrees: the picture is believed, and still no proof that the machine is nobody's.
        let observation = Observation::Snapshot(Box::new(cluster(ClusterSnapshot::default())));
        let again = Event::Observed { cluster: text("c"), observation };
        let effects = controller.handle(again, Timestamp(160_100));
        assert!(quarantine(&controller).is_none());
        assert_eq!(findings(&effects), vec![&Finding::ClaimsMissing { missing: 1, of: 1 }]);
        assert!(instructions(&effects).is_empty() && orders(&effects).is_empty(), "{effects:?}");
        // As soon as it shows something, what was left is taken up.
        let shown = Event::Observed {
            cluster: text("c"),
            observation: Observation::upsert(crate::cluster::Object::Pod(on("m9", pod("z", 100)))),
        };
        let effects = controller.handle(shown, Timestamp(170_000));
        assert!(!effects.is_empty(), "{left:?}");
        let acts = |effect: &Effect| matches!(effect, Effect::Describe { .. } | Effect::Instruct { .. });
        assert!(effects.iter().any(acts), "{effects:?}");
    }
}
