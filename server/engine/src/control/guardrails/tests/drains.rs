//! What is bought for the pods of a drain is theirs until the drain has ended.
//!
//! The cluster: the NodePool has empty nodes removed at once. Pod `a`, 0.5 cores, runs on `m0`, a t.2 of 2 cores; `b`, 1.8 cores,
//! on `m1`, so that `a` fits on no other machine. Somebody deletes the Node of `m0` at 10 s. The batch window closes a second
//! later: a t.2 is bought for `a`, and joins at once. Its promise is good until 31 s.

use super::world::{World, real, snapshot};
use crate::cluster::testing::{node, on, pod, pool, text};
use crate::cluster::{ClusterSnapshot, DoNotDisrupt, Key, NodeRecord, Object, PodRecord, Scheduling};
use crate::model::{Text, Timestamp};

/// `machines` in service, those beyond the first two empty, with `a` and `b` where they are.
fn cluster(machines: usize) -> ClusterSnapshot {
    let mut greedy = pool();
    greedy.life.consolidate_after_ms = Some(0);
    let pods = vec![on("m0", pod("a", 500)), on("m1", pod("b", 1_800))];
    ClusterSnapshot { pools: vec![greedy], ..snapshot(machines, pods) }
}

fn deleted() -> NodeRecord {
    NodeRecord { deleting: true, ..node("m0") }
}

fn world(keep: bool) -> World {
    let mut world = World::planned_by(real, |settings| settings.rails.keep_replacements = keep);
    world.stuck = Some("m0");
    world
}

/// The Node of `m0` is deleted at 10 s, and something holds the drain up.
fn held_drain(keep: bool) -> World {
    let mut world = world(keep);
    world.connect("c", cluster(2));
    world.run_to(10_000);
    world.see("c", Object::Node(deleted()));
    world.run_to(12_000);
    world
}

/// Time passes until `end`, and something is heard of the cluster every second.
fn pass_to(world: &mut World, end: i64) {
    while world.now < end {
        world.run_to(world.now + 1_000);
        world.see("c", Object::Pod(on("m1", pod("b", 1_800))));
    }
}

fn launched_at(world: &World) -> Vec<i64> {
    world.done.launches.iter().map(|(at, _)| at.0).collect()
}

/// The NodeClaim that was bought for `a`.
fn replacement(world: &World) -> Text {
    world.done.launches[0].1.claim.clone()
}

fn drained(world: &World) -> Vec<Text> {
    world.drained().into_iter().collect()
}

#[test]
fn a_drain_that_is_held_up_for_an_hour_keeps_the_one_machine_that_was_bought_for_it() {
    let mut world = held_drain(true);
    pass_to(&mut world, 3_600_000);
    assert_eq!((launched_at(&world), drained(&world)), (vec![11_000], vec![text("m0")]));
    assert_eq!(world.done.decisions.len(), 1, "nothing is decided about a drain that waits");
}

#[test]
fn sabotage_without_keeping_it_the_machine_is_given_back_and_bought_again() {
    let mut world = held_drain(false);
    pass_to(&mut world, 3_600_000);
    assert!(
        launched_at(&world).len() > 1 && drained(&world).contains(&replacement(&world)),
        "{:?}",
        launched_at(&world)
    );
}

#[test]
fn it_is_kept_although_its_pod_refuses_disruption_from_some_moment_on() {
    let mut world = held_drain(true);
    world.see("c", Object::Pod(PodRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..on("m0", pod("a", 500)) }));
    pass_to(&mut world, 600_000);
    assert_eq!((launched_at(&world), drained(&world)), (vec![11_000], vec![text("m0")]));
}

/// `a` is evicted at 20 s and ends a second later, and the drain with it. The pod in its place is bound at 35 s, if there is one.
fn evicted(keep: bool, successor: bool) -> World {
    let mut world = held_drain(keep);
    pass_to(&mut world, 20_000);
    world.see("c", Object::Pod(PodRecord { terminating: true, ..on("m0", pod("a", 500)) }));
    if successor {
        world.see("c", Object::Pod(PodRecord { scheduling: Scheduling::Unseen, ..pod("a2", 500) }));
    }
    pass_to(&mut world, 21_000);
    world.lose("c", Key::Pod(pod("a", 500).key));
    world.let_drains_go();
    pass_to(&mut world, 35_000);
    if successor {
        world.see("c", Object::Pod(on(&replacement(&world), pod("a2", 500))));
    }
    pass_to(&mut world, 120_000);
    world
}

#[test]
fn it_waits_for_the_pod_that_comes_in_the_place_of_the_one_that_was_evicted() {
    let world = evicted(true, true);
    assert_eq!((launched_at(&world), drained(&world)), (vec![11_000], vec![text("m0")]));
}

#[test]
fn sabotage_without_keeping_it_the_successor_finds_it_gone() {
    let world = evicted(false, true);
    assert!(drained(&world).contains(&replacement(&world)));
}

#[test]
fn it_is_given_back_when_the_drain_has_ended_and_nobody_came() {
    let world = evicted(true, false);
    assert_eq!(launched_at(&world), [11_000]);
    let (at, claim) = &world.done.drained[1];
    assert_eq!(*claim, replacement(&world));
    // Somebody is expected for 20 s after the eviction at 20 s; empty nodes are looked for every 10 s.
    assert!((Timestamp(40_000)..=Timestamp(50_000)).contains(at), "{at:?}");
}

#[test]
fn another_pod_may_use_it_and_the_one_on_the_drain_gets_room_elsewhere() {
    let mut world = held_drain(true);
    pass_to(&mut world, 15_000);
    world.see("c", Object::Pod(on(&replacement(&world), pod("x", 1_800))));
    pass_to(&mut world, 600_000);
    // 1.8 and 0.5 cores are more than 2: the promise is not extended at 31 s, and its pod is planned a second later.
    assert_eq!((launched_at(&world), drained(&world)), (vec![11_000, 32_000], vec![text("m0")]));
}

/// A process takes the cluster over while the drain is held up, and `m2` stands there for `a`.
fn taken_over(keep: bool) -> World {
    let mut world = world(keep);
    let mut found = cluster(3);
    found.nodes[0] = deleted();
    world.connect("c", found);
    pass_to(&mut world, 600_000);
    world
}

#[test]
fn a_process_that_takes_over_keeps_what_was_bought_for_a_drain() {
    let world = taken_over(true);
    assert_eq!((launched_at(&world), drained(&world)), (vec![], vec![text("m0")]));
}

#[test]
fn sabotage_a_process_that_does_not_wait_for_its_plan_buys_again_what_it_gives_back() {
    let world = taken_over(false);
    assert!(drained(&world).contains(&text("m2")) && !launched_at(&world).is_empty());
}
