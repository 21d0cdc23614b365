use super::super::testing::Planned;
use super::super::tests::{instructions, one_machine};
use super::super::{
    Effect, Event, GarbageCollectionSettings, Instruction, LaunchState, ListedInstance, OpenLaunch, Settings,
};
use super::*;
use crate::cluster::ClusterSnapshot;
use crate::cluster::testing::{claim, node, on, pod, pool, text};

const NAMES: [&str; 4] = ["m0", "m1", "m2", "m3"];

/// Machines of these names in service, with a pod on each.
fn snapshot(names: &[&str]) -> ClusterSnapshot {
    ClusterSnapshot {
        pools: vec![pool()],
        claims: names.iter().map(|name| claim(name)).collect(),
        nodes: names.iter().map(|name| node(name)).collect(),
        pods: names.iter().map(|name| on(name, pod(&format!("on-{name}"), 500))).collect(),
        ..ClusterSnapshot::default()
    }
}

/// A cluster with these machines, taken over at 0 s. Drains wait for nothing; garbage is collected after 60 s.
fn controller(believe_absence: bool, names: &[&str]) -> Planned {
    taken_over(
        GarbageCollectionSettings { believe_absence, ..GarbageCollectionSettings::default() },
        0,
        snapshot(names),
    )
}

fn taken_over(collect: GarbageCollectionSettings, replacement_wait_ms: i64, snapshot: ClusterSnapshot) -> Planned {
    let mut settings = Settings { collect, ..Settings::default() };
    settings.rails.replacement_wait_ms = replacement_wait_ms;
    taken_over_by(settings, snapshot)
}

fn taken_over_by(mut settings: Settings, snapshot: ClusterSnapshot) -> Planned {
    // What is looked at here is what follows when the quarantine has let a picture pass.
    settings.rails.quarantine.hold_percent = 100;
    settings.rails.quarantine.second_witness = false;
    let mut controller = Planned::new(settings, one_machine);
    let adopted = Event::Adopted { cluster: text("c"), uid: text("uid-1"), launches: Vec::new() };
    controller.handle(adopted, Timestamp(0));
    controller.handle(Event::AgentConnected { cluster: text("c") }, Timestamp(0));
    see(&mut controller, 0, Observation::Snapshot(Box::new(snapshot)));
    controller
}

/// All four machines are in use, and there are NodeClaims for these alone: nobody has the others.
fn with_strays(collect: GarbageCollectionSettings, claimed: &[&str]) -> Planned {
    let claims = claimed.iter().map(|name| claim(name)).collect();
    taken_over(collect, 0, ClusterSnapshot { claims, ..snapshot(&NAMES) })
}

fn see(controller: &mut Planned, second: i64, observation: Observation) -> Vec<Effect> {
    controller.handle(Event::Observed { cluster: text("c"), observation }, Timestamp(second * 1_000))
}

/// Somebody takes the finalizers of a NodeClaim off and deletes it.
fn remove(controller: &mut Planned, second: i64, name: &str) -> Vec<Effect> {
    see(controller, second, Observation::Delete(Key::Claim(text(name))))
}

/// The cloud lists all machines.
fn list(controller: &mut Planned, second: i64) -> Vec<Effect> {
    list_these(controller, second, NAMES.iter().map(|name| instance(name, name)).collect())
}

fn list_these(controller: &mut Planned, second: i64, instances: Vec<ListedInstance>) -> Vec<Effect> {
    let asked = Timestamp(second * 1_000);
    let listing = Box::new(Listing { asked, complete: true, instances });
    controller.handle(Event::Listed { cluster: text("c"), listing }, asked)
}

/// The machine `name`, bought for the NodeClaim `claim`.
fn instance(name: &str, claim: &str) -> ListedInstance {
    let provider_id = Text::from(format!("aws:///z/i-{name}"));
    ListedInstance { provider_id, cluster_uid: text("uid-1"), claim: text(claim), ends: false }
}

