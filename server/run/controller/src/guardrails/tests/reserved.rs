//! A machine is replaced only if it may be removed then: its removal is reserved under the rate limits when its
//! replacement begins, and the plan of disruption stays within what they leave.
//!
//! Each machine of these clusters costs $0.04 an hour and has a pod of 1.8 of its 2 cores, for which a t.2 at $0.02 is
//! enough. The first plan of disruption is due at 30 s, a new machine joins at once, and the next pass removes the old one
//! at 40 s.

use super::consolidation::dear;
use super::fixture::{Fixture, snapshot};
use crate::guardrails::{Bound, DisabledGuards, Guard, RateLimitRule};
use crate::unavailable_offerings::{OfferingKey, UnavailableOffering};
use crate::{RegionEvent, Settings};
use cluster::testing::{bound_to, pod, pool_with, text};
use cluster::{ClusterSnapshot, Object};
use model::disruption_policy::BudgetLimit;
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE};
use model::{CapacityType, ClaimName, MicroUsd, SizeClass, Timestamp};

/// So many dear machines, with no budget that holds them.
fn dear_machines(machines: usize) -> ClusterSnapshot {
    let pods = (0..machines).map(|at| bound_to(&format!("m{at}"), pod(&format!("p{at}"), 1_800))).collect();
    let mut pools = dear().pools;
    pools[0].disruption.budgets = pool_with(BudgetLimit::Percent(100)).disruption.budgets;
    let mut shown = ClusterSnapshot { pools, ..snapshot(machines, pods) };
    let labels = shown.claims.iter_mut().map(|claim| &mut claim.labels);
    for labels in labels.chain(shown.nodes.iter_mut().map(|node| &mut node.labels)) {
        labels.insert(text(INSTANCE_TYPE), text("t.4"));
        labels.insert(text(CAPACITY_TYPE), text("on-demand"));
    }
    shown
}

fn machines(machines: usize) -> Bound {
    Bound { machines, usd_per_hour: MicroUsd(0), percent: 0, free: 0 }
}

/// A world whose clusters may lose so many machines within ten minutes, and together so many.
fn limited(disabled: DisabledGuards, cluster: usize, fleet: usize) -> Fixture {
    Fixture::consolidating(disabled, |settings| {
        let removals = &mut settings.guardrails.removals;
        *removals = RateLimitRule { cluster: machines(cluster), fleet: machines(fleet), ..*removals };
    })
}

fn counts(world: &Fixture) -> (usize, usize) {
    (world.done.launches.len(), world.done.drained.len())
}

/// Four dear machines, of which two may be removed within ten minutes.
fn four_machines(disabled: DisabledGuards) -> Fixture {
    let mut world = limited(disabled, 2, 0);
    world.connect("c", dear_machines(4));
    world
}

#[test]
fn machines_are_replaced_as_far_as_they_may_be_removed_and_the_rest_when_the_window_moves_on() {
    let (mut world, mut moved) = (four_machines(DisabledGuards::default()), 0);
    let mut seen = Vec::new();
    while world.now < 720_000 {
        world.run_to(world.now + 1_000);
        moved = world.move_drained_pods(moved);
        if seen.last() != Some(&counts(&world)) {
            seen.push(counts(&world));
        }
    }
    // Two are launched, two are drained, and nothing is launched for those that may not be: until 640 s.
    assert_eq!(seen, [(0, 0), (2, 0), (2, 2), (4, 2), (4, 4)]);
    let launched: Vec<i64> = world.done.launches.iter().map(|(at, _)| at.as_millis() / 1_000).collect();
    assert_eq!(launched[..2], [30, 30]);
    // The removals were decided at 40 s.
    assert!(launched[2..].iter().all(|at| (640..=660).contains(at)), "{launched:?}");
}

#[test]
fn sabotage_without_reservations_machines_are_launched_for_those_that_stay() {
    let mut world = four_machines(DisabledGuards::only(Guard::ReservedRemoval));
    world.run_to(60_000);
    assert_eq!(counts(&world), (4, 2));
}

/// Two clusters with three dear machines each, in a fleet that may lose four.
fn two_clusters(disabled: DisabledGuards) -> Fixture {
    let mut world = limited(disabled, 0, 4);
    for cluster in ["c", "d"] {
        world.connect(cluster, dear_machines(3));
    }
    world.run_to(90_000);
    world
}

#[test]
fn clusters_reserve_from_what_the_fleet_may_lose() {
    assert_eq!(counts(&two_clusters(DisabledGuards::default())), (4, 4));
}

