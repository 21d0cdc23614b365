//! Rounds worked out by hand, on a catalogue of three types: `t.N` has N vCPU and N×10 pods and costs
//! what each test states.

use std::sync::Arc;

use model::input::PlanningInput;
use model::labels::{HOSTNAME, INSTANCE_TYPE, ZONE};
use model::{
    BoundPod, Burstable, CapacityType, Catalogue, DaemonSet, InstanceType, InstanceTypeName, LabelSelector, Labels,
    MicroUsd, Node, NodeName, NodePool, NodeStage, Offering, Pod, PodAffinityTerm, PodShape, PoolName, Requirement,
    Resources, SelectorOperator, SelectorTerm, SpreadConstraint, Text, Weighted, Zone,
};

use crate::{Launches, provision};

/// A type with `vcpu` cores, offered on-demand in the zones a and b for `price` micro-dollars.
fn machine(vcpu: i64, price: i64) -> InstanceType {
    let amounts = Resources::from_iter([("cpu", vcpu * 1000), ("pods", vcpu * 10)]);
    let offering = |zone: &str| Offering {
        zone: Zone::from(zone),
        capacity_type: CapacityType::OnDemand,
        price: MicroUsd(price),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: Labels::new().into(),
    };
    InstanceType {
        name: InstanceTypeName::from(format!("t.{vcpu}")),
        capacity: amounts.clone(),
        allocatable: amounts,
        offerings: vec![offering("a"), offering("b")],
        ..InstanceType::default()
    }
}

fn pool(name: &str, weight: i32, types: Vec<InstanceType>) -> NodePool {
    NodePool {
        name: PoolName::from(name),
        node_class: Text::from("default"),
        weight,
        catalogue: Arc::new(Catalogue { types, offering_keys: Vec::new() }),
        ..NodePool::default()
    }
}

/// A pod with `cpu` millicores; its only label is `app: x`.
fn shape(cpu: i64) -> PodShape {
    PodShape { requests: Resources::from_iter([("cpu", cpu), ("pods", 1)]), ..PodShape::default() }
}

fn input(pools: Vec<NodePool>, shapes: Vec<PodShape>) -> PlanningInput {
    let pod = |shape: u32| Pod {
        namespace: "default".into(),
        name: format!("p-{shape:03}").into(),
        shape,
        workload: "Pod/p".into(),
        ..Pod::default()
    };
    let count = u32::try_from(shapes.len()).expect("few shapes");
    let mut input = PlanningInput {
        pods: (0..count).map(pod).collect(),
        shapes,
        label_sets: vec![Labels::from([("app".into(), "x".into())])],
        pools,
        ..PlanningInput::default()
    };
    input.policy.well_known_labels =
        [HOSTNAME, ZONE, INSTANCE_TYPE, "karpenter.sh/capacity-type"].map(Text::from).to_vec();
    input
}

/// A node with 1.5 vCPU, perhaps in a rack, and perhaps with a pod of the second shape that has the labels at
/// an index.
fn node(name: &str, rack: Option<&str>, running: Option<u32>) -> Node {
    let free = Resources::from_iter([("cpu", 1500), ("pods", 10)]);
    let mut labels = Labels::from([(HOSTNAME.into(), name.into())]);
    labels.extend(rack.map(|rack| ("rack".into(), rack.into())));
    let pod = |labels| BoundPod {
        namespace: "default".into(),
        name: "running".into(),
        shape: 1,
        labels,
        volumes: None,
        daemon: None,
        terminating: false,
        leaving: false,
    };
    Node {
        name: NodeName::from(name),
        pool: None,
        labels,
        taints: Vec::new(),
        unschedulable: false,
        allocatable: free.clone(),
        capacity: free,
        stage: NodeStage::Initialized,
        pods: running.map(pod).into_iter().collect(),
        attach_limits: Vec::new(),
        created: None,
    }
}

fn app(name: &str) -> Option<LabelSelector> {
    let term = SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values: vec![name.into()] };
    Some(LabelSelector::new(vec![term]))
}

