//! Every pod once, every name once, every index in range.

use engine::check::Rule;

use crate::world::{LARGE, SMALL, World, plain, text};

/// Two pods on one machine, one on a node, one that fits nowhere.
fn four_pods() -> World {
    let mut world = World::new();
    let pods: Vec<u32> = (0..4).map(|_| world.pod("web", plain())).collect();
    let node = world.node("n", "a");
    world.launch(&[SMALL, LARGE], &["a", "b"], &pods[..2]);
    world.place(pods[2], node);
    world.plan.unschedulable.push(pods[3]);
    world
}

#[test]
fn a_correct_plan_is_clean() {
    four_pods().assert_clean();
}

#[test]
fn a_pod_that_is_nowhere_is_found() {
    let mut world = four_pods();
    world.plan.unschedulable.clear();
    world.assert_breaks(Rule::Roster);
}

#[test]
fn a_pod_in_two_places_is_found() {
    let mut world = four_pods();
    world.plan.unschedulable.push(2);
    world.assert_breaks(Rule::Roster);
}

#[test]
fn indices_beyond_the_input_are_found_and_do_no_harm() {
    let mut world = four_pods();
    world.plan.placements.push((99, 0));
    world.assert_breaks(Rule::Roster);
    let mut world = four_pods();
    world.plan.nodes[0].pool = 7;
    world.assert_breaks(Rule::Pool);
    let mut world = four_pods();
    world.plan.nodes[0].types = vec![1, 0, 40].into();
    world.assert_breaks(Rule::Options);
}

#[test]
fn a_machine_that_nobody_needs_is_found() {
    let mut world = four_pods();
    world.launch(&[SMALL], &["a"], &[]);
    world.assert_breaks(Rule::Roster);
}

#[test]
fn a_pod_that_nobody_can_schedule_is_not_placed() {
    let mut world = four_pods();
    world.input.pods[0].invalid = Some(text("spec.containers is empty"));
    world.assert_breaks(Rule::InvalidPod);
}

#[test]
fn the_order_names_every_placed_pod_once() {
    for order in [vec![0, 1], vec![0, 1, 2, 2], vec![0, 1, 2, 3], vec![0, 1, 2, 99]] {
        let mut world = four_pods();
        world.plan.order = order;
        world.assert_breaks(Rule::Order);
    }
}

#[test]
fn names_of_machines_are_unique() {
    let mut world = four_pods();
    world.plan.nodes[0].name = text("n");
    world.assert_breaks(Rule::Names);
}
