//! What follows from the notices of the cloud, kind by kind and in a storm.
//!
//! The cluster: a t.2 of 2 cores on spot for each of `n` pods of 1.8 cores. A t.4 of 4 cores has room for two of
//! them. The only offering of each type is spot in the zone `z`. The NodePool's budget allows no removal.

use std::collections::BTreeMap;

use super::fixture::{Fixture, freeze, real, snapshot};
use crate::disruption::settings::RebalanceRecommendations;
use crate::guardrails::Bound;
use crate::guardrails::disabled_guards::{DisabledGuards, Guard};
use crate::{DecisionReason, Event, NoticeAnswer, RegionEvent, Settings};
use cluster::testing::{bound_to, claim, pod, pool_with, text};
use cluster::{ClaimRecord, ClusterSnapshot, Object};
use model::disruption_policy::BudgetLimit;
use model::interruption::InterruptionKind;
use model::labels::CAPACITY_TYPE;
use model::{MicroUsd, Millis, Timestamp};

fn cluster(machines: usize) -> ClusterSnapshot {
    let bound = |number: usize| bound_to(&format!("m{number}"), pod(&format!("p{number}"), 1_800));
    let shown = snapshot(machines, (0..machines).map(bound).collect());
    ClusterSnapshot { pools: vec![pool_with(BudgetLimit::Nodes(0))], ..shown }
}

/// A world without `off` whose launched machines boot for as long as the test says.
fn world_without(off: DisabledGuards, machines: usize, change: impl FnOnce(&mut Settings)) -> Fixture {
    let mut world = Fixture::with_disabled_guards(real, off, change);
    world.never_joins = true;
    world.connect("c", cluster(machines));
    world.run_to(10_000);
    world
}

fn world(machines: usize, change: impl FnOnce(&mut Settings)) -> Fixture {
    world_without(DisabledGuards::default(), machines, change)
}

/// The cluster of one machine of this capacity type.
fn world_of(paid: &str, change: impl FnOnce(&mut Settings)) -> Fixture {
    let mut record = claim("m0");
    record.labels.insert(text(CAPACITY_TYPE), text(paid));
    let mut world = Fixture::planned_by(real, change);
    world.never_joins = true;
    world.connect("c", ClusterSnapshot { claims: vec![record], ..cluster(1) });
    world.run_to(10_000);
    world
}

fn tell(world: &mut Fixture, machine: &str, kind: InterruptionKind, ends: Option<i64>) {
    let provider_id = claim(machine).provider_id;
    let ends = ends.map(Timestamp::from_millis);
    world.handle(Event::Interrupted { provider_id, kind, ends });
}

/// Begin and end of each drain in the order of the orders; no end without a deadline.
fn drains(world: &Fixture) -> Vec<(i64, &str, Option<i64>)> {
    let drains = world.done.drained.iter().zip(&world.done.deadlines);
    let shown = drains.map(|((at, claim), end)| (at.as_millis(), claim.as_ref(), end.map(Timestamp::as_millis)));
    shown.collect()
}

/// The time of each launch, and its instance types.
fn launches(world: &Fixture) -> Vec<(i64, Vec<&str>)> {
    let shown = world.done.launches.iter().map(|(at, order)| {
        (at.as_millis(), order.options.iter().map(|option| option.instance_type.as_ref()).collect())
    });
    shown.collect()
}

#[test]
fn every_kind_is_drained_when_its_pods_are_planned_and_until_the_instance_ends() {
    use InterruptionKind as Kind;
    // Notice at 10 s; the batch window closes a second later, when the replacement is launched too.
    let cases = [
        (Kind::SpotInterrupted, Some(130_000), Some(130_000), "t.4"),
        // A notice without a time is two minutes.
        (Kind::SpotInterrupted, None, Some(130_000), "t.4"),
        // The capacity reservation is excluded, and not the spot capacity of its type.
        (Kind::CapacityReservationInterrupted, Some(125_000), Some(125_000), "t.2"),
        // The instance leaves no time.
        (Kind::InstanceStopped, None, Some(10_000), "t.2"),
        (Kind::InstanceTerminated, None, Some(10_000), "t.2"),
        (Kind::StatusCheckFailed, None, Some(10_000), "t.2"),
    ];
    for (kind, ends, deadline, launched) in cases {
        let is_reserved = kind == Kind::CapacityReservationInterrupted;
        let mut world = world_of(if is_reserved { "reserved" } else { "spot" }, |_| {});
        tell(&mut world, "m0", kind, ends);
        world.run_to(60_000);
        assert_eq!(drains(&world), [(11_000, "m0", deadline)], "{kind:?}");
        let launches = launches(&world);
        assert!(matches!(launches.as_slice(), [(11_000, types)] if types[0] == launched), "{kind:?}: {launches:?}");
    }
}

