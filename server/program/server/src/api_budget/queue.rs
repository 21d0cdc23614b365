//! The calls of this process that wait for a token of one bucket, oldest first in each lane.

use std::collections::VecDeque;

use model::PriorityLane;
use store::api_budget::WaitingCalls;
use tokio::sync::oneshot;
use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct CallQueue([VecDeque<WaitingCall>; PriorityLane::ALL.len()]);

#[derive(Debug)]
struct WaitingCall {
    since: Instant,
    admit: oneshot::Sender<()>,
}

impl CallQueue {
    /// Adds a call. Returns what it waits for, and whether it is more urgent than all others.
    pub(super) fn add(&mut self, lane: PriorityLane, now: Instant) -> (oneshot::Receiver<()>, bool) {
        self.drop_given_up();
        let highest = PriorityLane::ALL.into_iter().find(|lane| !self.0[lane.index()].is_empty());
        let (admit, admitted) = oneshot::channel();
        self.0[lane.index()].push_back(WaitingCall { since: now, admit });
        (admitted, highest.is_none_or(|highest| lane < highest))
    }

    /// The calls that wait at `now`, by lane.
    pub(super) fn waiting(&mut self, now: Instant) -> [WaitingCalls; PriorityLane::ALL.len()] {
        self.drop_given_up();
        PriorityLane::ALL.map(|lane| {
            let calls = &self.0[lane.index()];
            let age = calls.front().map(|oldest| now.saturating_duration_since(oldest.since)).unwrap_or_default();
            WaitingCalls { count: u32::try_from(calls.len()).unwrap_or(u32::MAX), age }
        })
    }

    /// Admits as many calls of each lane, the oldest first. A token of a call that was given up meanwhile is the next
    /// call's.
    pub(super) fn admit(&mut self, tokens: [u32; PriorityLane::ALL.len()]) {
        for (calls, tokens) in self.0.iter_mut().zip(tokens) {
            let mut left = tokens;
            while left > 0
                && let Some(call) = calls.pop_front()
            {
                left -= u32::from(call.admit.send(()).is_ok());
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(VecDeque::is_empty)
    }

    fn drop_given_up(&mut self) {
        self.0.iter_mut().for_each(|calls| calls.retain(|call| !call.admit.is_closed()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use PriorityLane::{Interruption, Pending};

    #[test]
    fn the_oldest_call_that_still_waits_is_admitted_first() {
        let (mut queue, begun) = (CallQueue::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let (given_up, is_first) = queue.add(Pending, at(0));
        let (mut first, is_urgent) = queue.add(Pending, at(1));
        let (mut second, _) = queue.add(Pending, at(2));
        assert!(is_first && !is_urgent);
        let (mut urgent, is_urgent) = queue.add(Interruption, at(2));
        assert!(is_urgent);
        drop(given_up);
        let pending = WaitingCalls { count: 2, age: Duration::from_secs(3) };
        let urgent_calls = WaitingCalls { count: 1, age: Duration::from_secs(2) };
        let none = WaitingCalls::default();
        assert_eq!(queue.waiting(at(4)), [urgent_calls, none, pending, none]);
        queue.admit([0, 0, 1, 5]);
        assert!(first.try_recv().is_ok() && second.try_recv().is_err() && urgent.try_recv().is_err());
        queue.admit([1, 0, 7, 0]);
        assert!(second.try_recv().is_ok() && urgent.try_recv().is_ok() && queue.is_empty());
    }
}
