//! Replicas on the same store, and digests of their settings.

use std::collections::BTreeMap;
use std::time::Duration;

/// Interval of replica heartbeats.
pub const REPLICA_HEARTBEAT: Duration = Duration::from_secs(60);

/// Lifetime of a heartbeat: one may be missed.
pub const REPLICA_TTL: Duration = Duration::from_secs(150);

/// Heartbeat of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaRow {
    /// Unique id of one run of one process.
    pub instance: String,
    /// Lease owner name.
    pub owner: String,
    /// Digests of the settings that all replicas should share, by key.
    pub settings: BTreeMap<String, String>,
}
