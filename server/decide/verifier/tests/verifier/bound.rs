//! The lower bound on fixtures small enough to compute it by hand. On spot, `small` has 2 CPUs for
//! 0.03 and `large` 4 for 0.06; on demand 0.10 and 0.20. Pods use 1 CPU and 1 GiB, so CPU decides.

use model::labels::{CAPACITY_TYPE, HOSTNAME};
use model::{Burstable, HostPort, MicroUsd, PodShape, Requirement};
use scheduler::bound::{lower_bound, resource_prices};

use crate::fixture::{Fixture, LARGE, SMALL, affinity_term, amounts, plain, requiring, reserved, taint, text};

/// These pods on nodes that are far too expensive, so that the cost of the plan does not cap the
/// bound.
fn expensive(fixture: &mut Fixture, pods: &[u32]) {
    fixture.launch(&[LARGE], &["a"], pods).price = MicroUsd(1_000_000_000);
}

fn world_of(shapes: &[PodShape]) -> Fixture {
    let mut fixture = Fixture::new();
    let pods: Vec<u32> = shapes.iter().map(|shape| fixture.pod("web", shape.clone())).collect();
    expensive(&mut fixture, &pods);
    fixture
}

#[track_caller]
fn assert_bound(fixture: &Fixture, micro_usd: i64) {
    // Rounding down may cost a micro-dollar.
    let bound = lower_bound(&fixture.input, &fixture.plan).0;
    assert!(bound == micro_usd || bound == micro_usd - 1, "{bound}, expected {micro_usd}");
}

fn on_demand() -> PodShape {
    requiring(Requirement::equals(CAPACITY_TYPE, "on-demand"))
}

#[test]
fn each_resource_is_priced_at_its_cheapest_offering() {
    // 3 CPUs at 0.015 each.
    assert_bound(&world_of(&vec![plain(); 3]), 45_000);
    // 1 pod alone needs a whole node.
    assert_bound(&world_of(&[plain()]), 30_000);
}

#[test]
fn pods_that_may_not_use_cheap_offerings_are_not_covered_by_them() {
    assert_bound(&world_of(&vec![on_demand(); 2]), 100_000);
    // 2 CPUs on demand at 0.05 each and 2 anywhere at 0.015: 0.10 + 0.03.
    assert_bound(&world_of(&[on_demand(), on_demand(), plain(), plain()]), 130_000);
}

#[test]
fn free_capacity_on_nodes_required_by_some_pods_serves_the_others_too() {
    // 1 pod on demand and 1 anywhere share one small node for 0.10; their CPUs alone are worth 0.05
    // + 0.015, and the one on demand needs a whole node.
    assert_bound(&world_of(&[on_demand(), plain()]), 100_000);
}

#[test]
fn existing_capacity_is_free() {
    // 4 of 6 pods fit the node, 2 need a small node.
    let mut fixture = world_of(&vec![plain(); 6]);
    fixture.node("n", "a");
    assert_bound(&fixture, 30_000);
    fixture.input.nodes[0].taints.push(taint("gpu"));
    assert_bound(&fixture, 90_000);
}

#[test]
fn reserved_capacity_is_free() {
    // A reserved small node holds 2 of the 4 pods, so one reservation leaves 2 and two leave none.
    let mut fixture = world_of(&vec![plain(); 4]);
    fixture.machine(SMALL).offerings.push(reserved("cr-1", 1));
    assert_bound(&fixture, 30_000);
    fixture.machine(SMALL).offerings.push(reserved("cr-2", 1));
    assert_eq!(lower_bound(&fixture.input, &fixture.plan), MicroUsd(0));
}

#[test]
fn pods_that_exclude_each_other_need_a_machine_each() {
    let apart = PodShape { pod_anti_affinity: vec![affinity_term("web", HOSTNAME)], ..plain() };
    let port = HostPort { ip: text(""), protocol: text("TCP"), port: 80 };
    let port = PodShape { host_ports: vec![port], ..plain() };
    for shape in [apart, port] {
        // 3 nodes at 0.03, or 2 beside an existing node.
        let mut fixture = world_of(&vec![shape; 3]);
        assert_bound(&fixture, 90_000);
        fixture.node("n", "a");
        assert_bound(&fixture, 60_000);
    }
}

#[test]
fn memory_counts_where_it_is_scarce() {
    // 16 GiB for 0.06: 12 GiB are 0.045, a whole large node is 0.06, and no small one holds such a
    // pod.
    let pod = PodShape { requests: amounts(100, 12 << 30, 1), ..PodShape::default() };
    assert_bound(&world_of(&[pod]), 60_000);
}

/// Pods of so many millicores each where only `small` is offered: up to 400 millicores at its price, and
/// beyond that at `credit_price` micro-dollars for each CPU.
fn burstable(pods: usize, milli: i64, credit_price: i64) -> Fixture {
    let mut fixture = world_of(&vec![PodShape { requests: amounts(milli, 1, 1), ..PodShape::default() }; pods]);
    fixture.machine(LARGE).offerings.clear();
    fixture.machine(SMALL).burstable = Some(Burstable { baseline: 400, credit_price: MicroUsd(credit_price) });
    fixture
}

#[test]
fn cpu_beyond_the_baseline_of_a_burstable_machine_is_paid() {
    let is_bound = |fixture: &Fixture, micro_usd: i64| {
        // The bound may lose a micro-dollar for each machine, because credits are rounded.
        let bound = lower_bound(&fixture.input, &fixture.plan).0;
        assert!((micro_usd - 6..=micro_usd).contains(&bound), "{bound}, expected {micro_usd}");
    };
    // 2 pods use 1.6 CPUs beyond the baseline: 0.03 + 0.08 for two, 0.055 for each.
    is_bound(&burstable(4, 1_000, 50_000), 220_000);
    // At 0.50 for a CPU it is cheaper to stay at the baseline, which is 2 pods: 0.015 for each.
    is_bound(&burstable(10, 200, 500_000), 150_000);
    let mut listed = burstable(4, 1_000, 50_000);
    listed.pool().rules.ignores_credits = true;
    is_bound(&listed, 60_000);
}

#[test]
fn an_empty_plan_costs_nothing_and_no_plan_is_below_its_bound() {
    let mut fixture = Fixture::new();
    let pod = fixture.pod("web", plain());
    let node = fixture.node("n", "a");
    fixture.place(pod, node);
    assert_eq!(lower_bound(&fixture.input, &fixture.plan), MicroUsd(0));
    let mut fixture = Fixture::new();
    let pod = fixture.pod("web", plain());
    fixture.launch(&[SMALL], &["a"], &[pod]).price = MicroUsd(7);
    assert_eq!(lower_bound(&fixture.input, &fixture.plan), MicroUsd(7));
}

#[test]
fn a_resource_is_worth_what_covering_it_costs() {
    // 0.03 for 2,000 millicores, memory in excess: 15 micro-dollars a millicore.
    let prices = resource_prices(&world_of(&vec![plain(); 3]).input, &world_of(&vec![plain(); 3]).plan);
    let cpu = prices.iter().find(|(name, _)| name.as_ref() == "cpu").unwrap().1;
    assert!((cpu - 15.0).abs() < 1e-3, "{cpu}");
}
