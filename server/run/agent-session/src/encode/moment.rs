//! Timestamps of Kubernetes.

use model::Timestamp;

/// RFC 3339 in UTC, whole seconds, as Kubernetes writes timestamps.
pub(super) fn moment(at: Timestamp) -> String {
    jiff::Timestamp::from_second(at.as_millis().div_euclid(1_000)).unwrap_or_default().to_string()
}
