//! Rules between pods.

use model::labels::{HOSTNAME, ZONE};
use model::{
    HostPort, LabelSelector, PodAffinityTerm, SelectorOperator, SelectorTerm, SpreadConstraint, Text, Weighted,
};

use super::fixture::{Launch, order};
use crate::Joining;

fn web() -> Option<LabelSelector> {
    let (key, values) = (Text::from("app"), vec![Text::from("web")]);
    Some(LabelSelector::new(vec![SelectorTerm { key, operator: SelectorOperator::In, values }]))
}

fn term(key: &str) -> PodAffinityTerm {
    let (namespaces, namespace_selector) = (Vec::new(), None);
    PodAffinityTerm { topology_key: Text::from(key), selector: web(), namespaces, namespace_selector }
}

/// Two small pods of `web`, planned for one node each, in zones a and b.
fn pair() -> Launch {
    let mut launch = Launch::default();
    let (first, second) = (launch.node("a"), launch.node("b"));
    let shape = launch.shape(1000, 4, 0);
    launch.pod(shape, first);
    launch.pod(shape, second);
    launch
}

/// Whether both pods are on one node.
fn is_together(launch: &Launch, joining: Joining) -> bool {
    let places = launch.places(order(3, joining));
    assert!(places.iter().all(Option::is_some), "{places:?}");
    places[0] == places[1]
}

#[test]
fn pods_that_exclude_each_other_are_never_on_one_node() {
    let mut launch = pair();
    launch.constrain(|shape| shape.pod_anti_affinity.push(term(HOSTNAME)));
    assert!(!is_together(&launch, Joining::OneByOne) && !is_together(&launch, Joining::Together));
}

#[test]
fn pods_that_require_each_other_are_in_one_zone() {
    let mut launch = pair();
    launch.constrain(|shape| shape.pod_affinity.push(term(ZONE)));
    assert!(is_together(&launch, Joining::Together));
}

#[test]
fn pods_that_prefer_each_other_are_on_one_node() {
    let mut launch = pair();
    let weighted = Weighted { weight: 1, term: term(HOSTNAME) };
    launch.constrain(|shape| shape.preferred_pod_affinity.push(weighted));
    // The second pod has 2 × 100 for the node of the first; 25 % of that node are used, worth 25.
    assert!(is_together(&launch, Joining::Together));
}

#[test]
fn a_hard_spread_over_zones_sees_only_the_zones_of_nodes_that_have_joined() {
    let mut launch = pair();
    launch.constrain(|shape| {
        shape.spread.push(SpreadConstraint {
            topology_key: Text::from(ZONE),
            max_skew: 1,
            min_domains: None,
            hard: true,
            selector: web(),
            honor_node_affinity: true,
            honor_node_taints: false,
        });
    });
    assert!(!is_together(&launch, Joining::Together));
    // With one zone the global minimum is the count of that zone: 1 + 1 − 1 is within the skew of 1.
    assert!(is_together(&launch, Joining::OneByOne));
    // Two domains are required, so the minimum is 0 until the second node joins.
    launch.constrain(|shape| shape.spread[0].min_domains = Some(2));
    assert!(!is_together(&launch, Joining::OneByOne));
}

#[test]
fn a_host_port_serves_one_pod_of_a_node() {
    let mut launch = pair();
    let port = HostPort { ip: Text::from(""), protocol: Text::from("TCP"), port: 80 };
    launch.constrain(|shape| shape.host_ports.push(port));
    assert!(!is_together(&launch, Joining::OneByOne));
}
