//! The system clock, read only here; all other code gets the time as a parameter.

use std::time::SystemTime;

use engine::model::Timestamp;

/// Current time.
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
