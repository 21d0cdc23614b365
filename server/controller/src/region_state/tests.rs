use std::sync::mpsc::{TryRecvError, channel};
use std::thread;

use super::*;
use crate::guardrails::Freeze;
use crate::guardrails::GuardrailSettings;
use crate::guardrails::rate_limits::Population;
use crate::guardrails::settings::{Bound, RateLimitRule};
use model::{ClaimName, MicroUsd, Millis};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Takes as many machines of a fleet limit of 40 as one cluster may, one by one.
fn take_machines(region: &RegionState, cluster: &ClusterName, settings: &GuardrailSettings) -> usize {
    let mut taken = 0;
    loop {
        let locked = Cell::new(false);
        let mut guardrails = region.guardrails(&locked, at(1_000));
        let population = Population { cluster, machines: 100, fleet: 400, clusters: 1 };
        let (admitted, _) = guardrails.admit_launches(settings, population, [MicroUsd(0)], at(1_000));
        if admitted == 0 {
            return taken;
        }
        let claim = ClaimName::from(format!("{cluster}-{taken}"));
        guardrails.record_launch(cluster, &claim, MicroUsd(0), at(1_000));
        taken += 1;
    }
}

#[test]
fn clusters_that_launch_at_the_same_time_do_not_exceed_a_fleet_limit() {
    let none = Bound { machines: 0, percent: 0, free: 0, usd_per_hour: MicroUsd(0) };
    let rule = RateLimitRule { window: Millis::from_mins(10), cluster: none, fleet: Bound { machines: 40, ..none } };
    let settings = GuardrailSettings { launches: rule, ..GuardrailSettings::default() };
    let region = RegionState::default();
    let taken: usize = thread::scope(|scope| {
        let clusters = ["a", "b", "c", "d"].map(ClusterName::from);
        let threads = clusters.map(|cluster| {
            let (region, settings) = (&region, &settings);
            scope.spawn(move || take_machines(region, &cluster, settings))
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // Of 40 machines, a quarter is reserved for clusters below their share (clusters: 1, so the
    // share is all 40 and nothing is reserved).
    assert_eq!(taken, 40);
    assert_eq!(region.counter_snapshot().buckets.values().map(|bucket| bucket.launched.count).sum::<usize>(), 40);
}

#[test]
fn a_step_keeps_the_guardrails_locked_from_the_first_access_until_it_releases_them() {
    let region = RegionState::default();
    let locked = Cell::new(false);
    let step = region.guardrails(&locked, at(1_000));
    assert!(!locked.get(), "nothing was accessed");
    assert_eq!(step.window_counts(&"c".into()), (0, 0));
    assert!(locked.get());
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        let region = &region;
        scope.spawn(move || sender.send(region.lock_guardrails(at(1_000)).window_counts(&"c".into())));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        drop(step);
        assert_eq!(receiver.recv(), Ok((0, 0)));
    });
}

#[test]
fn a_change_of_the_fleet_limits_changes_the_version_once() {
    let region = RegionState::default();
    let before = region.limits_version();
    let freeze = || {
        let (by, reason, until) = ("op".into(), "test".into(), Some(at(5_000)));
        Event::FreezesChanged {
            freezes: vec![Freeze { id: 1, cluster: None, pool: None, by, reason, since: at(1_000), until }],
        }
    };
    region.apply(freeze(), at(1_000));
    assert_eq!(region.limits_version(), before + 1);
    region.apply(freeze(), at(2_000));
    assert_eq!(region.limits_version(), before + 1, "the same freezes");
    assert_eq!(region.next_change(), Some(at(5_000)));
    region.advance(at(4_999));
    assert_eq!(region.limits_version(), before + 1);
    region.advance(at(5_000));
    assert_eq!(region.limits_version(), before + 2, "the freeze ended");
}

#[test]
fn numbers_are_never_given_twice() {
    let region = RegionState::new(Settings { first_number: 7, ..Settings::default() });
    let mut numbers: Vec<u64> = thread::scope(|scope| {
        let threads = [0; 4].map(|_| scope.spawn(|| (0..100).map(|_| region.next_number()).collect::<Vec<_>>()));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    assert_eq!(numbers, (7..407).collect::<Vec<_>>());
}
