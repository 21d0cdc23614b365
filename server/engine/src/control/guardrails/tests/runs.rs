use crate::cluster::testing::{claim, node, on, pod, text};
use crate::cluster::{ClaimRecord, ClusterSnapshot, NodeRecord, Object, PodRecord};
use crate::control::guardrails::Mode;
use crate::control::guardrails::settings::{CircuitBreakerRule, QuarantineRule};
use crate::control::{DecisionKind, Event};
use crate::model::{MicroUsd, Timestamp};

use super::world::{World, snapshot};

/// `many` pending pods, `p0` onwards.
fn pending(many: usize) -> Vec<PodRecord> {
    (0..many).map(|n| pod(&format!("p{n}"), 500)).collect()
}

/// Five running pods on each of `machines`.
fn running(machines: usize) -> Vec<PodRecord> {
    (0..machines * 5).map(|n| on(&format!("m{}", n / 5), pod(&format!("p{n}"), 100))).collect()
}

/// Six busy machines; at 100 s the agent comes back and shows none of the 30 pods.
fn agent_that_lost_its_pods(percent: usize) -> World {
    agent_that_lost_its_pods_under(QuarantineRule { percent, ..QuarantineRule::default() })
}

fn agent_that_lost_its_pods_under(rule: QuarantineRule) -> World {
    let mut world = World::with(6, running(6), |settings| settings.rails.quarantine = rule);
    world.run_to(100_000);
    world.tell(Event::AgentDisconnected { cluster: text("c") });
    world.connect("c", snapshot(6, Vec::new()));
    world
}

#[test]
fn a_snapshot_without_pods_drains_no_node_although_a_second_one_agrees() {
    let mut world = agent_that_lost_its_pods(50);
    world.run_to(159_999);
    assert_eq!((world.drained().len(), world.done.resyncs.len()), (0, 0));
    let view = world.controller.view("c").map(|view| view.rails);
    let why = view.as_ref().and_then(|rails| rails.quarantine.clone()).map(|(reason, _)| reason.to_string());
    assert_eq!(
        why.as_deref(),
        Some(
            "the agent's snapshot lacks 30 of 30 bound pods: nothing is decided until a person releases it (fleetwright \
             quarantine release c)"
        )
    );
    // Another one is asked for after 60 s. It agrees, which is no witness: it has the same source.
    world.run_to(160_000);
    assert_eq!(world.done.resyncs, [(Timestamp(160_000), text("c"))]);
    world.show("c", snapshot(6, Vec::new()));
    world.run_to(24 * 3_600_000);
    assert_eq!(world.drained().len(), 0);
    world.tell(Event::QuarantineReleased { cluster: text("c") });
    world.run_to(world.now + 60_000);
    assert_eq!(world.drained().len(), 6);
}

#[test]
fn sabotage_without_quarantine_the_same_snapshot_drains_every_node() {
    let mut world = agent_that_lost_its_pods(0);
    world.run_to(159_999);
    assert_eq!(world.drained().len(), 6);
}

#[test]
fn a_second_snapshot_that_shows_the_pods_again_ends_quarantine_at_once() {
    let mut world = agent_that_lost_its_pods(50);
    world.run_to(110_000);
    world.show("c", snapshot(6, running(6)));
    assert!(world.controller.view("c").is_some_and(|view| view.synced && view.rails.quarantine.is_none()));
    world.run_to(300_000);
    assert!(world.drained().is_empty());
}

#[test]
fn agreement_that_comes_too_early_does_not_count() {
    let rule = QuarantineRule { hold_percent: 100, second_witness: false, ..QuarantineRule::default() };
    let mut world = agent_that_lost_its_pods_under(rule);
    world.run_to(120_000);
    world.show("c", snapshot(6, Vec::new()));
    assert!(world.controller.view("c").is_some_and(|view| !view.synced && view.rails.quarantine.is_some()));
    world.run_to(160_000);
    world.show("c", snapshot(6, Vec::new()));
    assert!(world.controller.view("c").is_some_and(|view| view.synced));
}

#[test]
fn a_person_releases_what_the_agent_told_since() {
    let mut world = agent_that_lost_its_pods(50);
    world.see("c", Object::Pod(on("m0", pod("p0", 100))));
    world.tell(Event::QuarantineReleased { cluster: text("c") });
    assert_eq!(world.controller.view("c").map(|view| (view.synced, view.pods)), Some((true, 1)));
    world.run_to(140_000);
    // The pod that was told during quarantine keeps its node.
    assert_eq!(world.drained().len(), 5);
    assert!(!world.drained().contains("m0"));
}

