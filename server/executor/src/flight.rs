//! One command on its way.

use engine::model::Timestamp;

use crate::command::Command;

/// A command and how far it is.
#[derive(Debug, Clone)]
pub(crate) struct Flight {
    pub command: Command,
    pub tries: u32,
    pub leg: Leg,
}

/// How far a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leg {
    /// Another command about the same NodeClaim comes first.
    Queued,
    /// It was sent.
    Running { answer_by: Timestamp },
    /// It failed and is sent again.
    Waiting { until: Timestamp },
}

impl Flight {
    pub fn next_moment(&self) -> Option<Timestamp> {
        match self.leg {
            Leg::Queued => None,
            Leg::Running { answer_by } => Some(answer_by),
            Leg::Waiting { until } => Some(until),
        }
    }
}
