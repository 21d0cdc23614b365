//! Opt-in rules of pools.

use engine::model::CapacityType::{OnDemand, Reserved, Spot};
use engine::model::labels::ZONE;

use super::{DB, WEB, about, kind, pod, small, world};
use crate::cases::{PodCase, ShapeCase};
use crate::sound_plan;

#[test]
fn a_pod_that_waits_for_spot_does_not_join_an_on_demand_machine() {
    // Only on-demand is sold. The web pod has waited long enough, the db pod was created a second ago.
    let young = PodCase { young: true, ..pod(0, DB) };
    let mut case = world(vec![kind(4, 16, &[("a", OnDemand, 10)])], vec![small()], vec![young, pod(0, WEB)]);
    case.pools[0].rules.spot_fallback_after_ms = Some(600_000);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable), (1, vec![0]));
}

#[test]
fn pods_on_the_on_demand_floor_do_not_wait() {
    // The floor of two takes the young pod of 4 GiB; the web pods, who have waited, may need more machines than the floor.
    let young = PodCase { young: true, ..pod(1, DB) };
    let large = ShapeCase { gib: 4, ..small() };
    let apart = ShapeCase { apart: vec![about("kubernetes.io/hostname", WEB)], ..small() };
    let pods = vec![young, pod(0, WEB), pod(0, WEB), pod(0, WEB)];
    let mut case = world(vec![kind(1, 4, &[("a", OnDemand, 10)])], vec![apart, large], pods);
    (case.pools[0].rules.spot_fallback_after_ms, case.pools[0].rules.on_demand_min_nodes) = (Some(600_000), Some(5));
    assert!(sound_plan(&case).unschedulable.is_empty());
}

#[test]
fn a_preference_does_not_unbalance_zones() {
    // Each machine holds one pod. Standing together is preferred, but of two machines each zone gets one.
    let shape = ShapeCase { half_cpus: 2, rather_near: vec![about(ZONE, WEB)], ..small() };
    let types = vec![kind(1, 4, &[("b", Spot, 10), ("c", Spot, 10)])];
    let mut case = world(types, vec![shape], vec![pod(0, WEB), pod(0, WEB)]);
    case.pools[0].rules.zone_balance = true;
    let mut zones: Vec<String> = sound_plan(&case).nodes.iter().map(|node| node.zones[0].to_string()).collect();
    zones.sort();
    assert_eq!(zones, ["b", "c"]);
}

#[test]
fn a_zone_without_room_for_the_pod_does_not_hold_up_balance() {
    // Zone c sells half of what the pods need, so that all three machines stand in zone a.
    let shape = ShapeCase { half_cpus: 4, ..small() };
    let types = vec![kind(2, 4, &[("a", OnDemand, 10)]), kind(1, 4, &[("c", OnDemand, 5)])];
    let mut case = world(types, vec![shape], vec![pod(0, WEB), pod(0, WEB), pod(0, WEB)]);
    case.pools[0].rules.zone_balance = true;
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (3, 0));
}

#[test]
fn of_equally_empty_zones_the_cheaper_is_chosen() {
    let types = vec![kind(2, 4, &[("a", OnDemand, 30), ("b", OnDemand, 20)])];
    let mut case = world(types, vec![small()], vec![pod(0, WEB)]);
    case.pools[0].rules.zone_balance = true;
    assert_eq!(sound_plan(&case).nodes[0].price.0, 20_000);
}

#[test]
fn zones_are_balanced_as_far_as_reservations_go() {
    // Each machine holds one pod. The reservations of a and b have one machine each, and on-demand is sold in a alone: 3 in a,
    // 1 in b, where nothing more is for sale.
    let shape = ShapeCase { half_cpus: 2, ..small() };
    let types = vec![kind(1, 4, &[("b", Reserved, 10), ("a", Reserved, 10), ("a", OnDemand, 10)])];
    let mut case = world(types, vec![shape], vec![pod(0, WEB); 4]);
    case.pools[0].rules.zone_balance = true;
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (4, 0));
}
