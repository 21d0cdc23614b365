//! Static pools: replicas, limits, zones.

use model::Resources;
use verifier::Rule;

use crate::fixture::{Fixture, SMALL, plain};

/// A static pool of two: one node exists in zone a, one is launched in zone b.
fn one_missing_node() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.pool().replicas = Some(2);
    fixture.node("n", "a");
    fixture.launch_static(&[SMALL], &["b"]);
    fixture
}

#[test]
fn a_static_pool_gets_its_missing_nodes() {
    one_missing_node().assert_clean();
    let mut fixture = one_missing_node();
    fixture.launch_static(&[SMALL], &["c"]);
    fixture.assert_breaks(Rule::StaticNodes);
    let mut fixture = one_missing_node();
    fixture.pool().replicas = Some(3);
    fixture.assert_breaks(Rule::StaticNodes);
    fixture.pool().limits = Resources::from_iter([("nodes", 2)]);
    fixture.assert_clean();
}

#[test]
fn static_nodes_respect_limits_and_carry_no_planned_pods() {
    let mut fixture = one_missing_node();
    fixture.pool().limits = Resources::from_iter([("nodes", 1)]);
    fixture.assert_breaks(Rule::Limits);
    let mut fixture = one_missing_node();
    let pod = fixture.pod("web", plain());
    fixture.plan.unschedulable.push(pod);
    fixture.plan.static_nodes[0].pods.push(pod);
    fixture.assert_breaks(Rule::StaticNodes);
}

#[test]
fn static_nodes_are_spread_over_zones() {
    let mut fixture = Fixture::new();
    fixture.pool().replicas = Some(2);
    fixture.launch_static(&[SMALL], &["a"]);
    fixture.launch_static(&[SMALL], &["a"]);
    fixture.assert_breaks(Rule::StaticNodes);
}

#[test]
fn a_pool_without_replicas_is_not_static() {
    let mut fixture = Fixture::new();
    fixture.launch_static(&[SMALL], &["a"]);
    fixture.assert_breaks(Rule::Pool);
}
