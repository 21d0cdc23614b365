//! This machine's clock, read here and nowhere else; everything further in is told what time it is.

use std::time::SystemTime;

use engine::model::Timestamp;

/// The moment.
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
