//! Events on their way to the control loop.

use agent_session::SessionEvent;
use tokio::sync::OwnedSemaphorePermit;

/// An event, and its place among those of its cluster that are not handled yet. The agent of a
/// cluster whose task is behind is not read, so that its events do not pile up.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) event: SessionEvent,
    /// `None` for events of operators and the region.
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

impl From<SessionEvent> for Delivery {
    fn from(event: SessionEvent) -> Self {
        Self { event, place: None }
    }
}
