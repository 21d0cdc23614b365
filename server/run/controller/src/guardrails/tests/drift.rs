//! Drifted machines are drained when their replacements are initialized, as far as budgets allow.
//!
//! The cluster: a t.2 of 2 cores for each of `n` pods of 1.8 cores, so that each pod needs a machine of its
//! own. The template of the NodePool has changed since the launch of `m0`, `m1`, …, which drifted in this
//! order. A pass runs every 10 s, and a batch window closes a second after it.

use super::fixture::{Fixture, freeze, real, snapshot};
use crate::guardrails::{DisabledGuards, Guard, Mode};
use crate::{DecisionReason, RegionEvent, Settings};
use cluster::testing::{bound_to, pod, pool, pool_with, text};
use cluster::{ClusterSnapshot, DoNotDisrupt, Object, PodRecord, PoolRecord};
use model::disruption_policy::BudgetLimit;
use model::removal::RemovalReason;
use model::resources::NODES;
use model::{Resources, Timestamp};

fn changed(mut pool: PoolRecord) -> PoolRecord {
    pool.drift.own_hash = Some((text("new"), text("1")));
    pool
}

pub(super) fn cluster(machines: usize, pool: PoolRecord) -> ClusterSnapshot {
    let bound = |number: usize| bound_to(&format!("m{number}"), pod(&format!("p{number}"), 1_800));
    let mut shown = snapshot(machines, (0..machines).map(bound).collect());
    for (number, claim) in (0..).zip(&mut shown.claims) {
        claim.drift.own_hash = Some((text("old"), text("1")));
        claim.drift.drifted_since = Some(Timestamp::from_millis(number - 1_000));
    }
    ClusterSnapshot { pools: vec![changed(pool)], ..shown }
}

fn world(machines: usize, pool: PoolRecord) -> Fixture {
    without_guards(machines, pool, DisabledGuards::default())
}

fn without_guards(machines: usize, pool: PoolRecord, disabled: DisabledGuards) -> Fixture {
    let mut world = Fixture::with_disabled_guards(real, disabled, |_| {});
    world.connect("c", cluster(machines, pool));
    world
}

fn drained(world: &Fixture) -> Vec<(i64, &str)> {
    world.done.drained.iter().map(|(at, claim)| (at.as_millis(), claim.as_ref())).collect()
}

fn launched(world: &Fixture) -> Vec<i64> {
    world.done.launches.iter().map(|(at, _)| at.as_millis()).collect()
}

/// Lets time pass until `end`. The pod of a drained machine ends, and its successor is bound to the machine
/// of the launch with the same number.
fn roll_to(world: &mut Fixture, end: i64) {
    let mut moved = world.done.drained.len();
    while world.now < end {
        world.run_to(world.now + 1_000);
        moved = world.move_drained_pods(moved);
    }
}

#[test]
fn a_drifted_pool_rolls_through_under_its_budget() {
    let mut world = world(3, pool_with(BudgetLimit::Nodes(1)));
    roll_to(&mut world, 120_000);
    // The pass at 0 s begins with m0, the window closes at 1 s, and its machine joins at once. The pass at 10 s
    // removes m0. Each of the others takes as long: the next pass begins, the one after it removes.
    assert_eq!(launched(&world), [1_000, 21_000, 41_000]);
    assert_eq!(drained(&world), [(10_000, "m0"), (30_000, "m1"), (50_000, "m2")]);
    let drift = |reason| reason == DecisionReason::Disruption(RemovalReason::Drifted);
    assert_eq!(world.done.decisions.iter().filter(|decision| drift(decision.reason)).count(), 3);
}

#[test]
fn sabotage_without_a_budget_all_machines_leave_together() {
    let mut world = world(3, pool());
    roll_to(&mut world, 120_000);
    assert_eq!(launched(&world), [1_000, 1_000, 1_000]);
    assert_eq!(drained(&world), [(10_000, "m0"), (10_000, "m1"), (10_000, "m2")]);
}

#[test]
fn a_machine_is_not_drained_while_its_replacement_is_not_initialized() {
    let mut world = world(1, pool());
    world.never_ready = true;
    world.run_to(3_600_000);
    assert_eq!(drained(&world), []);
}

#[test]
fn sabotage_without_waiting_for_initialization_it_is_drained_before_its_capacity_is_there() {
    let disabled = DisabledGuards::only(Guard::InitializedReplacement);
    let mut world = without_guards(1, pool(), disabled);
    world.never_ready = true;
    world.run_to(60_000);
    assert_eq!(drained(&world), [(10_000, "m0")]);
}

#[test]
fn after_a_refused_launch_the_pool_waits_twice_as_long_each_time_and_then_goes_on() {
    let mut world = world(1, pool());
    world.refused = true;
    world.run_to(600_000);
    // A pass begins each attempt, and its window closes a second later: at 0 s, and 1, 2 and 4 minutes after the
    // failures at 1 s, 62 s and 183 s. The next one is due 8 minutes after 424 s.
    assert_eq!((launched(&world), drained(&world)), (vec![1_000, 62_000, 183_000, 424_000], vec![]));
    world.refused = false;
    world.run_to(920_000);
    assert_eq!((launched(&world)[4..].to_vec(), drained(&world)), (vec![905_000], vec![(914_000, "m0")]));
}

