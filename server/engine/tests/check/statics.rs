//! Static pools: replicas, limits, zones.

use engine::check::Rule;
use engine::model::Resources;

use crate::world::{SMALL, World, plain};

/// A static pool of two, of which one stands in zone a and one is launched in zone b.
fn one_lacks() -> World {
    let mut world = World::new();
    world.pool().replicas = Some(2);
    world.node("n", "a");
    world.launch_static(&[SMALL], &["b"]);
    world
}

#[test]
fn a_static_pool_gets_what_it_lacks() {
    one_lacks().assert_clean();
    let mut world = one_lacks();
    world.launch_static(&[SMALL], &["c"]);
    world.assert_breaks(Rule::StaticNodes);
    let mut world = one_lacks();
    world.pool().replicas = Some(3);
    world.assert_breaks(Rule::StaticNodes);
    world.pool().limits = Resources::from_iter([("nodes", 2)]);
    world.assert_clean();
}

#[test]
fn static_nodes_respect_limits_and_carry_no_planned_pods() {
    let mut world = one_lacks();
    world.pool().limits = Resources::from_iter([("nodes", 1)]);
    world.assert_breaks(Rule::Limits);
    let mut world = one_lacks();
    let pod = world.pod("web", plain());
    world.plan.unschedulable.push(pod);
    world.plan.static_nodes[0].pods.push(pod);
    world.assert_breaks(Rule::StaticNodes);
}

#[test]
fn static_nodes_are_spread_over_zones() {
    let mut world = World::new();
    world.pool().replicas = Some(2);
    world.launch_static(&[SMALL], &["a"]);
    world.launch_static(&[SMALL], &["a"]);
    world.assert_breaks(Rule::StaticNodes);
}

#[test]
fn a_pool_without_replicas_is_not_static() {
    let mut world = World::new();
    world.launch_static(&[SMALL], &["a"]);
    world.assert_breaks(Rule::Pool);
}
