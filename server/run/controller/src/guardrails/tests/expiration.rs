//! Expiration ignores budgets and do-not-disrupt, and is held by guardrails.
//!
//! The cluster: a t.2 of 2 cores for each of `n` pods of 1.8 cores, whose NodeClaims are created at 0 and
//! expire after 40 s. The NodePool's budget allows no removal.

use super::fixture::{Fixture, freeze, real, snapshot};
use crate::guardrails::Bound;
use crate::{DecisionReason, Event, RegionEvent, Settings};
use cluster::testing::{bound_to, claim, pod, pool_with, text};
use cluster::{ClusterSnapshot, DoNotDisrupt};
use model::disruption_policy::BudgetLimit;
use model::interruption::InterruptionKind::SpotInterrupted;
use model::removal::RemovalReason;
use model::{MicroUsd, Millis, Timestamp};

fn cluster(machines: usize) -> ClusterSnapshot {
    let bound = |number: usize| bound_to(&format!("m{number}"), pod(&format!("p{number}"), 1_800));
    let mut shown = snapshot(machines, (0..machines).map(bound).collect());
    for claim in &mut shown.claims {
        claim.created = Some(Timestamp::from_millis(0));
        claim.expire_after = Some(Millis::from_secs(40));
    }
    ClusterSnapshot { pools: vec![pool_with(BudgetLimit::Nodes(0))], ..shown }
}

fn world(machines: usize, change: impl FnOnce(&mut Settings)) -> Fixture {
    let mut world = Fixture::planned_by(real, change);
    world.connect("c", cluster(machines));
    world
}

fn drained(world: &Fixture) -> Vec<(i64, &str)> {
    world.done.drained.iter().map(|(at, claim)| (at.as_millis(), claim.as_ref())).collect()
}

#[test]
fn an_expired_machine_is_drained_once_its_pods_are_planned() {
    let mut world = world(1, |_| {});
    world.run_to(39_999);
    assert_eq!(drained(&world), []);
    world.run_to(60_000);
    // A second after the decision the batch window closes, and a machine is launched.
    let launched: Vec<i64> = world.done.launches.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!((launched, drained(&world)), (vec![41_000], vec![(41_000, "m0")]));
    let expired = |reason| reason == DecisionReason::Disruption(RemovalReason::Expired);
    assert_eq!(world.done.decisions.iter().filter(|decision| expired(decision.reason)).count(), 1);
}

/// The same cluster, whose NodePool has its expired machines replaced first.
fn replaced_first(machines: usize) -> ClusterSnapshot {
    let mut shown = cluster(machines);
    shown.pools[0].disruption.expire_replace_first = true;
    shown
}

#[test]
fn a_machine_that_is_replaced_first_is_drained_once_its_replacement_is_ready() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.never_joins = true;
    world.connect("c", replaced_first(1));
    world.run_to(100_000);
    assert_eq!((world.done.launches.len(), drained(&world)), (1, vec![]));
    world.join_launched("c");
    world.run_to(200_000);
    assert_eq!(world.done.launches.len(), 1);
    assert_eq!(drained(&world), [(100_000, "m0")]);
}

#[test]
fn a_machine_whose_replacement_never_joins_is_drained_after_the_time_of_a_launch() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.never_joins = true;
    world.connect("c", replaced_first(1));
    // It expires at 40 s; a launch may take 5 minutes, and a registration 15: 40 + 1,200 s.
    world.run_to(1_239_999);
    assert_eq!(drained(&world), []);
    world.run_to(1_241_000);
    assert_eq!(drained(&world), [(1_240_000, "m0")]);
}

#[test]
fn sabotage_without_replace_first_it_is_drained_although_its_replacement_never_joins() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.never_joins = true;
    world.connect("c", cluster(1));
    world.run_to(60_000);
    assert_eq!(drained(&world), [(41_000, "m0")]);
}

#[test]
fn an_interruption_ends_the_wait_for_the_replacement() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.never_joins = true;
    world.connect("c", replaced_first(1));
    world.run_to(60_000);
    assert_eq!(drained(&world), []);
    let provider_id = claim("m0").provider_id;
    world.handle(Event::Interrupted { provider_id, kind: SpotInterrupted, ends: None });
    world.run_to(61_000);
    assert_eq!(drained(&world), [(60_000, "m0")]);
}

#[test]
fn the_wait_leaves_half_of_the_grace_period_to_the_pods() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.never_joins = true;
    let mut shown = replaced_first(1);
    shown.claims[0].termination_grace_period = Some(Millis::from_secs(100));
    world.connect("c", shown);
    world.run_to(200_000);
    // 40 s and half of 100 s.
    assert_eq!(drained(&world), [(90_000, "m0")]);
}

#[test]
fn do_not_disrupt_does_not_block_it_and_its_pod_is_planned_when_it_leaves() {
    let mut world = Fixture::planned_by(real, |_| {});
    let mut shown = cluster(1);
    shown.pods[0].do_not_disrupt = Some(DoNotDisrupt::Always);
    world.connect("c", shown);
    world.run_to(60_000);
    // The agent evicts the pod at the end of the grace period.
    assert_eq!((world.done.launches.len(), drained(&world)), (0, vec![(40_000, "m0")]));
}

#[test]
fn a_machine_that_expired_while_no_server_decided_is_removed_after_the_restart() {
    let mut world = world(1, |_| {});
    world.controller.release(&text("c"));
    world.run_to(100_000);
    assert_eq!(drained(&world), []);
    world.connect("c", cluster(1));
    world.run_to(102_000);
    assert_eq!(drained(&world), [(101_000, "m0")]);
}

#[test]
fn a_freeze_blocks_it_and_its_end_lets_it_go() {
    let mut world = world(1, |_| {});
    let freeze = freeze(Some("c"), None, None);
    world.handle(RegionEvent::FreezesChanged(vec![freeze]));
    world.run_to(60_000);
    assert_eq!(drained(&world), []);
    world.handle(RegionEvent::FreezesChanged(Vec::new()));
    world.run_to(62_000);
    assert_eq!(drained(&world), [(61_000, "m0")]);
}

#[test]
fn machines_of_one_age_do_not_all_leave_at_one_time() {
    let mut world = world(5, |settings| {
        settings.guardrails.removals.cluster = Bound { machines: 2, usd_per_hour: MicroUsd(0), percent: 0, free: 0 };
        settings.guardrails.removals.window = Millis::from_mins(10);
    });
    world.run_to(500_000);
    assert_eq!(drained(&world).len(), 2);
    // The first two were removed at 40 s.
    world.run_to(700_000);
    assert_eq!(drained(&world).len(), 4);
}

#[test]
fn an_expired_machine_that_cannot_be_drained_is_replaced_once() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.stuck = Some("m0");
    world.connect("c", cluster(1));
    world.run_to(3_600_000);
    assert_eq!((world.done.launches.len(), drained(&world)), (1, vec![(41_000, "m0")]));
}