/// NodeClaims whose Nodes are to be drained.
fn drained(effects: &[Effect]) -> Vec<String> {
    let told = instructions(effects).into_iter().filter_map(|(_, instruction)| match instruction {
        Instruction::Drain { claim, node, .. } => Some(format!("{claim} on {node}")),
        _ => None,
    });
    told.collect()
}

fn given_back(effects: &[Effect]) -> Vec<&str> {
    let ended = effects.iter().filter_map(|effect| match effect {
        Effect::Terminate { provider_id, .. } => Some(provider_id.as_ref()),
        _ => None,
    });
    ended.collect()
}

/// Pods that decisions are about.
fn planned(effects: &[Effect]) -> Vec<&str> {
    let decided = effects.iter().filter_map(|effect| match effect {
        Effect::Record(decision) => Some(&decision.machines),
        _ => None,
    });
    decided.flatten().flat_map(|machine| &machine.pods).map(Text::as_ref).collect()
}

fn doubts(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Report { .. })).count()
}

#[test]
fn a_machine_whose_claim_was_removed_by_force_is_drained_and_given_back() {
    let mut controller = controller(false, &NAMES);
    assert!(drained(&remove(&mut controller, 5, "m1")).is_empty());
    assert!(drained(&list(&mut controller, 10)).is_empty());
    assert!(drained(&list(&mut controller, 69)).is_empty());
    // 60 s after the first listing that shows a machine without a NodeClaim.
    let effects = list(&mut controller, 70);
    assert_eq!(drained(&effects), ["m1 on n-m1"]);
    assert!(given_back(&effects).is_empty(), "pods run on it");
    let drain = instructions(&effects).into_iter().find(|(_, told)| matches!(told, Instruction::Drain { .. }));
    let over = Event::InstructionAcked { cluster: text("c"), instruction: drain.unwrap().0 };
    let effects = controller.handle(over, Timestamp(80_000));
    assert_eq!(given_back(&effects), ["aws:///z/i-m1"]);
    let gone = Event::InstanceGone { cluster: text("c"), provider_id: text("aws:///z/i-m1") };
    let effects = controller.handle(gone, Timestamp(90_000));
    let last = instructions(&effects).into_iter().find(|(_, told)| matches!(told, Instruction::DeleteClaim { .. }));
    let done = Event::InstructionAcked { cluster: text("c"), instruction: last.unwrap().0 };
    let effects = controller.handle(done, Timestamp(91_000));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Close { claim, .. } if claim.as_ref() == "m1")));
    assert!(controller.state("c").unwrap().claim(&text("m1")).is_none());
}

#[test]
fn the_pods_of_such_a_machine_are_planned_anew_before_they_are_evicted() {
    let mut controller = controller(false, &NAMES);
    remove(&mut controller, 5, "m1");
    list(&mut controller, 10);
    assert!(planned(&controller.handle(Event::Tick, Timestamp(60_000))).is_empty());
    assert_eq!(drained(&list(&mut controller, 70)), ["m1 on n-m1"]);
    // The batch window that the drain opens closes a second later.
    assert_eq!(planned(&controller.handle(Event::Tick, Timestamp(71_000))), ["default/on-m1"]);
}

#[test]
fn a_machine_that_nobody_has_is_drained_when_it_has_a_node() {
    let collected = |controller: &mut Planned| {
        assert!(drained(&list(controller, 10)).is_empty());
        [list(controller, 69), list(controller, 70)].concat()
    };
    let mut guarded = with_strays(GarbageCollectionSettings::default(), &["m0", "m2", "m3"]);
    let effects = collected(&mut guarded);
    assert_eq!((drained(&effects), given_back(&effects)), (vec!["m1 on n-m1".to_owned()], Vec::new()));
    assert_eq!(planned(&guarded.handle(Event::Tick, Timestamp(71_000))), ["default/on-m1"]);
    let drain = instructions(&effects)[0].0;
    let over = Event::InstructionAcked { cluster: text("c"), instruction: drain };
    assert_eq!(given_back(&guarded.handle(over, Timestamp(80_000))), ["aws:///z/i-m1"]);
    // Sabotage: without the drain it is ended under its pods.
    let sabotaged = GarbageCollectionSettings { drain_orphans: false, ..GarbageCollectionSettings::default() };
    let effects = collected(&mut with_strays(sabotaged, &["m0", "m2", "m3"]));
    assert_eq!((drained(&effects), given_back(&effects)), (Vec::new(), vec!["aws:///z/i-m1"]));
}