#[test]
fn a_first_snapshot_is_compared_with_the_machines_that_run() {
    let mut world = World::with(6, running(6), |_| {});
    world.run_to(1_000);
    // The cluster of another name is new: nothing is known of it and its emptiness is believed.
    world.connect("d", snapshot(0, Vec::new()));
    assert!(world.controller.view("d").is_some_and(|view| view.synced));
    // Of the first, all six machines run and the snapshot shows the NodeClaim of one.
    world.show("c", ClusterSnapshot { claims: vec![claim("m0")], ..snapshot(6, running(6)) });
    let why = world.controller.view("c").and_then(|view| view.rails.held_because());
    let told = "the agent's snapshot lacks 5 of 6 machines that run: nothing is decided until another snapshot agrees after \
                60 s and the cloud's listing does, or a person releases it (fleetwright quarantine release c)";
    assert_eq!(why.as_deref(), Some(told));
}

/// Five pods at moment 0, with at most `machines` launches in ten minutes.
fn burst(machines: usize) -> World {
    let mut world = World::with(0, pending(5), |settings| settings.rails.launches.cluster.machines = machines);
    world.run_to(10_000);
    world
}

#[test]
fn a_burst_beyond_the_cap_waits_with_a_reason_and_goes_on_by_itself() {
    let mut world = burst(3);
    assert_eq!(world.done.launches.len(), 3);
    let waits = world.unplaced();
    let reason = "cluster c may launch no more than 3 machines within 10 min; the rest waits until the window moves on";
    assert_eq!(waits.get("default/p3").map(String::as_str), Some(reason));
    assert_eq!(waits.len(), 2);
    // The first three were bound meanwhile.
    let claims: Vec<_> = world.done.launches.iter().map(|(_, order)| order.claim.clone()).collect();
    for (n, claim) in claims.iter().enumerate() {
        world.see("c", Object::Pod(on(claim, pod(&format!("p{n}"), 500))));
    }
    // Planned at 1 s, when the window of pods had closed; ten minutes later the launches no longer count.
    world.run_to(600_999);
    assert_eq!(world.done.launches.len(), 3);
    world.run_to(601_000);
    assert_eq!(world.done.launches.len(), 5);
}

#[test]
fn sabotage_without_the_cap_the_burst_is_launched_at_once() {
    assert_eq!(burst(0).done.launches.len(), 5);
}

#[test]
fn dollars_bound_launches_as_well() {
    // A machine costs $0.01 an hour; $0.025 pay for two.
    let mut world = World::with(0, pending(5), |settings| {
        settings.rails.launches.cluster.usd_per_hour = MicroUsd(25_000);
    });
    world.run_to(10_000);
    assert_eq!(world.done.launches.len(), 2);
}

#[test]
fn the_fleet_has_a_cap_over_all_clusters() {
    let mut world = World::new(|settings| settings.rails.launches.fleet.machines = 4);
    world.connect("a", snapshot(0, pending(3)));
    world.connect("b", snapshot(0, pending(3)));
    world.run_to(10_000);
    let of = |cluster: &str| world.done.launches.iter().filter(|(_, order)| order.cluster.as_ref() == cluster).count();
    assert_eq!((of("a"), of("b")), (3, 1));
}

#[test]
fn launches_of_an_earlier_process_count_by_the_age_of_their_claims() {
    let mut world = World::new(|settings| settings.rails.launches.cluster.machines = 3);
    world.now = 1_000_000;
    let aged = |name: &str, age: i64| ClaimRecord { created: Some(Timestamp(1_000_000 - age)), ..claim(name) };
    // Two within the last ten minutes and one before that: room for one more.
    let claims = vec![aged("m0", 60_000), aged("m1", 500_000), aged("m2", 600_000)];
    world.connect("c", ClusterSnapshot { claims, ..snapshot(3, pending(2)) });
    world.run_to(1_010_000);
    assert_eq!(world.done.launches.len(), 1);
}

/// Six empty machines, of which at most `machines` may go in ten minutes.
fn idle(machines: usize) -> World {
    let mut world = World::with(6, Vec::new(), |settings| settings.rails.removals.cluster.machines = machines);
    world.run_to(60_000);
    world
}

#[test]
fn removals_beyond_the_cap_wait_and_go_on_by_themselves() {
    let mut world = idle(2);
    assert_eq!(world.drained().len(), 2);
    let why = world.controller.view("c").and_then(|view| view.rails.held_removals);
    let told = "cluster c may lose no more than 2 machines within 10 min; the rest stays until the window moves on";
    assert_eq!(why.as_deref(), Some(told));
    // Empty for 30 s at 30 s; ten minutes later two more.
    world.run_to(629_999);
    assert_eq!(world.drained().len(), 2);
    world.run_to(630_000);
    assert_eq!(world.drained().len(), 4);
}

