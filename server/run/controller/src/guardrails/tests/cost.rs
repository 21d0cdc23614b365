//! What the price of a machine is spent on: each cause has its scene here.
//!
//! Machines are t.2 with 2 cores at $0.02 an hour; pods request half a core unless said otherwise. consolidateAfter is 30 s, and
//! the first plan of disruption is due at 30 s.

use cost::{CostCause, CostParts};

use super::fixture::{Fixture, freeze, real, snapshot};
use crate::guardrails::DisabledGuards;
use crate::{Event, RegionEvent};
use cluster::testing::{bound_to, pod, pool_with, text};
use cluster::{ClusterSnapshot, DoNotDisrupt, Object, PodRecord};
use model::disruption_policy::{BudgetLimit, ConsolidationPolicy};

/// Two machines, each with a pod of this request in millicores.
fn two(millis: i64) -> ClusterSnapshot {
    let bound = |number: usize| bound_to(&format!("m{number}"), pod(&format!("p{number}"), millis));
    snapshot(2, (0..2).map(bound).collect())
}

fn world_at(end: i64, shown: ClusterSnapshot) -> Fixture {
    let mut world = Fixture::consolidating(DisabledGuards::default(), |_| {});
    world.connect("c", shown);
    world.run_to(end);
    world
}

/// What the machine of this NodeClaim costs, without the parts that are zero.
fn cost(world: &Fixture, claim: &str) -> Vec<(CostCause, i64)> {
    let view = world.controller.view(&text("c")).expect("the cluster is there");
    let machine = view.machines().find(|machine| **machine.claim == *claim).expect("the machine is there");
    let price = machine.instance.as_ref().map_or(0, |instance| instance.price.0);
    assert_eq!(machine.cost.total(), price, "parts add up to the price");
    parts(&machine.cost)
}

fn parts(cost: &CostParts) -> Vec<(CostCause, i64)> {
    cost.iter().filter(|(_, amount)| *amount != 0).collect()
}

const QUARTER: (CostCause, i64) = (CostCause::Useful, 5_000);

#[test]
fn free_room_that_something_keeps_is_blocked() {
    let mut protected = two(500);
    protected.pods.iter_mut().for_each(|pod| pod.do_not_disrupt = Some(DoNotDisrupt::Always));
    let budget = ClusterSnapshot { pools: vec![pool_with(BudgetLimit::Nodes(0))], ..two(500) };
    let mut never = two(500);
    never.pools[0].disruption.consolidate_after = None;
    let mut when_empty = two(500);
    when_empty.pools[0].disruption.policy = ConsolidationPolicy::WhenEmpty;
    let blocked = [QUARTER, (CostCause::Blocked, 15_000)];
    for shown in [protected, budget, never, when_empty] {
        assert_eq!(cost(&world_at(60_000, shown), "m0"), blocked);
    }
    assert_eq!(cost(&world_at(20_000, two(500)), "m0"), blocked, "consolidateAfter");
    // Without plans of disruption nothing says why it is there.
    let mut unplanned = Fixture::planned_by(real, |_| {});
    unplanned.connect("c", two(500));
    unplanned.run_to(60_000);
    assert_eq!(cost(&unplanned, "m0"), [QUARTER, (CostCause::Unexplained, 15_000)]);
    unplanned.handle(RegionEvent::FreezesChanged(vec![freeze(None, None, None)]));
    assert_eq!(cost(&unplanned, "m0"), blocked);
}

#[test]
fn free_room_that_no_pod_fits_into_is_fragmentation() {
    let world = world_at(60_000, two(1_800));
    assert_eq!(cost(&world, "m0"), [(CostCause::Useful, 18_000), (CostCause::Fragmentation, 2_000)]);
    // A smaller pod anywhere in the cluster makes it usable.
    let mut shown = two(1_800);
    shown.pods.push(bound_to("m1", pod("small", 200)));
    let world = world_at(60_000, shown);
    assert_eq!(cost(&world, "m0"), [(CostCause::Useful, 18_000), (CostCause::NoSavings, 2_000)]);
    assert_eq!(cost(&world, "m1"), [(CostCause::Useful, 20_000)]);
}

#[test]
fn free_room_for_which_no_move_pays_is_known_from_the_last_plan() {
    let shown = snapshot(1, vec![bound_to("m0", pod("p0", 500)), bound_to("m0", pod("p1", 1_000))]);
    let world = world_at(60_000, shown);
    let expected = [(CostCause::Useful, 15_000), (CostCause::NoSavings, 5_000)];
    assert_eq!(cost(&world, "m0"), expected);
}

#[test]
fn daemonsets_take_what_they_request() {
    let mut shown = two(500);
    let daemon = |number: usize| PodRecord {
        daemon: Some(text("kube-system/log")),
        ..bound_to(&format!("m{number}"), pod(&format!("log{number}"), 200))
    };
    shown.pods.extend((0..2).map(daemon));
    let parts = cost(&world_at(20_000, shown), "m0");
    assert_eq!(parts, [QUARTER, (CostCause::DaemonSets, 2_000), (CostCause::Blocked, 13_000)]);
}

#[test]
fn a_machine_that_has_not_joined_boots_and_one_that_goes_is_drained() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.connect("c", snapshot(0, Vec::new()));
    world.never_joins = true;
    world.observe("c", Object::Pod(pod("p", 500)));
    world.run_to(30_000);
    let claim = world.done.launches.first().expect("a launch").1.claim.clone();
    assert_eq!(cost(&world, &claim), [(CostCause::Booting, 20_000)]);
    // One of the two is not needed; its drain does not end.
    let mut world = Fixture::consolidating(DisabledGuards::default(), |_| {});
    world.stuck = Some("m");
    world.connect("c", two(500));
    world.run_to(60_000);
    let drained = world.done.drained.first().expect("a drain").1.clone();
    assert_eq!(cost(&world, &drained), [QUARTER, (CostCause::Draining, 15_000)]);
}

#[test]
fn holds_take_the_room_that_they_keep() {
    use crate::holds::{CapacityHold, HeldPods, HoldId, HoldKind, HoldStatus};
    let mut world = Fixture::planned_by(real, |_| {});
    world.handle(Event::HoldsChanged { read: 1, holds: Vec::new() });
    world.connect("c", snapshot(1, vec![bound_to("m0", pod("p0", 500))]));
    let shape = model::PodShape { requests: cluster::testing::cpu(1_000), ..model::PodShape::default() };
    let pods = HeldPods {
        name: text("workers"),
        namespace: text("batch"),
        shape: std::sync::Arc::new(shape),
        labels: std::sync::Arc::default(),
        count: 1,
    };
    let hold = CapacityHold {
        id: HoldId(text("h")),
        kind: HoldKind::Shared,
        pods: Ok(vec![pods]),
        expires: None,
        max_price: None,
        status: HoldStatus::default(),
    };
    world.handle(Event::HoldsChanged { read: 2, holds: vec![hold] });
    world.run_to(60_000);
    assert_eq!(cost(&world, "m0"), [QUARTER, (CostCause::Hold, 10_000), (CostCause::Unexplained, 5_000)]);
}