/// m1 has no NodeClaim, and no Node is shown; a pod is bound to one that is not shown.
fn unshown(keep_vanished: bool) -> (Planned, Vec<Effect>) {
    let mut settings = Settings::default();
    settings.rails.replacement_wait_ms = 0;
    settings.rails.removal.keep_vanished = keep_vanished;
    let others = ["m0", "m2", "m3"];
    let pods = NAMES.iter().map(|name| on(name, pod(&format!("on-{name}"), 500))).collect();
    let mut controller = taken_over_by(settings, ClusterSnapshot { pods, ..snapshot(&others) });
    let effects = [10, 69, 70, 100].map(|second| list(&mut controller, second)).concat();
    (controller, effects)
}

#[test]
fn a_machine_that_nobody_has_and_whose_node_is_not_shown_waits_while_a_pod_may_run_on_it() {
    let (mut controller, effects) = unshown(true);
    assert_eq!((drained(&effects), given_back(&effects)), (Vec::new(), Vec::new()));
    let shown = see(&mut controller, 110, Observation::upsert(crate::cluster::Object::Node(node("m1"))));
    let effects = [shown, controller.handle(Event::Tick, Timestamp(140_000))].concat();
    assert_eq!((drained(&effects), given_back(&effects)), (vec!["m1 on n-m1".to_owned()], Vec::new()));
    // The pod is gone.
    let (mut controller, _) = unshown(true);
    let gone = see(&mut controller, 110, Observation::Delete(Key::Pod(pod("on-m1", 500).key)));
    let effects = [gone, controller.handle(Event::Tick, Timestamp(140_000))].concat();
    assert_eq!((drained(&effects), given_back(&effects)), (Vec::new(), vec!["aws:///z/i-m1"]));
}

#[test]
fn sabotage_without_the_guard_such_a_machine_is_given_back_under_its_pod() {
    assert_eq!(given_back(&unshown(false).1), ["aws:///z/i-m1"]);
}

#[test]
fn a_machine_that_nobody_has_waits_while_no_node_is_shown_at_all() {
    let bare = ClusterSnapshot { nodes: Vec::new(), pods: Vec::new(), ..snapshot(&["m0"]) };
    let mut controller = taken_over(GarbageCollectionSettings::default(), 0, bare);
    let both = || vec![instance("m0", "m0"), instance("m1", "m1")];
    let listed = [10, 69, 70, 100].map(|second| list_these(&mut controller, second, both())).concat();
    assert_eq!(given_back(&listed), Vec::<&str>::new());
    // The agent runs on a Node, so only a picture with Nodes can be the cluster.
    let shown = see(&mut controller, 110, Observation::upsert(crate::cluster::Object::Node(node("m0"))));
    let effects = [shown, controller.handle(Event::Tick, Timestamp(140_000))].concat();
    assert_eq!(given_back(&effects), ["aws:///z/i-m1"]);
}

#[test]
fn the_second_machine_of_a_claim_is_drained_under_its_own_name() {
    let mut controller = controller(false, &["m0", "m1"]);
    let both = || vec![instance("m0", "m0"), instance("m1", "m1"), instance("m2", "m0")];
    list_these(&mut controller, 10, both());
    see(&mut controller, 20, Observation::upsert(crate::cluster::Object::Node(node("m2"))));
    assert_eq!(drained(&list_these(&mut controller, 70, both())), ["i-m2 on n-m2"]);
}

