//! Pods that a packing leaves unschedulable although they fit on the finished plan.

use model::CapacityType::OnDemand;
use model::Operator;
use model::labels::{INSTANCE_TYPE, ZONE};
use model::plan::Plan;
use verifier::check;

use super::{DB, WEB, fixture, instance_type, node, pod, small};
use crate::cases::{Case, DaemonCase, PodCase, ShapeCase};
use crate::placement_search::wrongly_unplaced;

/// The decision for `case`, which is valid and leaves no fitting pod unschedulable.
#[track_caller]
fn decided(case: &Case) -> Plan {
    let input = case.input();
    let plan = planner::plan(&input).expect("a sound plan").plan;
    assert_eq!((check(&input, &plan), wrongly_unplaced(&input, &plan)), (vec![], vec![]), "{plan:#?}");
    plan
}

#[test]
fn a_pod_gets_the_node_whose_zone_runs_no_daemonset() {
    // The pod uses all four CPUs of a node. In a, the daemon uses half a CPU of it; in b, nothing.
    let whole = ShapeCase { half_cpus: 8, ..small() };
    let types = vec![instance_type(4, 4, &[("a", OnDemand, 40), ("b", OnDemand, 40)])];
    let mut case = fixture(types, vec![whole], vec![pod(0, WEB)]);
    case.daemons =
        vec![DaemonCase { half_cpus: 1, any_of: vec![vec![(ZONE, Operator::In, &["a"])]], ..DaemonCase::default() }];
    let plan = decided(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (1, 0));
    assert_eq!(plan.nodes[0].zones.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_host_port_used_by_a_daemonset_on_some_types_is_free_on_the_others() {
    // The daemon runs on type-1 only, so the port is free on a node of type-0.
    let served = ShapeCase { port: Some(80), ..small() };
    let types = vec![instance_type(1, 4, &[("a", OnDemand, 10)]), instance_type(1, 4, &[("a", OnDemand, 5)])];
    let mut case = fixture(types, vec![served], vec![pod(0, WEB)]);
    let on_one = vec![vec![(INSTANCE_TYPE, Operator::In, &["type-1"][..])]];
    case.daemons = vec![DaemonCase { any_of: on_one, port: Some(80), ..DaemonCase::default() }];
    let plan = decided(&case);
    assert_eq!((plan.nodes.len(), plan.nodes[0].types.to_vec()), (1, vec![0]));
}

#[test]
fn pods_that_share_a_volume_use_one_attachment() {
    // The node attaches one volume, and both pods mount the same.
    let shared = PodCase { volumes: Some(0), ..pod(0, DB) };
    let mut case =
        fixture(vec![instance_type(1, 4, &[("b", OnDemand, 10)])], vec![small()], vec![shared.clone(), shared]);
    case.nodes = vec![crate::cases::NodeCase { attach: Some(1), ..node("a", 4, vec![]) }];
    let plan = decided(&case);
    assert_eq!((plan.placements.len(), plan.unschedulable.len()), (2, 0));
}

#[test]
fn a_pod_that_fits_nowhere_is_unschedulable() {
    let huge = ShapeCase { half_cpus: 9, ..small() };
    let plan = decided(&fixture(
        vec![instance_type(4, 16, &[("a", OnDemand, 40)])],
        vec![huge, small()],
        vec![pod(0, WEB), pod(1, DB)],
    ));
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (1, 1));
}