fn spread(key: &str, max_skew: i32, hard: bool) -> SpreadConstraint {
    SpreadConstraint {
        topology_key: key.into(),
        max_skew,
        min_domains: None,
        hard,
        selector: app("x"),
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

fn term(key: &str) -> PodAffinityTerm {
    PodAffinityTerm { topology_key: key.into(), selector: app("x"), namespaces: Vec::new(), namespace_selector: None }
}

/// Number of pods of each launched node, sorted.
fn pods_per_node(launches: &Launches) -> Vec<usize> {
    let mut counts: Vec<usize> = launches.nodes.iter().map(|node| node.pods.len()).collect();
    counts.sort_unstable();
    counts
}

#[test]
fn credits_count_in_the_cost_and_not_in_the_choice() {
    // 1,400m of a baseline of 400m: one vCPU at 5 cents. The other type costs more than 4 cents, and less than 9.
    let mut types = vec![machine(2, 40_000), machine(2, 60_000)];
    types[0].burstable = Some(Burstable { baseline: 400, credit_price: MicroUsd(50_000) });
    let mut input = input(vec![pool("general", 0, types)], vec![shape(1400)]);
    let launches = provision(&input);
    assert_eq!((launches.nodes[0].price, launches.cost()), (MicroUsd(40_000), MicroUsd(90_000)));
    input.pools[0].rules.ignores_credits = true;
    assert_eq!(provision(&input).cost(), MicroUsd(40_000));
}

#[test]
fn a_claim_grows_while_any_type_holds_the_sum_whatever_it_costs() {
    // Four pods of 1 vCPU fit one t.4 for 9 dollars, although four t.1 would cost 4.
    let types = vec![machine(1, 1_000_000), machine(4, 9_000_000)];
    let launches = provision(&input(vec![pool("p", 0, types)], vec![shape(1000); 4]));
    assert_eq!((pods_per_node(&launches), launches.cost()), (vec![4], MicroUsd(9_000_000)));
}

#[test]
fn the_cheapest_of_the_types_that_are_left_is_launched() {
    // 1.5 vCPU fit t.2 and t.4; here t.4 is cheaper.
    let types = vec![machine(1, 100_000), machine(2, 400_000), machine(4, 300_000)];
    let launches = provision(&input(vec![pool("p", 0, types)], vec![shape(1500)]));
    assert_eq!((launches.nodes[0].instance_type, launches.cost()), (2, MicroUsd(300_000)));
}

#[test]
fn the_claim_with_the_fewest_pods_is_tried_first() {
    // By CPU: 3, 3, 1, 1 vCPU. The two pods of 3 do not fit one t.4. The first pod of 1 joins the first
    // NodeClaim, which then has two pods, so the second joins the other one.
    let launches = provision(&input(
        vec![pool("p", 0, vec![machine(4, 400_000)])],
        vec![shape(1000), shape(3000), shape(1000), shape(3000)],
    ));
    assert_eq!(launches.nodes.iter().map(|node| node.pods.clone()).collect::<Vec<_>>(), [vec![1, 0], vec![3, 2]]);
}

#[test]
fn the_heaviest_pool_is_used_and_of_equal_ones_the_last_by_name() {
    let pools = |weight| vec![pool("a", weight, vec![machine(2, 100_000)]), pool("b", 0, vec![machine(2, 900_000)])];
    assert_eq!(provision(&input(pools(0), vec![shape(1000)])).nodes[0].pool, 1);
    assert_eq!(provision(&input(pools(10), vec![shape(1000)])).nodes[0].pool, 0);
}

#[test]
fn limits_are_charged_for_the_largest_type_of_a_claim() {
    // Limit 6 vCPU. The first pod of 2 vCPU might be on t.2 or t.4, so 4 are charged and 2 remain: the
    // second gets t.2, and the third nothing, although three t.2 would be within the limit.
    let mut limited = pool("p", 0, vec![machine(2, 200_000), machine(4, 400_000)]);
    limited.limits = Resources::from_iter([("cpu", 6000)]);
    let alone = PodShape { pod_anti_affinity: vec![term(HOSTNAME)], ..shape(2000) };
    let launches = provision(&input(vec![limited], vec![alone; 3]));
    assert_eq!((pods_per_node(&launches), launches.unschedulable.len()), (vec![1, 1], 1));
}

#[test]
fn spread_over_hostnames_allows_max_skew_pods_on_each_new_node() {
    // Five pods, at most two a node: 2 + 2 + 1.
    let spread = PodShape { spread: vec![spread(HOSTNAME, 2, true)], ..shape(100) };
    let launches = provision(&input(vec![pool("p", 0, vec![machine(4, 400_000)])], vec![spread; 5]));
    assert_eq!(pods_per_node(&launches), [1, 2, 2]);
}

#[test]
fn spread_over_zones_takes_the_zone_with_the_fewest_pods() {
    // Zones a and b. The first pod opens a NodeClaim in a; the second may not join it, since a would
    // have two and b none; the third joins a, the fourth b.
    let spread = PodShape { spread: vec![spread(ZONE, 1, true)], ..shape(100) };
    let launches = provision(&input(vec![pool("p", 0, vec![machine(4, 400_000)])], vec![spread; 4]));
    let mut zones: Vec<(&str, usize)> =
        launches.nodes.iter().map(|node| (node.zone.as_ref(), node.pods.len())).collect();
    zones.sort_unstable();
    assert_eq!(zones, [("a", 2), ("b", 2)]);
}

#[test]
fn spread_over_a_label_of_ones_own_requires_a_pool_that_has_it() {
    // Pool a is heavier and has no racks; pool b has the racks r1 and r2, and so gets the two pods.
    let types = || vec![machine(4, 400_000)];
    let mut racks = pool("b", 0, types());
    racks.requirements.add(Requirement::new("rack", model::Operator::In, ["r1".into(), "r2".into()]));
    let spread = PodShape { spread: vec![spread("rack", 1, true)], ..shape(100) };
    let launches = provision(&input(vec![pool("a", 10, types()), racks], vec![spread; 2]));
    assert_eq!(launches.nodes.iter().map(|node| node.pool).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_node_without_the_label_takes_a_pod_whose_rules_have_no_domain_in_common() {
    // The pod avoids app x, which runs in rack r1, and prefers (which binds, L21) to avoid app y, which
    // runs in r2. One rule leaves r2, the other r1; together no rack, which Karpenter does not tell
    // from a node without a rack. So the pod goes to node n, which has no label.
    let mut racks = pool("p", 0, vec![machine(4, 400_000)]);
    racks.requirements.add(Requirement::new("rack", model::Operator::In, ["r1".into(), "r2".into()]));
    let avoid_y = PodAffinityTerm { selector: app("y"), ..term("rack") };
    let mut avoiding = shape(100);
    avoiding.pod_anti_affinity.push(term("rack"));
    avoiding.preferred_pod_anti_affinity.push(Weighted { weight: 1, term: avoid_y });
    let mut input = input(vec![racks], vec![avoiding]);
    input.shapes.push(shape(100));
    input.label_sets.extend(["y", "z"].map(|app| Labels::from([("app".into(), app.into())])));
    input.pods[0].labels = 2;
    input.nodes = vec![node("m1", Some("r1"), Some(0)), node("m2", Some("r2"), Some(1)), node("n", None, None)];
    assert_eq!(provision(&input).placements, [(0, 2)]);
}

#[test]
fn anti_affinity_over_zones_blocks_every_zone_that_a_new_node_may_get() {
    // The first NodeClaim may be in a or b, so the second pod finds no empty zone in this round (L27).
    let alone = PodShape { pod_anti_affinity: vec![term(ZONE)], ..shape(100) };
    let launches = provision(&input(vec![pool("p", 0, vec![machine(4, 400_000)])], vec![alone; 2]));
    assert_eq!((launches.nodes.len(), launches.unschedulable), (1, vec![1]));
}

#[test]
fn preferences_bind_until_they_are_relaxed() {
    // Three pods that prefer to be alone get three nodes while nodes can be launched (L21); under a limit
    // of 4 vCPU, one t.4 is launched, and the others join it without their preference.
    let preferred = vec![Weighted { weight: 1, term: term(HOSTNAME) }];
    let shapes = vec![PodShape { preferred_pod_anti_affinity: preferred, ..shape(100) }; 3];
    let mut one_pool = pool("p", 0, vec![machine(4, 400_000)]);
    let free = provision(&input(vec![one_pool.clone()], shapes.clone()));
    assert_eq!(pods_per_node(&free), [1, 1, 1]);
    one_pool.limits = Resources::from_iter([("cpu", 4000)]);
    assert_eq!(pods_per_node(&provision(&input(vec![one_pool], shapes))), [3]);
}

#[test]
fn an_existing_node_is_filled_first() {
    // The node has 1.5 vCPU: it takes one of the two pods of 1 vCPU.
    let mut input = input(vec![pool("p", 0, vec![machine(2, 200_000)])], vec![shape(1000); 2]);
    input.nodes.push(node("n", None, None));
    let launches = provision(&input);
    assert_eq!((launches.placements.as_slice(), pods_per_node(&launches)), (&[(0, 0)][..], vec![1]));
}

#[test]
fn a_type_without_daemons_may_be_lost_to_the_requests_of_daemons_on_other_types() {
    // The DaemonSet runs on t.4 only. 1.5 vCPU fit t.2, and t.4 beside the DaemonSet's 1. The NodeClaim then
    // requests 1.5 + 1 = 2.5, which t.2 does not hold (L30), although its nodes run no DaemonSet.
    let types = vec![machine(2, 200_000), machine(4, 400_000)];
    let mut input = input(vec![pool("p", 0, types)], vec![shape(1500)]);
    let on_large_nodes = Labels::from([(INSTANCE_TYPE.into(), "t.4".into())]);
    input.shapes.push(PodShape { node_selector: on_large_nodes, ..shape(1000) });
    input.daemons.push(DaemonSet { namespace: "default".into(), name: "d".into(), shape: 1, labels: 0 });
    assert_eq!(provision(&input).cost(), MicroUsd(400_000));
}

#[test]
fn min_values_refuse_a_pod_that_leaves_too_few_types() {
    // Two different instance types are required. 1.5 vCPU leave t.2 and t.4; 3 vCPU leave t.4 alone.
    let types = || vec![machine(1, 100_000), machine(2, 200_000), machine(4, 400_000)];
    let parts = model::RequirementParts {
        min_values: Some(2),
        ..Requirement::new("node.kubernetes.io/instance-type", model::Operator::Exists, []).into()
    };
    let mut flexible = pool("p", 0, types());
    flexible.requirements.add(parts.into());
    let launches = provision(&input(vec![flexible], vec![shape(1500), shape(3000)]));
    assert_eq!((launches.nodes.len(), launches.unschedulable), (1, vec![1]));
}

#[test]
fn without_a_pool_no_pod_is_placed() {
    assert_eq!(provision(&input(Vec::new(), vec![shape(100)])).unschedulable, [0]);
}
