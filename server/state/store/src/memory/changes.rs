//! Announcements of change counters to subscribers, on any runtime.

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc::{Sender, channel};
use futures::stream::{BoxStream, StreamExt};

use crate::guardrails::Changes;

/// The latest counters and their subscribers.
#[derive(Debug, Default)]
pub(super) struct ChangePublisher {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    latest: Changes,
    /// Channels of capacity one. A signal means that the subscriber has not read `latest`.
    subscribers: Vec<Sender<()>>,
}

impl ChangePublisher {
    /// Changes the counters and announces them.
    pub(super) fn publish(&self, change: impl FnOnce(&mut Changes)) {
        let mut state = lock(&self.state);
        change(&mut state.latest);
        state.subscribers.retain_mut(send_signal);
    }

    /// The counters now and after each change. A slow subscriber receives only the latest; the
    /// stream ends with the publisher.
    pub(super) fn subscribe(&self) -> BoxStream<'static, Changes> {
        let (mut subscriber, signals) = channel(0);
        // The first signal delivers the present counters.
        if send_signal(&mut subscriber) {
            lock(&self.state).subscribers.push(subscriber);
        }
        // A strong reference would keep the sender, and with it the stream, alive forever.
        let state = Arc::downgrade(&self.state);
        signals.filter_map(move |()| ready(state.upgrade().map(|state| lock(&state).latest))).boxed()
    }
}

/// Returns whether the subscriber exists. A full channel needs no second signal: its subscriber
/// reads the counters after it takes the first.
fn send_signal(subscriber: &mut Sender<()>) -> bool {
    !subscriber.try_send(()).is_err_and(|error| error.is_disconnected())
}

/// No code panics while it holds the lock, so a poisoned lock holds valid data.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use futures::FutureExt;

    use super::*;

    fn freezes(freezes: u64) -> Changes {
        Changes { freezes, ..Changes::default() }
    }

    #[test]
    fn a_subscriber_receives_the_present_counters_and_then_only_the_latest() {
        let publisher = ChangePublisher::default();
        publisher.publish(|changes| changes.freezes = 1);
        let (mut slow, mut eager) = (publisher.subscribe(), publisher.subscribe());
        assert_eq!(eager.next().now_or_never(), Some(Some(freezes(1))));
        for number in 2..=4 {
            publisher.publish(|changes| changes.freezes = number);
            assert_eq!(eager.next().now_or_never(), Some(Some(freezes(number))));
        }
        assert_eq!(slow.next().now_or_never(), Some(Some(freezes(4))));
        for mut subscriber in [slow, eager] {
            assert_eq!(subscriber.next().now_or_never(), None, "nothing changed since");
        }
    }

    #[derive(Default)]
    struct RecordingWaker(AtomicBool);

    impl Wake for RecordingWaker {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_change_wakes_a_waiting_subscriber() {
        let publisher = ChangePublisher::default();
        let mut subscriber = publisher.subscribe();
        let recorder = Arc::new(RecordingWaker::default());
        let waker = Waker::from(Arc::clone(&recorder));
        let mut context = Context::from_waker(&waker);
        assert_eq!(subscriber.poll_next_unpin(&mut context), Poll::Ready(Some(freezes(0))));
        assert_eq!(subscriber.poll_next_unpin(&mut context), Poll::Pending);
        assert!(!recorder.0.load(Ordering::Relaxed));
        publisher.publish(|changes| changes.freezes = 1);
        assert!(recorder.0.load(Ordering::Relaxed));
        assert_eq!(subscriber.poll_next_unpin(&mut context), Poll::Ready(Some(freezes(1))));
    }

    #[test]
    fn a_stream_ends_with_the_publisher_and_a_dropped_stream_is_forgotten() {
        let publisher = ChangePublisher::default();
        let mut remaining = publisher.subscribe();
        drop(publisher.subscribe());
        publisher.publish(|changes| changes.freezes = 1);
        assert_eq!(lock(&publisher.state).subscribers.len(), 1);
        drop(publisher);
        assert_eq!(remaining.next().now_or_never(), Some(None));
    }
}
