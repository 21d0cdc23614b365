//! Recent launches of a cluster by any process, as its launch rows show them.

use model::{ClaimName, Millis, PodKey, Timestamp};

/// How far back launch rows are read: the longest launch backoff. The other windows are shorter.
pub const RESTORE_WINDOW: Millis = Millis::from_hours(1);

/// A recent launch attempt of any process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentLaunch {
    pub claim: ClaimName,
    /// Pods that the machine was launched for.
    pub pods: Vec<PodKey>,
    pub begun: Timestamp,
    /// Whether an instance was launched; `None` while the outcome is unknown.
    pub launched: Option<bool>,
    /// When the row was closed: neither instance nor NodeClaim exists.
    pub closed: Option<Timestamp>,
}
