//! The lower bound on worlds small enough to work it out by hand. On spot, `small` has 2 CPUs for 0.03 and `large` 4 for
//! 0.06; on demand 0.10 and 0.20. Pods are of 1 CPU and 1 GiB, so CPU decides.

use engine::bound::{lower_bound, resource_prices};
use engine::model::labels::{CAPACITY_TYPE, HOSTNAME};
use engine::model::{HostPort, MicroUsd, PodShape, Requirement};

use crate::world::{LARGE, SMALL, World, about, amounts, plain, reserved, taint, text, wanting};

/// These pods on machines that are far too dear, so that the plan's own cost does not cap the bound.
fn dear(world: &mut World, pods: &[u32]) {
    world.launch(&[LARGE], &["a"], pods).price = MicroUsd(1_000_000_000);
}

fn world_of(shapes: &[PodShape]) -> World {
    let mut world = World::new();
    let pods: Vec<u32> = shapes.iter().map(|shape| world.pod("web", shape.clone())).collect();
    dear(&mut world, &pods);
    world
}

#[track_caller]
fn assert_bound(world: &World, micro_usd: i64) {
    // Rounding down may cost a micro-dollar.
    let bound = lower_bound(&world.input, &world.plan).0;
    assert!(bound == micro_usd || bound == micro_usd - 1, "{bound}, expected {micro_usd}");
}

fn on_demand() -> PodShape {
    wanting(Requirement::equals(CAPACITY_TYPE, "on-demand"))
}

#[test]
fn resources_are_bought_at_the_cheapest_price_for_each() {
    // 3 CPUs at 0.015 each.
    assert_bound(&world_of(&vec![plain(); 3]), 45_000);
    // 1 pod alone needs a whole machine.
    assert_bound(&world_of(&[plain()]), 30_000);
}

#[test]
fn pods_that_may_not_use_cheap_offerings_are_not_covered_by_them() {
    assert_bound(&world_of(&vec![on_demand(); 2]), 100_000);
    // 2 CPUs on demand at 0.05 each and 2 anywhere at 0.015: 0.10 + 0.03.
    assert_bound(&world_of(&[on_demand(), on_demand(), plain(), plain()]), 130_000);
}

#[test]
fn room_on_machines_that_only_some_pods_need_serves_the_others_too() {
    // 1 pod on demand and 1 anywhere share one small machine for 0.10; their CPUs alone are worth 0.05 + 0.015, and the
    // one on demand needs a whole machine.
    assert_bound(&world_of(&[on_demand(), plain()]), 100_000);
}

#[test]
fn what_stands_is_free_as_far_as_it_goes() {
    // 4 of 6 pods fit the node, 2 need a small machine.
    let mut world = world_of(&vec![plain(); 6]);
    world.node("n", "a");
    assert_bound(&world, 30_000);
    world.input.nodes[0].taints.push(taint("gpu"));
    assert_bound(&world, 90_000);
}

#[test]
fn reserved_machines_are_free_as_far_as_they_go() {
    // A reserved small machine holds 2 of the 4 pods, so one leaves 2 and two leave none.
    let mut world = world_of(&vec![plain(); 4]);
    world.machine(SMALL).offerings.push(reserved("cr-1", 1));
    assert_bound(&world, 30_000);
    world.machine(SMALL).offerings.push(reserved("cr-2", 1));
    assert_eq!(lower_bound(&world.input, &world.plan), MicroUsd(0));
}

#[test]
fn pods_that_exclude_each_other_need_a_machine_each() {
    let apart = PodShape { pod_anti_affinity: vec![about("web", HOSTNAME)], ..plain() };
    let port = HostPort { ip: text(""), protocol: text("TCP"), port: 80 };
    let port = PodShape { host_ports: vec![port], ..plain() };
    for shape in [apart, port] {
        // 3 machines at 0.03, or 2 beside a node.
        let mut world = world_of(&vec![shape; 3]);
        assert_bound(&world, 90_000);
        world.node("n", "a");
        assert_bound(&world, 60_000);
    }
}

#[test]
fn memory_counts_where_it_is_scarce() {
    // 16 GiB for 0.06: 12 GiB are 0.045, a whole large machine is 0.06, and no small one holds such a pod.
    let pod = PodShape { requests: amounts(100, 12 << 30, 1), ..PodShape::default() };
    assert_bound(&world_of(&[pod]), 60_000);
}

#[test]
fn nothing_bought_costs_nothing_and_a_plan_is_never_below_its_bound() {
    let mut world = World::new();
    let pod = world.pod("web", plain());
    let node = world.node("n", "a");
    world.place(pod, node);
    assert_eq!(lower_bound(&world.input, &world.plan), MicroUsd(0));
    let mut world = World::new();
    let pod = world.pod("web", plain());
    world.launch(&[SMALL], &["a"], &[pod]).price = MicroUsd(7);
    assert_eq!(lower_bound(&world.input, &world.plan), MicroUsd(7));
}

#[test]
fn a_resource_is_worth_what_covering_it_costs() {
    // 0.03 for 2,000 millicores, memory in plenty: 15 micro-dollars a millicore.
    let prices = resource_prices(&world_of(&vec![plain(); 3]).input, &world_of(&vec![plain(); 3]).plan);
    let cpu = prices.iter().find(|(name, _)| name.as_ref() == "cpu").unwrap().1;
    assert!((cpu - 15.0).abs() < 1e-3, "{cpu}");
}