#[test]
fn most_machines_without_a_claim_and_without_a_row_are_an_agents_fault_as_well() {
    let mut guarded = with_strays(GarbageCollectionSettings::default(), &["m0"]);
    let effects = [list(&mut guarded, 10), list(&mut guarded, 70), list(&mut guarded, 100)].concat();
    assert_eq!((drained(&effects).len(), given_back(&effects).len(), doubts(&effects)), (0, 0, 1));
    guarded.handle(Event::QuarantineReleased { cluster: text("c") }, Timestamp(110_000));
    assert_eq!(drained(&list(&mut guarded, 120)).len(), 3);
    // Sabotage: without the guard the machines go at once.
    let sabotaged = GarbageCollectionSettings { believe_absence: true, ..GarbageCollectionSettings::default() };
    let mut sabotaged = with_strays(sabotaged, &["m0"]);
    assert_eq!(drained(&[list(&mut sabotaged, 10), list(&mut sabotaged, 70)].concat()).len(), 3);
}

#[test]
fn a_claim_that_is_shown_again_was_not_lost() {
    let mut controller = controller(false, &NAMES);
    remove(&mut controller, 5, "m1");
    list(&mut controller, 10);
    see(&mut controller, 20, Observation::upsert(crate::cluster::Object::Claim(claim("m1"))));
    list(&mut controller, 40);
    remove(&mut controller, 50, "m1");
    assert!(drained(&list(&mut controller, 75)).is_empty(), "missing for 0 s by the listings");
    assert_eq!(drained(&list(&mut controller, 135)), ["m1 on n-m1"]);
}

#[test]
fn most_claims_at_once_are_an_agents_fault_until_somebody_vouches_for_it() {
    let lose_three = |controller: &mut Planned| {
        for name in ["m0", "m1", "m2"] {
            remove(controller, 5, name);
        }
        [list(controller, 10), list(controller, 70), list(controller, 100)].concat()
    };
    let mut guarded = controller(false, &NAMES);
    let effects = lose_three(&mut guarded);
    assert_eq!((drained(&effects).len(), doubts(&effects)), (0, 1));
    guarded.handle(Event::QuarantineReleased { cluster: text("c") }, Timestamp(110_000));
    assert_eq!(drained(&list(&mut guarded, 120)).len(), 3);
    // Sabotage: without the guard an agent that loses sight of NodeClaims costs the machines.
    assert_eq!(drained(&lose_three(&mut controller(true, &NAMES))).len(), 3);
}

/// How many of three machines whose NodeClaims are gone go, when a person gives their word at 110 s and the cloud lists them next
/// at this second.
fn go_on_a_word(second: i64) -> usize {
    let mut controller = controller(false, &NAMES);
    controller.handle(Event::QuarantineReleased { cluster: text("c") }, Timestamp(110_000));
    for name in ["m0", "m1", "m2"] {
        remove(&mut controller, 120, name);
    }
    list(&mut controller, second - 60);
    drained(&list(&mut controller, second)).len()
}

#[test]
fn a_word_is_over_after_ten_minutes_although_no_snapshot_comes() {
    assert_eq!(go_on_a_word(709), 3);
    assert_eq!(go_on_a_word(710), 0);
}

#[test]
fn an_agent_that_shows_nothing_costs_no_machine_however_long_it_does() {
    let goes_blind = |controller: &mut Planned| {
        let nothing = || {
            let pools = vec![pool()];
            Observation::Snapshot(Box::new(ClusterSnapshot { pools, ..ClusterSnapshot::default() }))
        };
        see(controller, 5, nothing());
        // A second picture agrees with the first after a minute and is believed.
        see(controller, 66, nothing());
        [list(controller, 70), list(controller, 130), list(controller, 600)].concat()
    };
    // One machine: too few to be "most of them".
    let mut guarded = controller(false, &["m0"]);
    let effects = goes_blind(&mut guarded);
    assert!(guarded.view("c").unwrap().rails.quarantine.is_none());
    assert_eq!((given_back(&effects).len(), doubts(&effects)), (0, 1));
    // Sabotage: without the guard the machine goes with all that runs on it, and so do those that nobody knows.
    assert_eq!(given_back(&goes_blind(&mut controller(true, &["m0"]))).len(), 4);
}

