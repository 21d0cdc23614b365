//! Options of a run.

#[derive(Debug, Clone)]
pub struct Plan {
    /// Holds to create at least.
    pub holds: usize,
    /// Kills, alternately of the two servers.
    pub kills: usize,
    /// Clusters, half of them with each server.
    pub clusters: u8,
    pub seed: u64,
    /// PostgreSQL URL; `None` starts a temporary one from this machine's binaries.
    pub database_url: Option<String>,
    /// Clients repeat their requests without request ids.
    pub without_request_ids: bool,
    pub log: String,
}
