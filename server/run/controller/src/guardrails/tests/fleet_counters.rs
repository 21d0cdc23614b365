//! Two processes of one fleet. Each is a world of its own and merges the counters of the other.

use crate::guardrails::RecentLaunch;
use crate::guardrails::fleet_counters::{BUCKET_LENGTH, LocalCounters, MachineTotals};
use crate::guardrails::{Bound, CircuitBreakerRule};
use crate::{Event, RegionEvent};
use cluster::testing::{pod, text};
use model::{MicroUsd, Timestamp};

use super::fixture::{Fixture, snapshot};

/// The counters of `world`, as other processes receive them.
fn counters_of(world: &Fixture) -> RegionEvent {
    let counters = world.controller.region().counter_snapshot();
    let end = |part: i64| Timestamp::from_millis(((part + 1) * BUCKET_LENGTH.get() - 1).min(world.now));
    RegionEvent::RemoteCounters {
        machines: counters.machines,
        parts: counters.buckets.iter().map(|(n, bucket)| (end(*n), *bucket)).collect(),
    }
}

/// Everything that `world` saw.
fn sum(world: &Fixture) -> LocalCounters {
    let add = |a: MachineTotals, b: MachineTotals| MachineTotals {
        count: a.count + b.count,
        cost: MicroUsd(a.cost.0 + b.cost.0),
    };
    world.controller.region().counter_snapshot().buckets.values().fold(LocalCounters::default(), |all, part| {
        LocalCounters {
            joined: all.joined + part.joined,
            failed: all.failed + part.failed,
            launched: add(all.launched, part.launched),
            removed: add(all.removed, part.removed),
        }
    })
}

/// Six empty machines here, while the launches of another process fail; its counters are merged
/// here, or not.
fn idle_while_launches_fail_elsewhere(merges: bool, engage_percent: usize) -> Fixture {
    let mut there = Fixture::new(|_| {});
    there.refused = true;
    there.connect("there", snapshot(0, (0..5).map(|n| pod(&format!("p{n}"), 500)).collect()));
    let mut here = Fixture::with(6, Vec::new(), |settings| {
        settings.guardrails.circuit_breaker = CircuitBreakerRule { engage_percent, ..CircuitBreakerRule::default() };
    });
    for world in [&mut there, &mut here] {
        world.run_to(20_000);
    }
    assert!(there.done.launches.len() >= 5);
    assert_eq!(sum(&there).failed, there.done.launches.len());
    if merges {
        here.handle(counters_of(&there));
    }
    here.run_to(60_000);
    here
}

#[test]
fn nothing_is_removed_while_launches_fail_elsewhere() {
    let mut here = idle_while_launches_fail_elsewhere(true, 50);
    assert_eq!(here.drained().len(), 0);
    let why = here.controller.view(&text("c")).and_then(|view| view.guardrails.circuit_breaker);
    let why = why.as_deref().unwrap_or_default();
    assert!(why.starts_with("launches fail in several clusters, of this replica or of others:"), "{why}");
    // What failed until 20 s is ten minutes old by then.
    here.run_to(700_000);
    assert_eq!(here.drained().len(), 6);
}

#[test]
fn sabotage_without_remote_counters_irreplaceable_machines_are_removed() {
    assert_eq!(idle_while_launches_fail_elsewhere(false, 50).drained().len(), 6);
}

#[test]
fn sabotage_without_the_circuit_breaker_remote_counters_stop_nothing() {
    assert_eq!(idle_while_launches_fail_elsewhere(true, 0).drained().len(), 6);
}

/// The launches of `world`, as rows that a new owner reads.
fn rows(world: &Fixture) -> Vec<RecentLaunch> {
    let row = |(at, order): &(Timestamp, model::LaunchOrder)| RecentLaunch {
        claim: order.claim.clone(),
        pods: Vec::new(),
        begun: *at,
        launched: Some(true),
        closed: None,
    };
    world.done.launches.iter().map(row).collect()
}

#[test]
fn launches_count_once_for_the_fleet_though_the_cluster_changes_its_owner() {
    let world = || Fixture::new(|settings| settings.guardrails.launches.fleet.machines = 3);
    let (mut first, mut second) = (world(), world());
    first.connect("c", snapshot(0, vec![pod("p0", 500), pod("p1", 500)]));
    first.run_to(5_000);
    // Two machines at $0.01 an hour, which joined.
    let two = LocalCounters {
        joined: 2,
        launched: MachineTotals { count: 2, cost: MicroUsd(20_000) },
        ..LocalCounters::default()
    };
    assert_eq!(sum(&first), two);
    second.run_to(5_000);
    second.handle(counters_of(&first));
    second.handle(counters_of(&first));
    first.controller.release(&text("c"));
    second.handle(Event::LaunchHistoryLoaded(rows(&first)));
    second.handle(Event::LeaseAcquired { uid: text("uid-1"), launches: Vec::new() });
    assert_eq!((sum(&first), sum(&second)), (two, LocalCounters::default()));
    // One of three is left for five pods.
    second.connect("c", snapshot(0, (2..7).map(|n| pod(&format!("p{n}"), 500)).collect()));
    second.run_to(8_000);
    assert_eq!((second.done.launches.len(), sum(&second).launched.count), (1, 1));
    // And none for the process that takes the cluster back and merges that one.
    first.run_to(8_000);
    first.handle(counters_of(&second));
    first.handle(Event::LaunchHistoryLoaded(rows(&second)));
    first.connect("c", snapshot(0, (7..9).map(|n| pod(&format!("p{n}"), 500)).collect()));
    first.run_to(12_000);
    assert_eq!(first.done.launches.len(), 2);
}

/// How many of four empty machines are removed at once when a quarter of the fleet may be, with so
/// many elsewhere.
fn of_four(machines: usize, removed: usize) -> usize {
    let mut world = Fixture::with(4, Vec::new(), |settings| {
        settings.guardrails.removals.fleet = Bound { machines: 0, usd_per_hour: MicroUsd(0), percent: 25, free: 0 };
    });
    let removed = MachineTotals { count: removed, cost: MicroUsd(0) };
    world.handle(RegionEvent::RemoteCounters {
        machines,
        parts: vec![(Timestamp::from_millis(0), LocalCounters { removed, ..LocalCounters::default() })],
    });
    world.run_to(60_000);
    world.drained().len()
}

#[test]
fn a_share_of_the_fleet_is_one_of_all_machines_and_all_removals() {
    // A quarter of 4 is 1; of 4 + 12 it is 4; of 4 + 10 and 2 removed it is 4 as well, of which 2
    // remain.
    assert_eq!([of_four(0, 0), of_four(12, 0), of_four(10, 2)], [1, 4, 2]);
}
