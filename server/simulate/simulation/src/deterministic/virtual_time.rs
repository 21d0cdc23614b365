//! Virtual time, and tasks that sleep in it.
//!
//! A task is the same future that a server gives to its runtime. It is polled again when its sleep
//! ends; dropping it simulates the death of its process at any await point.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use model::{Millis, Timestamp};

const NEVER: i64 = i64::MAX;

#[derive(Debug)]
pub(super) struct VirtualClock {
    now: AtomicI64,
    /// End of the sleep of the task that was polled last.
    until: AtomicI64,
}

impl VirtualClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { now: AtomicI64::new(0), until: AtomicI64::new(NEVER) })
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, now: Timestamp) {
        self.now.store(now.as_millis(), Ordering::Relaxed);
    }

    /// A sleep of `millis`.
    pub(super) fn sleep(self: &Arc<Self>, millis: i64) -> Sleep {
        Sleep { clock_source: Arc::clone(self), until: self.now() + Millis::new(millis) }
    }
}

#[derive(Debug)]
pub(super) struct Sleep {
    clock_source: Arc<VirtualClock>,
    until: Timestamp,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.clock_source.now() >= self.until {
            return Poll::Ready(());
        }
        self.clock_source.until.store(self.until.as_millis(), Ordering::Relaxed);
        Poll::Pending
    }
}

/// A future in flight in a process.
pub(super) struct Task<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

impl<T> Task<T> {
    pub(super) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    /// Polls as far as the current time allows: the result, or when to poll again.
    pub(super) fn poll_now(&mut self, clock_source: &VirtualClock) -> Result<T, Timestamp> {
        clock_source.until.store(NEVER, Ordering::Relaxed);
        match self.0.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Ok(result),
            Poll::Pending => Err(Timestamp::from_millis(clock_source.until.load(Ordering::Relaxed))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_continues_when_its_sleep_ends() {
        let clock_source = VirtualClock::new();
        let inner = Arc::clone(&clock_source);
        let mut task = Task::new(async move {
            inner.sleep(10).await;
            inner.sleep(5).await;
            inner.now()
        });
        assert_eq!(task.poll_now(&clock_source), Err(Timestamp::from_millis(10)));
        clock_source.set(Timestamp::from_millis(12));
        // The second sleep begins when the first is noticed: at 12, for 5 ms.
        assert_eq!(task.poll_now(&clock_source), Err(Timestamp::from_millis(17)));
        clock_source.set(Timestamp::from_millis(17));
        assert_eq!(task.poll_now(&clock_source), Ok(Timestamp::from_millis(17)));
    }
}
