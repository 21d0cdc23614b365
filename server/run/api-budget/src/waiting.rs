//! Calls that wait for a token.

use model::{PriorityLane, Timestamp};

/// Calls of one lane that wait at one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneQueue {
    pub count: u32,
    /// Since when the oldest of them waits. Means nothing without a call.
    pub since: Timestamp,
}

/// The calls that wait at one replica, by lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting([LaneQueue; PriorityLane::ALL.len()]);

impl Waiting {
    /// These queues, in the order of [`PriorityLane::ALL`].
    #[must_use]
    pub fn new(queues: [LaneQueue; PriorityLane::ALL.len()]) -> Self {
        Self(queues)
    }

    /// `count` calls of one lane that wait since `since`.
    #[must_use]
    pub fn of(lane: PriorityLane, count: u32, since: Timestamp) -> Self {
        Self::default().with(lane, count, since)
    }

    /// These, and `count` calls of another lane that wait since `since`.
    #[must_use]
    pub fn with(mut self, lane: PriorityLane, count: u32, since: Timestamp) -> Self {
        self.0[lane.index()] = LaneQueue { count, since };
        self
    }

    #[must_use]
    pub fn lane(&self, lane: PriorityLane) -> LaneQueue {
        self.0[lane.index()]
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|queue| queue.count == 0)
    }

    /// What still waits when `granted` calls of each lane no longer do.
    #[must_use]
    pub fn less(mut self, granted: &[u32; PriorityLane::ALL.len()]) -> Self {
        for (queue, granted) in self.0.iter_mut().zip(granted) {
            queue.count = queue.count.saturating_sub(*granted);
        }
        self
    }
}
