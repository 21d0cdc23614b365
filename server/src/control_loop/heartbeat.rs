//! Progress of the control loop: read by `/healthz` and by lease renewal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A loop without a turn for this long is stalled. It turns at least once a second; its longest
/// steps, whole snapshots of the largest clusters, take one or two seconds.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Time of the loop's last turn.
#[derive(Debug)]
pub struct Heartbeat {
    started: Instant,
    /// In milliseconds since `started`.
    last: AtomicU64,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self { started: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Heartbeat {
    /// Records a turn of the loop.
    pub(crate) fn record_turn(&self) {
        self.last.store(millis(self.started.elapsed()), Ordering::Relaxed);
    }

    /// Time since the last turn.
    pub fn age(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(last)
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
}
