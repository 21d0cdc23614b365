//! What an action works with beside its own state.

use cloud::simulated::SimulatedCloud;
use model::Timestamp;

use super::authorization::Caller;
use crate::api_error::ApiError;
use crate::faults::switchboard::Switchboard;
use crate::query::paging::PageRequest;
use crate::query::parameters::Parameters;

/// A call of the query protocol, at a time, on a cloud, under faults.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) action: &'a str,
    pub(crate) parameters: &'a Parameters,
    pub(crate) caller: &'a Caller,
    pub(crate) now: Timestamp,
    pub(crate) cloud: &'a mut SimulatedCloud,
    pub(crate) faults: &'a mut Switchboard,
}

impl Context<'_> {
    /// The page that the call asks for.
    ///
    /// # Errors
    /// As [`PageRequest::read`].
    pub(crate) fn page(&self) -> Result<PageRequest, ApiError> {
        PageRequest::read(self.parameters, self.faults.page_size(self.action))
    }

    /// Ends a dry run.
    ///
    /// # Errors
    /// `DryRunOperation`.
    pub(crate) fn end_dry_run(&self) -> Result<(), ApiError> {
        if self.parameters.is_true("DryRun") { Err(ApiError::dry_run()) } else { Ok(()) }
    }

    /// Whether something made at `made` is visible with this lag.
    pub(crate) fn is_visible(&self, made: Timestamp, lag_ms: i64) -> bool {
        (self.now - made).get() >= lag_ms
    }
}

/// A time as the services write it, in whole milliseconds.
pub(crate) fn iso(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(time.as_millis()).unwrap_or_default();
    format!("{time:.3}")
}
