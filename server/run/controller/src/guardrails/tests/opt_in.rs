//! Annotations of NodePools hold voluntary removals: of empty machines, and of those that consolidation would remove.
//!
//! The cluster: `m0` and `m1` are spot in zone b and stay, `m2` and `m3` are on-demand in zone a and may go. Each has 2 of 8
//! cores and room for all pods, which have half a core each. consolidateAfter is 30 s, the first plan of disruption is due
//! at 30 s, and the second one at 45 s.

use std::sync::Arc;

use super::fixture::{Fixture, snapshot};
use crate::guardrails::DisabledGuards;
use crate::node_report::ReportedNode;
use cluster::testing::{bound_to, pod, pool, text};
use cluster::{ClusterSnapshot, DoNotDisrupt, PodRecord, PoolRecord};
use model::labels::{CAPACITY_TYPE, ZONE};
use model::{CapacityType, ClaimName, MicroUsd, Offering, OptInRules, PodShape};

/// The pool `p` with these annotations, which launches spot and on-demand in the zones a and b.
fn annotated(rules: &OptInRules) -> PoolRecord {
    let mut annotated = pool();
    let mut catalogue = annotated.pool.catalogue.as_ref().clone();
    for kind in &mut catalogue.types {
        let spot = kind.offerings[0].clone();
        let (on_demand, price) = (CapacityType::OnDemand, MicroUsd(2 * spot.price.0));
        let on_demand = Offering { capacity_type: on_demand, price, ..spot.clone() };
        let in_zones = |of_type: &Offering| ["a", "b"].map(|zone| Offering { zone: text(zone), ..of_type.clone() });
        kind.offerings = [spot, on_demand].iter().flat_map(in_zones).collect();
    }
    annotated.pool.catalogue = Arc::new(catalogue);
    annotated.pool.rules = rules.clone();
    annotated
}

fn cluster(rules: &OptInRules, pods: Vec<PodRecord>) -> ClusterSnapshot {
    let mut shown = ClusterSnapshot { pools: vec![annotated(rules)], ..snapshot(4, pods) };
    for (number, (claim, node)) in shown.claims.iter_mut().zip(&mut shown.nodes).enumerate() {
        let (capacity_type, zone) = if number < 2 { ("spot", "b") } else { ("on-demand", "a") };
        for labels in [&mut claim.labels, &mut node.labels] {
            labels.insert(text(CAPACITY_TYPE), text(capacity_type));
            labels.insert(text(ZONE), text(zone));
        }
        node.do_not_disrupt = (number < 2).then_some(DoNotDisrupt::Always);
    }
    shown
}

/// A pod on `machine`, which a node selector binds to zone b if `is_bound`.
fn web(number: usize, machine: usize, is_bound: bool) -> PodRecord {
    let web = bound_to(&format!("m{machine}"), pod(&format!("p{number}"), 500));
    let node_selector = is_bound.then(|| (text(ZONE), text("b"))).into_iter().collect();
    PodRecord { shape: Arc::new(PodShape { node_selector, ..PodShape::clone(&web.shape) }), ..web }
}

/// Machines that go while two pods are on each of `m0` and `m1`, and none on the others.
fn emptied(rules: &OptInRules, is_bound: bool) -> Vec<ClaimName> {
    let pods = (0..4).map(|number| web(number, number / 2, is_bound)).collect();
    let mut world = Fixture::new(|_| {});
    world.connect("c", cluster(rules, pods));
    world.run_to(120_000);
    let view = world.controller.view(&text("c")).expect("the cluster is there");
    assert_eq!(view.guardrails.rejected_removals, 0, "the verifier judges what is held before it: {rules:?}");
    world.drained().into_iter().collect()
}

/// What blocks the Node of `claim`, by code and object.
fn blocks(world: &Fixture, claim: &str) -> Vec<String> {
    let node = world.controller.node_report(&text("c"), claim).expect("the cluster is there").node;
    match node {
        ReportedNode::Present(present) => {
            let blocks = present.verdicts.iter().flat_map(|verdict| &verdict.by);
            blocks.map(|block| format!("{} {}", block.code.as_str(), block.object)).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Checks how many of `m2` and `m3` go while a pod is on each of the machines, and that the others are held by the policy.
fn assert_consolidates(rules: &OptInRules, is_bound: bool, going: usize) {
    let pods = (0..4).map(|number| web(number, number, is_bound && number < 2)).collect();
    let mut world = Fixture::consolidating(DisabledGuards::default(), |_| {});
    world.connect("c", cluster(rules, pods));
    world.run_to(41_000);
    let gone = world.drained();
    assert_eq!(gone.len(), going, "{rules:?}: {gone:?}");
    for claim in ["m2", "m3"].into_iter().filter(|claim| !gone.contains(*claim)) {
        let blocks = blocks(&world, claim);
        assert!(blocks.contains(&"Policy NodePool/p".to_owned()), "{rules:?}: {claim}: {blocks:?}");
    }
}

/// Checks how many of `m2` and `m3` go, without pods and with one on each.
fn assert_goes(rules: &OptInRules, is_bound: bool, going: usize) {
    assert_eq!(emptied(rules, is_bound), ["m2", "m3"][..going], "{rules:?}");
    assert_consolidates(rules, is_bound, going);
}

#[test]
fn without_annotations_both_machines_go() {
    assert_goes(&OptInRules::default(), false, 2);
}

#[test]
fn as_many_on_demand_machines_stay_as_are_asked_for_beside_spot() {
    let least = |nodes: i64| OptInRules { on_demand_min_nodes: Some(nodes), ..OptInRules::default() };
    assert_goes(&least(2), false, 0);
    assert_goes(&least(1), false, 1);
}

#[test]
fn machines_stay_without_which_too_large_a_share_would_be_spot() {
    // Spot has 4 of 8 cores: without one of the others it would have 66.7 %, and without both 100 %.
    let most = |percent: i64| OptInRules { spot_max_percent: Some(percent), ..OptInRules::default() };
    assert_goes(&most(60), false, 0);
    assert_goes(&most(67), false, 1);
    assert_goes(&most(100), false, 2);
}

#[test]
fn as_many_machines_stay_as_are_asked_for_and_have_pods() {
    // Four pods may use four machines.
    let least = |nodes: i64| OptInRules { min_nodes: Some(nodes), ..OptInRules::default() };
    assert_goes(&least(4), false, 0);
    assert_goes(&least(3), false, 1);
    assert_goes(&least(2), false, 2);
}

#[test]
fn machines_stay_without_which_a_zone_would_have_two_less_than_another() {
    // Two are in each zone. One of zone a may go, and the other one only if the pods of zone b cannot run in zone a.
    let balanced = OptInRules { zone_balance: true, ..OptInRules::default() };
    assert_goes(&balanced, false, 1);
    assert_goes(&balanced, true, 2);
}
