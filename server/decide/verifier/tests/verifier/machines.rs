//! Planned nodes that cannot be launched or differ from the plan.

use std::sync::Arc;

use model::input::MinValuesPolicy;
use model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::plan::PlannedNode;
use model::{CapacityType, MicroUsd, NotReady, Operator, Requirement, Resources, Zone};
use verifier::Rule;

use crate::fixture::{Fixture, LARGE, SMALL, amounts, labels, machine, offering, plain, reserved, taint, text};

/// One pod on one node that may launch as small or large in zones a and b.
fn one_machine() -> Fixture {
    let mut fixture = Fixture::new();
    let pod = fixture.pod("web", plain());
    fixture.launch(&[SMALL, LARGE], &["a", "b"], &[pod]);
    fixture.assert_clean();
    fixture
}

/// The same with one change of the planned node.
fn with(change: impl Fn(&mut PlannedNode)) -> Fixture {
    let mut fixture = one_machine();
    change(&mut fixture.plan.nodes[0]);
    fixture
}

#[test]
fn an_unready_or_static_pool_launches_nothing_for_pods() {
    let mut fixture = one_machine();
    fixture.pool().not_ready = Some(NotReady::NodeClass(text("missing")));
    fixture.assert_breaks(Rule::Pool);
    let mut fixture = one_machine();
    fixture.pool().replicas = Some(0);
    fixture.assert_breaks(Rule::Pool);
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
    let mut fixture = Fixture::new();
    let types = (0..61).map(|n| machine(&format!("t{n:02}"), 2, 100_000)).collect();
    fixture.input.pools = vec![crate::fixture::pool("default", types)];
    let pod = fixture.pod("web", plain());
    let names: Vec<String> = (0..61).map(|n| format!("t{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    fixture.launch(&names, &["a"], &[pod]);
    fixture.assert_breaks(Rule::Options);
}

#[test]
fn every_option_and_zone_is_available() {
    let mut fixture = one_machine();
    fixture.machine(LARGE).offerings.iter_mut().for_each(|offering| offering.available = false);
    fixture.assert_breaks(Rule::Offering);
    with(|node| node.zones = ["a", "d"].map(Zone::from).into()).assert_breaks(Rule::Offering);
    with(|node| node.zones = ["a", "a"].map(Zone::from).into()).assert_breaks(Rule::Offering);
    let mut fixture = one_machine();
    fixture.machine(SMALL).offerings.retain(|offering| offering.zone.as_ref() == "b");
    fixture.assert_breaks(Rule::Offering);
}

#[test]
fn the_price_is_that_of_the_first_option_in_the_first_zone() {
    with(|node| node.price = MicroUsd(99_999)).assert_breaks(Rule::Price);
}

#[test]
fn options_satisfy_the_pools_requirements() {
    let mut fixture = one_machine();
    fixture.pool().requirements.add(Requirement::equals(INSTANCE_TYPE, SMALL));
    fixture.assert_breaks(Rule::PoolRequirements);
    let mut fixture = one_machine();
    fixture.pool().requirements.add(Requirement::equals(ZONE, "a"));
    fixture.assert_breaks(Rule::Offering);
}

#[test]
fn min_values_count_the_options_unless_the_policy_is_best_effort() {
    let mut fixture = one_machine();
    let three = Requirement::new(INSTANCE_TYPE, Operator::Exists, []).with_min_values(Some(3));
    fixture.pool().requirements.add(three);
    fixture.assert_breaks(Rule::MinValues);
    fixture.input.policy.min_values = MinValuesPolicy::BestEffort;
    fixture.assert_clean();
}

#[test]
fn limits_hold_for_the_largest_option() {
    // An existing node of 4 CPUs and a planned one of up to 4: 8 in all, and 2 nodes.
    for (resource, enough) in [("cpu", 8000), ("nodes", 2)] {
        let mut fixture = one_machine();
        fixture.node("n", "a");
        fixture.pool().limits = Resources::from_iter([(resource, enough)]);
        fixture.assert_clean();
        fixture.pool().limits = Resources::from_iter([(resource, enough - 1)]);
        fixture.assert_breaks(Rule::Limits);
        fixture.input.nodes[0].stage = model::NodeStage::Deleting;
        fixture.assert_clean();
    }
}

#[test]
fn a_reservation_is_not_used_by_more_nodes_than_it_has_instances() {
    let mut fixture = Fixture::new();
    fixture.machine(SMALL).offerings.push(reserved("cr-1", 1));
    for app in ["one", "two"] {
        fixture.assert_clean();
        let pod = fixture.pod(app, plain());
        let node = fixture.described(0, CapacityType::Reserved, &[SMALL], &["a"], &[pod]);
        fixture.plan.nodes.push(node);
        fixture.plan.order.push(pod);
    }
    fixture.assert_breaks(Rule::Reservations);
}

#[test]
fn labels_are_correct_and_complete() {
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
fn a_pool_label_is_stated_and_an_undecided_label_is_chosen_within_the_pool() {
    let mut fixture = one_machine();
    fixture.pool().labels = labels(&[("team", "blue")]);
    fixture.assert_breaks(Rule::Labels);
    for (value, clean) in [("blue", true), ("green", false)] {
        let mut fixture = one_machine();
        let teams = [text("blue"), text("red")];
        fixture.pool().requirements.add(Requirement::new("team", Operator::In, teams));
        Arc::make_mut(&mut fixture.plan.nodes[0].labels).insert(text("team"), text(value));
        assert_eq!(fixture.broken().is_empty(), clean, "{:?}", fixture.broken());
    }
}

#[test]
fn taints_equal_those_of_the_pool() {
    with(|node| node.taints = vec![taint("extra")].into()).assert_breaks(Rule::NodeTaints);
}

#[test]
fn requests_are_those_of_pods_and_daemonsets() {
    with(|node| node.requests = amounts(999, 1 << 30, 1)).assert_breaks(Rule::Requests);
    let mut fixture = one_machine();
    fixture.daemon("logs", plain());
    fixture.assert_breaks(Rule::Requests);
}

#[test]
fn equal_nodes_described_separately_are_checked_alike() {
    let mut fixture = one_machine();
    let pod = fixture.pod("web", plain());
    fixture.launch(&[SMALL, LARGE], &["a", "b"], &[pod]).price = MicroUsd(1);
    fixture.assert_breaks(Rule::Price);
}

#[test]
fn an_offering_of_another_capacity_type_does_not_count() {
    let mut fixture = one_machine();
    fixture.machine(SMALL).offerings = vec![offering("a", CapacityType::Spot, 30_000)];
    fixture.assert_breaks(Rule::Offering);
}
