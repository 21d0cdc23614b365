//! The system clock, read only here; all other code gets the time as a parameter. Also
//! converts between the durations of the standard library and of `model`.

use std::time::{Duration, SystemTime};

use model::{Millis, Timestamp};

/// Current time.
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::default() + millis(since_epoch)
}

/// `duration` in whole milliseconds; what no [`Millis`] can express is the longest.
pub fn millis(duration: Duration) -> Millis {
    Millis::new(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

/// `millis` as a duration of the standard library; a negative one is zero.
pub fn duration(millis: Millis) -> Duration {
    Duration::from_millis(millis.get().max(0).unsigned_abs())
}