#[test]
fn sabotage_without_the_cap_all_empty_machines_go_at_once() {
    assert_eq!(idle(0).drained().len(), 6);
}

#[test]
fn machines_on_their_way_out_do_not_raise_the_share_that_may_go() {
    let mut world = World::with(20, Vec::new(), |settings| {
        settings.rails.removals.cluster.free = 2;
        settings.rails.removals.fleet.percent = 0;
    });
    world.stuck = Some("m");
    world.run_to(60_000);
    // Something changes, and the empty nodes are looked at again while the drains go on.
    world.see("c", Object::Pod(on("m19", pod("p0", 500))));
    world.run_to(120_000);
    // Half of 20.
    assert_eq!(world.drained().len(), 10);
}

/// For an hour every machine that is launched for the pod turns out to be no place for it.
fn machines_for_a_pod_that_is_never_bound(launches: u32) -> usize {
    let mut world = World::with(0, pending(1), |settings| {
        settings.rails.attempts.launches = launches;
        settings.rails.launches.cluster.machines = 0;
    });
    world.run_to(3_600_000);
    world.done.launches.len()
}

#[test]
fn machines_for_a_pod_that_is_never_bound_come_at_growing_intervals() {
    // Three at once; then after 2, 4, 8, 16 min each one more, 30 min in all; the next would wait another 32.
    assert_eq!(machines_for_a_pod_that_is_never_bound(3), 7);
}

#[test]
fn sabotage_without_the_bound_such_a_pod_buys_machines_all_the_time() {
    // A promise lapses after 20 s, planning waits 1 s: about 170 in an hour.
    assert!(machines_for_a_pod_that_is_never_bound(0) > 100);
}

/// For an hour a pod cannot be evicted from a node that was deleted by hand: machines launched to replace it, when none turns out to
/// be a place for it and so its room there is not kept.
fn replacements_for_a_node_that_cannot_be_drained(launches: u32) -> usize {
    let mut world = World::with(1, vec![on("m0", pod("p0", 500))], |settings| {
        settings.rails.attempts.launches = launches;
        settings.rails.keep_replacements = false;
    });
    world.stuck = Some("m0");
    world.see("c", Object::Node(NodeRecord { deleting: true, ..node("m0") }));
    world.run_to(3_600_000);
    world.done.launches.len()
}

#[test]
fn a_node_that_cannot_be_drained_is_not_replaced_for_ever() {
    assert_eq!(replacements_for_a_node_that_cannot_be_drained(3), 7);
}

#[test]
fn sabotage_without_the_bound_it_is_replaced_all_the_time() {
    assert!(replacements_for_a_node_that_cannot_be_drained(0) > 100);
}

#[test]
fn a_pod_that_waits_is_told_why() {
    let mut world = World::with(0, pending(1), |_| {});
    world.run_to(150_000);
    let why = world.unplaced();
    let why = why.get("default/p0").map_or("", String::as_str);
    assert!(why.starts_with("3 machines were launched for it and kube-scheduler bound it to none"), "{why}");
    assert_eq!(world.controller.view("c").map(|view| view.rails.pods_waiting), Some(1));
}

/// Six empty machines, and five launches that fail before they may go.
fn idle_while_launches_fail(engage_percent: usize) -> World {
    let mut world = World::with(6, Vec::new(), |settings| {
        settings.rails.brake = CircuitBreakerRule { engage_percent, ..CircuitBreakerRule::default() };
    });
    world.refused = true;
    for pod in pending(5) {
        world.see("c", Object::Pod(pod));
    }
    world.run_to(60_000);
    world
}

#[test]
fn nothing_is_removed_while_launches_fail() {
    let mut world = idle_while_launches_fail(50);
    assert_eq!(world.drained().len(), 0);
    let why = world.controller.view("c").and_then(|view| view.rails.brake);
    let told = "launches fail in cluster c: nothing is removed there until at most 20 % of those of the last 10 min have failed";
    assert_eq!(why.as_deref(), Some(told));
    // Nobody wants anything any more; when the failures are ten minutes old the brake lets go by itself.
    for pod in pending(5) {
        world.see("c", Object::Pod(on("m0", pod)));
    }
    world.run_to(700_000);
    assert_eq!(world.drained().len(), 5);
}

#[test]
fn offerings_that_are_sold_out_and_launches_of_one_other_cluster_stop_no_removal() {
    let mut world = World::with(6, Vec::new(), |_| {});
    world.no_capacity = true;
    for pod in pending(5) {
        world.see("c", Object::Pod(pod));
    }
    world.run_to(60_000);
    assert_eq!(world.drained().len(), 6, "what is sold out is planned elsewhere");

    let mut world = World::with(6, Vec::new(), |_| {});
    world.refused = true;
    world.connect("noisy", snapshot(0, pending(20)));
    world.run_to(60_000);
    assert_eq!(world.drained().len(), 6, "one cluster is no fleet");
    assert!(world.controller.view("noisy").is_some_and(|view| view.rails.brake.is_some() && view.rails.failed >= 20));
}

