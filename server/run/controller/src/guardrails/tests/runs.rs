use crate::guardrails::{CircuitBreakerRule, DisabledGuards, Guard, Mode, QuarantineRule};
use crate::{Decision, DecisionReason, Event};
use cluster::testing::{bound_to, claim, key, node, pod, text};
use cluster::{ClaimRecord, ClusterSnapshot, NodeRecord, Object, PodRecord};
use model::interruption::InterruptionKind::SpotInterrupted;
use model::removal::RemovalReason;
use model::{MicroUsd, Millis, Timestamp};

use super::fixture::{Fixture, one_node_per_pod, real, snapshot};

/// `many` pending pods, `p0` onwards.
fn pending(many: usize) -> Vec<PodRecord> {
    (0..many).map(|n| pod(&format!("p{n}"), 500)).collect()
}

/// Five running pods on each of `machines`.
fn running(machines: usize) -> Vec<PodRecord> {
    (0..machines * 5).map(|n| bound_to(&format!("m{}", n / 5), pod(&format!("p{n}"), 100))).collect()
}

/// Six busy machines; at 100 s the agent reconnects and reports none of the 30 pods.
fn agent_that_lost_its_pods(percent: usize) -> Fixture {
    agent_that_lost_its_pods_under(QuarantineRule { percent, ..QuarantineRule::default() })
}

fn agent_that_lost_its_pods_under(rule: QuarantineRule) -> Fixture {
    let mut world = Fixture::with(6, running(6), |settings| settings.guardrails.quarantine = rule);
    world.run_to(100_000);
    world.handle(Event::AgentDisconnected);
    world.connect("c", snapshot(6, Vec::new()));
    world
}

#[test]
fn a_snapshot_without_pods_drains_no_node_although_a_second_one_matches() {
    let mut world = agent_that_lost_its_pods(50);
    world.run_to(159_999);
    assert_eq!((world.drained().len(), world.done.resyncs.len()), (0, 0));
    let view = world.controller.view(&text("c")).map(|view| view.guardrails);
    let why = view.as_ref().and_then(|guardrails| guardrails.quarantine.clone()).map(|(reason, _)| reason.to_string());
    assert_eq!(
        why.as_deref(),
        Some(
            "the agent's snapshot lacks 30 of 30 bound pods: no decisions are made until an operator releases it \
             (fleetwright quarantine release c)"
        )
    );
    // Another snapshot is requested after 60 s. It matches, but is no second source: it comes from
    // the same agent.
    world.run_to(160_000);
    assert_eq!(world.done.resyncs, [(Timestamp::from_millis(160_000), text("c"))]);
    world.send_snapshot("c", snapshot(6, Vec::new()));
    world.run_to(24 * 3_600_000);
    assert_eq!(world.drained().len(), 0);
    world.handle(Event::QuarantineReleased);
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
    world.send_snapshot("c", snapshot(6, running(6)));
    assert!(world.controller.view(&text("c")).is_some_and(|view| view.synced && view.guardrails.quarantine.is_none()));
    world.run_to(300_000);
    assert!(world.drained().is_empty());
}

#[test]
fn a_matching_snapshot_that_arrives_too_early_does_not_count() {
    let rule = QuarantineRule { block_percent: 0, block_for: Millis::from_mins(1), ..QuarantineRule::default() };
    let mut world = agent_that_lost_its_pods_under(rule);
    world.run_to(120_000);
    world.send_snapshot("c", snapshot(6, Vec::new()));
    assert!(world.controller.view(&text("c")).is_some_and(|view| !view.synced && view.guardrails.quarantine.is_some()));
    world.run_to(160_000);
    world.send_snapshot("c", snapshot(6, Vec::new()));
    assert!(world.controller.view(&text("c")).is_some_and(|view| view.synced));
}

#[test]
fn an_operator_releases_the_state_reported_since() {
    let mut world = agent_that_lost_its_pods(50);
    world.observe("c", Object::Pod(bound_to("m0", pod("p0", 100))));
    world.handle(Event::QuarantineReleased);
    assert_eq!(world.controller.view(&text("c")).map(|view| (view.synced, view.pods)), Some((true, 1)));
    world.run_to(140_000);
    // The pod that was reported during quarantine keeps its node.
    assert_eq!(world.drained().len(), 5);
    assert!(!world.drained().contains("m0"));
}

