//! Virtual time, and works that wait for it.
//!
//! A work is the very future that a server's loop would give to its runtime. It is asked again when the moment comes that it
//! naps until; dropping it is what the death of its process does to it, at whatever await it stands.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use engine::model::Timestamp;

/// No nap was asked for.
const NEVER: i64 = i64::MAX;

/// The one true clock of a run.
#[derive(Debug)]
pub(super) struct Clockwork {
    now: AtomicI64,
    /// Until when the work that was asked last naps.
    until: AtomicI64,
}

impl Clockwork {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { now: AtomicI64::new(0), until: AtomicI64::new(NEVER) })
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, now: Timestamp) {
        self.now.store(now.0, Ordering::Relaxed);
    }

    /// Ends `millis` from now.
    pub(super) fn nap(self: &Arc<Self>, millis: i64) -> Nap {
        Nap { clockwork: Arc::clone(self), until: self.now().0.saturating_add(millis) }
    }
}

/// A wait.
#[derive(Debug)]
pub(super) struct Nap {
    clockwork: Arc<Clockwork>,
    until: i64,
}

impl Future for Nap {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.clockwork.now().0 >= self.until {
            return Poll::Ready(());
        }
        self.clockwork.until.store(self.until, Ordering::Relaxed);
        Poll::Pending
    }
}

/// Something under way in a process.
pub(super) struct Work<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> fmt::Debug for Work<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

impl<T> Work<T> {
    pub(super) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    /// Goes on as far as the present moment allows: the result, or when to ask again.
    pub(super) fn go_on(&mut self, clockwork: &Clockwork) -> Result<T, Timestamp> {
        clockwork.until.store(NEVER, Ordering::Relaxed);
        match self.0.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Ok(result),
            Poll::Pending => Err(Timestamp(clockwork.until.load(Ordering::Relaxed))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_goes_on_when_its_moment_has_come() {
        let clockwork = Clockwork::new();
        let inner = Arc::clone(&clockwork);
        let mut work = Work::new(async move {
            inner.nap(10).await;
            inner.nap(5).await;
            inner.now()
        });
        assert_eq!(work.go_on(&clockwork), Err(Timestamp(10)));
        clockwork.set(Timestamp(12));
        // The second nap begins when the first is noticed: at 12, for 5 ms.
        assert_eq!(work.go_on(&clockwork), Err(Timestamp(17)));
        clockwork.set(Timestamp(17));
        assert_eq!(work.go_on(&clockwork), Ok(Timestamp(17)));
    }
}
