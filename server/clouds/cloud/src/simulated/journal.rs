//! Changes of instances in the order in which they happened, for readers that each keep a position.

use std::collections::VecDeque;

use model::interruption::InterruptionKind;
use model::{Text, Timestamp};

use crate::provider::InstanceState;

/// Maximum number of kept changes. A reader that is further behind uses the listing.
const KEPT: usize = 100_000;

/// A change of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceChange {
    /// When it happened.
    pub at: Timestamp,
    /// Instance id.
    pub instance: Text,
    /// What happened.
    pub kind: ChangeKind,
}

/// What happened to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is in this state now.
    State(InstanceState),
    /// The cloud announces, or reports, that it ends or fails.
    Interrupted {
        /// What happens to it.
        kind: InterruptionKind,
        /// When it ends, as far as the cloud has set a time.
        ends: Option<Timestamp>,
    },
}

/// The newest changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Journal {
    changes: VecDeque<InstanceChange>,
    recorded: u64,
}

impl Journal {
    pub(super) fn record(&mut self, at: Timestamp, instance: &Text, kind: ChangeKind) {
        if self.changes.len() == KEPT {
            self.changes.pop_front();
        }
        self.changes.push_back(InstanceChange { at, instance: instance.clone(), kind });
        self.recorded += 1;
    }

    /// Kept changes after the first `position`, and the position after them.
    pub(super) fn since(&self, position: u64) -> (impl Iterator<Item = &InstanceChange>, u64) {
        let behind = usize::try_from(self.recorded.saturating_sub(position)).unwrap_or(usize::MAX);
        (self.changes.iter().skip(self.changes.len().saturating_sub(behind)), self.recorded)
    }
}