#[test]
fn a_first_snapshot_is_compared_with_the_machines_that_run() {
    let mut world = Fixture::with(6, running(6), |_| {});
    world.run_to(1_000);
    // The cluster of another name is new: without history, its empty snapshot is accepted.
    world.connect("d", snapshot(0, Vec::new()));
    assert!(world.controller.view(&text("d")).is_some_and(|view| view.synced));
    // Of the first, all six machines run and the snapshot contains the NodeClaim of one.
    world.send_snapshot("c", ClusterSnapshot { claims: vec![claim("m0")], ..snapshot(6, running(6)) });
    let why = world.controller.view(&text("c")).and_then(|view| view.guardrails.held_reason());
    let expected = "the agent's snapshot lacks 5 of 6 machines that run: no decisions are made until another snapshot matches \
                after 60 s and the cloud's listing confirms it, or an operator releases it (fleetwright quarantine \
                release c)";
    assert_eq!(why.as_deref(), Some(expected));
}

/// Five pods at moment 0, with at most `machines` launches in ten minutes.
fn burst(machines: usize) -> Fixture {
    let mut world = Fixture::with(0, pending(5), |settings| settings.guardrails.launches.cluster.machines = machines);
    world.run_to(10_000);
    world
}

#[test]
fn a_burst_above_the_rate_limit_waits_with_a_reason_and_continues_later() {
    let mut world = burst(3);
    assert_eq!(world.done.launches.len(), 3);
    let waits = world.unplaced();
    let reason = "cluster c may launch no more than 3 machines within 10 min; the rest waits until the window moves on";
    assert_eq!(waits.get(&key("p3")).map(String::as_str), Some(reason));
    assert_eq!(waits.len(), 2);
    // The first three were bound meanwhile.
    let claims: Vec<_> = world.done.launches.iter().map(|(_, order)| order.claim.clone()).collect();
    for (n, claim) in claims.iter().enumerate() {
        world.observe("c", Object::Pod(bound_to(claim, pod(&format!("p{n}"), 500))));
    }
    // Planned at 1 s, when the window of pods had closed; ten minutes later the launches no longer count.
    world.run_to(600_999);
    assert_eq!(world.done.launches.len(), 3);
    world.run_to(601_000);
    assert_eq!(world.done.launches.len(), 5);
}

#[test]
fn sabotage_without_the_rate_limit_the_burst_is_launched_at_once() {
    assert_eq!(burst(0).done.launches.len(), 5);
}

#[test]
fn dollars_bound_launches_as_well() {
    // A machine costs $0.01 an hour; $0.025 pay for two.
    let mut world = Fixture::with(0, pending(5), |settings| {
        settings.guardrails.launches.cluster.usd_per_hour = MicroUsd(25_000);
    });
    world.run_to(10_000);
    assert_eq!(world.done.launches.len(), 2);
}

#[test]
fn the_fleet_has_a_rate_limit_over_all_clusters() {
    let mut world = Fixture::new(|settings| settings.guardrails.launches.fleet.machines = 4);
    world.connect("a", snapshot(0, pending(3)));
    world.connect("b", snapshot(0, pending(3)));
    world.run_to(10_000);
    let of = |cluster: &str| world.done.launches.iter().filter(|(_, order)| order.cluster.as_ref() == cluster).count();
    assert_eq!((of("a"), of("b")), (3, 1));
}

#[test]
fn launches_of_an_earlier_process_count_by_the_age_of_their_claims() {
    let mut world = Fixture::new(|settings| settings.guardrails.launches.cluster.machines = 3);
    world.now = 1_000_000;
    let aged =
        |name: &str, age: i64| ClaimRecord { created: Some(Timestamp::from_millis(1_000_000 - age)), ..claim(name) };
    // Two within the last ten minutes and one before that: one more is admitted.
    let claims = vec![aged("m0", 60_000), aged("m1", 500_000), aged("m2", 600_000)];
    world.connect("c", ClusterSnapshot { claims, ..snapshot(3, pending(2)) });
    world.run_to(1_010_000);
    assert_eq!(world.done.launches.len(), 1);
}

/// Six empty machines, of which at most `machines` may be removed in ten minutes.
fn idle(machines: usize) -> Fixture {
    let mut world = Fixture::with(6, Vec::new(), |settings| settings.guardrails.removals.cluster.machines = machines);
    world.run_to(60_000);
    world
}

