use model::Millis;

use super::*;
use crate::durations::DURATION_BOUNDS;
use cluster::ClusterSnapshot;
use cluster::testing::{bound_to, key, pod};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A pod that was created at 1 s.
fn created(pod: PodRecord) -> PodRecord {
    PodRecord { created: Some(at(1_000)), uid: "u".into(), ..pod }
}

fn waiting() -> PodRecord {
    created(pod("a", 1_000))
}

/// It is bound, and its containers do not run yet.
fn bound() -> PodRecord {
    PodRecord { phase: PodPhase::Pending, ready: false, ..created(bound_to("m0", pod("a", 1_000))) }
}

fn running(ready: bool) -> PodRecord {
    PodRecord { phase: PodPhase::Running, ready, ..bound() }
}

/// An observer with the state that it observes changes of.
#[derive(Default)]
struct Observed {
    observer: PodDurationObserver,
    state: ClusterState,
}

impl Observed {
    fn see(&mut self, observation: Observation, millis: i64) {
        self.observer.observe(&observation, &self.state, at(millis));
        self.state.apply(observation, at(millis));
    }

    fn pod(&mut self, pod: PodRecord, millis: i64) {
        self.see(Observation::upsert(Object::Pod(pod)), millis);
    }

    /// The upper bounds of the times until pods were bound, and the sum and number of those until they were ready.
    fn counts(&self) -> (Vec<i64>, Millis, u64) {
        let durations = self.observer.durations();
        let counts = DURATION_BOUNDS.iter().zip(durations.bound.counts());
        let bound = counts.flat_map(|(bound, count)| std::iter::repeat_n(*bound, *count as usize)).collect();
        (bound, durations.startup.sum(), durations.startup.count())
    }
}

#[test]
fn a_pod_counts_when_it_is_bound_and_when_it_is_ready_first() {
    let mut observed = Observed::default();
    observed.pod(waiting(), 2_000);
    assert_eq!(observed.counts(), (vec![], Millis::ZERO, 0));
    observed.pod(bound(), 4_200);
    observed.pod(bound(), 5_000);
    assert_eq!(observed.counts(), (vec![3_500], Millis::ZERO, 0), "3.2 s after its creation, once");
    observed.pod(running(false), 6_000);
    observed.pod(running(true), 9_500);
    assert_eq!(observed.counts(), (vec![3_500], Millis::new(8_500), 1));
    // It becomes ready again after a failed probe.
    observed.pod(running(false), 20_000);
    observed.pod(running(true), 30_000);
    assert_eq!(observed.counts(), (vec![3_500], Millis::new(8_500), 1));
}

#[test]
fn a_pod_that_is_bound_within_one_delta_counts() {
    let mut observed = Observed::default();
    observed.pod(bound(), 1_090);
    assert_eq!(observed.counts().0, [100]);
    observed.pod(running(true), 3_000);
    assert_eq!(observed.counts(), (vec![100], Millis::new(2_000), 1));
}

#[test]
fn what_ran_before_or_was_bound_while_the_agent_was_away_is_not_counted() {
    let mut observed = Observed::default();
    let snapshot = |pod| Observation::Snapshot(Box::new(ClusterSnapshot { pods: vec![pod], ..Default::default() }));
    observed.see(snapshot(running(true)), 50_000);
    observed.pod(running(false), 51_000);
    observed.pod(running(true), 52_000);
    assert_eq!(observed.counts(), (vec![], Millis::ZERO, 0));
    // Another pod of the same name waits, and is bound while the agent is away: its start is seen.
    let other = |pod: PodRecord| PodRecord { uid: "v".into(), ..pod };
    observed.pod(other(waiting()), 60_000);
    observed.see(snapshot(other(running(false))), 70_000);
    observed.pod(other(running(true)), 71_000);
    assert_eq!(observed.counts(), (vec![], Millis::new(70_000), 1));
}

#[test]
fn a_pod_that_ends_or_is_deleted_before_it_is_ready_has_not_started() {
    let mut observed = Observed::default();
    observed.pod(waiting(), 2_000);
    observed.pod(PodRecord { phase: PodPhase::Failed, ..bound() }, 3_000);
    observed.pod(PodRecord { uid: "v".into(), ..waiting() }, 4_000);
    observed.see(Observation::Delete(Key::Pod(key("a"))), 5_000);
    assert_eq!(observed.counts().2, 0);
    assert!(observed.observer.starting.is_empty());
}
