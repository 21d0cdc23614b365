//! Launches: options that satisfy `minValues`, labels, DaemonSets, volumes.

use model::CapacityType::{OnDemand, Reserved, Spot};
use model::Operator;
use model::labels::{HOSTNAME, ZONE};

use super::{DB, WEB, affinity_term, fixture, instance_type, pod, small};
use crate::cases::{DaemonCase, PodCase, PoolCase, ShapeCase, TIER, TypeCase};
use crate::fixture::GIB;
use crate::sound_plan;

#[test]
fn a_preference_never_removes_the_options_required_by_min_values() {
    // Zone b alone has one type of 4 GiB and so has zone a; both zones together have the two
    // required.
    let shape = ShapeCase { gib: 3, preferred_affinity: vec![affinity_term(ZONE, WEB)], ..small() };
    let types = vec![instance_type(2, 4, &[("b", OnDemand, 10)]), instance_type(4, 4, &[("a", OnDemand, 10)])];
    let mut case = fixture(types, vec![shape], vec![pod(0, WEB)]);
    case.pools[0].min_types = Some(2);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes[0].types.len(), plan.nodes[0].zones.len()), (2, 2));
}

#[test]
fn a_decided_size_leaves_the_options_required_by_min_values() {
    // Spot shares decide the size, so the types of two and of four CPUs are never options together.
    let types = vec![instance_type(2, 4, &[("b", OnDemand, 10)]), instance_type(4, 4, &[("b", OnDemand, 10)])];
    let mut case = fixture(types, vec![small()], vec![pod(0, WEB)]);
    (case.pools[0].min_types, case.pools[0].rules.spot_max_percent) = (Some(2), Some(50));
    assert_eq!(sound_plan(&case).unschedulable, [0]);
    case.types.push(instance_type(4, 8, &[("b", OnDemand, 30)]));
    assert_eq!(sound_plan(&case).nodes[0].types.len(), 2);
}

#[test]
fn one_reservation_must_satisfy_min_values_alone() {
    // Each reservation covers one type, two are required; on demand both are available.
    let offerings = |zone| [(zone, Reserved, 0), ("a", OnDemand, 10)];
    let mut case = fixture(
        vec![instance_type(4, 4, &offerings("a")), instance_type(4, 4, &offerings("c"))],
        vec![small()],
        vec![pod(0, WEB)],
    );
    case.pools[0].min_types = Some(2);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes[0].capacity_type, plan.nodes[0].types.len()), (OnDemand, 2));
}

#[test]
fn a_daemonset_that_excludes_the_chosen_label_is_not_counted() {
    // The pod requires tier 1, which the daemon excludes: 3.5 CPUs are requested, not 4.
    let avoiding =
        DaemonCase { half_cpus: 1, any_of: vec![vec![(TIER, Operator::NotIn, &["1"])]], ..DaemonCase::default() };
    let choosing = ShapeCase { half_cpus: 7, any_of: vec![vec![(TIER, Operator::In, &["1"])]], ..small() };
    let mut case = fixture(vec![instance_type(4, 4, &[("a", OnDemand, 19)])], vec![choosing], vec![pod(0, WEB)]);
    case.pools[0].requirements = vec![(TIER, Operator::Exists, &[])];
    case.daemons = vec![avoiding];
    let plan = sound_plan(&case);
    assert_eq!(plan.nodes[0].requests.get("cpu"), 3500);
}

#[test]
fn a_larger_type_must_still_attach_the_volumes_of_its_pods() {
    // db (5 GiB, two volumes) is on the 8 GiB node. 16 GiB would also fit web, but attaches
    // nothing.
    let db = ShapeCase { gib: 5, ..small() };
    let web = ShapeCase { gib: 4, affinity: vec![affinity_term(HOSTNAME, DB)], ..small() };
    let large = TypeCase { attach: Some(0), ..instance_type(4, 16, &[("a", OnDemand, 10)]) };
    let with_volumes = PodCase { volumes: Some(2), ..pod(0, DB) };
    let case = fixture(
        vec![large, instance_type(2, 8, &[("a", OnDemand, 10)])],
        vec![db, web],
        vec![with_volumes, pod(1, WEB)],
    );
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable), (1, vec![1]));
}

#[test]
fn static_nodes_state_their_labels_and_daemonset_requests() {
    // One daemon of half a CPU and 0.25 GiB on each of two nodes, one in each zone.
    let mut case =
        fixture(vec![instance_type(2, 4, &[("a", OnDemand, 10), ("b", OnDemand, 12)])], vec![small()], Vec::new());
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
fn static_nodes_satisfy_limits_reservations_and_min_values() {
    // Limit 6: the reserved node (4) leaves 2 CPUs for one more, and the third does not fit.
    let mut case = fixture(
        vec![instance_type(4, 4, &[("a", Reserved, 0)]), instance_type(2, 4, &[("a", OnDemand, 10)])],
        vec![small()],
        Vec::new(),
    );
    (case.pools[0].replicas, case.pools[0].cpu_limit) = (Some(3), Some(6));
    let kinds: Vec<_> = sound_plan(&case).static_nodes.iter().map(|node| node.capacity_type).collect();
    assert_eq!(kinds, [Reserved, OnDemand]);
    // Zone c has one type, two are required: both nodes go to zone b.
    let types = vec![instance_type(1, 1, &[("b", Spot, 10)]), instance_type(1, 1, &[("c", Spot, 10), ("b", Spot, 10)])];
    let mut case = fixture(types, vec![small()], Vec::new());
    case.pools[0] = PoolCase { min_types: Some(2), replicas: Some(2), ..PoolCase::default() };
    let plan = sound_plan(&case);
    assert!(plan.static_nodes.len() == 2 && plan.static_nodes.iter().all(|node| node.zones[0].as_ref() == "b"));
}
