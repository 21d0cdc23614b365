//! Progress of the control loop and of every cluster's task: read by `/healthz` and by lease
//! renewal.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A loop without a turn, or a cluster's step, of this length is stalled. The loop turns at least
/// once a second; the longest steps, whole snapshots of the largest clusters, take one or two
/// seconds.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Time of the loop's last turn, and the steps of clusters in progress.
#[derive(Debug)]
pub struct Heartbeat {
    started: Instant,
    /// In milliseconds since `started`.
    last: AtomicU64,
    steps: Mutex<Steps>,
}

/// Steps of clusters in progress: when each began, by number.
#[derive(Debug, Default)]
struct Steps {
    begun: BTreeMap<u64, Instant>,
    next: u64,
}

/// A step of a cluster; it ends when this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct StepInProgress<'h> {
    heartbeat: &'h Heartbeat,
    number: u64,
}

impl Drop for StepInProgress<'_> {
    fn drop(&mut self) {
        self.heartbeat.steps().begun.remove(&self.number);
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self { started: Instant::now(), last: AtomicU64::new(0), steps: Mutex::default() }
    }
}

impl Heartbeat {
    /// Records a turn of the loop.
    pub(crate) fn record_turn(&self) {
        self.last.store(millis(self.started.elapsed()), Ordering::Relaxed);
    }

    /// Records that a cluster's task begins a step.
    pub(crate) fn begin_step(&self) -> StepInProgress<'_> {
        let mut steps = self.steps();
        let number = steps.next;
        steps.next += 1;
        steps.begun.insert(number, Instant::now());
        StepInProgress { heartbeat: self, number }
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        // Every critical section changes one entry, so a poisoned lock guards consistent steps.
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the last turn, or since the oldest step in progress began if that is longer.
    pub fn age(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        let turn = self.started.elapsed().saturating_sub(last);
        // Numbers increase with time, so the first step is the oldest.
        let oldest = self.steps().begun.first_key_value().map(|(_, begun)| begun.elapsed());
        turn.max(oldest.unwrap_or_default())
    }

    /// Why the process should be restarted, if the loop is stalled.
    pub(crate) fn stall_reason(&self) -> Option<String> {
        stall_reason(self.age())
    }
}

fn stall_reason(age: Duration) -> Option<String> {
    (age > STALLED_AFTER).then(|| {
        format!("the control loop has been stalled for {} s: no decisions are made; restart this server", age.as_secs())
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_loop_is_healthy_and_a_stalled_one_is_not() {
        let heartbeat = Heartbeat::default();
        heartbeat.record_turn();
        assert_eq!(heartbeat.stall_reason(), None);
        assert_eq!(stall_reason(Duration::from_secs(60)), None);
        assert!(stall_reason(Duration::from_secs(61)).is_some_and(|why| why.contains("for 61 s")));
    }

    #[test]
    fn a_step_in_progress_ages_although_the_loop_turns() {
        let heartbeat = Heartbeat::default();
        let first = heartbeat.begin_step();
        let second = heartbeat.begin_step();
        heartbeat.steps().begun.insert(0, Instant::now() - Duration::from_secs(90));
        heartbeat.record_turn();
        drop(second);
        assert!(heartbeat.age() >= Duration::from_secs(90));
        drop(first);
        assert!(heartbeat.age() < Duration::from_secs(90));
    }
}
