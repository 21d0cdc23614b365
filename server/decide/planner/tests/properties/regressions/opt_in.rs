//! Opt-in rules of pools.

use model::CapacityType::{OnDemand, Reserved, Spot};
use model::Millis;
use model::labels::ZONE;

use super::{DB, WEB, affinity_term, fixture, instance_type, pod, small};
use crate::cases::{PodCase, ShapeCase};
use crate::sound_plan;

#[test]
fn a_pod_that_waits_for_spot_is_not_placed_on_demand() {
    // Only on-demand is available. The web pod has waited long enough, the db pod was created a
    // second ago.
    let recently_created = PodCase { recently_created: true, ..pod(0, DB) };
    let mut case =
        fixture(vec![instance_type(4, 16, &[("a", OnDemand, 10)])], vec![small()], vec![recently_created, pod(0, WEB)]);
    case.pools[0].rules.spot_fallback_after = Some(Millis::from_mins(10));
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable), (1, vec![0]));
}

#[test]
fn pods_on_the_on_demand_floor_do_not_wait() {
    // The floor of two covers the new pod of 4 GiB; the web pods, which have waited, may need more
    // nodes than the floor.
    let recently_created = PodCase { recently_created: true, ..pod(1, DB) };
    let large = ShapeCase { gib: 4, ..small() };
    let anti_affinity = ShapeCase { anti_affinity: vec![affinity_term("kubernetes.io/hostname", WEB)], ..small() };
    let pods = vec![recently_created, pod(0, WEB), pod(0, WEB), pod(0, WEB)];
    let mut case = fixture(vec![instance_type(1, 4, &[("a", OnDemand, 10)])], vec![anti_affinity, large], pods);
    (case.pools[0].rules.spot_fallback_after, case.pools[0].rules.on_demand_min_nodes) =
        (Some(Millis::from_mins(10)), Some(5));
    assert!(sound_plan(&case).unschedulable.is_empty());
}

#[test]
fn a_preference_does_not_unbalance_zones() {
    // Each node fits one pod. One zone is preferred, but of two nodes each zone gets one.
    let shape = ShapeCase { half_cpus: 2, preferred_affinity: vec![affinity_term(ZONE, WEB)], ..small() };
    let types = vec![instance_type(1, 4, &[("b", Spot, 10), ("c", Spot, 10)])];
    let mut case = fixture(types, vec![shape], vec![pod(0, WEB), pod(0, WEB)]);
    case.pools[0].rules.zone_balance = true;
    let mut zones: Vec<String> = sound_plan(&case).nodes.iter().map(|node| node.zones[0].to_string()).collect();
    zones.sort();
    assert_eq!(zones, ["b", "c"]);
}

#[test]
fn a_zone_without_a_fitting_type_does_not_block_zone_balance() {
    // Zone c offers half of the required resources, so all three nodes are in zone a.
    let shape = ShapeCase { half_cpus: 4, ..small() };
    let types = vec![instance_type(2, 4, &[("a", OnDemand, 10)]), instance_type(1, 4, &[("c", OnDemand, 5)])];
    let mut case = fixture(types, vec![shape], vec![pod(0, WEB), pod(0, WEB), pod(0, WEB)]);
    case.pools[0].rules.zone_balance = true;
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (3, 0));
}

#[test]
fn of_equally_empty_zones_the_cheaper_is_chosen() {
    let types = vec![instance_type(2, 4, &[("a", OnDemand, 30), ("b", OnDemand, 20)])];
    let mut case = fixture(types, vec![small()], vec![pod(0, WEB)]);
    case.pools[0].rules.zone_balance = true;
    assert_eq!(sound_plan(&case).nodes[0].price.0, 20_000);
}

#[test]
fn zones_are_balanced_within_the_reservations() {
    // Each node fits one pod. The reservations of a and b have one instance each, and on-demand is
    // available in a alone: 3 in a, 1 in b, where no offering remains.
    let shape = ShapeCase { half_cpus: 2, ..small() };
    let types = vec![instance_type(1, 4, &[("b", Reserved, 10), ("a", Reserved, 10), ("a", OnDemand, 10)])];
    let mut case = fixture(types, vec![shape], vec![pod(0, WEB); 4]);
    case.pools[0].rules.zone_balance = true;
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (4, 0));
}