/// A cluster of one machine whose maintenance is scheduled at 10 s, in a NodePool with this budget, when it has begun
/// already or begins tomorrow.
fn maintained(budget: BudgetLimit, ends: i64) -> Fixture {
    let mut world = Fixture::planned_by(real, |_| {});
    world.never_joins = true;
    world.connect("c", ClusterSnapshot { pools: vec![pool_with(budget)], ..cluster(1) });
    world.run_to(10_000);
    tell(&mut world, "m0", InterruptionKind::ScheduledChange, Some(ends));
    world
}

#[test]
fn scheduled_maintenance_drains_without_a_deadline_once_the_replacement_is_ready() {
    for ends in [1, 86_400_000] {
        let mut world = maintained(BudgetLimit::Nodes(1), ends);
        world.run_to(60_000);
        assert_eq!((drains(&world), world.done.launches.len()), (vec![], 1), "{ends}");
        world.join_launched("c");
        world.run_to(120_000);
        let drained = drains(&world);
        assert!(matches!(drained.as_slice(), [(_, "m0", None)]), "{ends}: {drained:?}");
    }
}

#[test]
fn budgets_and_freezes_hold_scheduled_maintenance() {
    let mut world = maintained(BudgetLimit::Nodes(0), 1);
    world.run_to(600_000);
    assert_eq!((drains(&world), launches(&world)), (vec![], vec![]));
    let mut world = Fixture::planned_by(real, |_| {});
    world.handle(RegionEvent::FreezesChanged(vec![freeze(None, None, None)]));
    world.connect("c", ClusterSnapshot { pools: vec![pool_with(BudgetLimit::Nodes(1))], ..cluster(1) });
    world.run_to(10_000);
    tell(&mut world, "m0", InterruptionKind::ScheduledChange, Some(1));
    world.run_to(600_000);
    assert_eq!((drains(&world), launches(&world)), (vec![], vec![]));
}

#[test]
fn maintenance_that_the_cloud_tells_of_no_more_is_forgotten() {
    let mut world = maintained(BudgetLimit::Nodes(0), 86_400_000);
    // The budget opens after an hour and a minute without a word.
    world.run_to(3_670_000);
    world.observe("c", Object::Pool(pool_with(BudgetLimit::Nodes(1))));
    world.run_to(3_900_000);
    assert_eq!((drains(&world), launches(&world)), (vec![], vec![]));
}

fn waiting(world: &Fixture) -> Vec<String> {
    let view = world.controller.view(&text("c")).unwrap();
    view.guardrails.waiting_removals.iter().map(|waiting| waiting.claim.to_string()).collect()
}

fn shows(instances: &[(&str, InterruptionKind)]) -> Option<NoticeAnswer> {
    let shown = instances.iter().map(|(machine, kind)| (claim(machine).provider_id, *kind));
    Some(NoticeAnswer::Shown(shown.collect()))
}

#[test]
fn a_report_that_an_instance_ends_waits_until_the_cloud_shows_it() {
    for kind in [InterruptionKind::InstanceStopped, InterruptionKind::InstanceTerminated] {
        let mut world = world(1, |_| {});
        world.notice_answer = shows(&[]);
        tell(&mut world, "m0", kind, None);
        world.run_to(20_000);
        assert_eq!((drains(&world), waiting(&world)), (vec![], vec!["m0".to_owned()]), "{kind:?}");
        world.notice_answer = shows(&[("m0", kind)]);
        world.run_to(60_000);
        assert_eq!((drains(&world).len(), waiting(&world).len()), (1, 0), "{kind:?}");
        assert_eq!(world.notice_questions, [(10_000, 1), (25_000, 1)], "{kind:?}");
    }
}

