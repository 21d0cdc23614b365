//! Placements: every pod once, every name once, every index in range.

use model::NodeName;
use verifier::Rule;

use crate::fixture::{Fixture, LARGE, SMALL, plain, text};

/// Two pods on one planned node, one on an existing node, one unschedulable.
fn four_pods() -> Fixture {
    let mut fixture = Fixture::new();
    let pods: Vec<u32> = (0..4).map(|_| fixture.pod("web", plain())).collect();
    let node = fixture.node("n", "a");
    fixture.launch(&[SMALL, LARGE], &["a", "b"], &pods[..2]);
    fixture.place(pods[2], node);
    fixture.plan.unschedulable.push(pods[3]);
    fixture
}

#[test]
fn a_correct_plan_is_clean() {
    four_pods().assert_clean();
}

#[test]
fn a_pod_missing_from_the_plan_is_found() {
    let mut fixture = four_pods();
    fixture.plan.unschedulable.clear();
    fixture.assert_breaks(Rule::Placement);
}

#[test]
fn a_pod_in_two_places_is_found() {
    let mut fixture = four_pods();
    fixture.plan.unschedulable.push(2);
    fixture.assert_breaks(Rule::Placement);
}

#[test]
fn indices_out_of_range_are_found_without_a_panic() {
    let mut fixture = four_pods();
    fixture.plan.placements.push((99, 0));
    fixture.assert_breaks(Rule::Placement);
    let mut fixture = four_pods();
    fixture.plan.nodes[0].pool = 7;
    fixture.assert_breaks(Rule::Pool);
    let mut fixture = four_pods();
    fixture.plan.nodes[0].types = vec![1, 0, 40].into();
    fixture.assert_breaks(Rule::Options);
}

#[test]
fn a_planned_node_without_pods_is_found() {
    let mut fixture = four_pods();
    fixture.launch(&[SMALL], &["a"], &[]);
    fixture.assert_breaks(Rule::Placement);
}

#[test]
fn an_invalid_pod_is_not_placed() {
    let mut fixture = four_pods();
    fixture.input.pods[0].invalid = Some(text("spec.containers is empty"));
    fixture.assert_breaks(Rule::InvalidPod);
}

#[test]
fn the_order_contains_every_placed_pod_once() {
    for order in [vec![0, 1], vec![0, 1, 2, 2], vec![0, 1, 2, 3], vec![0, 1, 2, 99]] {
        let mut fixture = four_pods();
        fixture.plan.order = order;
        fixture.assert_breaks(Rule::Order);
    }
}

#[test]
fn names_of_planned_nodes_are_unique() {
    let mut fixture = four_pods();
    fixture.plan.nodes[0].name = NodeName::from("n");
    fixture.assert_breaks(Rule::Names);
}
