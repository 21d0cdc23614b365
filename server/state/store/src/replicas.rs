//! Replicas on the same store, and digests of their settings.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Interval of replica heartbeats.
pub const REPLICA_HEARTBEAT: Duration = Duration::from_secs(60);

/// Lifetime of a heartbeat: one may be missed.
pub const REPLICA_TTL: Duration = Duration::from_secs(150);

/// Heartbeat of a replica.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplicaRow {
    /// Unique id of one run of one process.
    pub instance: String,
    /// Lease owner name.
    pub owner: String,
    /// Digests of the settings that all replicas should share, by key.
    pub settings: BTreeMap<String, String>,
    /// How other replicas reach it.
    pub endpoint: ReplicaEndpoint,
}

/// How other replicas reach a replica.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ReplicaEndpoint {
    /// Host and port of its gRPC listener; empty when it cannot be reached.
    pub address: String,
    /// Bearer token that other replicas present. It is valid for one life of the process.
    pub token: String,
    /// SHA-256 digest of the certificate that its listener presents; empty without TLS.
    pub certificate: Vec<u8>,
}

/// The token is not shown.
impl fmt::Debug for ReplicaEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaEndpoint").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Latest summary of a cluster, for replicas that do not reach the one that decides for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSummaryRow {
    /// Name of the cluster.
    pub cluster: String,
    /// Epoch of the lease under which it was made. A summary of a lower epoch never replaces it.
    pub epoch: u64,
    /// Owner of that lease.
    pub replica: String,
    /// When it was made, in milliseconds since 1970.
    pub observed_ms: i64,
    /// Encoded message `fleetwright.v1.Cluster`.
    pub summary: Vec<u8>,
}
