//! Notices about instances that end or fail, which any replica receives and the owner of the instance handles.

use std::time::Duration;

/// Notices that one read returns at most; the next read continues after them.
pub const INTERRUPTIONS_AT_ONCE: usize = 10_000;

/// A notice. Instance, kind and the time at which the cloud sent it identify it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterruptionRow {
    /// Id of the instance in its account and region.
    pub instance: String,
    /// Kind of the notice (`InterruptionKind::as_str`).
    pub kind: String,
    /// When the cloud sent it, in milliseconds since 1970.
    pub sent_ms: i64,
    /// When the instance ends, in milliseconds since 1970, if the cloud has set a time.
    pub ends_ms: Option<i64>,
}

/// A notice as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredInterruption {
    /// A later notice of the same account and region has a higher number.
    pub number: u64,
    /// Time since it was stored, by the store's clock.
    pub age: Duration,
    /// The notice.
    pub row: InterruptionRow,
}