#[test]
fn sabotage_without_backoff_refused_launches_are_repeated_at_every_pass() {
    let mut world = without_guards(1, pool(), DisabledGuards::only(Guard::ReplacementBackoff));
    world.refused = true;
    world.run_to(60_000);
    // The circuit breaker engages after five.
    assert_eq!(launched(&world), [1_000, 11_000, 21_000, 31_000, 41_000]);
}

#[test]
fn a_machine_whose_pods_fit_nowhere_does_not_keep_the_budget_from_others() {
    let mut shown = cluster(2, pool_with(BudgetLimit::Nodes(1)));
    // The largest type has 4 cores.
    shown.pods[0] = bound_to("m0", pod("p0", 5_000));
    let mut world = Fixture::planned_by(real, |_| {});
    world.connect("c", shown);
    world.run_to(60_000);
    assert_eq!((launched(&world), drained(&world)), (vec![], vec![]), "m0 is the first, and its NodePool waits");
    world.run_to(100_000);
    assert_eq!(drained(&world).iter().map(|(_, claim)| *claim).collect::<Vec<_>>(), ["m1"]);
}

#[test]
fn do_not_disrupt_on_a_pod_ends_a_replacement_under_way() {
    let mut world = world(1, pool());
    world.run_to(5_000);
    assert_eq!(launched(&world).len(), 1);
    let held = PodRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..bound_to("m0", pod("p0", 1_800)) };
    world.observe("c", Object::Pod(held));
    world.run_to(600_000);
    assert!(drained(&world).iter().all(|(_, claim)| *claim != "m0"), "{:?}", drained(&world));
}

#[test]
fn a_process_that_takes_over_uses_the_machine_that_was_launched_for_it() {
    let mut shown = cluster(2, pool());
    // m1 is of the new template and empty.
    shown.pods.truncate(1);
    shown.claims[1].drift.own_hash = Some((text("new"), text("1")));
    let mut world = Fixture::planned_by(real, |_| {});
    world.connect("c", shown);
    world.run_to(20_000);
    assert_eq!((launched(&world), drained(&world)), (vec![], vec![(10_000, "m0")]));
}

#[test]
fn a_freeze_blocks_the_replacement_and_not_only_the_removal() {
    let freeze = freeze(Some("c"), None, None);
    let mut world = Fixture::planned_by(real, |_| {});
    world.handle(RegionEvent::FreezesChanged(vec![freeze]));
    world.connect("c", cluster(1, pool()));
    world.run_to(60_000);
    assert_eq!((launched(&world), drained(&world)), (vec![], vec![]));
    world.handle(RegionEvent::FreezesChanged(Vec::new()));
    world.run_to(90_000);
    assert_eq!((launched(&world).len(), drained(&world).len()), (1, 1));
}

#[test]
fn shadow_mode_records_what_it_would_replace_and_launches_nothing() {
    let mut world = Fixture::planned_by(real, |settings: &mut Settings| settings.guardrails.mode = Mode::Shadow);
    world.connect("c", cluster(1, pool()));
    world.run_to(60_000);
    assert_eq!((launched(&world), drained(&world)), (vec![], vec![]));
    let would: Vec<&String> = world.done.decisions.iter().flat_map(|decision| &decision.would).collect();
    assert_eq!(
        would,
        ["would remove n-m0 (m0): node n-m0 has drifted (NodePoolDrifted): the template of the NodePool has changed \
          since the launch"]
    );
}

/// Two machines of a static NodePool with two replicas and at most `limit` nodes.
fn fixed(limit: i64) -> Fixture {
    let mut fixed = pool_with(BudgetLimit::Nodes(1));
    fixed.pool.replicas = Some(2);
    fixed.pool.limits = Resources::from_iter([(NODES, limit)]);
    let mut world = Fixture::planned_by(real, |_| {});
    world.connect("c", ClusterSnapshot { pods: Vec::new(), ..cluster(2, fixed) });
    world.run_to(200_000);
    world
}

#[test]
fn a_static_pool_is_replaced_one_by_one_where_its_limit_has_room() {
    let world = fixed(3);
    let names: Vec<&str> = drained(&world).into_iter().map(|(_, claim)| claim).collect();
    assert_eq!((launched(&world).len(), names), (2, vec!["m0", "m1"]));
    for (number, (at, _)) in drained(&world).into_iter().enumerate() {
        assert!(launched(&world)[number] < at, "the new machine is there before the old one leaves");
    }
}

#[test]
fn a_static_pool_without_room_for_another_machine_is_not_replaced() {
    assert_eq!((launched(&fixed(2)), drained(&fixed(2))), (vec![], vec![]));
}
