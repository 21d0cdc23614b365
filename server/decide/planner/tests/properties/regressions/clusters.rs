//! Failures found by random clusters: plans that failed their check, and pods left unschedulable
//! although they fit.

use model::CapacityType::{OnDemand, Spot};
use model::labels::{HOSTNAME, ZONE};
use model::plan::Plan;
use model::{MicroUsd, Millis, Operator};
use verifier::{Rule, check};

use super::{DB, JOB, WEB, affinity_term, fixture, instance_type, node, pod, small, spread};
use crate::cases::{Case, DaemonCase, NodeCase, PodCase, RACK, ShapeCase, TIER};
use crate::placement_search::wrongly_unplaced;
use crate::sound_plan;

/// A pod that fills a node of one CPU.
fn large() -> ShapeCase {
    ShapeCase { half_cpus: 2, ..small() }
}

#[test]
fn a_spread_within_one_zone_ignores_nodes_that_may_launch_elsewhere() {
    // The node of the web pod may launch in a or b. In a it counts for the db pods, which are bound
    // to a; in b it does not.
    let bound = ShapeCase { selector: Some((ZONE, "a")), spread: vec![spread(ZONE, DB)], ..large() };
    let types = vec![instance_type(1, 4, &[("a", OnDemand, 10), ("b", OnDemand, 10)])];
    let case = fixture(types, vec![large(), bound], vec![pod(0, WEB), pod(1, DB), pod(1, DB)]);
    assert!(sound_plan(&case).unschedulable.is_empty());
}

/// Two types of two and four CPUs; every node must allow both.
fn varied(cpu_limit: i64, shapes: Vec<ShapeCase>, pods: Vec<PodCase>) -> Case {
    let types = vec![instance_type(2, 8, &[("a", OnDemand, 10)]), instance_type(4, 16, &[("a", OnDemand, 20)])];
    let mut case = fixture(types, shapes, pods);
    (case.pools[0].min_types, case.pools[0].cpu_limit) = (Some(2), Some(cpu_limit));
    case
}

#[test]
fn nodes_with_min_values_are_charged_for_the_larger_option() {
    // Each pod fills a node of two CPUs, and each node may launch with four: eight CPUs are two
    // nodes.
    let two_cpus = ShapeCase { half_cpus: 4, ..small() };
    let plan = sound_plan(&varied(8, vec![two_cpus], vec![pod(0, WEB); 4]));
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (2, 2));
    assert!(plan.nodes.iter().all(|node| node.types.len() == 2));
}

#[test]
fn a_node_that_used_up_the_limit_still_accepts_pods() {
    // One node may have four CPUs, which is the limit. It fits the pod of one CPU and that of half
    // a CPU.
    let case = varied(4, vec![large(), small()], vec![pod(0, WEB), pod(1, DB)]);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (1, 0));
}

#[test]
fn movable_nodes_give_way_to_nodes_bound_to_a_zone() {
    // The web pods come first, one node each, one in each zone. Then three db pods with volumes in
    // a need a node each: four in a and one in b, unless the node of the web pod moves to b.
    let web = ShapeCase { anti_affinity: vec![affinity_term(HOSTNAME, WEB)], ..large() };
    let db = ShapeCase { half_cpus: 4, ..small() };
    let in_a = PodCase { volumes: Some(0), ..pod(1, DB) };
    let pods = vec![pod(0, WEB), pod(0, WEB), in_a.clone(), in_a.clone(), in_a];
    let mut case = fixture(vec![instance_type(2, 4, &[("a", OnDemand, 10), ("b", OnDemand, 10)])], vec![web, db], pods);
    case.pools[0].rules.zone_balance = true;
    let plan = sound_plan(&case);
    let in_zone = |zone: &str| plan.nodes.iter().filter(|node| node.zones[0].as_ref() == zone).count();
    assert_eq!((in_zone("a"), in_zone("b"), plan.unschedulable.len()), (3, 2, 0));
}

#[test]
fn anti_affinity_over_a_label_excludes_no_node_without_it() {
    let shape = ShapeCase { anti_affinity: vec![affinity_term(RACK, WEB)], ..small() };
    let case = fixture(vec![instance_type(4, 16, &[("a", OnDemand, 10)])], vec![shape], vec![pod(0, WEB), pod(0, WEB)]);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (1, 0));
    let with_node = Case { nodes: vec![node("a", 4, vec![pod(0, WEB)])], ..case };
    assert_eq!(sound_plan(&with_node).placements, [(0, 0), (1, 0)]);
}