#[test]
fn removals_above_the_rate_limit_wait_and_continue_later() {
    let mut world = idle(2);
    assert_eq!(world.drained().len(), 2);
    let why = world.controller.view(&text("c")).and_then(|view| view.guardrails.held_removals);
    let expected = "cluster c may lose no more than 2 machines within 10 min; the rest stays until the window moves on";
    assert_eq!(why.as_deref(), Some(expected));
    // Empty for 30 s at 30 s; ten minutes later two more.
    world.run_to(629_999);
    assert_eq!(world.drained().len(), 2);
    world.run_to(630_000);
    assert_eq!(world.drained().len(), 4);
}

#[test]
fn sabotage_without_the_rate_limit_all_empty_machines_are_removed_at_once() {
    assert_eq!(idle(0).drained().len(), 6);
}

#[test]
fn terminating_machines_do_not_raise_the_percentage_that_may_be_removed() {
    let mut world = Fixture::with(20, Vec::new(), |settings| {
        settings.guardrails.removals.cluster.free = 2;
        settings.guardrails.removals.fleet.percent = 0;
    });
    world.stuck = Some("m");
    world.run_to(60_000);
    // A change triggers another pass over empty nodes while the drains continue.
    world.observe("c", Object::Pod(bound_to("m19", pod("p0", 500))));
    world.run_to(120_000);
    // Half of 20.
    assert_eq!(world.drained().len(), 10);
}

/// For an hour every machine that is launched for the pod turns out to be no place for it.
fn machines_for_a_pod_that_is_never_bound(launches: u32) -> usize {
    let mut world = Fixture::with(0, pending(1), |settings| {
        settings.guardrails.launch_backoff.launches = launches;
        settings.guardrails.launches.cluster.machines = 0;
    });
    world.run_to(3_600_000);
    world.done.launches.len()
}

#[test]
fn machines_for_a_pod_that_is_never_bound_are_launched_at_growing_intervals() {
    // Three at once; then after 2, 4, 8, 16 min each one more, 30 min in all; the next would wait another 32.
    assert_eq!(machines_for_a_pod_that_is_never_bound(3), 7);
}

#[test]
fn sabotage_without_the_backoff_such_a_pod_launches_machines_all_the_time() {
    // An assignment expires after 20 s, planning waits 1 s: about 170 in an hour.
    assert!(machines_for_a_pod_that_is_never_bound(0) > 100);
}

/// For an hour a pod cannot be evicted from a node that was deleted by hand: machines launched to
/// replace it, when the pod fits on none of them and so no capacity is reserved.
fn replacements_for_a_node_that_cannot_be_drained(launches: u32) -> usize {
    let disabled = DisabledGuards::only(Guard::Replacement);
    let mut world = Fixture::with_disabled_guards(one_node_per_pod, disabled, |settings| {
        settings.guardrails.launch_backoff.launches = launches;
    });
    world.connect("c", snapshot(1, vec![bound_to("m0", pod("p0", 500))]));
    world.stuck = Some("m0");
    world.observe("c", Object::Node(NodeRecord { deleting: true, ..node("m0") }));
    world.run_to(3_600_000);
    world.done.launches.len()
}

#[test]
fn a_node_that_cannot_be_drained_is_not_replaced_for_ever() {
    assert_eq!(replacements_for_a_node_that_cannot_be_drained(3), 7);
}

#[test]
fn sabotage_without_the_backoff_it_is_replaced_all_the_time() {
    assert!(replacements_for_a_node_that_cannot_be_drained(0) > 100);
}

#[test]
fn a_pod_in_backoff_has_a_reason() {
    let mut world = Fixture::with(0, pending(1), |_| {});
    world.run_to(150_000);
    let why = world.unplaced();
    let why = why.get(&key("p0")).map_or("", String::as_str);
    assert!(why.starts_with("3 machines were launched for it and kube-scheduler bound it to none"), "{why}");
    assert_eq!(world.controller.view(&text("c")).map(|view| view.guardrails.pods_waiting), Some(1));
}

fn launched(world: &Fixture, number: usize) -> String {
    world.done.launches[number].1.claim.to_string()
}

