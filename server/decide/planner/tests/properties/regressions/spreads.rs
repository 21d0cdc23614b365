//! Topology spread: the counted nodes and the global minimum.

use model::CapacityType::{OnDemand, Reserved};
use model::labels::{ARCH, HOSTNAME, ZONE};

use super::{DB, JOB, WEB, affinity_term, fixture, instance_type, node, pod, small, spread};
use crate::cases::{PodCase, ShapeCase, SpreadCase, TypeCase};
use crate::fixture::EVERY_APP;
use crate::sound_plan;

#[test]
fn a_volume_does_not_narrow_the_domains_of_a_spread() {
    // Zone b holds two. A pod with the volume of node-0 makes three there, while the launchable
    // zones are empty: 3 − 0 > 1.
    let shape = ShapeCase { spread: vec![spread(ZONE, WEB)], ..small() };
    let bound_to_node = PodCase { volumes: Some(3), ..pod(0, WEB) };
    let types = vec![instance_type(1, 1, &[("a", OnDemand, 10)]), instance_type(2, 4, &[("c", OnDemand, 10)])];
    let mut case = fixture(types, vec![shape], vec![bound_to_node, pod(0, WEB)]);
    case.nodes = vec![node("b", 3, vec![pod(0, WEB), pod(0, WEB)])];
    let plan = sound_plan(&case);
    assert_eq!((plan.unschedulable, plan.nodes.len()), (vec![0], 1));
}

#[test]
fn nodes_launched_for_other_pods_count_as_hosts() {
    // The second web pod requires the node of the first, which makes two there; the node of the job
    // has none: 2 − 0 > 1.
    let together = ShapeCase {
        spread: vec![SpreadCase { honor_affinity: false, ..spread(HOSTNAME, WEB) }],
        affinity: vec![affinity_term(HOSTNAME, WEB)],
        anti_affinity: vec![affinity_term(ZONE, JOB)],
        ..small()
    };
    let types = vec![instance_type(8, 8, &[("c", OnDemand, 10)]), instance_type(8, 16, &[("a", OnDemand, 21)])];
    let plan = sound_plan(&fixture(types, vec![together, small()], vec![pod(0, WEB), pod(0, WEB), pod(1, JOB)]));
    // By name the job is first, then web-00 and web-01.
    assert_eq!((plan.unschedulable, plan.nodes.len()), (vec![2], 2));
}

#[test]
fn fewer_hosts_than_min_domains_make_the_minimum_zero() {
    // Two nodes, three required: the minimum is 0. Both hold a job already, so another makes 2 − 0
    // > 1; a third node cannot have the web pod that the job requires.
    let counted = SpreadCase { min_domains: Some(3), ..spread(HOSTNAME, JOB) };
    let job = ShapeCase { spread: vec![counted], affinity: vec![affinity_term(HOSTNAME, WEB)], ..small() };
    let mut case = fixture(vec![instance_type(1, 1, &[("a", OnDemand, 10)])], vec![small(), job], vec![pod(1, JOB)]);
    case.nodes = vec![node("a", 7, vec![pod(0, WEB), pod(0, JOB)]), node("a", 1, vec![pod(0, JOB)])];
    assert_eq!(sound_plan(&case).unschedulable, [0]);
}

#[test]
fn a_cordoned_node_is_no_domain_if_taints_are_honoured() {
    // Only the cordoned node of zone c is excluded; its pod does not count and zone c is no domain.
    // Zone b gets the first pod (1 − 0), zone a offers capacity for the second (1 − 0 or, if b has
    // its own, 1 − 1 + 1).
    let shape = ShapeCase { spread: vec![SpreadCase { honor_taints: true, ..spread(ZONE, WEB) }], ..small() };
    let mut case =
        fixture(vec![instance_type(1, 1, &[("a", OnDemand, 10)])], vec![shape], vec![pod(0, WEB), pod(0, WEB)]);
    case.nodes = vec![node("c", 4, vec![pod(0, WEB)]), node("b", 4, vec![])];
    case.nodes[0].cordoned = true;
    let plan = sound_plan(&case);
    assert_eq!((plan.placements.len(), plan.nodes.len()), (1, 1));
}

#[test]
fn a_zone_with_only_small_types_is_no_domain_for_a_large_pod() {
    // Zones a and c end with two web pods and one: 2 − 1. Zone b offers one CPU, too little for the
    // node of the job, which therefore makes no domain there.
    let web = ShapeCase { half_cpus: 3, spread: vec![spread(ZONE, WEB)], ..small() };
    let job = ShapeCase { half_cpus: 5, ..small() };
    let types = vec![instance_type(4, 16, &[("a", OnDemand, 10)]), instance_type(1, 1, &[("b", OnDemand, 10)])];
    let mut case = fixture(types, vec![web, job], vec![pod(0, WEB), pod(0, WEB), pod(1, DB)]);
    case.nodes = vec![node("c", 1, vec![pod(0, WEB)])];
    assert!(sound_plan(&case).unschedulable.is_empty());
}

#[test]
fn an_exhausted_reservation_prevents_an_even_spread() {
    // Zone c has one web pod, and its reservation one instance for one pod: two in all. So zone a
    // gets four (4 − 2), each on its own node, and three of the eight are unschedulable.
    let web = ShapeCase { gib: 3, spread: vec![SpreadCase { skew: 2, ..spread(ZONE, WEB) }], ..small() };
    let types = vec![instance_type(1, 4, &[("c", Reserved, 10), ("a", OnDemand, 10)])];
    let mut case = fixture(types, vec![web], vec![pod(0, WEB); 8]);
    case.nodes = vec![node("c", 1, vec![pod(0, WEB)])];
    let plan = sound_plan(&case);
    assert_eq!((plan.unschedulable.len(), plan.nodes.len()), (3, 5));
}

#[test]
fn pods_on_a_node_that_may_not_count_raise_no_minimum() {
    // The db pod counts all pods on arm64 nodes. The 16 web pods spread evenly, eight per zone,
    // beside others; those of zone c are on a node that could be arm64 until it is too full for
    // that, so c counts little.
    let arm = TypeCase { arm: true, ..instance_type(8, 8, &[("c", OnDemand, 20), ("a", OnDemand, 20)]) };
    let tiny = instance_type(1, 1, &[("a", OnDemand, 10)]);
    let mut types = vec![instance_type(16, 32, &[("c", OnDemand, 40)]), arm, tiny.clone(), tiny];
    types.iter_mut().for_each(|kind| kind.pods = 20);
    let all = SpreadCase { honor_affinity: true, ..spread(ZONE, EVERY_APP) };
    let db = ShapeCase { selector: Some((ARCH, "arm64")), spread: vec![all], ..small() };
    let job = ShapeCase { gib: 5, anti_affinity: vec![affinity_term(HOSTNAME, JOB)], ..small() };
    let web = ShapeCase { spread: vec![SpreadCase { honor_affinity: false, ..spread(ZONE, WEB) }], ..small() };
    let mut pods = vec![pod(0, 4), pod(1, DB), pod(0, 5), pod(2, JOB), pod(2, JOB)];
    pods.extend(vec![pod(3, WEB); 16]);
    let plan = sound_plan(&fixture(types, vec![small(), db, job, web], pods));
    assert_eq!(plan.order.len() + plan.unschedulable.len(), 21);
}