#[test]
fn a_notice_that_the_cloud_never_confirms_is_dropped() {
    let mut world = world(1, |_| {});
    world.notice_answer = shows(&[]);
    tell(&mut world, "m0", InterruptionKind::InstanceTerminated, None);
    world.run_to(1_000_000);
    assert_eq!((drains(&world), waiting(&world)), (vec![], Vec::<String>::new()));
}

/// Spot warnings for all of 27 machines in one minute, and what the cloud says of them.
fn warned(answer: Option<NoticeAnswer>) -> Fixture {
    let mut world = world(27, |_| {});
    world.notice_answer = answer;
    for number in 0..27 {
        tell(&mut world, &format!("m{number}"), InterruptionKind::SpotInterrupted, None);
    }
    world.run_to(40_000);
    world
}

#[test]
fn notices_for_more_machines_than_a_share_are_followed_as_far_as_the_cloud_shows_them() {
    // A tenth of 27 and at least three are believed; of the others the cloud shows one.
    let mut world = warned(shows(&[("m9", InterruptionKind::SpotInterrupted)]));
    let drained: Vec<&str> = drains(&world).into_iter().map(|(_, claim, _)| claim).collect();
    assert_eq!(drained.len(), 4, "{drained:?}");
    assert!(["m0", "m1", "m2", "m9"].iter().all(|claim| drained.contains(claim)), "{drained:?}");
    assert_eq!(waiting(&world).len(), 23);
    world.handle(Event::RemovalsConfirmed);
    world.run_to(60_000);
    assert_eq!((drains(&world).len(), waiting(&world).len()), (27, 0), "an operator knows better");
}

#[test]
fn a_cloud_that_does_not_answer_delays_no_warning_and_confirms_no_end() {
    let world = warned(Some(NoticeAnswer::Failed));
    assert_eq!(drains(&world).len(), 27);
    let mut world = world_without(DisabledGuards::default(), 1, |_| {});
    world.notice_answer = Some(NoticeAnswer::Failed);
    tell(&mut world, "m0", InterruptionKind::InstanceTerminated, None);
    world.run_to(40_000);
    assert_eq!((drains(&world), waiting(&world).len()), (vec![], 1));
}

#[test]
fn a_warning_of_another_capacity_type_is_refused() {
    for kind in [
        InterruptionKind::SpotInterrupted,
        InterruptionKind::RebalanceRecommendation,
        InterruptionKind::CapacityReservationInterrupted,
    ] {
        let mut world = world_of("on-demand", replaces);
        tell(&mut world, "m0", kind, None);
        world.run_to(60_000);
        assert_eq!((drains(&world), launches(&world)), (vec![], vec![]), "{kind:?}");
    }
}

#[test]
fn a_rebalance_recommendation_removes_nothing_unless_the_server_is_set_to() {
    let mut world = world(1, |_| {});
    tell(&mut world, "m0", InterruptionKind::RebalanceRecommendation, None);
    world.run_to(600_000);
    assert_eq!((drains(&world), launches(&world)), (vec![], vec![]));
}

fn replaces(settings: &mut Settings) {
    settings.disruption.rebalance = RebalanceRecommendations::Replace;
}

#[test]
fn a_recommended_machine_is_replaced_by_another_offering_and_drained_when_that_is_ready() {
    let mut world = world(1, replaces);
    tell(&mut world, "m0", InterruptionKind::RebalanceRecommendation, None);
    world.run_to(100_000);
    assert_eq!((drains(&world), launches(&world)), (vec![], vec![(11_000, vec!["t.4"])]));
    world.join_launched("c");
    world.run_to(200_000);
    assert_eq!(drains(&world), [(100_000, "m0", None)]);
}

#[test]
fn sabotage_without_the_wait_a_recommended_machine_is_drained_before_its_replacement_joins() {
    let mut world = world_without(DisabledGuards::only(Guard::ReplacedFirst), 1, replaces);
    tell(&mut world, "m0", InterruptionKind::RebalanceRecommendation, None);
    world.run_to(100_000);
    assert_eq!(drains(&world), [(11_000, "m0", None)]);
}