#[test]
fn a_pod_in_no_domain_does_not_end_the_exemption_of_the_first() {
    // A web pod runs on a node without the label, so the new one is the first in any rack and may
    // start one.
    let shape = ShapeCase { affinity: vec![affinity_term(RACK, WEB)], ..small() };
    let mut case = fixture(vec![instance_type(4, 16, &[("a", OnDemand, 10)])], vec![shape], vec![pod(0, WEB)]);
    case.nodes = vec![node("a", 4, vec![pod(0, WEB)]), NodeCase { rack: Some("r1"), ..node("a", 4, vec![]) }];
    assert_eq!(sound_plan(&case).placements, [(0, 1)]);
}

#[test]
fn a_node_with_a_decided_cpu_size_still_grows_in_memory() {
    // One node is allowed, of two CPUs. With 4 GiB it fits the db pod; with 8 GiB the web pod as
    // well.
    let types = vec![instance_type(2, 4, &[("a", OnDemand, 10)]), instance_type(2, 8, &[("a", OnDemand, 20)])];
    let shapes = vec![ShapeCase { gib: 3, ..small() }, ShapeCase { gib: 4, ..small() }];
    let mut case = fixture(types, shapes, vec![pod(0, WEB), pod(1, DB)]);
    (case.pools[0].node_limit, case.pools[0].rules.spot_max_percent) = (Some(1), Some(50));
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (1, 0));
}

#[test]
fn a_node_reserves_the_host_port_of_a_missing_daemonset_pod() {
    let shape = ShapeCase { port: Some(80), ..small() };
    let mut case = fixture(Vec::new(), vec![shape], vec![pod(0, WEB)]);
    case.nodes = vec![node("a", 4, vec![])];
    case.daemons = vec![DaemonCase { port: Some(80), ..DaemonCase::default() }];
    let plan = Plan { placements: vec![(0, 0)], order: vec![0], ..Plan::default() };
    let rules: Vec<Rule> = check(&case.input(), &plan).into_iter().map(|found| found.rule).collect();
    assert_eq!(rules, [Rule::HostPorts]);
    assert_eq!(sound_plan(&case).unschedulable, [0]);
    case.nodes[0].daemons_run = true;
    assert_eq!(check(&case.input(), &plan).len(), 1, "the daemon's pod has the port now");
}

#[test]
fn a_price_ceiling_does_not_end_the_wait_if_no_spot_is_available() {
    // The db pod was created a second ago and waits for spot, of which there is none at any price;
    // the web pod need not wait.
    let recently_created = PodCase { recently_created: true, ..pod(0, DB) };
    let types = vec![instance_type(4, 16, &[("a", OnDemand, 10)])];
    let mut case = fixture(types, vec![small()], vec![recently_created, pod(0, WEB)]);
    let rules = &mut case.pools[0].rules;
    (rules.spot_fallback_after, rules.max_node_price) = (Some(Millis::from_mins(10)), Some(MicroUsd(50_000)));
    let (input, plan) = (case.input(), sound_plan(&case));
    assert_eq!(plan.unschedulable, [0]);
    assert_eq!(wrongly_unplaced(&input, &plan), []);
}

#[test]
fn more_expensive_spot_serves_pods_that_fit_no_on_demand_offering() {
    // Both types must be allowed. In b only one of them is available on demand, and both on spot,
    // which is more expensive.
    let types = vec![
        instance_type(1, 4, &[("a", OnDemand, 10), ("b", OnDemand, 40), ("b", Spot, 44)]),
        instance_type(1, 4, &[("a", OnDemand, 10), ("b", Spot, 44)]),
    ];
    let bound = ShapeCase { selector: Some((ZONE, "b")), ..small() };
    let mut case = fixture(types, vec![bound], vec![pod(0, WEB)]);
    case.pools[0].min_types = Some(2);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.nodes.first().map(|node| node.capacity_type)), (1, Some(Spot)));
}

