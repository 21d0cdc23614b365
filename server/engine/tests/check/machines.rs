//! Machines that cannot be bought or are not what the plan says.

use std::sync::Arc;

use engine::check::Rule;
use engine::input::MinValuesPolicy;
use engine::model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use engine::model::{CapacityType, MicroUsd, NotReady, Operator, Requirement, Resources};
use engine::plan::PlannedNode;

use crate::world::{LARGE, SMALL, World, amounts, labels, machine, offering, plain, reserved, taint, text};

/// One pod on one machine that may launch as small or large in zones a and b.
fn one_machine() -> World {
    let mut world = World::new();
    let pod = world.pod("web", plain());
    world.launch(&[SMALL, LARGE], &["a", "b"], &[pod]);
    world.assert_clean();
    world
}

/// The same with one thing changed on the machine.
fn with(change: impl Fn(&mut PlannedNode)) -> World {
    let mut world = one_machine();
    change(&mut world.plan.nodes[0]);
    world
}

#[test]
fn an_unready_or_static_pool_launches_nothing_for_pods() {
    let mut world = one_machine();
    world.pool().not_ready = Some(NotReady::NodeClass(text("missing")));
    world.assert_breaks(Rule::Pool);
    let mut world = one_machine();
    world.pool().replicas = Some(0);
    world.assert_breaks(Rule::Pool);
}

#[test]
fn options_are_one_to_sixty_different_ones_cheapest_first() {
    with(|node| node.types = vec![1, 1, 0].into()).assert_breaks(Rule::Options);
    with(|node| {
        node.types = vec![0, 1].into();
        node.price = MicroUsd(200_000);
    })
    .assert_breaks(Rule::Options);
    with(|node| node.types = Arc::from([])).assert_breaks(Rule::Options);
    let mut world = World::new();
    let types = (0..61).map(|n| machine(&format!("t{n:02}"), 2, 100_000)).collect();
    world.input.pools = vec![crate::world::pool("default", types)];
    let pod = world.pod("web", plain());
    let names: Vec<String> = (0..61).map(|n| format!("t{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.launch(&names, &["a"], &[pod]);
    world.assert_breaks(Rule::Options);
}

#[test]
fn every_option_and_zone_is_on_sale() {
    let mut world = one_machine();
    world.machine(LARGE).offerings.iter_mut().for_each(|offering| offering.available = false);
    world.assert_breaks(Rule::Offering);
    with(|node| node.zones = vec![text("a"), text("d")].into()).assert_breaks(Rule::Offering);
    with(|node| node.zones = vec![text("a"), text("a")].into()).assert_breaks(Rule::Offering);
    let mut world = one_machine();
    world.machine(SMALL).offerings.retain(|offering| offering.zone.as_ref() == "b");
    world.assert_breaks(Rule::Offering);
}

#[test]
fn the_price_is_that_of_the_first_option_in_the_first_zone() {
    with(|node| node.price = MicroUsd(99_999)).assert_breaks(Rule::Price);
}

#[test]
fn options_satisfy_the_pools_requirements() {
    let mut world = one_machine();
    world.pool().requirements.add(Requirement::equals(INSTANCE_TYPE, SMALL));
    world.assert_breaks(Rule::PoolRequirements);
    let mut world = one_machine();
    world.pool().requirements.add(Requirement::equals(ZONE, "a"));
    world.assert_breaks(Rule::Offering);
}

#[test]
fn min_values_count_the_options_unless_the_policy_gives_way() {
    let mut world = one_machine();
    let three = Requirement::new(INSTANCE_TYPE, Operator::Exists, []).with_min_values(Some(3));
    world.pool().requirements.add(three);
    world.assert_breaks(Rule::MinValues);
    world.input.policy.min_values = MinValuesPolicy::BestEffort;
    world.assert_clean();
}

#[test]
fn limits_hold_for_the_largest_option() {
    // An existing node of 4 CPUs and a machine that may come with 4: 8 in all, and 2 nodes.
    for (resource, enough) in [("cpu", 8000), ("nodes", 2)] {
        let mut world = one_machine();
        world.node("n", "a");
        world.pool().limits = Resources::from_iter([(resource, enough)]);
        world.assert_clean();
        world.pool().limits = Resources::from_iter([(resource, enough - 1)]);
        world.assert_breaks(Rule::Limits);
        world.input.nodes[0].stage = engine::model::NodeStage::Deleting;
        world.assert_clean();
    }
}

#[test]
fn a_reservation_is_not_drawn_on_more_often_than_it_has_machines() {
    let mut world = World::new();
    world.machine(SMALL).offerings.push(reserved("cr-1", 1));
    for app in ["one", "two"] {
        world.assert_clean();
        let pod = world.pod(app, plain());
        let node = world.described(0, CapacityType::Reserved, &[SMALL], &["a"], &[pod]);
        world.plan.nodes.push(node);
        world.plan.order.push(pod);
    }
    world.assert_breaks(Rule::Reservations);
}

#[test]
fn labels_are_true_and_complete() {
    let relabel = |key: &str, value: Option<&str>| {
        with(|node| {
            let labels = Arc::make_mut(&mut node.labels);
            labels.remove(key);
            labels.extend(value.map(|value| (text(key), text(value))));
        })
    };
    relabel(ARCH, None).assert_breaks(Rule::Labels);
    relabel(ARCH, Some("arm64")).assert_breaks(Rule::Labels);
    relabel(CAPACITY_TYPE, None).assert_breaks(Rule::Labels);
    relabel(INSTANCE_TYPE, Some(SMALL)).assert_breaks(Rule::Labels);
    relabel("team", Some("blue")).assert_breaks(Rule::Labels);
}

#[test]
fn a_label_of_the_pool_is_stated_and_one_that_the_pool_leaves_open_is_chosen_within_it() {
    let mut world = one_machine();
    world.pool().labels = labels(&[("team", "blue")]);
    world.assert_breaks(Rule::Labels);
    for (value, clean) in [("blue", true), ("green", false)] {
        let mut world = one_machine();
        let teams = [text("blue"), text("red")];
        world.pool().requirements.add(Requirement::new("team", Operator::In, teams));
        Arc::make_mut(&mut world.plan.nodes[0].labels).insert(text("team"), text(value));
        assert_eq!(world.broken().is_empty(), clean, "{:?}", world.broken());
    }
}

#[test]
fn taints_are_the_pools() {
    with(|node| node.taints = vec![taint("extra")].into()).assert_breaks(Rule::NodeTaints);
}

#[test]
fn requests_are_those_of_pods_and_daemons() {
    with(|node| node.requests = amounts(999, 1 << 30, 1)).assert_breaks(Rule::Requests);
    let mut world = one_machine();
    world.daemon("logs", plain());
    world.assert_breaks(Rule::Requests);
}

#[test]
fn equal_machines_described_apart_are_checked_alike() {
    let mut world = one_machine();
    let pod = world.pod("web", plain());
    world.launch(&[SMALL, LARGE], &["a", "b"], &[pod]).price = MicroUsd(1);
    world.assert_breaks(Rule::Price);
}

#[test]
fn an_offering_of_another_capacity_type_does_not_count() {
    let mut world = one_machine();
    world.machine(SMALL).offerings = vec![offering("a", CapacityType::Spot, 30_000)];
    world.assert_breaks(Rule::Offering);
}
