//! Topology spread: which machines count, and how full the emptiest of them is.

use engine::model::CapacityType::{OnDemand, Reserved};
use engine::model::labels::{ARCH, HOSTNAME, ZONE};

use super::{DB, JOB, WEB, about, kind, node, pod, small, spread, world};
use crate::cases::{PodCase, ShapeCase, SpreadCase, TypeCase};
use crate::sound_plan;
use crate::world::EVERY_APP;

#[test]
fn a_volume_does_not_narrow_the_domains_that_a_spread_looks_at() {
    // Zone b holds two. Whoever needs node-0's volume makes three there, while the zones on sale are empty: 3 − 0 > 1.
    let shape = ShapeCase { spread: vec![spread(ZONE, WEB)], ..small() };
    let bound_to_node = PodCase { volumes: Some(3), ..pod(0, WEB) };
    let types = vec![kind(1, 1, &[("a", OnDemand, 10)]), kind(2, 4, &[("c", OnDemand, 10)])];
    let mut case = world(types, vec![shape], vec![bound_to_node, pod(0, WEB)]);
    case.nodes = vec![node("b", 3, vec![pod(0, WEB), pod(0, WEB)])];
    let plan = sound_plan(&case);
    assert_eq!((plan.unschedulable, plan.nodes.len()), (vec![0], 1));
}

#[test]
fn machines_bought_for_others_count_as_hosts() {
    // The second web pod must stand beside the first, which makes two there; the machine of the job has none: 2 − 0 > 1.
    let together = ShapeCase {
        spread: vec![SpreadCase { honor_affinity: false, ..spread(HOSTNAME, WEB) }],
        near: vec![about(HOSTNAME, WEB)],
        apart: vec![about(ZONE, JOB)],
        ..small()
    };
    let types = vec![kind(8, 8, &[("c", OnDemand, 10)]), kind(8, 16, &[("a", OnDemand, 21)])];
    let plan = sound_plan(&world(types, vec![together, small()], vec![pod(0, WEB), pod(0, WEB), pod(1, JOB)]));
    // Names sort the job first, then web-00 and web-01.
    assert_eq!((plan.unschedulable, plan.nodes.len()), (vec![2], 2));
}

#[test]
fn fewer_hosts_than_wanted_make_the_least_count_zero() {
    // Two nodes, three wanted: the least count is 0. Both hold a job already, so another makes 2 − 0 > 1; a third machine
    // cannot have the web pod that the job wants beside it.
    let counted = SpreadCase { min_domains: Some(3), ..spread(HOSTNAME, JOB) };
    let job = ShapeCase { spread: vec![counted], near: vec![about(HOSTNAME, WEB)], ..small() };
    let mut case = world(vec![kind(1, 1, &[("a", OnDemand, 10)])], vec![small(), job], vec![pod(1, JOB)]);
    case.nodes = vec![node("a", 7, vec![pod(0, WEB), pod(0, JOB)]), node("a", 1, vec![pod(0, JOB)])];
    assert_eq!(sound_plan(&case).unschedulable, [0]);
}

#[test]
fn a_cordoned_node_is_no_domain_where_taints_are_honoured() {
    // Only the cordoned node of zone c is out; its pod does not count and zone c is not looked at. Zone b takes the first
    // pod (1 − 0), zone a sells room for the second (1 − 0 or, when b has its own, 1 − 1 + 1).
    let shape = ShapeCase { spread: vec![SpreadCase { honor_taints: true, ..spread(ZONE, WEB) }], ..small() };
    let mut case = world(vec![kind(1, 1, &[("a", OnDemand, 10)])], vec![shape], vec![pod(0, WEB), pod(0, WEB)]);
    case.nodes = vec![node("c", 4, vec![pod(0, WEB)]), node("b", 4, vec![])];
    case.nodes[0].cordoned = true;
    let plan = sound_plan(&case);
    assert_eq!((plan.placements.len(), plan.nodes.len()), (1, 1));
}

#[test]
fn a_zone_where_only_small_machines_are_sold_is_not_a_domain_of_a_large_pods_machine() {
    // Zones a and c end with two web pods and one: 2 − 1. Zone b sells one CPU, too little for the job's machine, which
    // therefore makes no domain there.
    let web = ShapeCase { half_cpus: 3, spread: vec![spread(ZONE, WEB)], ..small() };
    let job = ShapeCase { half_cpus: 5, ..small() };
    let types = vec![kind(4, 16, &[("a", OnDemand, 10)]), kind(1, 1, &[("b", OnDemand, 10)])];
    let mut case = world(types, vec![web, job], vec![pod(0, WEB), pod(0, WEB), pod(1, DB)]);
    case.nodes = vec![node("c", 1, vec![pod(0, WEB)])];
    assert!(sound_plan(&case).unschedulable.is_empty());
}

#[test]
fn a_reservation_that_runs_out_makes_no_even_spread() {
    // Zone c has one web pod, and its reservation one machine, with room for one: two in all. So zone a takes four (4 − 2),
    // each on a machine of its own, and three of the eight have no place.
    let web = ShapeCase { gib: 3, spread: vec![SpreadCase { skew: 2, ..spread(ZONE, WEB) }], ..small() };
    let types = vec![kind(1, 4, &[("c", Reserved, 10), ("a", OnDemand, 10)])];
    let mut case = world(types, vec![web], vec![pod(0, WEB); 8]);
    case.nodes = vec![node("c", 1, vec![pod(0, WEB)])];
    let plan = sound_plan(&case);
    assert_eq!((plan.unschedulable.len(), plan.nodes.len()), (3, 5));
}

#[test]
fn pods_on_a_machine_that_may_turn_out_not_to_count_raise_no_minimum() {
    // The db pod looks at all pods on machines for arm64. The 16 pods of the web spread evenly, eight to a zone, beside others;
    // those of zone c stand on a machine which could be one for arm64 until it is too full for that, so c counts for little.
    let arm = TypeCase { arm: true, ..kind(8, 8, &[("c", OnDemand, 20), ("a", OnDemand, 20)]) };
    let tiny = kind(1, 1, &[("a", OnDemand, 10)]);
    let mut types = vec![kind(16, 32, &[("c", OnDemand, 40)]), arm, tiny.clone(), tiny];
    types.iter_mut().for_each(|kind| kind.pods = 20);
    let all = SpreadCase { honor_affinity: true, ..spread(ZONE, EVERY_APP) };
    let db = ShapeCase { selector: Some((ARCH, "arm64")), spread: vec![all], ..small() };
    let job = ShapeCase { gib: 5, apart: vec![about(HOSTNAME, JOB)], ..small() };
    let web = ShapeCase { spread: vec![SpreadCase { honor_affinity: false, ..spread(ZONE, WEB) }], ..small() };
    let mut pods = vec![pod(0, 4), pod(1, DB), pod(0, 5), pod(2, JOB), pod(2, JOB)];
    pods.extend(vec![pod(3, WEB); 16]);
    let plan = sound_plan(&world(types, vec![small(), db, job, web], pods));
    assert_eq!(plan.order.len() + plan.unschedulable.len(), 21);
}
