//! Two processes decide for one fleet. Each is a world of its own, and hears of the other what that tells.

use crate::cluster::testing::{pod, text};
use crate::control::Event;
use crate::control::guardrails::fleet_counters::{LocalCounters, Machines, PART_MS};
use crate::control::guardrails::restore::RecentLaunch;
use crate::control::guardrails::settings::{Bound, CircuitBreakerRule};
use crate::model::{MicroUsd, Timestamp};

use super::world::{World, snapshot};

/// What `world` has told by now, as others hear it.
fn told_by(world: &World) -> Event {
    let told = world.controller.told();
    let end = |part: i64| Timestamp(((part + 1) * PART_MS - 1).min(world.now));
    Event::RemoteCounters {
        machines: told.machines,
        parts: told.parts.iter().map(|(n, share)| (end(*n), *share)).collect(),
    }
}

/// Everything that `world` saw.
fn sum(world: &World) -> LocalCounters {
    let add = |a: Machines, b: Machines| Machines { count: a.count + b.count, cost: MicroUsd(a.cost.0 + b.cost.0) };
    world.controller.told().parts.values().fold(LocalCounters::default(), |all, part| LocalCounters {
        joined: all.joined + part.joined,
        failed: all.failed + part.failed,
        launched: add(all.launched, part.launched),
        removed: add(all.removed, part.removed),
    })
}

/// Six machines stand empty here, while the launches of another process fail; what it tells is heard here, or not.
fn idle_while_launches_fail_elsewhere(hears: bool, engage_percent: usize) -> World {
    let mut there = World::new(|_| {});
    there.refused = true;
    there.connect("there", snapshot(0, (0..5).map(|n| pod(&format!("p{n}"), 500)).collect()));
    let mut here = World::with(6, Vec::new(), |settings| {
        settings.rails.brake = CircuitBreakerRule { engage_percent, ..CircuitBreakerRule::default() };
    });
    for world in [&mut there, &mut here] {
        world.run_to(20_000);
    }
    assert!(there.done.launches.len() >= 5);
    assert_eq!(sum(&there).failed, there.done.launches.len());
    if hears {
        here.tell(told_by(&there));
    }
    here.run_to(60_000);
    here
}

#[test]
fn nothing_is_removed_while_launches_fail_elsewhere() {
    let mut here = idle_while_launches_fail_elsewhere(true, 50);
    assert_eq!(here.drained().len(), 0);
    let why = here.controller.view("c").and_then(|view| view.rails.brake);
    let why = why.as_deref().unwrap_or_default();
    assert!(why.starts_with("launches fail in several clusters, of this replica or of others:"), "{why}");
    // What failed until 20 s is ten minutes old by then.
    here.run_to(700_000);
    assert_eq!(here.drained().len(), 6);
}

#[test]
fn sabotage_who_does_not_hear_of_the_others_removes_machines_that_cannot_be_had_again() {
    assert_eq!(idle_while_launches_fail_elsewhere(false, 50).drained().len(), 6);
}

#[test]
fn sabotage_without_the_brake_what_is_heard_of_the_others_stops_nothing() {
    assert_eq!(idle_while_launches_fail_elsewhere(true, 0).drained().len(), 6);
}

/// The launches of `world`, as rows tell whoever takes the cluster over.
fn rows(world: &World) -> Vec<RecentLaunch> {
    let row = |(at, order): &(Timestamp, crate::control::LaunchOrder)| RecentLaunch {
        claim: order.claim.clone(),
        pods: Vec::new(),
        begun: *at,
        launched: Some(true),
        closed: None,
    };
    world.done.launches.iter().map(row).collect()
}

#[test]
fn what_was_launched_counts_once_for_the_fleet_though_the_cluster_changes_hands() {
    let world = || World::new(|settings| settings.rails.launches.fleet.machines = 3);
    let (mut first, mut second) = (world(), world());
    first.connect("c", snapshot(0, vec![pod("p0", 500), pod("p1", 500)]));
    first.run_to(5_000);
    // Two machines at $0.01 an hour, which joined.
    let two = LocalCounters {
        joined: 2,
        launched: Machines { count: 2, cost: MicroUsd(20_000) },
        ..LocalCounters::default()
    };
    assert_eq!(sum(&first), two);
    second.run_to(5_000);
    second.tell(told_by(&first));
    second.tell(told_by(&first));
    first.tell(Event::Released { cluster: text("c") });
    second.tell(Event::Recalled { cluster: text("c"), past: rows(&first) });
    second.tell(Event::Adopted { cluster: text("c"), uid: text("uid-1"), launches: Vec::new() });
    assert_eq!((sum(&first), sum(&second)), (two, LocalCounters::default()));
    // One of three is left for five pods.
    second.connect("c", snapshot(0, (2..7).map(|n| pod(&format!("p{n}"), 500)).collect()));
    second.run_to(8_000);
    assert_eq!((second.done.launches.len(), sum(&second).launched.count), (1, 1));
    // And none for whoever takes the cluster back and hears of that one.
    first.run_to(8_000);
    first.tell(told_by(&second));
    first.tell(Event::Recalled { cluster: text("c"), past: rows(&second) });
    first.connect("c", snapshot(0, (7..9).map(|n| pod(&format!("p{n}"), 500)).collect()));
    first.run_to(12_000);
    assert_eq!(first.done.launches.len(), 2);
}

/// How many of four empty machines go at once when a quarter of the fleet's may, with so many elsewhere.
fn of_four(machines: usize, removed: usize) -> usize {
    let mut world = World::with(4, Vec::new(), |settings| {
        settings.rails.removals.fleet = Bound { machines: 0, usd_per_hour: MicroUsd(0), percent: 25, free: 0 };
    });
    let removed = Machines { count: removed, cost: MicroUsd(0) };
    world.tell(Event::RemoteCounters {
        machines,
        parts: vec![(Timestamp(0), LocalCounters { removed, ..LocalCounters::default() })],
    });
    world.run_to(60_000);
    world.drained().len()
}

#[test]
fn a_share_of_the_fleet_is_one_of_all_machines_and_all_removals() {
    // A quarter of 4 is 1; of 4 + 12 it is 4; of 4 + 10 and 2 that went it is 4 as well, of which 2 are left.
    assert_eq!([of_four(0, 0), of_four(12, 0), of_four(10, 2)], [1, 4, 2]);
}
