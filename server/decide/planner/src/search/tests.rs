use model::{CapacityType, Catalogue, InstanceType, Labels, NodePool, Offering, Pod, PodShape};
use model::{Resources, Text, resources};

use super::*;

/// Two pods of one CPU that a pool can launch machines of two CPUs for, at 4 cents an hour.
fn input() -> PlanningInput {
    let amounts = |cpu: i64, pods| Resources::from_iter([(resources::CPU, cpu * 1_000), (resources::PODS, pods)]);
    let offering = Offering {
        zone: "a".into(),
        capacity_type: CapacityType::OnDemand,
        price: MicroUsd(40_000),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: Labels::new().into(),
    };
    let instance_type = InstanceType {
        name: "large".into(),
        capacity: amounts(2, 10),
        allocatable: amounts(2, 10),
        offerings: vec![offering],
        ..InstanceType::default()
    };
    let pool = NodePool {
        name: "default".into(),
        node_class: "default".into(),
        catalogue: std::sync::Arc::new(Catalogue { types: vec![instance_type], offering_keys: Vec::new() }),
        ..NodePool::default()
    };
    let pod = |name: &str| Pod {
        namespace: "default".into(),
        name: name.into(),
        workload: Text::from(format!("Pod/{name}")),
        ..Pod::default()
    };
    let mut input = PlanningInput {
        shapes: vec![PodShape { requests: amounts(1, 1), ..PodShape::default() }],
        label_sets: vec![Labels::new()],
        pods: vec![pod("one"), pod("two")],
        pools: vec![pool],
        ..PlanningInput::default()
    };
    input.policy.search_steps = 1_000;
    input
}

/// The plan with both pods on one machine, and the same with a machine for each.
fn plans(input: &PlanningInput) -> (Plan, Plan) {
    let shared = scheduler::schedule(input);
    assert_eq!((shared.nodes.len(), cost(input, &shared)), (1, 40_000));
    let mut apart = shared.clone();
    let mut second = apart.nodes[0].clone();
    (second.name, second.pods) = ("default-2".into(), vec![1]);
    second.requests = input.shapes[0].requests.clone();
    apart.nodes[0].pods = vec![0];
    apart.nodes[0].requests = input.shapes[0].requests.clone();
    apart.nodes.push(second);
    assert!(check(input, &apart).is_empty(), "{:?}", check(input, &apart));
    (shared, apart)
}

fn least_nodes(input: &PlanningInput, plans: Vec<Plan>) -> Plan {
    choose(input, plans, |_, _| None).0
}

#[test]
fn a_cheaper_plan_replaces_the_first() {
    let input = input();
    let (shared, apart) = plans(&input);
    let found = plans_by(&input, apart.clone(), MicroUsd(40_000), |_, _, _| (shared.clone(), 10));
    assert_eq!((&found.plans, found.steps, found.refused.len()), (&vec![apart, shared.clone()], 10, 0));
    assert_eq!(least_nodes(&input, found.plans), shared);
}

#[test]
fn a_plan_that_violates_a_rule_is_refused_and_the_one_before_goes_out() {
    let input = input();
    let (mut broken, apart) = plans(&input);
    broken.nodes[0].price = MicroUsd(1);
    let found = plans_by(&input, apart.clone(), MicroUsd(0), |_, _, _| (broken.clone(), 10));
    assert_eq!((found.plans, found.refused.len()), (vec![apart], 1));
}

#[test]
fn a_cheaper_plan_that_leaves_a_pod_out_is_not_taken() {
    let input = input();
    let (mut less, apart) = plans(&input);
    less.nodes[0].pods = vec![0];
    (less.unschedulable, less.order) = (vec![1], vec![0]);
    let found = plans_by(&input, apart.clone(), MicroUsd(0), |_, _, _| (less.clone(), 10));
    assert_eq!((found.plans, found.refused.len()), (vec![apart], 0));
}

#[test]
fn the_search_ends_at_a_plan_near_its_bound_and_when_its_steps_are_used() {
    let input = input();
    let (shared, apart) = plans(&input);
    let found = plans_by(&input, shared.clone(), MicroUsd(39_961), |_, _, _| unreachable!("40,000 is within 1/1000"));
    assert_eq!((found.plans, found.steps), (vec![shared], 0));
    let mut calls = 0;
    let found = plans_by(&input, apart.clone(), MicroUsd(0), |start, _, left| {
        calls += 1;
        (start.clone(), left)
    });
    assert_eq!((found.steps, calls), (750, 1), "a quarter of the steps is the bound's");
    assert_eq!(least_nodes(&input, found.plans), apart);
}

#[test]
fn a_machine_whose_pods_fit_elsewhere_leaves_its_limit_to_pods_without_a_place() {
    let mut input = input();
    let (shared, mut apart) = plans(&input);
    // Two machines of two CPUs are the limit, and a third pod needs one for itself.
    let whole = Resources::from_iter([(resources::CPU, 2_000), (resources::PODS, 1)]);
    input.pools[0].limits = Resources::from_iter([(resources::CPU, 4_000)]);
    input.shapes.push(PodShape { requests: whole, ..PodShape::default() });
    input.pods.push(Pod { name: "whole".into(), shape: 1, ..input.pods[0].clone() });
    apart.unschedulable = vec![2];
    assert!(check(&input, &apart).is_empty(), "{:?}", check(&input, &apart));
    let plan = retry::without_needless_machines(&input, apart.clone(), retry::NEEDLESS_WORK);
    let pods: Vec<&[u32]> = plan.nodes.iter().map(|node| node.pods.as_slice()).collect();
    assert_eq!((pods, plan.unschedulable.len()), (vec![&shared.nodes[0].pods[..], &[2]], 0));
    // Without work nothing is tried.
    assert_eq!(retry::without_needless_machines(&input, apart.clone(), 0), apart);
}

#[test]
fn of_plans_that_cost_nearly_the_same_the_one_with_fewer_nodes_is_taken() {
    let input = input();
    let (shared, mut apart) = plans(&input);
    // 39,921 and 39,920 micro-dollars: 40,000 is at most two thousandths above the former only.
    apart.nodes.iter_mut().for_each(|node| node.price = MicroUsd(19_960));
    apart.nodes[0].price = MicroUsd(19_961);
    assert_eq!(least_nodes(&input, vec![shared.clone(), apart.clone()]), shared);
    apart.nodes[0].price = MicroUsd(19_940);
    assert_eq!(least_nodes(&input, vec![shared, apart.clone()]), apart);
}

#[test]
fn of_plans_that_cost_nearly_the_same_the_one_with_the_lower_realised_cost_is_taken() {
    let mut input = input();
    let (shared, mut apart) = plans(&input);
    apart.nodes.iter_mut().for_each(|node| node.price = MicroUsd(20_000));
    let realised = |plan: &Plan, _: usize| Some(MicroUsd(if plan.nodes.len() == 1 { 80_000 } else { 40_000 }));
    let (plan, cost) = choose(&input, vec![shared.clone(), apart.clone()], realised);
    assert_eq!((plan, cost), (apart.clone(), Some(MicroUsd(40_000))));
    // With nominations kube-scheduler binds the pods as planned.
    input.policy.nominations = true;
    assert_eq!(choose(&input, vec![shared.clone(), apart.clone()], realised).0, shared);
    // A plan that is dearer by more than two thousandths is not looked at.
    input.policy.nominations = false;
    apart.nodes[0].price = MicroUsd(20_100);
    assert_eq!(choose(&input, vec![shared.clone(), apart], realised).0, shared);
}
