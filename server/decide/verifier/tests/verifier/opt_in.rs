//! The opt-in rules of a NodePool, each violated once.

use model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, ZONE};
use model::{
    CapacityType, MicroUsd, Millis, NodeSelectorTerm, Offering, Operator, PodShape, Requirement, Timestamp, Zone,
};
use verifier::Rule;

use crate::fixture::{Fixture, LARGE, SMALL, affinity_term, plain, requiring, reserved, text};

/// One pod each on small nodes in these zones.
fn small_machines(zones: &[&str]) -> Fixture {
    let mut fixture = Fixture::new();
    for zone in zones {
        let pod = fixture.pod("web", plain());
        fixture.launch(&[SMALL], &[zone], &[pod]);
    }
    fixture
}

#[test]
fn zones_are_balanced_if_the_pods_could_run_elsewhere() {
    let mut fixture = small_machines(&["a", "b", "c", "a"]);
    fixture.pool().rules.zone_balance = true;
    fixture.assert_clean();
    // 3 in a, none in c.
    let mut fixture = small_machines(&["a", "b", "a", "a", "b"]);
    fixture.pool().rules.zone_balance = true;
    fixture.assert_breaks(Rule::ZoneBalance);
    // Pods bound to zone a cannot run elsewhere.
    let only_a = requiring(Requirement::equals(ZONE, "a"));
    fixture.input.shapes.iter_mut().for_each(|shape| *shape = only_a.clone());
    fixture.input.shapes[1] = plain();
    fixture.input.shapes[4] = plain();
    fixture.pool().requirements.add(Requirement::new(ZONE, Operator::In, [text("a"), text("b")]));
    fixture.assert_clean();
}

#[test]
fn an_exhausted_reservation_is_available_in_no_other_zone() {
    // 3 in a, 1 in b. Two of those in a cannot run elsewhere; the third is reserved, so it needs a
    // second instance of cr-b.
    let planned = |machines: i64| {
        let mut fixture = Fixture::new();
        let in_b = Offering { zone: Zone::from("b"), ..reserved("cr-b", machines) };
        fixture.machine(SMALL).offerings.extend([reserved("cr-a", 1), in_b]);
        fixture.pool().rules.zone_balance = true;
        for _ in 0..2 {
            let pod = fixture.pod("web", requiring(Requirement::equals(ZONE, "a")));
            fixture.launch(&[SMALL], &["a"], &[pod]);
        }
        for zone in ["a", "b"] {
            let pod = fixture.pod("web", plain());
            let node = fixture.described(0, CapacityType::Reserved, &[SMALL], &[zone], &[pod]);
            fixture.plan.nodes.push(node);
            fixture.plan.order.push(pod);
        }
        fixture
    };
    planned(1).assert_clean();
    planned(2).assert_breaks(Rule::ZoneBalance);
}

#[test]
fn nodes_of_a_balanced_pool_have_one_zone() {
    let mut fixture = Fixture::new();
    let pod = fixture.pod("web", plain());
    fixture.launch(&[SMALL], &["a", "b"], &[pod]);
    fixture.pool().rules.zone_balance = true;
    fixture.assert_breaks(Rule::ZoneBalance);
}

#[test]
fn pods_without_an_architecture_get_a_safe_one() {
    let mut fixture = small_machines(&["a"]);
    fixture.pool().rules.safe_architectures = vec![text("amd64")];
    fixture.assert_clean();
    fixture.pool().rules.safe_architectures = vec![text("arm64")];
    fixture.assert_breaks(Rule::SafeArchitectures);
    fixture.input.shapes[0] = requiring(Requirement::equals(ARCH, "amd64"));
    fixture.assert_clean();
}

#[test]
fn a_pod_waits_for_spot_before_it_falls_back() {
    // Created at 1,000 ms, checked at 60,999 ms with a wait of one minute: 1 ms short.
    let mut fixture = small_machines(&["a"]);
    fixture.pool().rules.spot_fallback_after = Some(Millis::from_mins(1));
    fixture.assert_clean();
    fixture.input.pods[0].created = Some(Timestamp::from_millis(1_000));
    fixture.input.now = Timestamp::from_millis(60_999);
    fixture.assert_breaks(Rule::SpotFallback);
    fixture.input.now = Timestamp::from_millis(61_000);
    fixture.assert_clean();
}

/// Kubernetes: a node selector term without expressions and fields selects nothing, so it adds no
/// alternative to another one.
#[test]
fn an_empty_node_affinity_term_allows_neither_another_zone_nor_spot() {
    let or_nothing = |requirement: Requirement| {
        let mut shape = requiring(requirement);
        shape.node_affinity.push(NodeSelectorTerm { expressions: Vec::new(), names: Vec::new() });
        shape
    };
    // 3 in a, none in c; then the pods in a must be there.
    let mut fixture = small_machines(&["a", "b", "a", "a", "b"]);
    fixture.pool().rules.zone_balance = true;
    fixture.assert_breaks(Rule::ZoneBalance);
    for pod in [0, 2, 3] {
        fixture.input.shapes[pod] = or_nothing(Requirement::equals(ZONE, "a"));
    }
    fixture.pool().requirements.add(Requirement::new(ZONE, Operator::In, [text("a"), text("b")]));
    fixture.assert_clean();

    let mut fixture = small_machines(&["a"]);
    fixture.pool().rules.spot_fallback_after = Some(Millis::from_mins(1));
    fixture.input.pods[0].created = Some(Timestamp::from_millis(0));
    fixture.assert_breaks(Rule::SpotFallback);
    fixture.input.shapes[0] = or_nothing(Requirement::equals(CAPACITY_TYPE, "on-demand"));
    fixture.assert_clean();
}

