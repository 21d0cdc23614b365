//! Events of single steps of the controller, until the next pass records them.

use crate::status::EventOrder;

/// Events that are kept at most. The recorder admits ten at once.
const MAX_PENDING: usize = 50;

#[derive(Debug, Default)]
pub(super) struct PendingEvents(Vec<EventOrder>);

impl PendingEvents {
    /// Adds Events, as long as there is room.
    pub fn add(&mut self, events: Vec<EventOrder>) {
        let room = MAX_PENDING - self.0.len();
        self.0.extend(events.into_iter().take(room));
    }

    /// The Events since the last call.
    pub fn take(&mut self) -> Vec<EventOrder> {
        std::mem::take(&mut self.0)
    }
}
