//! Pods that a packing gives up and that fit on the finished plan all the same.

use engine::check::check;
use engine::decide;
use engine::model::CapacityType::OnDemand;
use engine::model::Operator;
use engine::model::labels::{INSTANCE_TYPE, ZONE};
use engine::plan::Plan;

use super::{DB, WEB, kind, node, pod, small, world};
use crate::cases::{Case, DaemonCase, PodCase, ShapeCase};
use crate::judge::given_up;

/// The decision for `case`, which is sound and gives up no pod that fits.
#[track_caller]
fn decided(case: &Case) -> Plan {
    let input = case.input();
    let plan = decide::plan(&input).expect("a sound plan").plan;
    assert_eq!((check(&input, &plan), given_up(&input, &plan)), (vec![], vec![]), "{plan:#?}");
    plan
}

#[test]
fn a_pod_gets_the_machine_whose_zone_runs_no_daemon() {
    // The pod takes all four CPUs of a machine. In a, the daemon takes half a CPU of it; in b, nothing.
    let whole = ShapeCase { half_cpus: 8, ..small() };
    let types = vec![kind(4, 4, &[("a", OnDemand, 40), ("b", OnDemand, 40)])];
    let mut case = world(types, vec![whole], vec![pod(0, WEB)]);
    case.daemons =
        vec![DaemonCase { half_cpus: 1, any_of: vec![vec![(ZONE, Operator::In, &["a"])]], ..DaemonCase::default() }];
    let plan = decided(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (1, 0));
    assert_eq!(plan.nodes[0].zones.iter().map(AsRef::as_ref).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_host_port_that_a_daemon_takes_on_some_types_is_free_on_the_others() {
    // The daemon runs on type-1 only, so a machine of type-0 has the port.
    let served = ShapeCase { port: Some(80), ..small() };
    let types = vec![kind(1, 4, &[("a", OnDemand, 10)]), kind(1, 4, &[("a", OnDemand, 5)])];
    let mut case = world(types, vec![served], vec![pod(0, WEB)]);
    let on_one = vec![vec![(INSTANCE_TYPE, Operator::In, &["type-1"][..])]];
    case.daemons = vec![DaemonCase { any_of: on_one, port: Some(80), ..DaemonCase::default() }];
    let plan = decided(&case);
    assert_eq!((plan.nodes.len(), plan.nodes[0].types.to_vec()), (1, vec![0]));
}

#[test]
fn pods_that_share_a_volume_take_one_attachment() {
    // The node attaches one volume, and both pods mount the same.
    let shared = PodCase { volumes: Some(0), ..pod(0, DB) };
    let mut case = world(vec![kind(1, 4, &[("b", OnDemand, 10)])], vec![small()], vec![shared.clone(), shared]);
    case.nodes = vec![crate::cases::NodeCase { attach: Some(1), ..node("a", 4, vec![]) }];
    let plan = decided(&case);
    assert_eq!((plan.placements.len(), plan.unschedulable.len()), (2, 0));
}

#[test]
fn a_pod_that_fits_nowhere_stays_without_a_place() {
    let huge = ShapeCase { half_cpus: 9, ..small() };
    let plan =
        decided(&world(vec![kind(4, 16, &[("a", OnDemand, 40)])], vec![huge, small()], vec![pod(0, WEB), pod(1, DB)]));
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (1, 1));
}
