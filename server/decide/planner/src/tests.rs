use std::sync::Arc;

use super::*;
use model::{Labels, NodePool, NodeSelectorTerm, Pod, PodShape, PoolName, Requirement, Weighted};

/// Two pods that prefer a fast disk, and a NodePool.
fn two_pods() -> PlanningInput {
    let term = NodeSelectorTerm { expressions: vec![Requirement::equals("disk", "fast")], names: Vec::new() };
    let shape = PodShape { preferred_node_affinity: vec![Weighted { weight: 1, term }], ..PodShape::default() };
    let pod = |name: &str| Pod {
        namespace: Text::from("default"),
        name: Text::from(name),
        workload: Text::from("Deployment/web"),
        ..Pod::default()
    };
    let pool = NodePool { name: PoolName::from("general"), node_class: Text::from("default"), ..NodePool::default() };
    PlanningInput {
        shapes: vec![shape],
        label_sets: vec![Labels::new()],
        pods: vec![pod("web-0"), pod("web-1")],
        pools: vec![pool],
        ..PlanningInput::default()
    }
}

/// A plan of nodes with these prices in cents, disks and pods.
fn plan_of(input: &PlanningInput, nodes: &[(i64, &str, &[u32])]) -> Plan {
    let node = |(cents, disk, pods): &(i64, &str, &[u32])| {
        let mut node = one_machine(input, MicroUsd(cents * 10_000)).nodes.remove(0);
        node.labels = Arc::new(Labels::from([(Text::from("disk"), Text::from(*disk))]));
        node.pods = pods.to_vec();
        node
    };
    Plan { nodes: nodes.iter().map(node).collect(), ..Plan::default() }
}

#[test]
fn preferences_that_money_overrules_are_told_with_what_they_would_cost() {
    let input = two_pods();
    let kept = plan_of(&input, &[(30, "fast", &[0]), (30, "fast", &[1])]);
    // 60 − 40 cents.
    let none = plan_of(&input, &[(40, "slow", &[0, 1])]);
    assert_eq!(
        sold_preferences(&input, &kept, &none).as_deref(),
        Some("2 preferences of pods are given up for $0.20 an hour: a plan that keeps them costs so much more")
    );
    // 60 − 45 cents.
    let one = plan_of(&input, &[(30, "fast", &[0]), (15, "slow", &[1])]);
    assert_eq!(
        sold_preferences(&input, &kept, &one).as_deref(),
        Some("1 preference is given up for $0.15 an hour: a plan that keeps it costs so much more")
    );
}

#[test]
fn a_plan_that_costs_as_much_keeps_as_many_or_places_other_pods_sells_no_preference() {
    let input = two_pods();
    let kept = plan_of(&input, &[(30, "fast", &[0]), (30, "fast", &[1])]);
    let as_dear = plan_of(&input, &[(60, "slow", &[0, 1])]);
    assert_eq!(sold_preferences(&input, &kept, &as_dear), None);
    let as_many = plan_of(&input, &[(40, "fast", &[0, 1])]);
    assert_eq!(sold_preferences(&input, &kept, &as_many), None);
    let fewer = Plan { unschedulable: vec![1], ..plan_of(&input, &[(20, "slow", &[0])]) };
    assert_eq!(sold_preferences(&input, &kept, &fewer), None);
}