/// A pod on the Node of the launch with this number that leaves no room there for `p0`.
fn filler(world: &Fixture, number: usize) -> PodRecord {
    bound_to(&launched(world, number), pod(&format!("f{number}"), 1_800))
}

/// Others take the room of every machine that is launched for `p0`, until no more is launched for it.
fn in_backoff() -> Fixture {
    let mut world = Fixture::planned_by(real, |_| {});
    world.connect("c", snapshot(0, vec![pod("p0", 1_800)]));
    for number in 0..3 {
        world.run_to(world.now + 10_000);
        assert_eq!(world.done.launches.len(), number + 1);
        let filler = filler(&world, number);
        world.observe("c", Object::Pod(filler));
        // The assignment of a pending pod ends 20 s after its Node is initialized.
        world.run_to(world.now + 15_000);
    }
    world
}

/// Where the decisions since `since` placed `p0` on capacity that exists.
fn places(world: &Fixture, since: i64) -> Vec<String> {
    let made = world.done.decisions.iter().filter(|decision| decision.at >= Timestamp::from_millis(since));
    let placed = made.flat_map(|decision| &decision.assignments).filter(|(pod, _)| *pod == key("p0"));
    placed.map(|(_, node)| node.to_string()).collect()
}

#[test]
fn a_pod_in_backoff_is_placed_on_a_machine_that_exists() {
    let mut world = in_backoff();
    let full = world.now;
    world.run_to(90_000);
    assert_eq!((world.done.launches.len(), places(&world, full)), (3, Vec::new()));
    assert!(world.unplaced()[&key("p0")].starts_with("3 machines were launched for it"));
    let gone = filler(&world, 0);
    world.end_pod("c", gone);
    world.run_to(110_000);
    assert_eq!((world.done.launches.len(), places(&world, full)), (3, vec![format!("n-{}", launched(&world, 0))]));
}

#[test]
fn other_pods_are_launched_for_beside_a_pod_in_backoff_and_leave_it_where_it_is() {
    let mut world = in_backoff();
    world.observe("c", Object::Pod(pod("other", 1_800)));
    world.run_to(world.now + 10_000);
    assert_eq!(world.done.launches.len(), 4, "for the other one");
    let planned: Vec<_> = world.done.decisions.iter().flat_map(|decision| &decision.launches).collect();
    assert_eq!(planned.last().map(|machine| machine.pods.clone()), Some(vec![key("other")]));
    assert!(world.unplaced()[&key("p0")].starts_with("3 machines were launched for it"));
}

/// The machine `m0` of `p0` was deleted by hand and cannot be drained; others take the room of every machine that is
/// launched for the pod. Launches within a minute.
#[test]
fn a_pod_that_runs_is_not_in_backoff_because_others_use_the_machines_launched_for_it() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.connect("c", snapshot(1, vec![bound_to("m0", pod("p0", 1_800))]));
    world.stuck = Some("m0");
    world.observe("c", Object::Node(NodeRecord { deleting: true, ..node("m0") }));
    for number in 0..6 {
        world.run_to(world.now + 10_000);
        assert_eq!(world.done.launches.len(), number + 1);
        let filler = filler(&world, number);
        world.observe("c", Object::Pod(filler));
    }
    assert_eq!(world.controller.view(&text("c")).map(|view| view.guardrails.pods_waiting), Some(0));
}

/// Six empty machines, and five launches that fail before they may be removed.
fn idle_while_launches_fail(engage_percent: usize) -> Fixture {
    let mut world = Fixture::with(6, Vec::new(), |settings| {
        settings.guardrails.circuit_breaker = CircuitBreakerRule { engage_percent, ..CircuitBreakerRule::default() };
    });
    world.refused = true;
    for pod in pending(5) {
        world.observe("c", Object::Pod(pod));
    }
    world.run_to(60_000);
    world
}

#[test]
fn nothing_is_removed_while_launches_fail() {
    let mut world = idle_while_launches_fail(50);
    assert_eq!(world.drained().len(), 0);
    let why = world.controller.view(&text("c")).and_then(|view| view.guardrails.circuit_breaker);
    let expected = "launches fail in cluster c: nothing is removed there until at most 20 % of those of the last 10 min have failed";
    assert_eq!(why.as_deref(), Some(expected));
    // All pods are gone; when the failures are ten minutes old the circuit breaker releases by
    // itself.
    for pod in pending(5) {
        world.observe("c", Object::Pod(bound_to("m0", pod)));
    }
    world.run_to(700_000);
    assert_eq!(world.drained().len(), 5);
}

