//! Which servers share this store, and by which settings each of them runs.

use std::collections::BTreeMap;
use std::time::Duration;

/// How often a server tells that it lives.
pub const TOLD_EVERY: Duration = Duration::from_secs(60);

/// A server that has told nothing for so long is not reckoned with: it may miss one of its times.
pub const TOLD_WITHIN: Duration = Duration::from_secs(150);

/// What a server tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaRow {
    /// Names one life of one process; no two are alike.
    pub instance: String,
    /// The name that it takes leases under.
    pub owner: String,
    /// Digests of the settings that all replicas should share, by key.
    pub settings: BTreeMap<String, String>,
}