#[test]
fn zones_excluded_by_anti_affinity_are_not_balanced() {
    // A db pod in a has anti-affinity against web pods per zone. Each web pod fills a node, and all
    // three are in b.
    let web = ShapeCase { half_cpus: 4, ..small() };
    let db = ShapeCase { anti_affinity: vec![affinity_term(ZONE, WEB)], ..small() };
    let types = vec![instance_type(2, 4, &[("a", OnDemand, 10), ("b", OnDemand, 10)])];
    let mut case = fixture(types, vec![web, db], vec![pod(0, WEB); 3]);
    case.nodes = vec![node("a", 1, vec![pod(1, DB)])];
    case.pools[0].rules.zone_balance = true;
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (3, 0));
    assert!(plan.nodes.iter().all(|node| node.zones[0].as_ref() == "b"));
}

#[test]
fn zones_without_enough_types_are_not_balanced() {
    // Nodes must allow either type, and b has one of them.
    let types = vec![
        instance_type(2, 8, &[("a", OnDemand, 20), ("b", OnDemand, 20)]),
        instance_type(2, 8, &[("a", OnDemand, 10)]),
    ];
    let anti_affinity = ShapeCase { anti_affinity: vec![affinity_term(HOSTNAME, WEB)], ..small() };
    let mut case = fixture(types, vec![anti_affinity], vec![pod(0, WEB); 3]);
    (case.pools[0].min_types, case.pools[0].rules.zone_balance) = (Some(2), true);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (3, 0));
}

#[test]
fn nodes_counted_by_zone_rules_need_not_give_way() {
    // As in `movable_nodes_give_way_to_nodes_bound_to_a_zone`, but a job requires a zone with web
    // pods: their nodes remain in place, and so does its own.
    let web = ShapeCase { anti_affinity: vec![affinity_term(HOSTNAME, WEB)], ..large() };
    let db = ShapeCase { half_cpus: 4, ..small() };
    let job = ShapeCase { affinity: vec![affinity_term(ZONE, WEB)], half_cpus: 4, ..small() };
    let in_a = PodCase { volumes: Some(0), ..pod(1, DB) };
    let pods = vec![pod(0, WEB), pod(0, WEB), in_a.clone(), in_a.clone(), in_a, pod(2, JOB)];
    let mut case =
        fixture(vec![instance_type(2, 4, &[("a", OnDemand, 10), ("b", OnDemand, 10)])], vec![web, db, job], pods);
    case.pools[0].rules.zone_balance = true;
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (6, 0));
}

#[test]
fn a_spread_is_not_filled_zone_by_zone_if_the_nodes_use_up_the_limit() {
    // One pod per node of eight CPUs, and the limit is four nodes: two in each zone, not three in
    // the first. When each has one pod, two of them get the last two.
    let web = ShapeCase { spread: vec![spread(ZONE, WEB), spread(HOSTNAME, WEB)], ..small() };
    let types = vec![instance_type(8, 8, &[("a", OnDemand, 10)]), instance_type(8, 8, &[("b", OnDemand, 10)])];
    let mut case = fixture(types, vec![web], vec![pod(0, WEB); 6]);
    case.pools[0].cpu_limit = Some(32);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (4, 0));
}

#[test]
fn pods_without_a_free_zone_get_nodes_before_they_share_one() {
    // Web pods spread over zones and nodes. In b only a type that is too small is available, so all
    // three go to a, each to its own node: with two on one, the third node would have two fewer.
    let web = ShapeCase { spread: vec![spread(ZONE, WEB), spread(HOSTNAME, WEB)], gib: 4, ..small() };
    let types = vec![instance_type(4, 16, &[("a", OnDemand, 40)]), instance_type(1, 1, &[("b", OnDemand, 10)])];
    let plan = sound_plan(&fixture(types, vec![web], vec![pod(0, WEB); 3]));
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (3, 0));
}

#[test]
fn a_domain_created_by_a_preference_counts() {
    // The pool leaves the tier undecided. The first web pod gets the tier that it prefers, which no
    // node requires; the others are spread over that tier and the default one.
    let web =
        ShapeCase { preferred: vec![(1, (TIER, Operator::Gt, &["1"]))], spread: vec![spread(TIER, WEB)], ..small() };
    let mut case = fixture(vec![instance_type(4, 8, &[("a", OnDemand, 40)])], vec![web], vec![pod(0, WEB); 9]);
    case.pools[0].requirements = vec![(TIER, Operator::Exists, &[])];
    assert!(sound_plan(&case).unschedulable.is_empty());
}
