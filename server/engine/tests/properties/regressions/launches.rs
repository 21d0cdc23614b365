//! What machines are launched with: options that are varied enough, labels, daemons, volumes.

use engine::model::CapacityType::{OnDemand, Reserved, Spot};
use engine::model::Operator;
use engine::model::labels::{HOSTNAME, ZONE};

use super::{DB, WEB, about, kind, pod, small, world};
use crate::cases::{DaemonCase, PodCase, PoolCase, ShapeCase, TIER, TypeCase};
use crate::sound_plan;
use crate::world::GIB;

#[test]
fn a_preference_never_takes_the_options_that_min_values_need() {
    // Zone b alone has one type of 4 GiB and so has zone a; both zones together have the two that are wanted.
    let shape = ShapeCase { gib: 3, rather_near: vec![about(ZONE, WEB)], ..small() };
    let types = vec![kind(2, 4, &[("b", OnDemand, 10)]), kind(4, 4, &[("a", OnDemand, 10)])];
    let mut case = world(types, vec![shape], vec![pod(0, WEB)]);
    case.pools[0].min_types = Some(2);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes[0].types.len(), plan.nodes[0].zones.len()), (2, 2));
}

#[test]
fn a_settled_size_leaves_the_options_that_min_values_need() {
    // Shares of vCPUs settle the size, so the types of two and of four CPUs are never options together.
    let types = vec![kind(2, 4, &[("b", OnDemand, 10)]), kind(4, 4, &[("b", OnDemand, 10)])];
    let mut case = world(types, vec![small()], vec![pod(0, WEB)]);
    (case.pools[0].min_types, case.pools[0].rules.spot_max_percent) = (Some(2), Some(50));
    assert_eq!(sound_plan(&case).unschedulable, [0]);
    case.types.push(kind(4, 8, &[("b", OnDemand, 30)]));
    assert_eq!(sound_plan(&case).nodes[0].types.len(), 2);
}

#[test]
fn one_reservation_must_be_varied_enough_by_itself() {
    // Each reservation covers one type, two are wanted; on demand both are sold.
    let sold = |zone| [(zone, Reserved, 0), ("a", OnDemand, 10)];
    let mut case = world(vec![kind(4, 4, &sold("a")), kind(4, 4, &sold("c"))], vec![small()], vec![pod(0, WEB)]);
    case.pools[0].min_types = Some(2);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes[0].capacity_type, plan.nodes[0].types.len()), (OnDemand, 2));
}

#[test]
fn a_daemon_that_avoids_the_chosen_label_is_not_counted() {
    // The pod chooses tier 1, which the daemon avoids: 3.5 CPUs are asked for, not 4.
    let avoiding =
        DaemonCase { half_cpus: 1, any_of: vec![vec![(TIER, Operator::NotIn, &["1"])]], ..DaemonCase::default() };
    let choosing = ShapeCase { half_cpus: 7, any_of: vec![vec![(TIER, Operator::In, &["1"])]], ..small() };
    let mut case = world(vec![kind(4, 4, &[("a", OnDemand, 19)])], vec![choosing], vec![pod(0, WEB)]);
    case.pools[0].wishes = vec![(TIER, Operator::Exists, &[])];
    case.daemons = vec![avoiding];
    let plan = sound_plan(&case);
    assert_eq!(plan.nodes[0].requests.get("cpu"), 3500);
}

#[test]
fn a_larger_machine_must_still_attach_the_volumes_that_are_there() {
    // db (5 GiB, two volumes) stands on the 8 GiB machine. 16 GiB would hold web beside it, but attaches nothing.
    let db = ShapeCase { gib: 5, ..small() };
    let web = ShapeCase { gib: 4, near: vec![about(HOSTNAME, DB)], ..small() };
    let large = TypeCase { attach: Some(0), ..kind(4, 16, &[("a", OnDemand, 10)]) };
    let with_volumes = PodCase { volumes: Some(2), ..pod(0, DB) };
    let case = world(vec![large, kind(2, 8, &[("a", OnDemand, 10)])], vec![db, web], vec![with_volumes, pod(1, WEB)]);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable), (1, vec![1]));
}

#[test]
fn machines_of_static_pools_say_what_they_are_and_what_their_daemons_ask_for() {
    // One daemon of half a CPU and 0.25 GiB on each of two machines, one in each zone.
    let mut case = world(vec![kind(2, 4, &[("a", OnDemand, 10), ("b", OnDemand, 12)])], vec![small()], Vec::new());
    case.pools[0].replicas = Some(2);
    case.daemons = vec![DaemonCase { half_cpus: 1, ..DaemonCase::default() }];
    let plan = sound_plan(&case);
    let zones: Vec<&str> = plan.static_nodes.iter().map(|node| node.zones[0].as_ref()).collect();
    assert_eq!(zones, ["a", "b"]);
    for node in &plan.static_nodes {
        assert_eq!((node.requests.get("cpu"), node.requests.get("memory")), (500, GIB / 4));
        assert_eq!(node.labels.get("kubernetes.io/arch").map(AsRef::as_ref), Some("amd64"));
    }
}

#[test]
fn machines_of_static_pools_keep_limits_reservations_and_min_values() {
    // Limit 6: the reserved machine (4) leaves room for one of 2 CPUs, and the third has none.
    let mut case =
        world(vec![kind(4, 4, &[("a", Reserved, 0)]), kind(2, 4, &[("a", OnDemand, 10)])], vec![small()], Vec::new());
    (case.pools[0].replicas, case.pools[0].cpu_limit) = (Some(3), Some(6));
    let kinds: Vec<_> = sound_plan(&case).static_nodes.iter().map(|node| node.capacity_type).collect();
    assert_eq!(kinds, [Reserved, OnDemand]);
    // Zone c sells one type, two are wanted: both machines go to zone b.
    let types = vec![kind(1, 1, &[("b", Spot, 10)]), kind(1, 1, &[("c", Spot, 10), ("b", Spot, 10)])];
    let mut case = world(types, vec![small()], Vec::new());
    case.pools[0] = PoolCase { min_types: Some(2), replicas: Some(2), ..PoolCase::default() };
    let plan = sound_plan(&case);
    assert!(plan.static_nodes.len() == 2 && plan.static_nodes.iter().all(|node| node.zones[0].as_ref() == "b"));
}