#[test]
fn a_drain_that_waits_for_room_ends_no_machine_because_the_agent_shows_nothing_meanwhile() {
    let goes_blind = |believe_absence: bool| {
        let collect = GarbageCollectionSettings { believe_absence, ..GarbageCollectionSettings::default() };
        // No plan is written down, so the drain waits as long as it may: 15 s.
        let mut controller = taken_over(collect, 15_000, snapshot(&NAMES));
        remove(&mut controller, 5, "m1");
        list(&mut controller, 10);
        assert!(drained(&list(&mut controller, 70)).is_empty());
        let nothing = || {
            let pools = vec![pool()];
            Observation::Snapshot(Box::new(ClusterSnapshot { pools, ..ClusterSnapshot::default() }))
        };
        see(&mut controller, 71, nothing());
        // The second picture agrees after a minute and is believed.
        let effects = see(&mut controller, 132, nothing());
        (controller, effects)
    };
    let (mut guarded, effects) = goes_blind(false);
    assert!(guarded.view("c").unwrap().rails.quarantine.is_none());
    assert_eq!((given_back(&effects).len(), doubts(&effects)), (0, 1));
    let shown = ClusterSnapshot { claims: vec![claim("m0"), claim("m2"), claim("m3")], ..snapshot(&NAMES) };
    see(&mut guarded, 140, Observation::Snapshot(Box::new(shown)));
    assert_eq!(drained(&guarded.handle(Event::Tick, Timestamp(200_000))), ["m1 on n-m1"], "it is there, and drained");
    // Sabotage: without the guard it is given back with all that runs on it.
    assert_eq!(given_back(&goes_blind(true).1), ["aws:///z/i-m1"]);
}

#[test]
fn machines_that_went_while_the_agent_showed_nothing_hold_up_no_adoption() {
    let mut controller = controller(false, &NAMES);
    let row = |name: &&str| OpenLaunch {
        claim: text(name),
        attempt: 1,
        state: LaunchState::Launched { provider_id: Text::from(format!("aws:///z/i-{name}")) },
        planned: None,
    };
    let again = Event::Adopted { cluster: text("c"), uid: text("uid-1"), launches: NAMES.iter().map(row).collect() };
    controller.handle(again, Timestamp(5_000));
    let nothing =
        || Observation::Snapshot(Box::new(ClusterSnapshot { pools: vec![pool()], ..ClusterSnapshot::default() }));
    see(&mut controller, 6, nothing());
    for name in ["m1", "m2", "m3"] {
        let provider_id = Text::from(format!("aws:///z/i-{name}"));
        let effects = controller.handle(Event::InstanceGone { cluster: text("c"), provider_id }, Timestamp(30_000));
        let instruction = instructions(&effects)[0].0;
        controller.handle(Event::InstructionAcked { cluster: text("c"), instruction }, Timestamp(30_000));
    }
    // The second picture agrees after a minute, and is believed.
    see(&mut controller, 67, nothing());
    // The NodeClaim of the fourth was taken away meanwhile.
    let shown = ClusterSnapshot { claims: Vec::new(), ..snapshot(&["m0"]) };
    see(&mut controller, 80, Observation::Snapshot(Box::new(shown)));
    let listed = |controller: &mut Planned, second| list_these(controller, second, vec![instance("m0", "m0")]);
    assert!(drained(&listed(&mut controller, 90)).is_empty());
    assert_eq!(drained(&listed(&mut controller, 150)), ["m0 on n-m0"], "one of one, after the collection period");
}