#[test]
fn sabotage_without_the_brake_machines_go_that_cannot_be_had_again() {
    assert_eq!(idle_while_launches_fail(0).drained().len(), 6);
}

/// Five machines are launched and do not join within 15 min; then six others fall idle.
fn idle_after_machines_that_never_joined(engage_percent: usize) -> World {
    let mut world = World::with(6, running(6), |settings| {
        settings.rails.brake = CircuitBreakerRule { engage_percent, ..CircuitBreakerRule::default() };
    });
    world.never_joins = true;
    for n in 0..5 {
        world.see("c", Object::Pod(pod(&format!("new{n}"), 500)));
    }
    world.run_to(905_000);
    running(6).into_iter().for_each(|pod| world.end("c", pod));
    world.run_to(960_000);
    world
}

#[test]
fn nothing_is_removed_while_machines_do_not_join() {
    let world = idle_after_machines_that_never_joined(50);
    assert!(world.drained().is_empty(), "{:?}", world.drained());
}

#[test]
fn sabotage_without_the_brake_machines_go_although_none_joins() {
    assert_eq!(idle_after_machines_that_never_joined(0).drained().len(), 6);
}

/// A busy node is deleted by hand at 10 s: when was its pod planned, and when was it drained?
fn deletion_by_hand(wait_ms: i64) -> (i64, i64) {
    let mut world = World::with(1, vec![on("m0", pod("p0", 500))], |settings| {
        settings.rails.replacement_wait_ms = wait_ms;
    });
    world.run_to(10_000);
    world.see("c", Object::Node(NodeRecord { deleting: true, ..node("m0") }));
    world.run_to(60_000);
    let planned = world.done.decisions.iter().find(|decision| decision.kind == DecisionKind::Provision);
    (planned.map_or(-1, |decision| decision.at.0), world.done.drained.first().map_or(-1, |(at, _)| at.0))
}

#[test]
fn a_node_with_pods_is_drained_when_their_room_is_planned_and_not_before() {
    // The batch window closes one second after the deletion.
    assert_eq!(deletion_by_hand(15_000), (11_000, 11_000));
}

#[test]
fn sabotage_without_waiting_the_drain_precedes_the_plan() {
    // The machine is gone before anybody has thought of its pod.
    assert_eq!(deletion_by_hand(0), (-1, 10_000));
}

/// Two pods wait and six machines are empty.
fn everything_to_do(mode: Mode) -> World {
    let mut world = World::with(6, pending(2), |settings| settings.rails.mode = mode);
    world.run_to(120_000);
    world
}

#[test]
fn shadow_mode_decides_and_records_once_and_does_nothing() {
    let mut world = everything_to_do(Mode::Shadow);
    assert_eq!(world.done.acts, 0);
    let said: Vec<(DecisionKind, bool, usize, usize)> = (world.done.decisions.iter())
        .map(|d| (d.kind, d.shadow, d.machines.len() + d.removals.len(), d.notes.len()))
        .collect();
    assert_eq!(said, [(DecisionKind::Provision, true, 0, 2), (DecisionKind::Empty, true, 0, 6)]);
    let would = "would launch t.2 in z (spot, $0.01 an hour) from NodePool p for default/p0";
    assert_eq!(world.done.decisions[0].notes[0], would);
    // The same pods again say nothing; another one does.
    world.see("c", Object::Pod(pod("p0", 500)));
    world.run_to(130_000);
    assert_eq!(world.done.decisions.len(), 2);
    world.see("c", Object::Pod(pod("p9", 500)));
    world.run_to(140_000);
    assert_eq!(world.done.decisions.len(), 3);
}

#[test]
fn sabotage_out_of_shadow_mode_the_same_decisions_are_carried_out() {
    let world = everything_to_do(Mode::Act);
    let (launches, drains) = (world.done.launches.len(), world.drained().len());
    assert!(launches >= 2 && drains >= 6, "{launches} launches, {drains} drains");
}

#[test]
fn one_cluster_may_be_in_shadow_mode_while_the_others_act() {
    let mut world = World::new(|settings| {
        settings.rails.shadow.insert(text("a"));
    });
    world.connect("a", snapshot(0, pending(1)));
    world.connect("b", snapshot(0, pending(1)));
    world.run_to(10_000);
    let clusters: Vec<&str> = world.done.launches.iter().map(|(_, order)| order.cluster.as_ref()).collect();
    assert_eq!(clusters, ["b"]);
}