#[test]
fn a_pod_excluded_from_spot_by_the_floor_does_not_wait() {
    let mut fixture = small_machines(&["a"]);
    fixture.pool().rules.spot_fallback_after = Some(Millis::from_mins(1));
    fixture.input.pods[0].created = Some(Timestamp::from_millis(0));
    fixture.pool().rules.on_demand_min_nodes = Some(1);
    fixture.assert_clean();
}

#[test]
fn an_offering_above_a_ceiling_is_no_option() {
    // Small costs 0.10 for 2 CPUs, 0.05 for each.
    let mut fixture = small_machines(&["a"]);
    fixture.pool().rules.max_node_price = Some(MicroUsd(100_000));
    fixture.pool().rules.max_price_per_vcpu = Some(MicroUsd(50_000));
    fixture.assert_clean();
    fixture.pool().rules.max_node_price = Some(MicroUsd(99_999));
    fixture.assert_breaks(Rule::PriceCeiling);
    fixture.pool().rules.max_node_price = None;
    fixture.pool().rules.max_price_per_vcpu = Some(MicroUsd(49_999));
    fixture.assert_breaks(Rule::PriceCeiling);
}

/// One small node on demand, one on spot that may launch as large.
fn mixed() -> Fixture {
    let mut fixture = small_machines(&["a"]);
    let pod = fixture.pod("web", plain());
    fixture.launch_spot(&[SMALL, LARGE], &["a"], &[pod]);
    fixture
}

#[test]
fn the_share_of_spot_holds_whichever_option_launches() {
    // 4 of 6 CPUs at most: 66.7 %.
    let mut fixture = mixed();
    fixture.pool().rules.spot_max_percent = Some(67);
    fixture.assert_clean();
    fixture.pool().rules.spot_max_percent = Some(66);
    fixture.assert_breaks(Rule::SpotShare);
}

#[test]
fn on_demand_nodes_come_before_spot() {
    let mut fixture = mixed();
    fixture.pool().rules.on_demand_min_nodes = Some(1);
    fixture.assert_clean();
    fixture.pool().rules.on_demand_min_nodes = Some(2);
    fixture.assert_breaks(Rule::OnDemandFloor);
    fixture.node("n", "a");
    fixture.assert_clean();
}

#[test]
fn nodes_are_no_larger_than_allowed() {
    let mut fixture = mixed();
    fixture.pool().rules.max_node_vcpu = Some(4);
    fixture.assert_clean();
    fixture.pool().rules.max_node_vcpu = Some(3);
    fixture.assert_breaks(Rule::NodeSize);
}

#[test]
fn there_are_no_fewer_nodes_than_required_unless_pods_share_them() {
    let mut fixture = Fixture::new();
    let pods: Vec<u32> = (0..2).map(|_| fixture.pod("web", plain())).collect();
    fixture.launch(&[SMALL], &["a"], &pods);
    fixture.pool().rules.min_nodes = Some(2);
    fixture.assert_breaks(Rule::NodeCount);
    // Pods of one zone may run on two hosts of it, pods of one host may not.
    fixture.input.shapes[1] = PodShape { pod_affinity: vec![affinity_term("web", ZONE)], ..plain() };
    fixture.assert_breaks(Rule::NodeCount);
    fixture.input.shapes[1] = PodShape { pod_affinity: vec![affinity_term("web", HOSTNAME)], ..plain() };
    fixture.assert_clean();
}

#[test]
fn pods_that_share_a_host_require_one_node_of_the_least_number() {
    let together = |app: &str| PodShape { pod_affinity: vec![affinity_term(app, HOSTNAME)], ..plain() };
    let on_one_node = |shapes: &[(&str, PodShape)]| {
        let mut fixture = Fixture::new();
        let pods: Vec<u32> = shapes.iter().map(|(app, shape)| fixture.pod(app, shape.clone())).collect();
        fixture.launch(&[LARGE], &["a"], &pods);
        fixture.pool().rules.min_nodes = Some(4);
        fixture
    };
    // Two of a crew are one node, and the third pod another.
    let crew = || ("crew", together("crew"));
    on_one_node(&[crew(), crew(), ("lone", plain())]).assert_breaks(Rule::NodeCount);
    on_one_node(&[crew(), crew()]).assert_clean();
    // Two groups are two nodes; pods beside another pod need none of their own.
    on_one_node(&[crew(), ("band", together("band"))]).assert_breaks(Rule::NodeCount);
    on_one_node(&[("web", plain()), ("side", together("web"))]).assert_clean();
}