#[test]
fn insufficient_capacity_and_failures_of_one_other_cluster_stop_no_removal() {
    let mut world = Fixture::with(6, Vec::new(), |_| {});
    world.no_capacity = true;
    for pod in pending(5) {
        world.observe("c", Object::Pod(pod));
    }
    world.run_to(60_000);
    assert_eq!(world.drained().len(), 6, "insufficient capacity is no failure");

    let mut world = Fixture::with(6, Vec::new(), |_| {});
    world.refused = true;
    world.connect("noisy", snapshot(0, pending(20)));
    world.run_to(60_000);
    assert_eq!(world.drained().len(), 6, "one cluster is no fleet");
    assert!(
        world
            .controller
            .view(&text("noisy"))
            .is_some_and(|view| view.guardrails.circuit_breaker.is_some() && view.guardrails.failed >= 20)
    );
}

#[test]
fn sabotage_without_the_circuit_breaker_irreplaceable_machines_are_removed() {
    assert_eq!(idle_while_launches_fail(0).drained().len(), 6);
}

/// Five machines are launched and do not join within 15 min; then six others fall idle.
fn idle_after_machines_that_never_joined(engage_percent: usize) -> Fixture {
    let mut world = Fixture::with(6, running(6), |settings| {
        settings.guardrails.circuit_breaker = CircuitBreakerRule { engage_percent, ..CircuitBreakerRule::default() };
    });
    world.never_joins = true;
    for n in 0..5 {
        world.observe("c", Object::Pod(pod(&format!("new{n}"), 500)));
    }
    world.run_to(905_000);
    running(6).into_iter().for_each(|pod| world.end_pod("c", pod));
    world.run_to(960_000);
    world
}

#[test]
fn nothing_is_removed_while_machines_do_not_join() {
    let world = idle_after_machines_that_never_joined(50);
    assert!(world.drained().is_empty(), "{:?}", world.drained());
}

#[test]
fn sabotage_without_the_circuit_breaker_machines_are_removed_although_none_joins() {
    assert_eq!(idle_after_machines_that_never_joined(0).drained().len(), 6);
}

/// A busy node is deleted by hand at 10 s: when was its pod planned, and when was it drained?
fn deletion_by_hand(wait: Millis) -> (i64, i64) {
    let mut world = Fixture::with(1, vec![bound_to("m0", pod("p0", 500))], |settings| {
        settings.guardrails.replacement_wait = wait;
    });
    world.run_to(10_000);
    world.observe("c", Object::Node(NodeRecord { deleting: true, ..node("m0") }));
    world.run_to(60_000);
    let planned = world.done.decisions.iter().find(|decision| decision.reason == DecisionReason::Provision);
    (
        planned.map_or(-1, |decision| decision.at.as_millis()),
        world.done.drained.first().map_or(-1, |(at, _)| at.as_millis()),
    )
}

#[test]
fn a_node_with_pods_is_drained_once_their_capacity_is_planned() {
    // The batch window closes one second after the deletion.
    assert_eq!(deletion_by_hand(Millis::from_secs(15)), (11_000, 11_000));
}

#[test]
fn sabotage_without_waiting_the_drain_precedes_the_plan() {
    // The machine is removed before its pod is planned.
    assert_eq!(deletion_by_hand(Millis::ZERO), (-1, 10_000));
}

/// Two pending pods and six empty machines.
fn everything_to_do(mode: Mode) -> Fixture {
    let mut world = Fixture::with(6, pending(2), |settings| settings.guardrails.mode = mode);
    world.run_to(120_000);
    world
}

#[test]
fn shadow_mode_records_decisions_once_and_carries_none_out() {
    let mut world = everything_to_do(Mode::Shadow);
    assert_eq!(world.done.acts, 0);
    let recorded: Vec<(&str, bool, usize, usize)> = (world.done.decisions.iter())
        .map(|d| (d.reason.as_str(), d.shadow, d.launches.len() + d.removals.len(), d.would.len()))
        .collect();
    assert_eq!(recorded, [("provision", true, 0, 2), ("empty", true, 0, 6)]);
    let would = "would launch t.2 in z (spot, $0.01 an hour) from NodePool p for default/p0";
    assert_eq!(world.done.decisions[0].would[0], would);
    // The same pods are not recorded again; another one is.
    world.observe("c", Object::Pod(pod("p0", 500)));
    world.run_to(130_000);
    assert_eq!(world.done.decisions.len(), 2);
    world.observe("c", Object::Pod(pod("p9", 500)));
    world.run_to(140_000);
    assert_eq!(world.done.decisions.len(), 3);
}

