//! A process that takes a cluster over continues with its predecessor's limits. Each guardrail is
//! evaluated at 0 s with the rows and without them.

use crate::Event;
use crate::guardrails::RecentLaunch;
use cluster::testing::{bound_to, key, pod, text};
use model::{ClaimName, Timestamp};

use super::fixture::{Fixture, real, snapshot};

/// A launch begun `begun` seconds ago, whose machine was removed `closed` seconds ago.
fn past(number: i64, begun: i64, launched: bool, closed: Option<i64>) -> RecentLaunch {
    RecentLaunch {
        claim: ClaimName::from(format!("old-{number}")),
        pods: vec![key("p0")],
        begun: Timestamp::from_millis(-begun * 1_000),
        launched: Some(launched),
        closed: closed.map(|seconds| Timestamp::from_millis(-seconds * 1_000)),
    }
}

/// A cluster that is taken over at 0 s after these launches: three machines, all of them empty, and
/// pending pods.
fn taken_over(past: Vec<RecentLaunch>, pods: usize) -> Fixture {
    let mut world = Fixture::new(|settings| {
        settings.guardrails.launches.cluster.machines = 2;
        settings.guardrails.removals.cluster.machines = 2;
    });
    world.handle(Event::LaunchHistoryLoaded(past));
    world.handle(Event::LeaseAcquired { uid: text("uid-1"), launches: Vec::new() });
    let pods = (0..pods).map(|n| pod(&format!("p{n}"), 500)).collect();
    world.connect("c", snapshot(3, pods));
    world
}

#[test]
fn machines_removed_before_the_restart_count() {
    // Two may be removed within 10 min, and two were 5 min ago: there is capacity again at 300 s.
    let went = vec![past(0, 2_000, true, Some(300)), past(1, 2_000, true, Some(300))];
    let mut world = taken_over(went, 0);
    world.run_to(299_000);
    assert!(world.drained().is_empty());
    world.run_to(400_000);
    assert_eq!(world.drained().len(), 2);
    // Empty for 30 s, they are removed at once where no history is known.
    let mut forgetful = taken_over(Vec::new(), 0);
    forgetful.run_to(100_000);
    assert_eq!(forgetful.drained().len(), 2);
}

#[test]
fn launches_from_before_the_restart_count() {
    // Two may be launched within 10 min, and two were 5 min ago. They were for other pods.
    let begun = [past(0, 300, true, None), past(1, 300, true, None)];
    let begun = begun.map(|launch| RecentLaunch { pods: Vec::new(), ..launch });
    let mut world = taken_over(begun.to_vec(), 2);
    world.run_to(299_000);
    assert!(world.done.launches.is_empty());
    world.run_to(330_000);
    assert_eq!(world.done.launches.len(), 2);
    let mut forgetful = taken_over(Vec::new(), 2);
    forgetful.run_to(30_000);
    assert_eq!(forgetful.done.launches.len(), 2);
}

#[test]
fn a_pod_stays_in_launch_backoff_after_a_restart() {
    // The third machine makes it wait for 120 s, and was launched 20 s ago.
    let mut world = Fixture::new(|_| {});
    let launches = [60, 40, 20].map(|begun| past(begun, begun, true, Some(begun - 10)));
    world.handle(Event::LaunchHistoryLoaded(launches.to_vec()));
    world.connect("c", snapshot(0, vec![pod("p0", 500)]));
    world.run_to(99_000);
    assert!(world.done.launches.is_empty());
    world.run_to(115_000);
    assert_eq!(world.done.launches.len(), 1);
}

/// `p0` runs on `m0`, which was deleted by hand and cannot be drained; three machines were launched for it within a minute.
fn taken_over_with_a_bound_pod(users: &[&str]) -> Fixture {
    let mut world = Fixture::planned_by(real, |_| {});
    let past = (1..4).map(|number| RecentLaunch {
        claim: ClaimName::from(format!("m{number}")),
        ..past(number, 20 * number, true, None)
    });
    world.handle(Event::LaunchHistoryLoaded(past.collect()));
    world.handle(Event::LeaseAcquired { uid: text("uid-1"), launches: Vec::new() });
    let others = users.iter().map(|machine| bound_to(machine, pod(&format!("of-{machine}"), 1_800)));
    let mut shown = snapshot(4, others.chain([bound_to("m0", pod("p0", 1_800))]).collect());
    shown.nodes[0].deleting = true;
    world.stuck = Some("m0");
    world.connect("c", shown);
    world
}

#[test]
fn machines_that_others_use_are_no_failed_bindings_of_a_pod_that_runs_after_a_restart() {
    let mut world = taken_over_with_a_bound_pod(&["m1", "m2", "m3"]);
    world.run_to(10_000);
    assert_eq!(world.done.launches.len(), 1);
    assert_eq!(world.controller.view(&text("c")).map(|view| view.guardrails.pods_waiting), Some(0));
    // Sabotage: all three stayed empty, so that each was launched in vain.
    let world = taken_over_with_a_bound_pod(&[]);
    assert_eq!(world.controller.view(&text("c")).map(|view| view.guardrails.pods_waiting), Some(1));
}

#[test]
fn launches_restored_twice_count_once() {
    let went = || vec![past(0, 2_000, true, Some(300))];
    let mut world = taken_over(went(), 0);
    world.handle(Event::LaunchHistoryLoaded(went()));
    // One was removed, so one more may be.
    world.run_to(100_000);
    assert_eq!(world.drained().len(), 1);
}
