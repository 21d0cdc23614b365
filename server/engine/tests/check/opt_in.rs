//! The opt-in rules of a NodePool, each broken once.

use engine::check::Rule;
use engine::model::labels::{ARCH, ZONE};
use engine::model::{CapacityType, MicroUsd, Offering, Operator, PodShape, Requirement, Timestamp};

use crate::world::{LARGE, SMALL, World, about, plain, reserved, text, wanting};

/// One pod each on small machines in these zones.
fn small_machines(zones: &[&str]) -> World {
    let mut world = World::new();
    for zone in zones {
        let pod = world.pod("web", plain());
        world.launch(&[SMALL], &[zone], &[pod]);
    }
    world
}

#[test]
fn zones_are_balanced_where_the_pods_could_run_elsewhere() {
    let mut world = small_machines(&["a", "b", "c", "a"]);
    world.pool().rules.zone_balance = true;
    world.assert_clean();
    // 3 in a, none in c.
    let mut world = small_machines(&["a", "b", "a", "a", "b"]);
    world.pool().rules.zone_balance = true;
    world.assert_breaks(Rule::ZoneBalance);
    // Pods that want zone a alone can be nowhere else.
    let only_a = wanting(Requirement::equals(ZONE, "a"));
    world.input.shapes.iter_mut().for_each(|shape| *shape = only_a.clone());
    world.input.shapes[1] = plain();
    world.input.shapes[4] = plain();
    world.pool().requirements.add(Requirement::new(ZONE, Operator::In, [text("a"), text("b")]));
    world.assert_clean();
}

#[test]
fn a_reservation_that_is_used_up_sells_in_no_other_zone() {
    // 3 in a, 1 in b. Two of those in a can be nowhere else; the third is reserved, so it needs a second machine of cr-b.
    let planned = |machines: i64| {
        let mut world = World::new();
        let in_b = Offering { zone: text("b"), ..reserved("cr-b", machines) };
        world.machine(SMALL).offerings.extend([reserved("cr-a", 1), in_b]);
        world.pool().rules.zone_balance = true;
        for _ in 0..2 {
            let pod = world.pod("web", wanting(Requirement::equals(ZONE, "a")));
            world.launch(&[SMALL], &["a"], &[pod]);
        }
        for zone in ["a", "b"] {
            let pod = world.pod("web", plain());
            let node = world.described(0, CapacityType::Reserved, &[SMALL], &[zone], &[pod]);
            world.plan.nodes.push(node);
            world.plan.order.push(pod);
        }
        world
    };
    planned(1).assert_clean();
    planned(2).assert_breaks(Rule::ZoneBalance);
}

#[test]
fn a_balanced_pools_machines_have_one_zone() {
    let mut world = World::new();
    let pod = world.pod("web", plain());
    world.launch(&[SMALL], &["a", "b"], &[pod]);
    world.pool().rules.zone_balance = true;
    world.assert_breaks(Rule::ZoneBalance);
}

#[test]
fn pods_that_name_no_architecture_get_a_safe_one() {
    let mut world = small_machines(&["a"]);
    world.pool().rules.safe_architectures = vec![text("amd64")];
    world.assert_clean();
    world.pool().rules.safe_architectures = vec![text("arm64")];
    world.assert_breaks(Rule::SafeArchitectures);
    world.input.shapes[0] = wanting(Requirement::equals(ARCH, "amd64"));
    world.assert_clean();
}

#[test]
fn a_pod_waits_for_spot_before_it_falls_back() {
    // Created at 1,000 ms, judged at 60,999 ms, told to wait a minute: 1 ms short.
    let mut world = small_machines(&["a"]);
    world.pool().rules.spot_fallback_after_ms = Some(60_000);
    world.assert_clean();
    world.input.pods[0].created = Some(Timestamp(1_000));
    world.input.now = Timestamp(60_999);
    world.assert_breaks(Rule::SpotFallback);
    world.input.now = Timestamp(61_000);
    world.assert_clean();
}

#[test]
fn a_pod_kept_off_spot_by_the_floor_does_not_wait() {
    let mut world = small_machines(&["a"]);
    world.pool().rules.spot_fallback_after_ms = Some(60_000);
    world.input.pods[0].created = Some(Timestamp(0));
    world.pool().rules.on_demand_min_nodes = Some(1);
    world.assert_clean();
}

#[test]
fn an_offering_above_a_ceiling_is_no_option() {
    // Small costs 0.10 for 2 CPUs, 0.05 for each.
    let mut world = small_machines(&["a"]);
    world.pool().rules.max_node_price = Some(MicroUsd(100_000));
    world.pool().rules.max_price_per_vcpu = Some(MicroUsd(50_000));
    world.assert_clean();
    world.pool().rules.max_node_price = Some(MicroUsd(99_999));
    world.assert_breaks(Rule::PriceCeiling);
    world.pool().rules.max_node_price = None;
    world.pool().rules.max_price_per_vcpu = Some(MicroUsd(49_999));
    world.assert_breaks(Rule::PriceCeiling);
}

/// One small machine on demand, one on spot that may come as large.
fn mixed() -> World {
    let mut world = small_machines(&["a"]);
    let pod = world.pod("web", plain());
    world.launch_spot(&[SMALL, LARGE], &["a"], &[pod]);
    world
}

#[test]
fn the_share_of_spot_holds_whichever_option_launches() {
    // 4 of 6 CPUs at worst: 66.7 %.
    let mut world = mixed();
    world.pool().rules.spot_max_percent = Some(67);
    world.assert_clean();
    world.pool().rules.spot_max_percent = Some(66);
    world.assert_breaks(Rule::SpotShare);
}

#[test]
fn on_demand_nodes_come_before_spot() {
    let mut world = mixed();
    world.pool().rules.on_demand_min_nodes = Some(1);
    world.assert_clean();
    world.pool().rules.on_demand_min_nodes = Some(2);
    world.assert_breaks(Rule::OnDemandFloor);
    world.node("n", "a");
    world.assert_clean();
}

#[test]
fn machines_are_no_larger_than_allowed() {
    let mut world = mixed();
    world.pool().rules.max_node_vcpu = Some(4);
    world.assert_clean();
    world.pool().rules.max_node_vcpu = Some(3);
    world.assert_breaks(Rule::NodeSize);
}

#[test]
fn there_are_no_fewer_machines_than_wanted_unless_pods_share_them() {
    let mut world = World::new();
    let pods: Vec<u32> = (0..2).map(|_| world.pod("web", plain())).collect();
    world.launch(&[SMALL], &["a"], &pods);
    world.pool().rules.min_nodes = Some(2);
    world.assert_breaks(Rule::NodeCount);
    world.input.shapes[1] = PodShape { pod_affinity: vec![about("web", ZONE)], ..plain() };
    world.assert_clean();
}
