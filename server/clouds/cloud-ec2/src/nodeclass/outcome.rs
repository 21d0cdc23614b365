//! Results of one condition.

use model::Text;
use model::node_class::Resolution;

use crate::call_error::CallError;

pub(super) fn missing(reason: &str, message: impl Into<String>) -> Resolution {
    Resolution::Missing { reason: Text::from(reason), message: Text::from(message.into()) }
}

pub(super) fn unknown(reason: &str, message: impl Into<String>) -> Resolution {
    Resolution::Unknown { reason: Text::from(reason), message: Text::from(message.into()) }
}

/// The condition cannot be looked up: `what` names the field and the region.
pub(super) fn failed(what: &str, error: &CallError) -> Resolution {
    unknown(error.reason(), format!("{what} cannot be resolved: {error}"))
}
