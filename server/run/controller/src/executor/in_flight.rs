//! One command in flight.

use crate::executor::command::Operation;
use model::Timestamp;

#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    pub operation: Operation,
    pub tries: u32,
    pub state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for an earlier command about the same subject.
    Queued,
    /// Sent; the outcome is expected.
    Running { answer_by: Timestamp },
    /// Failed; sent again after the backoff.
    Waiting { until: Timestamp },
}

impl InFlight {
    pub fn next_due(&self) -> Option<Timestamp> {
        match self.state {
            State::Queued => None,
            State::Running { answer_by } => Some(answer_by),
            State::Waiting { until } => Some(until),
        }
    }
}