/// The same, while voluntary removals are recorded alone.
fn everything_to_do_in_shadow_disruption() -> Fixture {
    let mut world = Fixture::with(6, pending(2), |settings| settings.disruption.mode = Mode::Shadow);
    world.run_to(120_000);
    world
}

#[test]
fn with_disruption_in_shadow_mode_launches_go_on_and_voluntary_removals_are_recorded() {
    let mut world = everything_to_do_in_shadow_disruption();
    assert!(world.done.launches.len() >= 2, "a machine for each pending pod");
    assert_eq!(world.drained(), [].into());
    let removals = |world: &Fixture| -> Vec<Decision> {
        world
            .done
            .decisions
            .iter()
            .filter(|decision| decision.reason == DecisionReason::Disruption(RemovalReason::Empty))
            .cloned()
            .collect()
    };
    let recorded = removals(&world);
    let last = recorded.last().expect("what would be removed is recorded");
    assert!(recorded.iter().all(|decision| decision.shadow && decision.removals.is_empty()));
    assert!(last.would[0].starts_with("would remove n-m0 (m0): node n-m0 holds only DaemonSet pods"), "{last:?}");
    assert!(last.notes[0].starts_with("would save $"), "{last:?}");
    let view = world.controller.view(&text("c")).expect("the cluster is known").guardrails;
    assert_eq!((view.mode, view.disruption_mode), (Mode::Act, Mode::Shadow));
    // What changes nothing of it is not recorded again.
    world.observe("c", Object::Pod(bound_to("m0", PodRecord { daemon: Some(text("agent")), ..pod("agent", 1) })));
    world.run_to(240_000);
    let would: Vec<Vec<String>> = removals(&world).into_iter().map(|decision| decision.would).collect();
    assert!(would.windows(2).all(|pair| pair[0] != pair[1]), "{would:?}");
}

#[test]
fn with_disruption_in_shadow_mode_interruptions_are_followed() {
    let mut world = everything_to_do_in_shadow_disruption();
    let provider_id = claim("m0").provider_id;
    world.handle(Event::Interrupted { provider_id, kind: SpotInterrupted, ends: None });
    world.run_to(180_000);
    assert_eq!(world.drained(), [text("m0")].into());
}

#[test]
fn the_voluntary_removals_of_one_cluster_may_be_in_shadow_mode() {
    let mut world = Fixture::new(|settings| {
        settings.disruption.shadow.insert(text("a"));
    });
    for name in ["a", "b"] {
        world.connect(name, snapshot(1, Vec::new()));
    }
    world.run_to(60_000);
    let removed: Vec<(&str, bool)> = (world.done.decisions.iter())
        .filter(|decision| decision.reason == DecisionReason::Disruption(RemovalReason::Empty))
        .map(|decision| (decision.cluster.as_ref(), decision.shadow))
        .collect();
    assert_eq!(removed, [("a", true), ("b", false)]);
    assert_eq!(world.done.drained.len(), 1);
}

#[test]
fn sabotage_out_of_shadow_mode_the_same_decisions_are_carried_out() {
    let world = everything_to_do(Mode::Act);
    let (launches, drains) = (world.done.launches.len(), world.drained().len());
    assert!(launches >= 2 && drains >= 6, "{launches} launches, {drains} drains");
}

#[test]
fn one_cluster_may_be_in_shadow_mode_while_the_others_act() {
    let mut world = Fixture::new(|settings| {
        settings.guardrails.shadow.insert(text("a"));
    });
    world.connect("a", snapshot(0, pending(1)));
    world.connect("b", snapshot(0, pending(1)));
    world.run_to(10_000);
    let clusters: Vec<&str> = world.done.launches.iter().map(|(_, order)| order.cluster.as_ref()).collect();
    assert_eq!(clusters, ["b"]);
}