#[test]
fn rate_limits_block_recommended_machines_and_not_interrupted_ones() {
    let limited = |settings: &mut Settings| {
        replaces(settings);
        settings.guardrails.removals.cluster = Bound { machines: 1, usd_per_hour: MicroUsd(0), percent: 0, free: 0 };
    };
    let mut world = world(4, limited);
    for machine in ["m0", "m1", "m2", "m3"] {
        tell(&mut world, machine, InterruptionKind::RebalanceRecommendation, None);
    }
    world.run_to(20_000);
    let block = |world: &Fixture| world.controller.view(&text("c")).unwrap().guardrails.held_removals;
    assert_eq!(world.done.launches.len(), 1, "one of four is replaced");
    assert!(block(&world).is_some_and(|why| why.contains("may lose no more than 1 machine")));
    for machine in ["m0", "m1", "m2", "m3"] {
        tell(&mut world, machine, InterruptionKind::SpotInterrupted, None);
    }
    world.run_to(40_000);
    assert_eq!(drains(&world).len(), 4);
}

#[test]
fn the_notice_for_a_machine_that_waits_for_its_replacement_ends_the_wait() {
    let mut world = world(1, replaces);
    tell(&mut world, "m0", InterruptionKind::RebalanceRecommendation, None);
    world.run_to(60_000);
    tell(&mut world, "m0", InterruptionKind::SpotInterrupted, Some(180_000));
    assert_eq!(drains(&world), [(60_000, "m0", Some(180_000))]);
}

/// A drain without a deadline that a PodDisruptionBudget blocks, and a notice for its machine at 60 s.
fn blocked_drain(off: DisabledGuards) -> Vec<(i64, Option<i64>)> {
    let mut world = world_without(off, 1, |_| {});
    world.stuck = Some("m0");
    world.observe("c", Object::Claim(ClaimRecord { deleting: true, ..claim("m0") }));
    world.run_to(60_000);
    tell(&mut world, "m0", InterruptionKind::SpotInterrupted, Some(180_000));
    // An announcement of a later end changes nothing.
    tell(&mut world, "m0", InterruptionKind::ScheduledChange, Some(900_000));
    world.run_to(70_000);
    drains(&world).into_iter().map(|(at, _, end)| (at, end)).collect()
}

#[test]
fn a_notice_brings_the_end_of_a_drain_forward() {
    assert_eq!(blocked_drain(DisabledGuards::default()), [(11_000, None), (60_000, Some(180_000))]);
}

#[test]
fn sabotage_without_the_earlier_end_a_blocked_drain_outlives_the_instance() {
    assert_eq!(blocked_drain(DisabledGuards::only(Guard::HastenedDrain)), [(11_000, None)]);
}

#[test]
fn sabotage_without_the_exclusion_the_warned_offering_is_launched_again() {
    let mut world = world_without(DisabledGuards::only(Guard::WarnedOffering), 1, |_| {});
    tell(&mut world, "m0", InterruptionKind::SpotInterrupted, None);
    world.run_to(12_000);
    assert_eq!(launches(&world), [(11_000, vec!["t.2", "t.4"])]);
}

#[test]
fn the_warned_offering_is_launched_again_after_its_exclusion() {
    let mut world = world(3, |_| {});
    tell(&mut world, "m0", InterruptionKind::SpotInterrupted, None);
    world.run_to(40_000);
    // The exclusion ended at 10 + 30 s. One of the two pods has room beside that of m0.
    tell(&mut world, "m1", InterruptionKind::StatusCheckFailed, None);
    tell(&mut world, "m2", InterruptionKind::StatusCheckFailed, None);
    world.run_to(42_000);
    let launches = launches(&world);
    assert_eq!((launches[0].1.as_slice(), launches[1].1[0]), (["t.4"].as_slice(), "t.2"));
}

/// What a storm over half of 200 machines led to.
#[derive(Debug, PartialEq, Eq)]
struct Storm {
    /// Machines of each plan that launched any, by its time.
    rounds: BTreeMap<i64, usize>,
    drained: usize,
    /// Longest time from a notice to its drain.
    longest_wait_ms: i64,
    /// Whether a warned offering was ordered.
    warned_again: bool,
}

