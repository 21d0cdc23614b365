//! Whether the loop still comes round: what `/healthz` says, and what renewals go by.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A loop that has not come round for this long is stuck. It comes round once a second at least; its longest steps, whole
/// snapshots of the largest clusters, take a second or two.
pub(crate) const STUCK: Duration = Duration::from_secs(60);

/// When the loop came round last.
#[derive(Debug)]
pub(crate) struct Heartbeat {
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
    /// The loop comes round.
    pub(crate) fn beat(&self) {
        self.last.store(millis(self.started.elapsed()), Ordering::Relaxed);
    }

    /// How long ago that was.
    pub(crate) fn age(&self) -> Duration {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(last)
    }

    /// Why the process should be started anew, if it should.
    pub(crate) fn fault(&self) -> Option<String> {
        fault(self.age())
    }
}

fn fault(age: Duration) -> Option<String> {
    (age > STUCK).then(|| {
        format!("the control loop has not come round for {} s: nothing is decided; restart this server", age.as_secs())
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_is_slow_is_healthy_and_one_that_is_stuck_is_not() {
        let heartbeat = Heartbeat::default();
        heartbeat.beat();
        assert_eq!(heartbeat.fault(), None);
        assert_eq!(fault(Duration::from_secs(60)), None);
        assert!(fault(Duration::from_secs(61)).is_some_and(|why| why.contains("for 61 s")));
    }
}