#[test]
fn sabotage_without_reservations_clusters_launch_for_more_than_the_fleet_may_lose() {
    assert_eq!(counts(&two_clusters(DisabledGuards::only(Guard::ReservedRemoval))), (6, 4));
}

/// One machine may be removed. m0 waits for its replacement, which is never ready, and m1 is empty from 35 s on.
fn beside_an_empty_machine(disabled: DisabledGuards) -> Vec<ClaimName> {
    let mut world = limited(disabled, 1, 0);
    world.never_ready = true;
    let mut shown = dear_machines(2);
    for labels in [&mut shown.claims[1].labels, &mut shown.nodes[1].labels] {
        labels.insert(text(INSTANCE_TYPE), text("t.2"));
    }
    world.connect("c", shown);
    world.run_to(35_000);
    assert_eq!(counts(&world), (1, 0), "m0 is replaced");
    world.end_pod("c", bound_to("m1", pod("p1", 1_800)));
    world.run_to(300_000);
    world.drained().into_iter().collect()
}

#[test]
fn a_reserved_removal_is_left_to_no_other_machine() {
    assert_eq!(beside_an_empty_machine(DisabledGuards::default()), Vec::<ClaimName>::new());
}

#[test]
fn sabotage_without_reservations_another_machine_takes_the_removal() {
    assert_eq!(beside_an_empty_machine(DisabledGuards::only(Guard::ReservedRemoval)), [ClaimName::from("m1")]);
}

#[test]
fn a_reservation_ends_with_the_replacement() {
    let mut world = limited(DisabledGuards::default(), 1, 0);
    world.refused = true;
    world.connect("c", dear_machines(1));
    world.run_to(35_000);
    assert_eq!(world.controller.state(&text("c")).map(|state| state.replacements().len()), Some(0), "it failed");
    // The pod goes, and the machine is removed as empty after consolidateAfter.
    world.end_pod("c", bound_to("m0", pod("p0", 1_800)));
    world.run_to(90_000);
    assert_eq!(world.drained().into_iter().collect::<Vec<ClaimName>>(), [ClaimName::from("m0")]);
}

#[test]
fn nothing_is_replaced_while_no_launch_is_admitted() {
    let no_launch = |settings: &mut Settings| settings.guardrails.launches.cluster = machines(1);
    let mut world = Fixture::consolidating(DisabledGuards::default(), no_launch);
    world.connect("c", dear_machines(3));
    world.run_to(60_000);
    // One machine is launched within the window, and one is removed.
    assert_eq!(counts(&world), (1, 1));
}

/// A burst comes while the replacement of m0 boots. Its pod is planned onto a machine of its own,
/// is bound to the replacement, and the pod of m0 gets its place: whether m0 is still replaced.
fn after_a_burst(is_t2_left: bool) -> bool {
    let mut world = limited(DisabledGuards::default(), 0, 0);
    world.never_ready = true;
    world.connect("c", dear_machines(1));
    world.run_to(31_000);
    assert_eq!(counts(&world), (1, 0));
    if !is_t2_left {
        world.handle(RegionEvent::OfferingsUnavailable(vec![refused_t2()]));
    }
    world.observe("c", Object::Pod(pod("x", 1_800)));
    world.run_to(40_000);
    assert_eq!(counts(&world), (2, 0), "the pod of the burst gets a machine of its own");
    let replacement = world.done.launches[0].1.claim.clone();
    world.observe("c", Object::Pod(bound_to(&replacement, pod("x", 1_800))));
    world.run_to(45_000);
    let state = world.controller.state(&text("c")).expect("the cluster is there");
    !state.replacements().is_empty()
}

fn refused_t2() -> UnavailableOffering {
    UnavailableOffering {
        key: OfferingKey {
            instance_type: text("t.2"),
            zone: text("z"),
            capacity_type: CapacityType::OnDemand,
            is_shared: false,
            size: SizeClass::ONE,
        },
        failures: 1,
        refused_at: Timestamp::from_millis(31_000),
        until: Timestamp::from_millis(3_600_000),
        reason: text("InsufficientInstanceCapacity"),
        version: 1,
    }
}

#[test]
fn room_that_a_burst_takes_from_a_replacement_counts_against_the_saving() {
    // A t.2 at $0.02 instead of m0 at $0.04 still saves, and a t.4 at $0.04 does not.
    assert_eq!([after_a_burst(true), after_a_burst(false)], [true, false]);
}