/// Warns the first 100 machines, one every `every_ms`, with two minutes each.
fn storm(mut world: Fixture, every_ms: i64) -> (Storm, Fixture) {
    let notices: Vec<i64> = (0..100).map(|number| 10_000 + number * every_ms).collect();
    for (number, at) in notices.iter().enumerate() {
        if *at > world.now {
            world.run_to(*at);
        }
        tell(&mut world, &format!("m{number}"), InterruptionKind::SpotInterrupted, Some(at + 120_000));
    }
    world.run_to(notices[99] + 120_000);
    let provisioned = world.done.decisions.iter().filter(|made| made.reason == DecisionReason::Provision);
    let launching = provisioned.filter(|made| !made.launches.is_empty());
    let rounds = launching.map(|made| (made.at.as_millis(), made.launches.len())).collect();
    let wait = |(at, claim, _): &(i64, &str, Option<i64>)| {
        claim.strip_prefix('m').and_then(|number| Some(at - notices.get(number.parse::<usize>().ok()?)?))
    };
    let drained = drains(&world);
    let waits: Vec<i64> = drained.iter().filter_map(wait).collect();
    let warned_again = launches(&world).iter().any(|(_, types)| types.contains(&"t.2"));
    let longest_wait_ms = waits.iter().max().copied().unwrap_or(i64::MAX);
    (Storm { rounds, drained: waits.len(), longest_wait_ms, warned_again }, world)
}

#[test]
fn a_storm_is_planned_as_one_batch() {
    let (found, _) = storm(world(200, |_| {}), 0);
    // 100 pods, two for each t.4, a second after the last notice.
    let rounds = BTreeMap::from([(11_000, 50)]);
    assert_eq!(found, Storm { rounds, drained: 100, longest_wait_ms: 1_000, warned_again: false });
}

/// Notices at 10 s, 10.6 s, … 69.4 s. New notices extend the batch window to 10 s, and the removal of the machines
/// opens the next one: the notices of each 10 s are planned together. That of 40 s comes when the window of 30 s has
/// just closed: 17, 17, 16, 17, 17 and 16 machines with a pod each, two pods for each t.4. The last t.4 of 17 pods has room
/// for one pod of the next batch.
#[test]
fn a_storm_of_a_minute_is_planned_in_six_batches_each_within_ten_seconds() {
    let (found, _) = storm(world(200, |_| {}), 600);
    let rounds = [(20_000, 9), (30_000, 8), (40_000, 8), (50_000, 9), (60_000, 8), (70_000, 8)];
    assert_eq!(found.rounds, BTreeMap::from(rounds));
    assert_eq!((found.drained, found.longest_wait_ms, found.warned_again), (100, 10_000, false));
}

#[test]
fn sabotage_without_a_batch_window_every_notice_is_planned_alone() {
    let alone = |settings: &mut Settings| {
        (settings.batch_idle, settings.batch_max) = (Millis::ZERO, Millis::ZERO);
    };
    let (found, world) = storm(world(200, alone), 600);
    assert!(found.rounds.len() >= 50, "{found:?}");
    assert!(world.done.launches.len() >= 50);
}

#[test]
fn a_storm_above_the_launch_limit_is_drained_in_time_and_the_view_says_what_waits() {
    let limited = |settings: &mut Settings| {
        settings.guardrails.launches.cluster = Bound { machines: 10, usd_per_hour: MicroUsd(0), percent: 0, free: 0 };
        settings.guardrails.launches.window = Millis::from_mins(10);
    };
    let mut world = world(200, limited);
    // The pods are there until the end of the run.
    world.stuck = Some("m");
    let (found, world) = storm(world, 0);
    assert_eq!((found.drained, found.longest_wait_ms), (100, 1_000));
    assert_eq!(world.done.launches.len(), 10);
    let view = world.controller.view(&text("c")).unwrap();
    assert!(
        view.guardrails.held_launches.is_some_and(|why| why.contains("may launch no more than 10")),
        "the view says why"
    );
    assert_eq!(world.unplaced().len(), 80, "the pods of the other 40 machines, and each says why");
    assert!(world.unplaced().values().all(|why| why.contains("may launch no more than 10")));
}
