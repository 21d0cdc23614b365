//! A process that takes a cluster over goes on where its predecessor stood. Each rail is asked with what was written down and
//! without it, at 0 s.

use crate::cluster::testing::{pod, text};
use crate::control::Event;
use crate::control::guardrails::restore::RecentLaunch;
use crate::model::{Text, Timestamp};

use super::world::{World, snapshot};

/// A launch of `begun` seconds ago, whose machine went `closed` seconds ago.
fn past(number: i64, begun: i64, launched: bool, closed: Option<i64>) -> RecentLaunch {
    RecentLaunch {
        claim: Text::from(format!("old-{number}")),
        pods: vec![text("default/p0")],
        begun: Timestamp(-begun * 1_000),
        launched: Some(launched),
        closed: closed.map(|seconds| Timestamp(-seconds * 1_000)),
    }
}

/// A cluster that is taken over at 0 s after these launches: three machines, all of them empty, and pending pods.
fn taken_over(past: Vec<RecentLaunch>, pods: usize) -> World {
    let mut world = World::new(|settings| {
        settings.rails.launches.cluster.machines = 2;
        settings.rails.removals.cluster.machines = 2;
    });
    world.tell(Event::Recalled { cluster: text("c"), past });
    world.tell(Event::Adopted { cluster: text("c"), uid: text("uid-1"), launches: Vec::new() });
    let pods = (0..pods).map(|n| pod(&format!("p{n}"), 500)).collect();
    world.connect("c", snapshot(3, pods));
    world
}

#[test]
fn machines_that_went_before_the_restart_count() {
    // Two may go within 10 min, and two went 5 min ago: there is room again at 300 s.
    let went = vec![past(0, 2_000, true, Some(300)), past(1, 2_000, true, Some(300))];
    let mut world = taken_over(went, 0);
    world.run_to(299_000);
    assert!(world.drained().is_empty());
    world.run_to(400_000);
    assert_eq!(world.drained().len(), 2);
    // Empty for 30 s, they go at once where nothing is known.
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
fn a_pod_goes_on_waiting_for_which_machines_were_launched_in_vain() {
    // The third machine makes it wait for 120 s, and was launched 20 s ago.
    let mut world = World::new(|_| {});
    let launches = [60, 40, 20].map(|begun| past(begun, begun, true, Some(begun - 10)));
    world.tell(Event::Recalled { cluster: text("c"), past: launches.to_vec() });
    world.connect("c", snapshot(0, vec![pod("p0", 500)]));
    world.run_to(99_000);
    assert!(world.done.launches.is_empty());
    world.run_to(115_000);
    assert_eq!(world.done.launches.len(), 1);
}

#[test]
fn what_is_told_twice_counts_once() {
    let went = || vec![past(0, 2_000, true, Some(300))];
    let mut world = taken_over(went(), 0);
    world.tell(Event::Recalled { cluster: text("c"), past: went() });
    // One went, so that one more may go.
    world.run_to(100_000);
    assert_eq!(world.drained().len(), 1);
}
