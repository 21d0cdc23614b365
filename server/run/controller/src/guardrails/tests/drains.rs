//! The machine launched for the pods of a drain is reserved for them until the drain has ended.
//!
//! The cluster: the NodePool has empty nodes removed at once. Pod `a`, 0.5 cores, runs on `m0`, a
//! t.2 of 2 cores; `b`, 1.8 cores, on `m1`, so that `a` fits on no other machine. The Node of `m0`
//! is deleted by hand at 10 s. The batch window closes a second later: a t.2 is launched for `a`,
//! and joins at once. The assignment is valid until 31 s.

use super::fixture::{Fixture, real, snapshot};
use crate::guardrails::{DisabledGuards, Guard};
use cluster::testing::{bound_to, node, pod, pool, text};
use cluster::{ClusterSnapshot, DoNotDisrupt, Key, NodeRecord, Object, PodRecord, Scheduling};
use model::{ClaimName, Millis, Timestamp};

/// `machines` initialized, those beyond the first two empty, with `a` and `b` where they are.
fn cluster(machines: usize) -> ClusterSnapshot {
    let mut greedy = pool();
    greedy.disruption.consolidate_after = Some(Millis::ZERO);
    let pods = vec![bound_to("m0", pod("a", 500)), bound_to("m1", pod("b", 1_800))];
    ClusterSnapshot { pools: vec![greedy], ..snapshot(machines, pods) }
}

fn deleted() -> NodeRecord {
    NodeRecord { deleting: true, ..node("m0") }
}

fn world(keep: bool) -> Fixture {
    let disabled = if keep { DisabledGuards::default() } else { DisabledGuards::only(Guard::Replacement) };
    let mut world = Fixture::with_disabled_guards(real, disabled, |_| {});
    world.stuck = Some("m0");
    world
}

/// The Node of `m0` is deleted at 10 s, and the drain is held up.
fn held_drain(keep: bool) -> Fixture {
    let mut world = world(keep);
    world.connect("c", cluster(2));
    world.run_to(10_000);
    world.observe("c", Object::Node(deleted()));
    world.run_to(12_000);
    world
}

/// Advances time until `end`, with an observation of the cluster every second.
fn pass_to(world: &mut Fixture, end: i64) {
    while world.now < end {
        world.run_to(world.now + 1_000);
        world.observe("c", Object::Pod(bound_to("m1", pod("b", 1_800))));
    }
}

fn launched_at(world: &Fixture) -> Vec<i64> {
    world.done.launches.iter().map(|(at, _)| at.as_millis()).collect()
}

/// The NodeClaim that was launched for `a`.
fn replacement(world: &Fixture) -> ClaimName {
    world.done.launches[0].1.claim.clone()
}

fn drained(world: &Fixture) -> Vec<ClaimName> {
    world.drained().into_iter().collect()
}

#[test]
fn a_drain_delayed_by_an_hour_keeps_the_one_machine_launched_for_it() {
    let mut world = held_drain(true);
    pass_to(&mut world, 3_600_000);
    assert_eq!((launched_at(&world), drained(&world)), (vec![11_000], vec![text("m0")]));
    assert_eq!(world.done.decisions.len(), 1, "no decision is made about a waiting drain");
}

#[test]
fn sabotage_without_keeping_it_the_machine_is_terminated_and_launched_again() {
    let mut world = held_drain(false);
    pass_to(&mut world, 3_600_000);
    assert!(
        launched_at(&world).len() > 1 && drained(&world).contains(&replacement(&world)),
        "{:?}",
        launched_at(&world)
    );
}

#[test]
fn it_is_kept_although_its_pod_refuses_disruption_later() {
    let mut world = held_drain(true);
    world.observe(
        "c",
        Object::Pod(PodRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..bound_to("m0", pod("a", 500)) }),
    );
    pass_to(&mut world, 600_000);
    assert_eq!((launched_at(&world), drained(&world)), (vec![11_000], vec![text("m0")]));
}

/// `a` is evicted at 20 s and ends a second later, and the drain with it. Its successor, if there
/// is one, is bound at 35 s.
fn evicted(keep: bool, successor: bool) -> Fixture {
    let mut world = held_drain(keep);
    pass_to(&mut world, 20_000);
    world.observe("c", Object::Pod(PodRecord { terminating: true, ..bound_to("m0", pod("a", 500)) }));
    if successor {
        world.observe("c", Object::Pod(PodRecord { scheduling: Scheduling::Unseen, ..pod("a2", 500) }));
    }
    pass_to(&mut world, 21_000);
    world.delete("c", Key::Pod(pod("a", 500).key));
    world.finish_drains();
    pass_to(&mut world, 35_000);
    if successor {
        world.observe("c", Object::Pod(bound_to(&replacement(&world), pod("a2", 500))));
    }
    pass_to(&mut world, 120_000);
    world
}

#[test]
fn it_is_kept_for_the_successor_of_the_evicted_pod() {
    let world = evicted(true, true);
    assert_eq!((launched_at(&world), drained(&world)), (vec![11_000], vec![text("m0")]));
}

#[test]
fn sabotage_without_keeping_it_the_successor_has_no_machine() {
    let world = evicted(false, true);
    assert!(drained(&world).contains(&replacement(&world)));
}

#[test]
fn it_is_removed_when_the_drain_has_ended_and_no_pod_needs_it() {
    let world = evicted(true, false);
    assert_eq!(launched_at(&world), [11_000]);
    let (at, claim) = &world.done.drained[1];
    assert_eq!(*claim, replacement(&world));
    // A successor is assumed for 20 s after the eviction at 20 s; a pass over empty nodes runs
    // every 10 s.
    assert!((Timestamp::from_millis(40_000)..=Timestamp::from_millis(50_000)).contains(at), "{at:?}");
}

#[test]
fn another_pod_may_use_it_and_the_drained_pod_gets_other_capacity() {
    let mut world = held_drain(true);
    pass_to(&mut world, 15_000);
    world.observe("c", Object::Pod(bound_to(&replacement(&world), pod("x", 1_800))));
    pass_to(&mut world, 600_000);
    // 1.8 and 0.5 cores are more than 2: the assignment expires at 15 s, and its pod is planned a
    // second later.
    assert_eq!((launched_at(&world), drained(&world)), (vec![11_000, 16_000], vec![text("m0")]));
}

/// A process takes the cluster over while the drain is held up, and `m2` is the replacement for
/// `a`.
fn taken_over(keep: bool) -> Fixture {
    let mut world = world(keep);
    let mut found = cluster(3);
    found.nodes[0] = deleted();
    world.connect("c", found);
    pass_to(&mut world, 600_000);
    world
}

#[test]
fn a_process_that_takes_over_keeps_the_machine_launched_for_a_drain() {
    let world = taken_over(true);
    assert_eq!((launched_at(&world), drained(&world)), (vec![], vec![text("m0")]));
}

#[test]
fn sabotage_a_process_that_does_not_wait_for_its_plan_launches_again_what_it_removes() {
    let world = taken_over(false);
    assert!(drained(&world).contains(&text("m2")) && !launched_at(&world).is_empty());
}
